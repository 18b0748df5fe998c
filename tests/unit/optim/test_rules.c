/* SPDX-License-Identifier: MIT */
/* Each update rule over 50 steps against torch.optim or the paper's algorithm in double, in every
 * master form; stochastic rounding; trust ratios; states of 8 and 4 bits beside those of 32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/codec.h"
#include "core/ops/master.h"
#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/golden.h"
#include "tests/fixtures/kernels/update_fixture.h"

#define COUNT 300
#define STEPS 50

static uint32_t noise16(uint32_t step, uint32_t i)
{
    uint32_t x = i * 2654435761u + step * 2246822519u + 374761393u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x >> 16;
}

static float noise(uint32_t step, uint32_t i)
{
    return (float)noise16(step, i) / 65536.0f;
}

static void gradients(uint32_t step, float *g, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        g[i] = (noise(step, i) - 0.5f) + 0.25f * (noise(0, i) - 0.5f);
    }
}

static void starts(float *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        w[i] = noise(1000, i) * 2.0f - 1.0f;
    }
}

#define COMMON .count = COUNT, .rate_scale = 1.0

static const struct rule_case {
    const char *name;
    bp_kernel kernel;
    double rate;
    update_scalars s;
    double coefficient; /* of a trust ratio, which there is where this is not 0 */
    double ratio_decay;
} rule_cases[] = {
    {"sgd", BP_KERNEL_sgd, 0.01, {.sgd = {COMMON, .decay = 0.01}}, 0, 0},
    {"sgd_momentum",
     BP_KERNEL_sgd,
     0.01,
     {.sgd = {COMMON, .decay = 0.01, .momentum = 0.9, .dampening = 0.5}},
     0,
     0},
    {"sgd_nesterov", BP_KERNEL_sgd, 0.01, {.sgd = {COMMON, .momentum = 0.9, .nesterov = 1}}, 0, 0},
    {"adam",
     BP_KERNEL_adam,
     0.01,
     {.adam = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
     0,
     0},
    {"adamw",
     BP_KERNEL_adamw,
     0.01,
     {.adamw = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
     0,
     0},
    {"rmsprop",
     BP_KERNEL_rmsprop,
     0.01,
     {.rmsprop = {COMMON, .decay = 0.1, .alpha = 0.9, .epsilon = 1e-8}},
     0,
     0},
    {"rmsprop_momentum",
     BP_KERNEL_rmsprop,
     0.001,
     {.rmsprop = {COMMON, .alpha = 0.99, .epsilon = 1e-8, .momentum = 0.9}},
     0,
     0},
    {"adagrad",
     BP_KERNEL_adagrad,
     0.01,
     {.adagrad = {COMMON, .decay = 0.1, .epsilon = 1e-10}},
     0,
     0},
    {"lion",
     BP_KERNEL_lion,
     0.01,
     {.lion = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.99}},
     0,
     0},
    {"lamb",
     BP_KERNEL_lamb,
     0.01,
     {.lamb = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6}},
     1.0,
     0.0},
    {"lars", BP_KERNEL_lars, 1.0, {.lars = {COMMON, .decay = 0.1, .momentum = 0.9}}, 0.01, 0.1},
    {"ademamix",
     BP_KERNEL_ademamix,
     0.01,
     {.ademamix = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999,
                   .epsilon = 1e-8, .alpha = 5.0}},
     0,
     0},
    {"ademamix_scheduled",
     BP_KERNEL_ademamix,
     0.01,
     {.ademamix = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999,
                   .epsilon = 1e-8, .alpha = 5.0, .t_alpha = 40.0, .t_beta3 = 60.0}},
     0,
     0},
    {"schedule_free",
     BP_KERNEL_schedule_free,
     0.01,
     {.adamw = {COMMON, .decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
     0,
     0},
};

#define CASES (sizeof rule_cases / sizeof rule_cases[0])

/* Fifty steps of a case; the fixture is left open. */
static void run_case(update_fixture *d, const struct rule_case *c, const update_setup *setup)
{
    float w[COUNT], g[COUNT];
    starts(w, COUNT);
    update_fixture_open(d, c->kernel, &c->s, setup);
    update_fixture_set(d, w);
    for (uint32_t t = 1; t <= STEPS; t++) {
        gradients(t, g, COUNT);
        update_fixture_step(d, g, c->rate, c->coefficient, c->ratio_decay);
    }
}

/* verifies optim-1.ca07 */
static void every_rule_follows_its_reference(void **state)
{
    static const char *const variants[] = {"portable", NULL};
    golden g;
    (void)state;
    golden_open(&g, "tests/golden/optim.safetensors");
    for (uint32_t i = 0; i < 2 * CASES; i++) {
        const struct rule_case *c = &rule_cases[i / 2];
        const update_setup setup = {.variant = variants[i % 2]};
        size_t bytes;
        double *want = golden_tensor(&g, c->name, &bytes);
        update_fixture d;
        float w[COUNT];
        run_case(&d, c, &setup);
        update_fixture_get(&d, w);
        assert_int_equal(bytes, COUNT * sizeof *want);
        for (uint32_t k = 0; k < COUNT; k++) {
            if (!(fabs((double)w[k] - want[k]) <= 1e-6 * fmax(1.0, fabs(want[k])))) {
                fail_msg("%s: weight %u is %.9g, the reference has %.9g", c->name, k, (double)w[k],
                         want[k]);
            }
        }
        update_fixture_close(&d);
        free(want);
    }
    golden_close(&g);
}

/* Steps whose rate rises to a tenth of the way, as a warm-up has it, and one that is skipped: y and
 * the average x are the reference's, in 32 bits; in 8 bits x stays near. */
/* verifies optim-1.ca07 optim-8.2b0b */
static void averages_are_the_reference(void **state)
{
    static const char *const variants[] = {"portable", NULL};
    golden g;
    size_t bytes;
    (void)state;
    golden_open(&g, "tests/golden/optim.safetensors");
    double *y = golden_tensor(&g, "schedule_free_warm", &bytes);
    double *x = golden_tensor(&g, "schedule_free_average", &bytes);
    assert_int_equal(bytes, COUNT * sizeof *x);
    for (uint32_t i = 0; i < 6; i++) {
        const struct rule_case *c = &rule_cases[CASES - 1];
        const bool codes = i >= 4;
        const update_setup setup = {.variant = variants[i % 2],
                                    .form = codes ? BP_CODEC_BLOCK8 : BP_CODEC_F32,
                                    .weight = i / 2 == 1 ? BP_BF16 : BP_F32,
                                    .master = i / 2 == 1 ? BP_MASTER_SPLIT : BP_MASTER_WEIGHT};
        update_fixture d;
        float w[COUNT], gradient[COUNT], average[COUNT];
        starts(w, COUNT);
        update_fixture_open(&d, c->kernel, &c->s, &setup);
        update_fixture_set(&d, w);
        update_fixture_average(&d, 1.0 / 9.0, average);
        for (uint32_t k = 0; k < COUNT; k++) { /* before the first step it is the weight */
            assert_true(fabs((double)average[k] - (double)w[k]) <= 0.0);
        }
        for (uint32_t t = 1; t <= STEPS; t++) {
            gradients(t, gradient, COUNT);
            update_fixture_step(&d, gradient, c->rate * (t < 10 ? t / 10.0 : 1.0), 0, 0);
        }
        update_fixture_get(&d, w);
        update_fixture_average(&d, (1.0 - c->s.adamw.beta1) / c->s.adamw.beta1, average);
        const double bound = codes ? 5e-3 : 1e-6; /* weights went half a unit */
        for (uint32_t k = 0; k < COUNT; k++) {
            if (!(fabs((double)w[k] - y[k]) <= bound && fabs((double)average[k] - x[k]) <= bound)) {
                fail_msg("%u: y[%u] is %.9g, the reference's %.9g; x %.9g, %.9g", i, k,
                         (double)w[k], y[k], (double)average[k], x[k]);
            }
        }
        update_fixture_close(&d);
    }
    free(y);
    free(x);
    golden_close(&g);
}

/* A bf16 weight with an fp32 master and one with a remainder hold the same numbers in every step,
 * whatever the rule; gradients are bf16. */
/* verifies optim-2.b969 */
static void split_masters_equal_separate_ones(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        const struct rule_case *c = &rule_cases[i];
        update_fixture d[2];
        float w[2][COUNT];
        uint16_t working[2][COUNT];
        for (int k = 0; k < 2; k++) {
            const update_setup setup = {.weight = BP_BF16,
                                        .gradient = BP_BF16,
                                        .master = k == 0 ? BP_MASTER_FP32 : BP_MASTER_SPLIT};
            run_case(&d[k], c, &setup);
            update_fixture_get(&d[k], w[k]);
            memcpy(working[k], update_fixture_weight(&d[k]), sizeof working[k]);
        }
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        assert_memory_equal(working[0], working[1], sizeof working[0]);
        for (uint32_t k = 0; k < COUNT; k++) {
            assert_int_equal(working[0][k], bp_bf16_from_f32(w[0][k]));
        }
        update_fixture_close(&d[0]);
        update_fixture_close(&d[1]);
    }
}

/* Every master form, weight and gradient type stays near fp32: as near as 24 or 16 bits allow. */
/* verifies optim-7.92a4 */
static void every_form_stays_near(void **state)
{
    static const struct {
        update_setup setup;
        double bound;
    } forms[] = {{{.weight = BP_F16, .gradient = BP_F16, .master = BP_MASTER_FP32}, 4e-4},
                 {{.weight = BP_F16, .gradient = BP_F32, .master = BP_MASTER_FP32}, 1e-6},
                 {{.weight = BP_BF16, .gradient = BP_F32, .master = BP_MASTER_SPLIT8}, 1.7e-4},
                 {{.weight = BP_U8, .gradient = BP_F32, .master = BP_MASTER_FP8}, 1.1e-5},
                 {{.weight = BP_BF16, .gradient = BP_F32, .master = BP_MASTER_STOCHASTIC}, 0.12},
                 {{.weight = BP_BF16, .gradient = BP_F16, .master = BP_MASTER_SPLIT}, 4e-4}};
    const struct rule_case *c = &rule_cases[4]; /* adamw */
    float right[COUNT], w[COUNT];
    update_fixture d;
    (void)state;
    run_case(&d, c, &(update_setup){.variant = "portable"});
    update_fixture_get(&d, right);
    update_fixture_close(&d);
    for (uint32_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        run_case(&d, c, &forms[i].setup);
        update_fixture_get(&d, w);
        for (uint32_t k = 0; k < COUNT; k++) {
            if (!(fabs((double)w[k] - (double)right[k]) <= forms[i].bound)) {
                fail_msg("form %u: weight %u is %.9g, in fp32 %.9g", i, k, (double)w[k],
                         (double)right[k]);
            }
        }
        update_fixture_close(&d);
    }
}

/* Steps of the bf16 weight alone: the mean over many elements moves as the update says, with
 * steps far below the last place, the same bits for the same seed, others for another. */
/* verifies optim-3.3540 */
static void stochastic_rounding_is_unbiased_and_repeats(void **state)
{
    enum { MANY = 40000, TIMES = 20 };
    static float w[MANY], g[MANY];
    static uint16_t kept[MANY];
    const update_scalars s = {.sgd = {.count = MANY, .rate_scale = 1.0}};
    const update_setup setup = {.weight = BP_BF16, .master = BP_MASTER_STOCHASTIC};
    (void)state;
    for (uint64_t run = 0; run < 3; run++) {
        update_fixture d;
        update_fixture_open(&d, BP_KERNEL_sgd, &s, &setup);
        d.step.seed = run < 2 ? 11 : 12;
        for (uint32_t i = 0; i < MANY; i++) {
            w[i] = 1.0f;
            g[i] = -1.0f;
        }
        update_fixture_set(&d, w);
        for (int t = 0; t < TIMES; t++) {
            update_fixture_step(&d, g, 1e-4, 0.0, 0.0); /* 1/78 of the last place */
        }
        update_fixture_get(&d, w);
        double sum = 0.0;
        for (uint32_t i = 0; i < MANY; i++) {
            sum += (double)w[i] - 1.0;
        }
        /* an element has deviation sqrt(0.002 * 2^-7), the mean of all of them 2e-5 */
        assert_true(fabs(sum / (double)MANY - (double)TIMES * 1e-4) <= 8e-5);
        bool same = memcmp(kept, update_fixture_weight(&d), sizeof kept) == 0;
        assert_true(run == 0 || same == (run == 1));
        memcpy(kept, update_fixture_weight(&d), sizeof kept);
        update_fixture_close(&d);
    }
}

/* The bits that a step adds are those of core/base/random.h, for any place in a parameter. */
/* verifies optim-3.3540 */
static void rounding_bits_are_the_documented_ones(void **state)
{
    const update_setup setup = {.weight = BP_BF16, .master = BP_MASTER_STOCHASTIC};
    const update_scalars s = {
        .sgd = {.count = COUNT, .first = 512, .stream = 9, .rate_scale = 1.0}};
    float w[COUNT], g[COUNT];
    update_fixture d;
    (void)state;
    update_fixture_open(&d, BP_KERNEL_sgd, &s, &setup);
    d.step.step = 77;
    for (uint32_t i = 0; i < COUNT; i++) {
        w[i] = 1.0f;
        g[i] = -1.0f;
    }
    update_fixture_set(&d, w);
    update_fixture_step(&d, g, 0x1p-9, 0.0, 0.0); /* a quarter of the last place */
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t random = bp_rounding_bits(bp_rounding_key(11), 77, 9, 512 + i);
        uint16_t want = (uint16_t)((0x3f804000u + random) >> 16);
        assert_int_equal(((const uint16_t *)update_fixture_weight(&d))[i], want);
    }
    update_fixture_close(&d);
}

/* Their bound is for states below 1; larger ones (a momentum of normalised gradients) get half a
 * gap of the book. */
static double state_bound(const float *x, uint32_t count)
{
    double most = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)x[i]));
    }
    return most <= 1.0 ? 3e-3 : 7.2e-3 * most;
}

/* One step in 8 bits beside the same step in 32, over 50 steps, each from the state that was
 * stored: bitsandbytes' own bounds (tests/test_optim.py): states within 3e-3 + 1e-3 of their size
 * with few misses, the mean difference of weights below 6e-5. */
/* verifies optim-7.92a4 */
static void narrow_states_step_like_wide_ones(void **state)
{
    enum { MANY = 4097 };
    static float w[MANY], g[MANY], wide[MANY], narrow[MANY], a[MANY], b[MANY];
    static const bp_codec forms[] = {BP_CODEC_BLOCK8, BP_CODEC_COMPANDED8};
    (void)state;
    for (uint32_t k = 0; k < 2 * CASES; k++) {
        const struct rule_case *c = &rule_cases[k / 2];
        update_scalars s = c->s;
        s.adamw.count = MANY;
        const update_setup setups[2] = {{.form = BP_CODEC_F32}, {.form = forms[k % 2]}};
        update_fixture d[2];
        for (int i = 0; i < 2; i++) {
            update_fixture_open(&d[i], c->kernel, &s, &setups[i]);
        }
        starts(w, MANY);
        update_fixture_set(&d[0], w);
        update_fixture_set(&d[1], w);
        for (uint32_t t = 1; t <= STEPS; t++) {
            gradients(t, g, MANY);
            for (uint32_t i = 0; i < MANY; i++) {
                g[i] *= 0.01f; /* as in their test */
            }
            for (int i = 0; i < 2; i++) {
                update_fixture_step(&d[i], g, 1e-3, c->coefficient, c->ratio_decay);
            }
            update_fixture_get(&d[0], wide);
            update_fixture_get(&d[1], narrow);
            double sum = 0.0;
            for (uint32_t i = 0; i < MANY; i++) {
                sum += fabs((double)wide[i] - (double)narrow[i]);
            }
            if (!(sum / (double)MANY < 6e-5)) {
                fail_msg("%s, form %d, step %u: weights differ by %.3g in the mean", c->name,
                         (int)forms[k % 2], t, sum / (double)MANY);
            }
            for (uint32_t i = 0; i < 3; i++) {
                uint32_t misses = 0;
                if ((d[0].states >> i & 1) == 0) {
                    continue;
                }
                update_fixture_state(&d[0], i, a);
                update_fixture_state(&d[1], i, b);
                double bound = state_bound(a, MANY);
                for (uint32_t j = 0; j < MANY; j++) {
                    double x = (double)a[j];
                    misses += fabs(x - (double)b[j]) > bound + 1e-3 * fabs(x);
                }
                assert_true(misses < 20);
                /* the next step starts from the same state */
                memcpy(d[0].image + d[0].place[FIXTURE_STATE + i], b, sizeof b);
            }
            update_fixture_set(&d[1], wide);
        }
        update_fixture_close(&d[0]);
        update_fixture_close(&d[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_follows_its_reference),
        cmocka_unit_test(averages_are_the_reference),
        cmocka_unit_test(split_masters_equal_separate_ones),
        cmocka_unit_test(every_form_stays_near),
        cmocka_unit_test(stochastic_rounding_is_unbiased_and_repeats),
        cmocka_unit_test(rounding_bits_are_the_documented_ones),
        cmocka_unit_test(narrow_states_step_like_wide_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
