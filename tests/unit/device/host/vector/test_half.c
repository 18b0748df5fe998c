/* SPDX-License-Identifier: MIT */
/* Every row of kernels.def in bf16 and f16: arithmetic is the f32 form's, which its own tests hold
 * against double loops, on the same inputs, and what is stored is rounded once. So a result is the
 * f32 form's rounded to its type, bit for bit: the bound is 0 in every row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/master.h"
#include "core/base/math_inline.h"
#include "core/ir/step.h"
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(48) << 20)

static uint32_t slots_of(const kernel_case *c)
{
    return c->tuples * bp_kernel_describe(c->kernel)->operand_count;
}

/* What the tape gives back is bounded in fp16 by its largest number (core/ops/tape.h). */
static float bounded(const kernel_case *c, bp_dtype dtype, float value)
{
    const bool tape = c->kernel == BP_KERNEL_tape_unpack || c->kernel == BP_KERNEL_tape_round;
    if (!tape || dtype != BP_F16 || !(fabsf(value) > 65504.0f)) {
        return value;
    }
    return copysignf(65504.0f, value);
}

/* Elements of one operand against floats that are rounded to its type. */
static void compare_elements(const kernel_case *c, const float *want, uint64_t count, uint32_t slot)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    bp_dtype dtype = (bp_dtype)c->dtypes[slot];
    const unsigned char *got = c->image + c->offsets[slot];
    size_t size = bp_dtype_bytes(dtype);
    for (uint64_t i = 0; i < count; i++) {
        unsigned char rounded[4];
        const float value = bounded(c, dtype, want[i]);
        store_elements(rounded, dtype, &value, 1);
        if (c->writable[c->offsets[slot] + i * size] == 1 &&
            memcmp(rounded, got + i * size, size) != 0) {
            print_error("%s: %s[%llu] (%s) is %a, the f32 form gives %a\n", info->name,
                        info->operand[slot % info->operand_count].name, (unsigned long long)i,
                        bp_dtype_name(dtype), (double)element_of(got, dtype, i), (double)want[i]);
            fail();
        }
    }
}

/* A product's GELU is of the rounded value, the one that `before` keeps: wide is run without. */
typedef struct gelu_place {
    bp_kernel kernel;
    uint32_t scalar, c, before;
} gelu_place;

static const gelu_place gelu_places[] = {
    {BP_KERNEL_matmul, offsetof(bp_matmul_scalars, gelu) / sizeof(uint64_t), OPERAND(matmul, c),
     OPERAND(matmul, before)},
    {BP_KERNEL_matmul_fp8, offsetof(bp_matmul_fp8_scalars, gelu) / sizeof(uint64_t),
     OPERAND(matmul_fp8, c), OPERAND(matmul_fp8, before)}};

/* NULL: the case takes none. */
static const gelu_place *takes_gelu(const kernel_case *c)
{
    for (size_t i = 0; i < sizeof gelu_places / sizeof gelu_places[0]; i++) {
        if (c->kernel == gelu_places[i].kernel && c->scalars[gelu_places[i].scalar] != 0) {
            return &gelu_places[i];
        }
    }
    return NULL;
}

static void leave_gelu_out(kernel_case *wide, const gelu_place *at)
{
    wide->scalars[at->scalar] = 0;
    if (wide->offsets[at->before] != BP_OFFSET_ABSENT) {
        memset(wide->writable + wide->offsets[at->before], 0, wide->bytes[at->before]);
        wide->offsets[at->before] = BP_OFFSET_ABSENT;
    }
}

static void compare_gelu(const kernel_case *c, kernel_case *wide, const gelu_place *at)
{
    float *want = kernel_case_at(wide, 0, at->c);
    uint64_t count = wide->bytes[at->c] / sizeof(float);
    if (c->offsets[at->before] != BP_OFFSET_ABSENT) {
        compare_elements(c, want, count, at->before);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint16_t rounded;
        store_elements(&rounded, (bp_dtype)c->dtypes[0], want + i, 1);
        want[i] = bp_gelu_inline(element_of(&rounded, (bp_dtype)c->dtypes[0], 0));
    }
    compare_elements(c, want, count, at->c);
}

/* Operands that have one type in any case: the same bytes. */
static void compare_bytes(const kernel_case *c, const kernel_case *wide, uint32_t slot)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    const bp_operand_info *operand = &info->operand[slot % info->operand_count];
    const unsigned char *got = c->image + c->offsets[slot];
    if (memcmp(got, wide->image + wide->offsets[slot], c->bytes[slot]) != 0) {
        print_error("%s: %s differs from the f32 form's\n", info->name, operand->name);
        fail();
    }
}

static void check_case(kernel_case *c, kernel_device *on)
{
    kernel_case wide;
    kernel_case_widen(c, on->device, &wide);
    const gelu_place *gelu = takes_gelu(c);
    if (gelu != NULL) {
        leave_gelu_out(&wide, gelu);
    }
    kernel_case_run(c, on);
    kernel_case_run(&wide, on);
    if (gelu != NULL) {
        compare_gelu(c, &wide, gelu);
        kernel_case_free(&wide);
        kernel_case_free(c);
        return;
    }
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t slot = 0; slot < slots_of(c); slot++) {
        if (kernel_case_typed(c, slot)) {
            const float *want = (const float *)(const void *)(wide.image + wide.offsets[slot]);
            compare_elements(c, want, wide.bytes[slot] / sizeof(float), slot);
        } else if (c->offsets[slot] != BP_OFFSET_ABSENT &&
                   !info->operand[slot % info->operand_count].workspace) {
            compare_bytes(c, &wide, slot);
        }
    }
    kernel_case_free(&wide);
    kernel_case_free(c);
}

/* Rows that have 16-bit operands; first values (whose master is another thing in each type) have a
 * test of their own. */
static bool half_row(bp_kernel kernel)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    bool any = kernel == BP_KERNEL_norm_partial;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        any = any || info->operand[i].type == BP_TYPE_ANY;
    }
    return any && kernel != BP_KERNEL_random_normal && kernel != BP_KERNEL_store_values &&
           kernel != BP_KERNEL_matmul_quantised && kernel != BP_KERNEL_matmul_experts_quantised;
}

/* Codes are rounded to the working type before they are used, and what attention decodes before its
 * sinks take their part, as rows of whole sequences are (test_sinks.c compares the two). */
static bool rounds_between(const kernel_case *c)
{
    const bp_weight_norms_scalars *s = (const void *)c->scalars;
    return (c->kernel == BP_KERNEL_weight_norms && s->form != BP_QUANTISED_NONE) ||
           c->kernel == BP_KERNEL_attention_sinks_decode ||
           c->kernel == BP_KERNEL_attention_sinks_slots;
}

static bool has_form(bp_kernel kernel, bp_dtype dtype)
{
    return kernel == BP_KERNEL_norm_partial || bp_host_portable.kernels[dtype][kernel] != NULL;
}

static void results_are_the_rounded_f32_forms_on(kernel_device *on)
{
    uint64_t seeds = share_of(24, 4, 4);
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        for (uint64_t i = 0; half_row((bp_kernel)kernel) && i < 2 * seeds; i++) {
            bp_dtype dtype = i % 2 == 0 ? BP_BF16 : BP_F16;
            kernel_case c;
            if (has_form((bp_kernel)kernel, dtype)) {
                kernel_random_case_typed(&c, on->device, (bp_kernel)kernel, dtype, 1000 + i / 2);
                if (rounds_between(&c)) {
                    kernel_case_free(&c);
                } else {
                    check_case(&c, on);
                }
            }
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(results_are_the_rounded_f32_forms)

static uint32_t quiet(uint32_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* One row's bias gradient in a 16-bit type is a conversion (-0 aside, to which 0 is added). count
 * is a power of two. */
static void check_rounding(kernel_device *on, bp_dtype dtype, uint32_t first, uint32_t step,
                           int64_t count)
{
    bp_bias_backward_scalars s = {.rows = 1, .n = count};
    uint8_t dtypes[BP_OPERANDS_MAX] = {0};
    dtypes[OPERAND(bias_backward, d_bias)] = (uint8_t)dtype;
    kernel_case c;
    kernel_case_init_typed(&c, on->device, BP_KERNEL_bias_backward, &s, 1, 0, dtypes);
    uint32_t *d_y = kernel_case_at(&c, 0, OPERAND(bias_backward, d_y));
    for (int64_t i = 0; i < count; i++) {
        /* neighbours far apart: equal ones could make the pattern of what is not written */
        d_y[i] = first + ((uint32_t)i * 40503 & (uint32_t)(count - 1)) * step;
    }
    kernel_case_run(&c, on);
    const uint16_t *got = kernel_case_at(&c, 0, OPERAND(bias_backward, d_bias));
    for (int64_t i = 0; i < count; i++) {
        uint16_t want;
        float value = float_of(quiet(d_y[i] == 0x80000000 ? 0 : d_y[i]));
        store_elements(&want, dtype, &value, 1);
        if (got[i] != want) {
            print_error("%s of %08x is %04x, not %04x\n", bp_dtype_name(dtype), (unsigned)d_y[i],
                        (unsigned)got[i], (unsigned)want);
            fail();
        }
    }
    kernel_case_free(&c);
}

/* All exponents and signs, at ties and a hair off them, NaN and denormal numbers included. */
/* verifies device-1.6909 */
static void all_forms_round_alike(void **state)
{
    (void)state;
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        if (!bp_host_isa_runs(form)) {
            continue;
        }
        kernel_device on;
        kernel_device_open(&on, &bp_device_host, bp_host_isa_name(form), 1, UINT64_C(8) << 20);
        for (uint32_t i = 0; i < 3; i++) {
            check_rounding(&on, BP_BF16, 0x7fff + i, 0x8000, 0x20000);
            check_rounding(&on, BP_F16, 0xfff + i, 0x1000, 0x100000);
            check_rounding(&on, BP_F16, 0x33000000u - 1 + i, 0x800, 0x10000);
        }
        check_rounding(&on, BP_BF16, 0x7f7f0000, 3, 0x20000);
        check_rounding(&on, BP_F16, 0xff7f0000, 3, 0x20000);
        kernel_device_close(&on);
    }
}

/* The gradient norm of all 65536 values of a type, the numbers among them. */
/* verifies device-1.6909 */
static void all_forms_widen_alike(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * BP_HOST_ISAS; i++) {
        bp_dtype dtype = i % 2 == 0 ? BP_BF16 : BP_F16;
        if (!bp_host_isa_runs(i / 2)) {
            continue;
        }
        kernel_device on;
        kernel_device_open(&on, &bp_device_host, bp_host_isa_name(i / 2), 1, UINT64_C(8) << 20);
        bp_norm_partial_scalars s = {.count = 65536, .chunk = 1};
        uint8_t dtypes[BP_OPERANDS_MAX] = {0};
        dtypes[OPERAND(norm_partial, x)] = (uint8_t)dtype;
        kernel_case c;
        kernel_case_init_typed(&c, on.device, BP_KERNEL_norm_partial, &s, 1, 0, dtypes);
        uint16_t *x = kernel_case_at(&c, 0, OPERAND(norm_partial, x));
        for (uint32_t bits = 0; bits < 65536; bits++) {
            x[bits] = (uint16_t)bits;
        }
        kernel_case_run(&c, &on);
        const double *partials = kernel_case_at(&c, 0, OPERAND(norm_partial, partials));
        for (uint32_t bits = 0; bits < 65536; bits++) {
            double value = (double)element_of(x, dtype, bits);
            assert_true(isnan(value) ? isnan(partials[bits]) : partials[bits] == value * value);
        }
        kernel_case_free(&c);
        kernel_device_close(&on);
    }
}

/* Random weights of a type and master form: the f32 form's values, stored as core/ops/master.h
 * says. */
static void check_random(kernel_device *on, bp_dtype dtype, bp_master form)
{
    bp_random_normal_scalars s = {.count = 4999, .stream = 3, .form = form, .deviation = 0.02};
    bp_random_normal_scalars plain = {.count = 4999, .stream = 3, .deviation = 0.02};
    uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)dtype};
    uint32_t master = OPERAND(random_normal, master), none = UINT32_C(1) << master;
    kernel_case c, wide;
    kernel_case_init_typed(&c, on->device, BP_KERNEL_random_normal, &s, 1,
                           form == BP_MASTER_STOCHASTIC ? none : 0, dtypes);
    kernel_case_init(&wide, on->device, BP_KERNEL_random_normal, &plain, 1, none);
    uint32_t step = OPERAND(random_normal, step);
    *(bp_step_block *)kernel_case_at(&c, 0, step) = (bp_step_block){.seed = 5};
    *(bp_step_block *)kernel_case_at(&wide, 0, step) = (bp_step_block){.seed = 5};
    kernel_case_run(&c, on);
    kernel_case_run(&wide, on);
    const float *want = kernel_case_at(&wide, 0, 0);
    for (uint64_t i = 0; i < 4999; i++) {
        uint16_t weight;
        float rest = 0.0f;
        bp_master_store(dtype, form, &weight, &rest, 0, want[i]);
        assert_memory_equal((const uint16_t *)kernel_case_at(&c, 0, 0) + i, &weight, 2);
        float value =
            bp_master_load(dtype, form, kernel_case_at(&c, 0, 0), kernel_case_at(&c, 0, master), i);
        bool exact = form == BP_MASTER_FP32 || form == BP_MASTER_SPLIT;
        assert_true(exact ? value == want[i]
                          : value == bp_master_load(dtype, form, &weight, &rest, 0));
    }
    kernel_case_free(&c);
    kernel_case_free(&wide);
}

/* Values that are stored are what storing them one by one makes. */
static void check_stored(kernel_device *on, bp_dtype dtype, bp_master form)
{
    const bp_store_values_scalars s = {.count = 4999, .form = form};
    uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)dtype};
    const uint32_t master = OPERAND(store_values, master);
    const uint32_t none = bp_master_bytes(form) == 0 ? UINT32_C(1) << master : 0;
    kernel_case c;
    kernel_case_init_typed(&c, on->device, BP_KERNEL_store_values, &s, 1, none, dtypes);
    float *x = kernel_case_at(&c, 0, OPERAND(store_values, x));
    for (uint64_t i = 0; i < 4999; i++) {
        x[i] = (float)((double)i * 0.37 - 400.0);
    }
    kernel_case_run(&c, on);
    const uint64_t width = bp_master_bytes(form);
    for (uint64_t i = 0; i < 4999; i++) {
        uint16_t weight;
        float rest = 0.0f;
        bp_master_store(dtype, form, &weight, &rest, 0, x[i]);
        assert_memory_equal((const uint16_t *)kernel_case_at(&c, 0, 0) + i, &weight, 2);
        if (width > 0) {
            const unsigned char *masters = kernel_case_at(&c, 0, master);
            assert_memory_equal(masters + i * width, &rest, width);
        }
    }
    kernel_case_free(&c);
}

static void random_weights_have_their_masters_on(kernel_device *on)
{
    check_random(on, BP_F16, BP_MASTER_FP32);
    for (uint32_t form = BP_MASTER_FP32; form <= BP_MASTER_STOCHASTIC; form++) {
        check_random(on, BP_BF16, (bp_master)form);
        check_stored(on, BP_BF16, (bp_master)form);
    }
}
TEST_ON_HOST(random_weights_have_their_masters)

/* Every row with a working type is there in all three. */
/* verifies device-31.2bb6 */
static void no_row_is_missing(void **state)
{
    (void)state;
    for (uint32_t kernel = 0; kernel < BP_KERNEL_COUNT; kernel++) {
        uint8_t dtypes[BP_OPERANDS_MAX];
        memset(dtypes, BP_BF16, sizeof(dtypes));
        bool typed = bp_kernel_working(bp_kernel_describe((bp_kernel)kernel), dtypes) == BP_BF16;
        for (uint32_t dtype = 0; dtype < BP_HOST_ELEMENTS; dtype++) {
            if ((typed || dtype == BP_F32) && bp_host_portable.kernels[dtype][kernel] == NULL) {
                print_error("%s has no form in %s\n", bp_kernel_describe((bp_kernel)kernel)->name,
                            bp_dtype_name((bp_dtype)dtype));
                fail();
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_rounded_f32_forms),
        cmocka_unit_test(random_weights_have_their_masters),
        cmocka_unit_test(all_forms_round_alike),
        cmocka_unit_test(all_forms_widen_alike),
        cmocka_unit_test(no_row_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
