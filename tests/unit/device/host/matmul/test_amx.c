/* SPDX-License-Identifier: MIT */
/* The form with AMX against what matmul_amx.h says it computes, bit for bit; and that nobody gets
 * it who did not ask for it by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/math_inline.h"
#include "core/ops/quantised.h"
#include "device/host/isa_table.h"
#include "device/host/matmul/matmul_amx.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/vector/half.h"

#define AMX  BP_HOST_ISAS /* its number */
#define MOST (160 * 1024) /* elements of an operand */

static uint16_t a[MOST], b[MOST], bias[MOST], residual[MOST];
static uint16_t c[MOST], before[MOST], right[MOST], right_before[MOST];
static float c_floats[MOST], right_floats[MOST];
static uint64_t draws = 1;

static uint32_t draw(uint32_t below)
{
    draws = draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(draws >> 33) % below;
}

/* Numbers of ordinary size, or of any size down to those that are not normal. */
static void fill(uint16_t *x, bool wide)
{
    for (int i = 0; i < MOST; i++) {
        uint32_t exponent = wide ? 40 + draw(60) : 122 + draw(6);
        exponent = wide && draw(8) == 0 ? 0 : exponent;
        x[i] = (uint16_t)(draw(2) << 15 | exponent << 7 | draw(128));
    }
}

static float element(const uint16_t *x, int64_t i)
{
    return bp_f32_from_bf16(x[i]);
}

typedef struct product {
    bp_matmul_scalars s;
    bool floats;  /* c is fp32 */
    bool follows; /* bias, residual, GELU and before */
} product;

static float chain(const product *x, int64_t row, int64_t column)
{
    const bp_matmul_scalars *s = &x->s;
    const int64_t at = row * s->ldc + column;
    float sum = s->accumulate == 0 ? 0.0f : x->floats ? c_floats[at] : element(c, at);
    for (int64_t k = 0; k < s->k; k += BP_AMX_TERMS) {
        float left[BP_AMX_TERMS] = {0.0f}, top[BP_AMX_TERMS] = {0.0f};
        for (int64_t i = 0; i < BP_AMX_TERMS && k + i < s->k; i++) {
            int64_t t = k + i;
            left[i] = element(a, s->transpose_a != 0 ? t * s->lda + row : row * s->lda + t);
            top[i] = element(b, s->transpose_b != 0 ? column * s->ldb + t : t * s->ldb + column);
        }
        sum = bp_amx_group(sum, left, top);
    }
    return sum;
}

static void compute_right(const product *x)
{
    memcpy(right, c, sizeof right);
    memcpy(right_before, before, sizeof right_before);
    memcpy(right_floats, c_floats, sizeof right_floats);
    for (int64_t i = 0; i < x->s.m; i++) {
        for (int64_t j = 0; j < x->s.n; j++) {
            const int64_t at = i * x->s.ldc + j;
            float value = chain(x, i, j);
            if (x->follows) {
                value = value + element(bias, j) + element(residual, at);
                right_before[at] = bp_bf16_even_from_f32(value);
                value = bp_gelu_inline(element(right_before, at));
            }
            if (x->floats) {
                right_floats[at] = value;
            } else {
                right[at] = bp_bf16_even_from_f32(value);
            }
        }
    }
}

/* Runs the kernel over ranges of tasks of uneven sizes. */
static void run_kernel(bp_kernel number, const void *scalars, void *const *pointers,
                       const uint8_t *dtypes)
{
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    bp_host_isa_kernels(AMX, kernels);
    const bp_host_kernel *kernel = kernels[BP_BF16][number];
    const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    uint64_t tasks = kernel->tasks(scalars);
    for (uint64_t first = 0, last; first < tasks; first = last) {
        last = first + 1 + draw((uint32_t)tasks);
        last = last < tasks ? last : tasks;
        kernel->run(&call, first, last, 0);
    }
}

static void compare(const product *x)
{
    const uint8_t half = BP_BF16, to = x->floats ? BP_F32 : BP_BF16;
    const uint8_t dtypes[7] = {to, half, half, half, half, half, BP_F32};
    const uint64_t bytes = bp_matmul_workspace(&x->s, dtypes);
    void *work = malloc(bytes + 1);
    const bp_matmul_pointers p = {.c = x->floats ? (void *)c_floats : c,
                                  .before = x->follows ? before : NULL,
                                  .a = a,
                                  .b = b,
                                  .bias = x->follows ? bias : NULL,
                                  .residual = x->follows ? residual : NULL,
                                  .work = work};
    compute_right(x);
    run_kernel(BP_KERNEL_matmul, &x->s, (void *const *)(const void *)&p, dtypes);
    assert_memory_equal(c, right, sizeof c);
    assert_memory_equal(before, right_before, sizeof before);
    assert_memory_equal(c_floats, right_floats, sizeof c_floats);
    free(work);
}

/* verifies device-4.66f5 */
static void products_are_what_the_header_says(void **state)
{
    static const int64_t shapes[][3] = {{2, 1, 1},    {16, 16, 32},  {33, 47, 70},  {64, 96, 31},
                                        {5, 200, 64}, {40, 3, 2100}, {300, 33, 10}, {70, 70, 1300}};
    (void)state;
    if (!bp_host_isa_runs(AMX)) {
        skip();
    }
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0] * 16; i++) {
        const int64_t *size = shapes[i / 16];
        product x = {.s = {.m = size[0], .n = size[1], .k = size[2]}};
        x.s.transpose_a = i & 1;
        x.s.transpose_b = i >> 1 & 1;
        x.follows = (i >> 2 & 3) == 1;
        x.floats = (i >> 2 & 3) >= 2;
        x.s.accumulate = !x.follows && (i & 4) != 0;
        x.s.gelu = x.follows;
        x.s.lda = (x.s.transpose_a != 0 ? x.s.m : x.s.k) + draw(3);
        x.s.ldb = (x.s.transpose_b != 0 ? x.s.k : x.s.n) + draw(3);
        x.s.ldc = x.s.n + draw(3);
        fill(a, i % 5 == 0);
        fill(b, i % 5 == 0);
        fill(c, false);
        fill(bias, false);
        fill(residual, false);
        for (int j = 0; j < MOST; j++) {
            c_floats[j] = element(residual, j) * 1.0001f;
        }
        compare(&x);
    }
}

/* A quantised b is its values, rounded to bf16. */
/* verifies device-4.66f5 */
static void quantised_products_are_those_of_their_values(void **state)
{
    enum { M = 37, OUT = 96, IN = 192 };
    static uint8_t codes[OUT * IN];
    static float absmax[OUT * IN / BP_NF4_BLOCK + OUT];
    const uint8_t dtypes[10] = {BP_BF16, BP_BF16, BP_BF16, BP_U8, BP_U8, BP_F32, BP_BF16, BP_BF16};
    (void)state;
    if (!bp_host_isa_runs(AMX)) {
        skip();
    }
    for (int i = 0; i < OUT * IN; i++) {
        codes[i] = (uint8_t)draw(256);
    }
    for (size_t i = 0; i < sizeof absmax / sizeof absmax[0]; i++) {
        absmax[i] = 0.25f + (float)draw(100) * 0.01f;
    }
    for (int64_t transposed = 0; transposed < 2; transposed++) {
        const int64_t n = transposed != 0 ? OUT : IN, k = transposed != 0 ? IN : OUT;
        const bp_matmul_quantised_scalars s = {.m = M,
                                               .n = n,
                                               .k = k,
                                               .lda = k,
                                               .ldc = n,
                                               .transpose_b = transposed,
                                               .form = BP_QUANTISED_INT8};
        product x = {
            .s = {
                .m = M, .n = n, .k = k, .lda = k, .ldb = IN, .ldc = n, .transpose_b = transposed}};
        const bp_quantised_matrix weights = {
            .form = BP_QUANTISED_INT8, .columns = IN, .codes = codes, .scales = absmax};
        fill(a, false);
        for (uint64_t i = 0; i < OUT * IN; i++) {
            b[i] = bp_bf16_even_from_f32(bp_quantised_value(&weights, i));
        }
        compute_right(&x);
        const uint64_t bytes = bp_matmul_quantised_workspace(&s, dtypes);
        void *work = malloc(bytes + 1);
        const bp_matmul_quantised_pointers p = {
            .c = c, .a = a, .codes = codes, .scales = absmax, .work = work};
        run_kernel(BP_KERNEL_matmul_quantised, &s, (void *const *)(const void *)&p, dtypes);
        assert_memory_equal(c, right, (size_t)(M * n) * sizeof *c);
        free(work);
    }
}

/* verifies device-4.66f5 */
static void only_its_name_chooses_it(void **state)
{
    static const bool all[BP_HOST_ISAS_ALL] = {true, true, true, true, true, true};
    static const bool plain[BP_HOST_ISAS_ALL] = {true, true, true, true, true, false};
    uint32_t index = 9;
    (void)state;
    assert_int_equal(bp_host_isa_choose(NULL, all, &index), BP_OK);
    assert_int_equal(index, BP_HOST_ISAS - 1);
    assert_int_equal(bp_host_isa_choose("amx", all, &index), BP_OK);
    assert_int_equal(index, AMX);
    assert_int_equal(bp_host_isa_choose("amx", plain, &index), BP_ERR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_what_the_header_says),
        cmocka_unit_test(quantised_products_are_those_of_their_values),
        cmocka_unit_test(only_its_name_chooses_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
