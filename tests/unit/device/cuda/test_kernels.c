/* SPDX-License-Identifier: MIT */
/* Every row of kernels.def over random shapes, on the host and on CUDA: the host's portable form is
 * the specification. Where both do the same operations in the same order the bits are equal;
 * elsewhere the rows below state a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "core/plan/config.h"
#include "core/ir/step.h"
#include "device/cuda/context.h"
#include "device/host/host.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/difference.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/kernels/kernel_random_rows.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(48) << (getenv("BP_TEST_GPU") != NULL ? 22 : 20))
#define ORDERED     4 /* of them also run in other orders */

static instrument driver;
static kernel_device host, cuda;

/* Terms that the longest sum of a row adds in another order than the host, or 0: equal bits. The
 * bound is 4 roundings for each, of the largest value of the operand. */
static double terms_of(bp_kernel kernel, const void *scalars)
{
    switch (kernel) {
    case BP_KERNEL_matmul:
        /* splits cut the chain of terms, and the results stay of the size of their terms */
        return ((const bp_matmul_scalars *)scalars)->k >= 256 ? 64.0 : 0.0;
    case BP_KERNEL_layernorm_backward_parameters:
    case BP_KERNEL_bias_backward:
    case BP_KERNEL_rmsnorm_backward_weight:
    case BP_KERNEL_loss_sum:
    case BP_KERNEL_magnitude_backward:
        return (double)*(const int64_t *)scalars;
    case BP_KERNEL_weight_norms:
    case BP_KERNEL_norm_partial:
    case BP_KERNEL_lamb_norms:
    case BP_KERNEL_lars_norms:
    case BP_KERNEL_scaled_norms:
    case BP_KERNEL_rms_scale:
    case BP_KERNEL_limited_factors:
    case BP_KERNEL_square_sums:
    case BP_KERNEL_moment_factors:
        return 16.0;
    case BP_KERNEL_attention_backward:
    case BP_KERNEL_attention_packed_backward:
        /* a cap's slope is found from the probability */
        return ((const bp_attention_backward_scalars *)scalars)->cap > 0.0 ? 64.0 : 0.0;
    case BP_KERNEL_attention_forward:
    case BP_KERNEL_attention_packed_forward:
    case BP_KERNEL_attention_decode:
        /* one rounding of an exponent moves by as much as the exponent is large */
        return 64.0;
    case BP_KERNEL_depthwise_backward_weight:
        return 48.0; /* windows of a channel, at most 108 */
    case BP_KERNEL_batchnorm_statistics:
    case BP_KERNEL_batchnorm_sums: /* in double */
        return 1.0;
    case BP_KERNEL_cross_entropy:
    case BP_KERNEL_cross_entropy_columns:
    case BP_KERNEL_cross_entropy_forward:
    case BP_KERNEL_distill:
    case BP_KERNEL_distill_columns:
    case BP_KERNEL_top_logits:
        return 64.0;
    default:
        return 0.0;
    }
}

static void report(const kernel_case *c, uint32_t slot, uint64_t element, double got, double want)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    print_error("%s: tuple %u, %s[%llu] is %.9g (%a), the host gives %.9g (%a)\n", info->name,
                slot / info->operand_count, info->operand[slot % info->operand_count].name,
                (unsigned long long)element, got, got, want, want);
    for (uint32_t i = 0; i < info->scalar_count; i++) {
        double real;
        memcpy(&real, &c->scalars[i], sizeof(real));
        print_error(" %s=%.17g", info->scalar[i].name,
                    info->scalar[i].real ? real : (double)(int64_t)c->scalars[i]);
    }
    print_error("\n");
    fail();
}

static double value_at(const unsigned char *at, uint64_t element, bool wide)
{
    double d;
    float f;
    if (wide) {
        memcpy(&d, at + element * 8, 8);
        return d;
    }
    memcpy(&f, at + element * 4, 4);
    return (double)f;
}

/* Compares one operand of two cases; `terms` > 0 gives the bound. */
static void compare_slot(const kernel_case *got, const kernel_case *want, uint32_t slot,
                         double terms)
{
    const bp_kernel_info *info = bp_kernel_describe(got->kernel);
    const bp_operand_info *operand = &info->operand[slot % info->operand_count];
    bool wide = operand->type == BP_TYPE_F64 || operand->type >= BP_TYPE_BYTE;
    const unsigned char *a = got->image + got->offsets[slot];
    const unsigned char *b = want->image + want->offsets[slot];
    uint64_t size = wide ? 8 : 4, count = want->bytes[slot] / size;
    double largest = 1e-30;
    for (uint64_t i = 0; i < count; i++) {
        double x = fabs(value_at(b, i, wide));
        largest = x > largest && x < 1e30 ? x : largest;
    }
    double bound = 4.0 * terms * 0x1p-24 * largest;
    for (uint64_t i = 0; i < count; i++) {
        bool same = memcmp(a + i * size, b + i * size, size) == 0;
        double x = value_at(a, i, wide), y = value_at(b, i, wide);
        bool close = (terms > 0.0 && fabs(x - y) <= bound) || (isnan(x) && isnan(y));
        if (!same && !close) {
            report(got, slot, i, x, y);
        }
    }
}

static void compare_case(const kernel_case *got, const kernel_case *want)
{
    const bp_kernel_info *info = bp_kernel_describe(got->kernel);
    double terms = terms_of(got->kernel, got->scalars);
    for (uint32_t slot = 0; slot < got->tuples * info->operand_count; slot++) {
        bool workspace = info->operand[slot % info->operand_count].workspace;
        if (!workspace && got->offsets[slot] != BP_OFFSET_ABSENT) {
            compare_slot(got, want, slot, terms);
        }
    }
}

/* The same call with fragments, warps and blocks in other orders: equal bits. */
static void run_in_other_orders(kernel_case *c, const unsigned char *start)
{
    static const char *const orders[] = {"1", "2", "3"};
    unsigned char *right = kernel_case_save(c);
    static uint32_t turn; /* in the short form calls take turns */
    turn++;
    for (uint32_t i = 0; driver.set != NULL && i < 3; i++) {
        if (!long_form() && i != turn % 3) {
            continue;
        }
        assert_int_equal(driver.set("PTXVM_SEED", orders[i]), 0);
        kernel_case_restore(c, start);
        kernel_case_run(c, &cuda);
        if (!kernel_case_same(c, right, "another order")) {
            print_error("%s: other bits in order %s\n", bp_kernel_describe(c->kernel)->name,
                        orders[i]);
            fail();
        }
    }
    if (driver.set != NULL) {
        assert_int_equal(driver.set("PTXVM_SEED", "0"), 0);
    }
    free(right);
}

/* verifies device-10.ca2f */
static void row_test(bp_kernel kernel)
{
    uint64_t seeds = share_of(20, 12, 7);
    if (kernel == BP_KERNEL_rows_begin || kernel == BP_KERNEL_experts_begin) {
        skip(); /* of the host alone: a program with them is refused when it is linked */
    }
    if (kernel == BP_KERNEL_attention_slots || is_of_experts(kernel) || is_of_delta(kernel) ||
        kernel == BP_KERNEL_unpack_rows || kernel == BP_KERNEL_pixels ||
        kernel == BP_KERNEL_attention_cross_forward ||
        kernel == BP_KERNEL_attention_cross_backward ||
        kernel == BP_KERNEL_attention_biased_decode ||
        kernel == BP_KERNEL_attention_biased_forward ||
        kernel == BP_KERNEL_attention_biased_backward || kernel == BP_KERNEL_attention_deltas ||
        kernel == BP_KERNEL_attention_backward_over ||
        kernel == BP_KERNEL_attention_strip_forward ||
        kernel == BP_KERNEL_attention_strip_backward || kernel == BP_KERNEL_relative_bias ||
        kernel == BP_KERNEL_relative_bias_backward || kernel == BP_KERNEL_pair_loss ||
        kernel == BP_KERNEL_attention_disentangled_forward ||
        kernel == BP_KERNEL_attention_disentangled_backward ||
        (kernel >= BP_KERNEL_attention_sinks && kernel <= BP_KERNEL_attention_sinks_slots)) {
        skip(); /* of the host alone: a plan with it is refused */
    }
    if (kernel == BP_KERNEL_matmul_fp8) {
        skip(); /* of Hopper alone: test_fp8.c */
    }
    if (kernel == BP_KERNEL_attention_backward || kernel == BP_KERNEL_attention_packed_backward) {
        seeds = share_of(20, 20, 7); /* masks of every kind, heads of every width */
    }
    if (kernel == BP_KERNEL_norm_partial) {
        seeds = share_of(20, 4, 7); /* each adds up many elements */
    }
    if (kernel == BP_KERNEL_preference_loss) {
        seeds *= 3; /* six kinds, each with pairs and without */
    }
    /* the instrument would take poison as word that bytes are undefined, and run no kernel */
    ((cuda_context *)cuda.context)->driver.ptxvmUndefineAsync = NULL;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        kernel_case want, got;
        kernel_random_case(&want, &bp_device_host, kernel, seed);
        kernel_case_run(&want, &host);
        kernel_random_case(&got, &bp_device_cuda, kernel, seed);
        unsigned char *start = kernel_case_save(&got);
        kernel_case_run(&got, &cuda);
        compare_case(&got, &want);
        if (seed <= ORDERED) {
            run_in_other_orders(&got, start);
        }
        free(start);
        kernel_case_free(&want);
        kernel_case_free(&got);
    }
}

/* Shapes that the random ones do not reach: tiles of 128, many rows, splits and what follows them.
 */
typedef struct shaped {
    bp_kernel kernel;
    uint32_t absent;
    union {
        bp_matmul_scalars matmul;
        bp_layernorm_backward_parameters_scalars parameters;
        bp_bias_backward_scalars bias;
        bp_rmsnorm_backward_weight_scalars weight;
        bp_sample_loss_scalars loss;
        bp_weight_norms_scalars norms;
    } scalars;
} shaped;

#define NO_BEFORE   (UINT32_C(1) << OPERAND(matmul, before))
#define NO_BIAS     (UINT32_C(1) << OPERAND(matmul, bias))
#define NO_RESIDUAL (UINT32_C(1) << OPERAND(matmul, residual))
#define CODES_ALONE                                                                                \
    (UINT32_C(1) << OPERAND(weight_norms, weight) | UINT32_C(1) << OPERAND(weight_norms, scales) | \
     UINT32_C(1) << OPERAND(weight_norms, nested))

static const shaped shapes[] = {
    {BP_KERNEL_matmul, 0, {.matmul = {1025, 1290, 9, 12, 1292, 1292, 0, 0, 0, 1}}},
    {BP_KERNEL_matmul,
     NO_BEFORE | NO_BIAS | NO_RESIDUAL,
     {.matmul = {1030, 1281, 35, 1032, 37, 1281, 1, 1, 1, 0}}},
    {BP_KERNEL_matmul, 0, {.matmul = {64, 68, 600, 600, 72, 72, 0, 0, 0, 1}}},
    {BP_KERNEL_matmul,
     NO_BEFORE | NO_BIAS | NO_RESIDUAL,
     {.matmul = {67, 61, 517, 67, 61, 61, 1, 0, 1, 0}}},
    {BP_KERNEL_layernorm_backward_parameters, 0, {.parameters = {1100, 13, 1}}},
    {BP_KERNEL_bias_backward, 0, {.bias = {1500, 9, 9, 0}}},
    {BP_KERNEL_rmsnorm_backward_weight, 0, {.weight = {1100, 13, 1, 1, 13}}},
    {BP_KERNEL_rmsnorm_backward_weight, 0, {.weight = {550, 13, 1, 2, 41}}},
    /* groups of four terms in aligned rows, of which two or three are there */
    {BP_KERNEL_matmul, 0, {.matmul = {66, 70, 38, 40, 72, 72, 0, 0, 0, 0}}},
    {BP_KERNEL_matmul, 0, {.matmul = {66, 70, 39, 68, 40, 72, 1, 1, 0, 0}}},
    {BP_KERNEL_matmul, 0, {.matmul = {67, 71, 39, 40, 40, 72, 0, 1, 0, 0}}},
    {BP_KERNEL_matmul, 0, {.matmul = {67, 71, 39, 68, 72, 72, 1, 0, 0, 0}}},
    /* more places than threads, and samples without a label */
    {BP_KERNEL_sample_loss,
     0,
     {.loss =
          {.batch = 40, .sequence = 300, .classes = 7, .kind = BP_TASK_CLASSES, .gradient = 1}}},
    {BP_KERNEL_sample_loss,
     0,
     {.loss = {.batch = 70, .sequence = 3, .classes = 1, .kind = BP_TASK_RANKING, .gradient = 1}}},
    {BP_KERNEL_weight_norms, CODES_ALONE, {.norms = {40, 300, 5, 0, BP_QUANTISED_FP8, 0.5}}},
    {BP_KERNEL_weight_norms, CODES_ALONE, {.norms = {40, 300, 5, 1, BP_QUANTISED_FP8, 0.5}}},
};

/* verifies device-10.ca2f */
static void shapes_beyond_the_random_ones(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const shaped *s = &shapes[i];
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, s->kernel, &s->scalars, s->absent, i);
        kernel_case_run(&want, &host);
        kernel_shaped_case(&got, &bp_device_cuda, s->kernel, &s->scalars, s->absent, i);
        kernel_case_run(&got, &cuda);
        compare_case(&got, &want);
        kernel_case_free(&want);
        kernel_case_free(&got);
    }
}

/* One test per row. */
#define KERNEL(name)                                                                               \
    static void row_##name(void **state)                                                           \
    {                                                                                              \
        (void)state;                                                                               \
        row_test(BP_KERNEL_##name);                                                                \
    }
#include "core/ops/kernels.def"

/* Each row has a context of its own: a fault ends it. */
static int open_devices(void **state)
{
    (void)state;
    kernel_device_open(&host, &bp_device_host, "portable", 1, ARENA_BYTES);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, ARENA_BYTES);
    return 0;
}

static int close_devices(void **state)
{
    static char text[2048];
    (void)state;
    kernel_device_close(&cuda);
    kernel_device_close(&host);
    if (driver.report != NULL && driver.report(text, sizeof(text)) > 0) {
        print_error("%s\n", text);
    }
    return driver.revive != NULL ? driver.revive() : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define KERNEL(name) cmocka_unit_test_setup_teardown(row_##name, open_devices, close_devices),
#include "core/ops/kernels.def"
        cmocka_unit_test_setup_teardown(shapes_beyond_the_random_ones, open_devices, close_devices),
    };
    if (!fake_driver_load(&driver)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
