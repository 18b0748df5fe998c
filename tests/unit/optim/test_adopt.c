/* SPDX-License-Identifier: MIT */
/* ADOPT beside the paper's algorithm in double: weights of 40 steps in every form of the host and
 * form of master, the first step that only fills the second moment, states in 8 bits, the clip. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/kernels/update_fixture.h"

#define COUNT 700
#define STEPS 40

static const double beta1 = 0.9, beta2 = 0.9999, epsilon = 1e-6, decay = 0.1;

static float noise(uint32_t step, uint32_t i)
{
    uint32_t x = i * 2654435761u + step * 2246822519u + 374761393u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(x >> 16) / 65536.0f - 0.5f;
}

/* Some gradients grow a thousandfold, so that the clip decides. */
static float gradient_of(uint32_t step, uint32_t i)
{
    return noise(step, i) * (i % 7 == 0 && step % 5 == 0 ? 1000.0f : 1.0f) + 0.2f * noise(0, i);
}

static double rate_of(uint32_t step)
{
    return step < 10 ? 1e-3 * step : 1e-2;
}

/* Algorithm 2 of arXiv 2411.02853 with c_t = t^(1/4) and decay beside the gradient: v_0 = g_0^2,
 * then m_t = beta1 m + (1 - beta1) clip(g_t / max(sqrt(v), epsilon), c_t), w = w - lr (m_t + decay
 * w), v = beta2 v + (1 - beta2) g_t^2. */
typedef struct adopt_oracle {
    double w[COUNT], m[COUNT], v[COUNT];
} adopt_oracle;

static void oracle_step(adopt_oracle *o, uint32_t t)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        const double g = (double)gradient_of(t, i), c = pow((double)t, 0.25);
        if (t == 0) {
            o->v[i] = g * g;
            continue;
        }
        const double normed = g / fmax(sqrt(o->v[i]), epsilon);
        o->m[i] = beta1 * o->m[i] + (1.0 - beta1) * fmax(-c, fmin(c, normed));
        o->w[i] -= rate_of(t) * (o->m[i] + decay * o->w[i]);
        o->v[i] = beta2 * o->v[i] + (1.0 - beta2) * g * g;
    }
}

/* The largest difference of the row's weights from the oracle's after all steps. */
static double compare(const update_setup *setup)
{
    const update_scalars scalars = {.adopt = {.count = COUNT,
                                              .decay = decay,
                                              .rate_scale = 1.0,
                                              .beta1 = beta1,
                                              .beta2 = beta2,
                                              .epsilon = epsilon}};
    adopt_oracle o = {{0.0}, {0.0}, {0.0}};
    update_fixture d;
    float w[COUNT], g[COUNT], start[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        o.w[i] = (double)(start[i] = 2.0f * noise(1000, i));
    }
    update_fixture_open(&d, BP_KERNEL_adopt, &scalars, setup);
    update_fixture_set(&d, start);
    double worst = 0.0;
    for (uint32_t t = 0; t < STEPS; t++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            g[i] = gradient_of(t, i);
        }
        oracle_step(&o, t);
        update_fixture_step(&d, g, rate_of(t), 0.0, 0.0);
        update_fixture_get(&d, w);
        for (uint32_t i = 0; i < COUNT; i++) {
            worst = fmax(worst, fabs((double)w[i] - o.w[i]));
        }
        assert_true(t > 0 || memcmp(w, start, sizeof w) == 0);
    }
    update_fixture_close(&d);
    return worst;
}

/* verifies optim-1.ca07 */
static void adopt_is_the_papers(void **state)
{
    static const char *const variants[] = {"portable", NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const update_setup whole = {.variant = variants[i]};
        const update_setup split = {
            .variant = variants[i], .weight = BP_BF16, .master = BP_MASTER_SPLIT};
        assert_true(compare(&whole) <= 1e-6);
        assert_true(compare(&split) <= 1e-6);
    }
}

/* 8 bits keep near: the clip holds what a second moment that was rounded to 0 would do. */
static void adopt_in_8_bits_stays_near(void **state)
{
    (void)state;
    const update_setup blocks = {.form = BP_CODEC_BLOCK8};
    const double worst = compare(&blocks);
    if (!(worst > 0.0 && worst <= 0.1)) {
        fail_msg("weights differ by %g", worst);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopt_is_the_papers),
        cmocka_unit_test(adopt_in_8_bits_stays_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
