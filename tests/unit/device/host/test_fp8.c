/* SPDX-License-Identifier: MIT */
/* Products of e4m3 numbers on the host (kernels.def, matmul_fp8): the codes found by trying all of
 * them, the sums of tensor cores as their model is published (arXiv 2511.10909), in doubles; and
 * how far they are from exact sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"

#define SEEDS       (getenv("BP_TEST_SHORT") != NULL ? 8u : 30u)
#define ARENA_BYTES (UINT64_C(24) << 20)

static kernel_device host;

/* The e4m3 number of a code: OCP's "fn" variant. */
static double number_of(unsigned code)
{
    const int field = (int)(code >> 3 & 15), fraction = (int)(code & 7);
    const double magnitude = field == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, field - 10);
    return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/* The number nearest to y, of two the one with an even code. */
static double nearest(double y)
{
    double best = 0.0, distance = (double)INFINITY;
    for (unsigned code = 0; code < 127; code++) {
        const double here = fabs(fabs(y) - number_of(code));
        if (here < distance || (here == distance && code % 2 == 0)) {
            distance = here;
            best = number_of(code);
        }
    }
    return y < 0 ? -best : best;
}

/* Where a line of op(a) or op(b) lies. */
typedef struct line {
    const float *at;
    int64_t from;
    int64_t step;
    int64_t terms;
} line;

/* Numbers and the scale of a line. */
static double quantise(const line *x, double *numbers)
{
    double most = 0.0;
    int exponent = -117;
    for (int64_t t = 0; t < x->terms; t++) {
        const double here = fabs((double)x->at[x->from + t * x->step]);
        most = here > most || isnan(here) ? here : most;
    }
    while (most > ldexp(448, exponent) && isfinite(most)) {
        exponent++;
    }
    for (int64_t t = 0; t < x->terms; t++) {
        numbers[t] =
            isfinite(most) ? nearest(ldexp((double)x->at[x->from + t * x->step], -exponent)) : 0.0;
    }
    return isfinite(most) ? ldexp(1.0, exponent) : (double)NAN;
}

static int exponent_of(double x, int least)
{
    return ilogb(x) > least ? ilogb(x) : least;
}

static double step(const double *a, const double *b, int64_t count, double sum)
{
    int largest = sum != 0.0 ? ilogb(sum) : -1000;
    for (int64_t t = 0; t < count; t++) {
        if (a[t] != 0.0 && b[t] != 0.0) {
            const int here = exponent_of(a[t], -6) + exponent_of(b[t], -6);
            largest = here > largest ? here : largest;
        }
    }
    if (largest == -1000) {
        return 0.0;
    }
    double total = trunc(ldexp(sum, 13 - largest));
    for (int64_t t = 0; t < count; t++) {
        total += trunc(ldexp(a[t] * b[t], 13 - largest));
    }
    if (total == 0.0) {
        return 0.0;
    }
    const int top = ilogb(total) > 13 ? ilogb(total) - 13 : 0;
    return ldexp(trunc(ldexp(total, -top)), top + largest - 13);
}

/* The sum as the row says it, and the exact sum of the same numbers and of their magnitudes. */
static float chain(const double *a, const double *b, int64_t k, double *exact, double *sizes)
{
    float all = 0.0f;
    *exact = *sizes = 0.0;
    for (int64_t first = 0; first < k; first += 128) {
        double part = 0.0;
        for (int64_t t = first; t < k && t < first + 128; t += 32) {
            part = step(a + t, b + t, k - t < 32 ? k - t : 32, part);
        }
        all += (float)part;
    }
    for (int64_t t = 0; t < k; t++) {
        *exact += a[t] * b[t];
        *sizes += fabs(a[t] * b[t]);
    }
    return all;
}

static void check_element(const kernel_case *c, const float *before, int64_t i, int64_t j)
{
    const bp_matmul_fp8_scalars *s = (const void *)c->scalars;
    kernel_case *at = (kernel_case *)(uintptr_t)c;
    const float *bias = kernel_case_at(at, 0, OPERAND(matmul_fp8, bias));
    const float *got = kernel_case_at(at, 0, OPERAND(matmul_fp8, before));
    double a[700], b[700], exact, sizes;
    got = got != NULL ? got : kernel_case_at(at, 0, OPERAND(matmul_fp8, c));
    const line row = {kernel_case_at(at, 0, OPERAND(matmul_fp8, a)),
                      i * (s->transpose_a != 0 ? 1 : s->lda), s->transpose_a != 0 ? s->lda : 1,
                      s->k};
    const line column = {kernel_case_at(at, 0, OPERAND(matmul_fp8, b)),
                         j * (s->transpose_b != 0 ? s->ldb : 1), s->transpose_b != 0 ? 1 : s->ldb,
                         s->k};
    assert_true(s->k <= 700);
    const double scale_a = quantise(&row, a), scale_b = quantise(&column, b);
    const float sum = chain(a, b, s->k, &exact, &sizes);
    assert_true(fabs((double)sum - exact) <= sizes * 0x1p-13 * 33 * 4);
    float right = sum * (float)scale_a * (float)scale_b;
    right += before != NULL && s->accumulate != 0 ? before[i * s->ldc + j] : 0.0f;
    right += bias != NULL ? bias[j] : 0.0f;
    if (isnan(right)) {
        assert_true(isnan(got[i * s->ldc + j]));
    } else {
        assert_memory_equal(&got[i * s->ldc + j], &right, sizeof right);
    }
}

/* Of calls whose sums can be read: without GELU, or with what was before it, and no residual. */
/* verifies device-26.48df */
static void sums_are_those_of_the_model(void **state)
{
    (void)state;
    uint32_t seen = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, &bp_device_host, BP_KERNEL_matmul_fp8, seed);
        const bp_matmul_fp8_scalars *s = (const void *)c.scalars;
        const bool plain =
            s->gelu == 0 || kernel_case_at(&c, 0, OPERAND(matmul_fp8, before)) != NULL;
        if (plain && kernel_case_at(&c, 0, OPERAND(matmul_fp8, residual)) == NULL) {
            const float *to = kernel_case_at(&c, 0, OPERAND(matmul_fp8, c));
            const size_t bytes = c.bytes[OPERAND(matmul_fp8, c)];
            float *before = malloc(bytes);
            assert_non_null(before);
            memcpy(before, to, bytes);
            if (seed % 5 == 0 && s->m > 1) { /* a row that is not finite */
                float *a = kernel_case_at(&c, 0, OPERAND(matmul_fp8, a));
                a[0] = seed % 2 == 0 ? INFINITY : NAN;
            }
            kernel_case_run(&c, &host);
            for (int64_t e = 0; e < 60; e++, seen++) {
                check_element(&c, before, e * 7 % s->m, e * 11 % s->n);
            }
            free(before);
        }
        kernel_case_free(&c);
    }
    assert_true(seen >= SEEDS * 10);
}

/* Numbers drawn over many sizes, whose small products fall below what is kept beside large ones. */
/* verifies device-26.48df */
static void small_terms_are_cut(void **state)
{
    (void)state;
    const bp_matmul_fp8_scalars s = {
        .m = 3, .n = 3, .k = 290, .lda = 290, .ldb = 290, .ldc = 3, .transpose_b = 1};
    kernel_case c;
    const uint32_t none = UINT32_C(1) << OPERAND(matmul_fp8, before) |
                          UINT32_C(1) << OPERAND(matmul_fp8, bias) |
                          UINT32_C(1) << OPERAND(matmul_fp8, residual);
    kernel_case_init(&c, &bp_device_host, BP_KERNEL_matmul_fp8, &s, 1, none);
    float *a = kernel_case_at(&c, 0, OPERAND(matmul_fp8, a));
    float *b = kernel_case_at(&c, 0, OPERAND(matmul_fp8, b));
    for (int64_t i = 0; i < 3 * 290; i++) {
        const uint32_t x = (uint32_t)i * 2654435761u;
        a[i] = (x & 1 ? -1.0f : 1.0f) *
               ldexpf(1.0f + (float)(x >> 8 & 7) / 8.0f, -(int)(x >> 20 & 15));
        b[i] = (x & 2 ? -1.0f : 1.0f) *
               ldexpf(1.0f + (float)(x >> 12 & 7) / 8.0f, -(int)(x >> 24 & 15));
    }
    memset(a + 290, 0, 290 * sizeof *a); /* a row of zeros */
    kernel_case_run(&c, &host);
    for (int64_t e = 0; e < 9; e++) {
        check_element(&c, NULL, e / 3, e % 3);
    }
    const float *to = kernel_case_at(&c, 0, OPERAND(matmul_fp8, c));
    assert_true(to[3] == 0.0f && to[4] == 0.0f && to[5] == 0.0f);
    double x[290], y[290], exact, sizes;
    const line row = {a, 0, 1, 290}, column = {b, 0, 1, 290};
    quantise(&row, x);
    quantise(&column, y);
    assert_true((double)chain(x, y, 290, &exact, &sizes) != exact);
    kernel_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_model),
        cmocka_unit_test(small_terms_are_cut),
    };
    kernel_device_open(&host, &bp_device_host, "portable", 1, ARENA_BYTES);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kernel_device_close(&host);
    return failed;
}
