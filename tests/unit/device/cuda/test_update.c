/* SPDX-License-Identifier: MIT */
/* Update rules on the CUDA device against the host, byte for byte: every form of states with every
 * master form and type of weights and gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/codec.h"
#include "core/ir/step.h"
#include "device/cuda/cuda.h"
#include "device/host/host.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/difference.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/kernels/update_fixture.h"

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
    {.weight = BP_U8, .gradient = BP_BF16, .master = BP_MASTER_FP8},
};

#define SETUPS (sizeof setups / sizeof setups[0])

/* Runs the same steps on a device and keeps what lies in its arena. */
static void run(update_fixture *d, bp_kernel kernel, const update_scalars *s,
                const update_setup *setup)
{
    static float w[MOST], g[MOST];
    uint64_t count = (uint64_t)s->adamw.count;
    bool trust = kernel == BP_KERNEL_lars; /* norms are summed in another order than the host's */
    update_fixture_open(d, kernel, s, setup);
    fill_normal(w, count, 1, 0.5);
    update_fixture_set(d, w);
    for (uint64_t t = 0; t < STEPS; t++) {
        fill_normal(g, count, 2 + t, 0.1);
        update_fixture_step(d, g, 1e-2, trust && count == 1 ? 0.01 : 0.0, 0.1);
    }
}

static void compare(bp_kernel kernel, const update_scalars *s, update_setup setup)
{
    update_fixture host, cuda;
    setup.variant = "portable";
    run(&host, kernel, s, &setup);
    setup.device = &bp_device_cuda;
    setup.variant = "plain";
    run(&cuda, kernel, s, &setup);
    for (uint64_t i = 0; i < host.place[FIXTURE_TRUST]; i++) {
        if (host.image[i] != cuda.image[i]) {
            fail_msg("%s, form %d, master %d, count %llu: byte %llu is %u, the host has %u",
                     bp_kernel_describe(kernel)->name, (int)setup.form, (int)setup.master,
                     (unsigned long long)s->adamw.count, (unsigned long long)i, cuda.image[i],
                     host.image[i]);
        }
    }
    update_fixture_close(&host);
    update_fixture_close(&cuda);
}

/* verifies device-10.ca2f */
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

/* What schedule-free rules use in place of their weights, of every form of weights and masters. */
/* verifies device-10.ca2f */
static void averages_equal_the_hosts(void **state)
{
    static const int64_t counts[] = {1, 255, 257, 1030};
    static float wanted[MOST], found[MOST];
    (void)state;
    for (uint32_t i = 0; i < SETUPS * BP_CODEC_COUNT; i++) {
        update_fixture host, cuda;
        update_setup setup = setups[i % SETUPS];
        const update_scalars s = {.adamw = {.count = counts[i % 4],
                                            .rate_scale = 1.0,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .epsilon = 1e-8}};
        if (setup.master == BP_MASTER_FP8) {
            continue; /* refused by these rules */
        }
        setup.gradient = BP_F32; /* whose place the average is made in */
        setup.form = (bp_codec)(i / SETUPS);
        setup.variant = "portable";
        run(&host, BP_KERNEL_adamw, &s, &setup);
        update_fixture_average(&host, 0.25, wanted);
        setup.device = &bp_device_cuda;
        setup.variant = "plain";
        run(&cuda, BP_KERNEL_adamw, &s, &setup);
        update_fixture_average(&cuda, 0.25, found);
        assert_memory_equal(found, wanted, (size_t)s.adamw.count * sizeof *wanted);
        update_fixture_close(&host);
        update_fixture_close(&cuda);
    }
}

/* Sums of gradients in 8 bits: the same call on either device. */
static void run_sums(kernel_case *c, const bp_device *device, bool expand,
                     const bp_accumulate_codes_scalars *s, bp_dtype type)
{
    static float x[MOST];
    kernel_device on;
    bp_kernel kernel = expand ? BP_KERNEL_expand_codes : BP_KERNEL_accumulate_codes;
    const uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)(expand ? type : BP_U8),
                                             (uint8_t)(expand ? BP_U8 : type), BP_U8};
    const bp_step_block step = {.seed = 5, .step = 3, .sample = 2};
    uint64_t count = (uint64_t)s->count;
    unsigned char sum[2 * MOST];
    fill_normal(x, count, 21, 1e-2);
    for (uint64_t i = 0; i < count; i += BP_CODEC_BLOCK) {
        uint32_t size = (uint32_t)(count - i < BP_CODEC_BLOCK ? count - i : BP_CODEC_BLOCK);
        bp_codec_encode(BP_CODEC_COMPANDED8, true, x + i, size,
                        sum + bp_codec_bytes(i, BP_CODEC_COMPANDED8));
    }
    kernel_device_open(&on, device, device == &bp_device_host ? "portable" : "plain", 1,
                       UINT64_C(1) << 20);
    kernel_case_init_typed(c, device, kernel, s, 1, 0, dtypes);
    memcpy(kernel_case_at(c, 0, expand ? 1 : 0), sum, bp_codec_bytes(count, BP_CODEC_COMPANDED8));
    if (!expand) {
        fill_normal(x, count, 22, 1e-2);
        x[count / 2] = count > 300 ? INFINITY : x[count / 2];
        x[count / 3] = count > 700 ? -NAN : x[count / 3];
        memset(x, 0, count > 900 ? 32 * sizeof *x : 0);
        store_elements(kernel_case_at(c, 0, 1), type, x, count);
        memcpy(kernel_case_at(c, 0, 2), &step, sizeof step);
    }
    kernel_case_run(c, &on);
    kernel_device_close(&on);
}

/* verifies device-10.ca2f */
static void sums_equal_the_hosts(void **state)
{
    static const int64_t counts[] = {1, 3, 33, 257, 301, 1030};
    (void)state;
    for (uint32_t i = 0; i < 6 * 3 * 3; i++) {
        bp_accumulate_codes_scalars s = {.count = counts[i % 6], .accumulate = i / 6 % 3 == 1};
        kernel_case host, cuda;
        bool expand = i / 6 % 3 == 2;
        if (!expand) {
            s.first = 256 * (i % 2);
            s.stream = i;
        }
        run_sums(&host, &bp_device_host, expand, &s, (bp_dtype)(i / 18));
        run_sums(&cuda, &bp_device_cuda, expand, &s, (bp_dtype)(i / 18));
        assert_int_equal(host.image_bytes, cuda.image_bytes);
        assert_true(kernel_case_same(&cuda, host.image, "the host's"));
        kernel_case_free(&host);
        kernel_case_free(&cuda);
    }
}

static void run_direction(kernel_case *c, const bp_device *device, const bp_direction_scalars *s,
                          bool adaptive, uint64_t seed)
{
    const uint32_t state2 = UINT32_C(1) << OPERAND(direction, state2);
    kernel_device on;
    kernel_device_open(&on, device, device == &bp_device_host ? "portable" : "plain", 1,
                       UINT64_C(1) << 20);
    kernel_shaped_case(c, device, BP_KERNEL_direction, s, adaptive ? 0 : state2, seed);
    for (uint32_t step = 0; step < STEPS; step++) {
        kernel_case_run(c, &on);
    }
    kernel_device_close(&on);
}

/* Directions of matrices' rules, Muon's two and APOLLO's, with states in every form: what comes out
 * and what the states are then. */
/* verifies device-10.ca2f */
static void directions_equal_the_hosts(void **state)
{
    static const int64_t counts[] = {1, 31, 255, 257, 1030};
    (void)state;
    for (uint32_t i = 0; i < 5 * 3 * BP_CODEC_COUNT; i++) {
        const uint32_t rule = i / 5 % 3;
        const bp_direction_scalars s = {.count = counts[i % 5],
                                        .form = i / 15,
                                        .beta = 0.95,
                                        .nesterov = rule == 1,
                                        .beta2 = 0.999,
                                        .epsilon = 1e-6};
        kernel_case host, cuda;
        run_direction(&host, &bp_device_host, &s, rule == 2, i);
        run_direction(&cuda, &bp_device_cuda, &s, rule == 2, i);
        assert_int_equal(host.image_bytes, cuda.image_bytes);
        assert_true(kernel_case_same(&cuda, host.image, "the host's"));
        kernel_case_free(&host);
        kernel_case_free(&cuda);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_equals_the_host), cmocka_unit_test(averages_equal_the_hosts),
        cmocka_unit_test(directions_equal_the_hosts), cmocka_unit_test(sums_equal_the_hosts)};
    if (!fake_driver_load(&driver)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
