/* SPDX-License-Identifier: MIT */
/* Matrix products, bias gradients and GELU against plain double loops and finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/host/host.h"
#include "device/host/matmul/matmul_pack.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

static double gelu(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(u));
}

/* Checks rows 0 .. m-1 of a matrix with a pitch. */
static void check_rows(const float *got, const double *right, const bp_matmul_scalars *s)
{
    for (int64_t i = 0; i < s->m; i++) {
        assert_close_to(got + i * s->ldc, right + i * s->n, (uint64_t)s->n, 3e-6,
                        sqrt((double)s->k));
    }
}

static double element(const float *x, int64_t row, int64_t column, int64_t pitch,
                      int64_t transposed)
{
    return (double)(transposed != 0 ? x[column * pitch + row] : x[row * pitch + column]);
}

/* One product with what follows it, from the image as it was before the run. */
static void check_matmul(kernel_case *c, kernel_device *on)
{
    bp_matmul_scalars s;
    memcpy(&s, c->scalars, sizeof(s));
    const float *a = AT(c, matmul, a), *b = AT(c, matmul, b), *bias = AT(c, matmul, bias);
    const float *residual = AT(c, matmul, residual), *start = AT(c, matmul, c);
    uint64_t count = (uint64_t)(s.m * s.n);
    double *before = malloc(count * sizeof(double)), *after = malloc(count * sizeof(double));
    for (int64_t i = 0; i < s.m; i++) {
        for (int64_t j = 0; j < s.n; j++) {
            double sum = s.accumulate != 0 ? (double)start[i * s.ldc + j] : 0.0;
            for (int64_t k = 0; k < s.k; k++) {
                sum +=
                    element(a, i, k, s.lda, s.transpose_a) * element(b, k, j, s.ldb, s.transpose_b);
            }
            sum += bias != NULL ? (double)bias[j] : 0.0;
            sum += residual != NULL ? (double)residual[i * s.ldc + j] : 0.0;
            before[i * s.n + j] = sum;
            after[i * s.n + j] = s.gelu != 0 ? gelu(sum) : sum;
        }
    }
    kernel_case_run(c, on);
    check_rows(AT(c, matmul, c), after, &s);
    if (AT(c, matmul, before) != NULL) {
        check_rows(AT(c, matmul, before), before, &s);
    }
    free(before);
    free(after);
}

static void fill_matmul(kernel_case *c, uint64_t seed)
{
    static const uint32_t operands[] = {OPERAND(matmul, c), OPERAND(matmul, a), OPERAND(matmul, b),
                                        OPERAND(matmul, bias), OPERAND(matmul, residual)};
    for (uint32_t i = 0; i < 5; i++) {
        float *at = kernel_case_at(c, 0, operands[i]);
        if (at != NULL) {
            fill_normal(at, c->bytes[operands[i]] / 4, seed + i, 1.0);
        }
    }
}

#define BEFORE   (1u << OPERAND(matmul, before))
#define BIAS     (1u << OPERAND(matmul, bias))
#define RESIDUAL (1u << OPERAND(matmul, residual))

/* verifies device-3.0681 */
static void matmul_agrees_in_every_transposition_on(kernel_device *on)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 17, 5},    {7, 1, 33},
                                       {3, 5, 7},     {16, 16, 16},  {33, 49, 70},
                                       {64, 130, 31}, {25, 97, 530}, {70, 90, 40}};
    for (uint32_t i = 0; i < 9; i++) {
        for (int64_t flags = 0; flags < 8; flags++) {
            int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            int64_t ta = flags & 1, tb = flags >> 1 & 1, add = flags >> 2;
            bp_matmul_scalars s = {
                m, n, k, (ta != 0 ? m : k) + 3, (tb != 0 ? k : n) + 1, n + 2, ta, tb, add, 0};
            kernel_case c;
            kernel_case_init(&c, on->device, BP_KERNEL_matmul, &s, 1, BEFORE | BIAS | RESIDUAL);
            fill_matmul(&c, 100 * i + (uint64_t)flags);
            check_matmul(&c, on);
            kernel_case_free(&c);
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(matmul_agrees_in_every_transposition)

static void matmul_adds_bias_residual_and_gelu_on(kernel_device *on)
{
    for (uint32_t flags = 0; flags < 16; flags++) {
        bp_matmul_scalars s = {19, 37, 21, 21, 37, 40, 0, 0, 0, (flags & 1) != 0};
        uint32_t absent = ((flags & 2) != 0 ? BIAS : 0) | ((flags & 4) != 0 ? RESIDUAL : 0) |
                          ((flags & 9) != 9 ? BEFORE : 0);
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_matmul, &s, 1, absent);
        fill_matmul(&c, flags);
        check_matmul(&c, on);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(matmul_adds_bias_residual_and_gelu)

/* residual and c the same bytes: the sum goes on top of what is there. */
static void matmul_residual_in_place_on(kernel_device *on)
{
    bp_matmul_scalars s = {21, 70, 90, 90, 90, 71, 0, 1, 0, 0};
    kernel_case c, apart;
    kernel_case_init(&c, on->device, BP_KERNEL_matmul, &s, 1, BEFORE | BIAS);
    kernel_case_init(&apart, on->device, BP_KERNEL_matmul, &s, 1, BEFORE | BIAS);
    kernel_case_join(&c, OPERAND(matmul, c), OPERAND(matmul, residual));
    fill_matmul(&apart, 5);
    fill_matmul(&c, 5);
    memcpy(AT(&c, matmul, residual), AT(&apart, matmul, residual),
           c.bytes[OPERAND(matmul, residual)]);
    kernel_case_run(&c, on);
    kernel_case_run(&apart, on);
    for (int64_t i = 0; i < s.m; i++) {
        assert_memory_equal((float *)AT(&c, matmul, c) + i * s.ldc,
                            (float *)AT(&apart, matmul, c) + i * s.ldc, (size_t)s.n * 4);
    }
    kernel_case_free(&c);
    kernel_case_free(&apart);
}
/* verifies device-3.0681 */
TEST_ON_HOST(matmul_residual_in_place)

static void check_bias(kernel_device *on, int64_t more)
{
    static const int64_t sizes[][2] = {{1, 1}, {5, 63}, {33, 64}, {7, 65}, {100, 200}};
    for (uint32_t i = 0; i < 10; i++) {
        bp_bias_backward_scalars s = {sizes[i / 2][0], sizes[i / 2][1], sizes[i / 2][1] + more,
                                      i % 2};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_bias_backward, &s, 1, 0);
        float *d_bias = AT(&c, bias_backward, d_bias), *d_y = AT(&c, bias_backward, d_y);
        fill_normal(d_y, (uint64_t)((s.rows - 1) * s.pitch + s.n), 3, 1.0);
        double right[200];
        if (s.accumulate != 0) {
            fill_normal(d_bias, (uint64_t)s.n, 4, 1.0);
        }
        for (int64_t j = 0; j < s.n; j++) {
            right[j] = s.accumulate != 0 ? (double)d_bias[j] : 0.0;
            for (int64_t row = 0; row < s.rows; row++) {
                right[j] += (double)d_y[row * s.pitch + j];
            }
        }
        kernel_case_run(&c, on);
        assert_close(d_bias, right, (uint64_t)s.n, 1e-6);
        kernel_case_free(&c);
    }
}

static void bias_backward_sums_columns_on(kernel_device *on)
{
    check_bias(on, 0);
    check_bias(on, 7);
}
/* verifies device-3.0681 */
TEST_ON_HOST(bias_backward_sums_columns)

static void gelu_forward_agrees_on(kernel_device *on)
{
    static const int64_t counts[] = {1, 15, 16, 17, 4096, 4097, 9001};
    for (uint32_t i = 0; i < 14; i++) {
        bp_gelu_forward_scalars s = {counts[i / 2]};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_gelu_forward, &s, 1, 0);
        if (i % 2 == 1) {
            kernel_case_join(&c, OPERAND(gelu_forward, y), OPERAND(gelu_forward, x));
        }
        float *x = AT(&c, gelu_forward, x);
        fill_normal(x, (uint64_t)s.count, i, 2.0);
        static double right[9001];
        for (int64_t j = 0; j < s.count; j++) {
            right[j] = gelu((double)x[j]);
        }
        kernel_case_run(&c, on);
        assert_close(AT(&c, gelu_forward, y), right, (uint64_t)s.count, 2e-7);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(gelu_forward_agrees)

static void gelu_backward_agrees_with_differences_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 9; i++) {
        bp_gelu_backward_scalars s = {i < 3 ? 1 : 4133};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_gelu_backward, &s, 1, 0);
        if (i % 3 != 0) {
            kernel_case_join(&c, OPERAND(gelu_backward, d_x),
                             i % 3 == 1 ? OPERAND(gelu_backward, d_y) : OPERAND(gelu_backward, x));
        }
        float *x = AT(&c, gelu_backward, x), *d_y = AT(&c, gelu_backward, d_y);
        fill_normal(x, (uint64_t)s.count, i, 2.0);
        fill_normal(d_y, (uint64_t)s.count, i + 50, 1.0);
        static double right[4133];
        for (int64_t j = 0; j < s.count; j++) {
            double at = (double)x[j], h = 1e-5;
            right[j] = (double)d_y[j] * (gelu(at + h) - gelu(at - h)) / (2.0 * h);
        }
        kernel_case_run(&c, on);
        assert_close(AT(&c, gelu_backward, d_x), right, (uint64_t)s.count, 1e-6);
        kernel_case_free(&c);
    }
}
/* verifies layers-4.97f8 */
TEST_ON_HOST(gelu_backward_agrees_with_differences)

/* One row times a stored matrix, (n, k) where it is turned, else (k, n). */
static void check_stored(kernel_device *on, int64_t form, int64_t transposed, int64_t n, int64_t k)
{
    const bp_matmul_quantised_scalars s = {
        .m = 1, .n = n, .k = k, .lda = k, .ldc = n, .transpose_b = transposed, .form = form};
    const uint64_t count = (uint64_t)(n * k), rows = (uint64_t)(transposed != 0 ? n : k);
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_matmul_quantised, &s, 1,
                     1u << OPERAND(matmul_quantised, before) |
                         1u << OPERAND(matmul_quantised, bias) |
                         1u << OPERAND(matmul_quantised, residual));
    uint8_t *codes = AT(&c, matmul_quantised, codes);
    float *scales = AT(&c, matmul_quantised, scales);
    const float *x = AT(&c, matmul_quantised, a);
    for (uint64_t i = 0; i < bp_quantised_codes(count, form); i++) {
        const uint8_t code = (uint8_t)(i * 151 + i / 7 * 29);
        const bool head = i % (BP_FP8_BLOCK + BP_FP8_HEADER) < BP_FP8_HEADER;
        codes[i] = form != BP_QUANTISED_FP8 ? code : head ? 127 : (uint8_t)(code & 0xb7);
    }
    for (uint64_t i = 0; i < bp_quantised_scales(rows, count, form) / sizeof(float); i++) {
        scales[i] = 0.5f + 0.01f * (float)(i % 37);
    }
    fill_normal(AT(&c, matmul_quantised, a), (uint64_t)k, 3, 1.0);
    const bp_quantised_matrix b = {form, count / rows, codes, scales, NULL};
    kernel_case_run(&c, on);
    const float *got = AT(&c, matmul_quantised, c);
    for (int64_t j = 0; j < n; j++) {
        double sum = 0.0, size = 0.0;
        for (int64_t i = 0; i < k; i++) {
            const uint64_t at = (uint64_t)(transposed != 0 ? j * k + i : i * n + j);
            const double term = (double)x[i] * (double)bp_quantised_value(&b, at);
            sum += term;
            size += fabs(term);
        }
        assert_true(fabs((double)got[j] - sum) <= 2e-6 * size);
    }
    kernel_case_free(&c);
}

/* Blocks that rows end with, and that they do not; more terms than a strip has; few columns. */
static void one_row_of_stored_weights_on(kernel_device *on)
{
    static const int64_t forms[] = {BP_QUANTISED_NF4, BP_QUANTISED_INT8, BP_QUANTISED_FP8};
    static const int64_t sizes[][2] = {{40, 64},  {64, 128}, {130, 256},
                                       {40, 100}, {3, 8256}, {21, 33}};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check_stored(on, forms[f], 0, sizes[i][0], sizes[i][1]);
            check_stored(on, forms[f], 1, sizes[i][0], sizes[i][1]);
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(one_row_of_stored_weights)

/* What FP8 holds below half precision's least number is rounded to half precision before it is
 * used: 2^-25 to 0, and three of them to four. */
static void stored_weights_below_half_precision_on(kernel_device *on)
{
    static const float right[] = {0.0f, 0x1p-17f};
    for (int64_t i = 0; i < 8; i++) {
        const int64_t m = i / 2 % 2 == 0 ? 1 : 20, n = 40, k = 64, transposed = i / 4;
        const bp_matmul_quantised_scalars s = {.m = m,
                                               .n = n,
                                               .k = k,
                                               .lda = k,
                                               .ldc = n,
                                               .transpose_b = transposed,
                                               .form = BP_QUANTISED_FP8};
        uint8_t dtypes[BP_OPERANDS_MAX];
        kernel_case c;
        memset(dtypes, BP_F16, sizeof dtypes);
        kernel_case_init_typed(&c, on->device, BP_KERNEL_matmul_quantised, &s, 1,
                               1u << OPERAND(matmul_quantised, before) |
                                   1u << OPERAND(matmul_quantised, bias) |
                                   1u << OPERAND(matmul_quantised, residual),
                               dtypes);
        uint8_t *codes = AT(&c, matmul_quantised, codes);
        uint16_t *x = AT(&c, matmul_quantised, a);
        for (uint64_t at = 0; at < bp_quantised_codes((uint64_t)(n * k), BP_QUANTISED_FP8); at++) {
            const bool head = at % (BP_FP8_BLOCK + BP_FP8_HEADER) < BP_FP8_HEADER;
            codes[at] = head ? 127 - 16 : i % 2 == 0 ? 1 : 3; /* 2^-9, 3 * 2^-9, by 2^-16 */
        }
        for (int64_t at = 0; at < m * k; at++) {
            x[at] = 0x3c00; /* 1 */
        }
        kernel_case_run(&c, on);
        for (int64_t at = 0; at < m * n; at++) {
            const float got = bp_element_load(AT(&c, matmul_quantised, c), (uint64_t)at, BP_F16);
            assert_true(got == right[i % 2]);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(stored_weights_below_half_precision)

/* One row is streamed, not cut into blocks; what computes nothing needs nothing. */
/* verifies device-3.0681 */
static void work_of_every_size(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 3; m++) {
        const bp_matmul_scalars plain = {.m = m, .n = 40, .k = 64, .lda = 64, .ldb = 40, .ldc = 40};
        const bp_matmul_quantised_scalars codes = {
            .m = m, .n = 40, .k = 64, .lda = 64, .ldc = 40, .form = BP_QUANTISED_NF4};
        assert_true(bp_matmul_fits(BP_KERNEL_matmul, &plain, NULL, UINT64_MAX) == (m > 1));
        assert_true(bp_matmul_fits(BP_KERNEL_matmul_quantised, &codes, NULL, UINT64_MAX) ==
                    (m > 1));
        assert_false(bp_matmul_fits(BP_KERNEL_matmul, &plain, NULL, 64));
        assert_false(bp_matmul_fits(BP_KERNEL_matmul_quantised, &codes, NULL, 64));
        assert_true(bp_matmul_quantised_workspace(&codes, NULL) > 0);
        bp_matmul_quantised_scalars none = codes;
        none.n = 0;
        assert_int_equal(bp_matmul_quantised_workspace(&none, NULL), 0);
        none = codes;
        none.k = -1;
        assert_int_equal(bp_matmul_quantised_workspace(&none, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_agrees_in_every_transposition),
        cmocka_unit_test(matmul_adds_bias_residual_and_gelu),
        cmocka_unit_test(matmul_residual_in_place),
        cmocka_unit_test(one_row_of_stored_weights),
        cmocka_unit_test(stored_weights_below_half_precision),
        cmocka_unit_test(work_of_every_size),
        cmocka_unit_test(bias_backward_sums_columns),
        cmocka_unit_test(gelu_forward_agrees),
        cmocka_unit_test(gelu_backward_agrees_with_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
