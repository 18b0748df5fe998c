/* SPDX-License-Identifier: MIT */
/* Update rules on the CUDA device against the host, byte for byte: every form of states with every
 * master form and type of weights and gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "tests/support/instrument.h"
#include "tests/support/kernel_case.h"
#include "tests/support/update_desk.h"

#define MOST  1500
#define STEPS 2

static instrument driver;

static const update_setup setups[] = {
    {.weight = BP_F32, .gradient = BP_BF16, .master = BP_MASTER_WEIGHT},
    {.weight = BP_BF16, .gradient = BP_F32, .master = BP_MASTER_FP32},
    {.weight = BP_F16, .gradient = BP_F16, .master = BP_MASTER_FP32},
    {.weight = BP_BF16, .gradient = BP_BF16, .master = BP_MASTER_SPLIT},
    {.weight = BP_BF16, .gradient = BP_BF16, .master = BP_MASTER_SPLIT8},
    {.weight = BP_BF16, .gradient = BP_F32, .master = BP_MASTER_STOCHASTIC},
};

#define SETUPS (sizeof setups / sizeof setups[0])

/* Runs the same steps on a device and keeps what lies in its arena. */
static void run(update_desk *d, bp_kernel kernel, const update_scalars *s,
                const update_setup *setup)
{
    static float w[MOST], g[MOST];
    uint64_t count = (uint64_t)s->adamw.count;
    bool trust = kernel == BP_KERNEL_lars; /* norms are summed in another order than the host's */
    update_desk_open(d, kernel, s, setup);
    fill_normal(w, count, 1, 0.5);
    update_desk_set(d, w);
    for (uint64_t t = 0; t < STEPS; t++) {
        fill_normal(g, count, 2 + t, 0.1);
        update_desk_step(d, g, 1e-2, trust && count == 1 ? 0.01 : 0.0, 0.1);
    }
}

static void compare(bp_kernel kernel, const update_scalars *s, update_setup setup)
{
    update_desk host, cuda;
    setup.variant = "portable";
    run(&host, kernel, s, &setup);
    setup.device = &bp_device_cuda;
    setup.variant = "plain";
    run(&cuda, kernel, s, &setup);
    for (uint64_t i = 0; i < host.place[DESK_TRUST]; i++) {
        if (host.image[i] != cuda.image[i]) {
            fail_msg("%s, form %d, master %d, count %llu: byte %llu is %u, the host has %u",
                     bp_kernel_describe(kernel)->name, (int)setup.form, (int)setup.master,
                     (unsigned long long)s->adamw.count, (unsigned long long)i, cuda.image[i],
                     host.image[i]);
        }
    }
    update_desk_close(&host);
    update_desk_close(&cuda);
}

static void every_form_equals_the_host(void **state)
{
    static const int64_t counts[] = {1, 255, 257, 1030};
    static const bp_kernel kernels[] = {BP_KERNEL_adamw, BP_KERNEL_lion, BP_KERNEL_lars};
    (void)state;
    for (uint32_t i = 0; i < 3 * SETUPS * BP_CODEC_COUNT; i++) {
        update_setup setup = setups[i % SETUPS];
        update_scalars s = {.adamw = {.count = counts[i % 4],
                                      .first = 256 * (i % 3),
                                      .stream = i,
                                      .decay = 0.1,
                                      .rate_scale = 1.0,
                                      .beta1 = 0.9,
                                      .beta2 = 0.99,
                                      .epsilon = 1e-8}};
        setup.form = (bp_codec)(i / SETUPS % BP_CODEC_COUNT);
        compare(kernels[i / (SETUPS * BP_CODEC_COUNT)], &s, setup);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form_equals_the_host)};
    if (!instrument_load(&driver)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
