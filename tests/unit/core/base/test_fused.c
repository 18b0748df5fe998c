/* SPDX-License-Identifier: MIT */
/* The fused multiply-adds in integers give the bits of the host's, which round once: on operands of
 * every magnitude, on products that nearly cancel what is added, on ties, denormals, overflows,
 * infinities and NaNs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/fused.h"

#define CASES 400000

static uint64_t state = 1;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void check_double(double a, double b, double c)
{
    const double found = bp_fma(a, b, c), right = fma(a, b, c);
    if (isnan(right) ? !isnan(found) : memcmp(&found, &right, sizeof found) != 0) {
        fail_msg("fma(%a, %a, %a) is %a, not %a", a, b, c, right, found);
    }
}

static void check_float(float a, float b, float c)
{
    const float right = fmaf(a, b, c);
    const float found[] = {bp_fmaf(a, b, c), bp_fmaf_integers(a, b, c)};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        if (isnan(right) ? !isnan(found[i]) : memcmp(&found[i], &right, sizeof right) != 0) {
            fail_msg("%s(%a, %a, %a) is %a, not %a", i == 0 ? "fmaf" : "fmaf in integers",
                     (double)a, (double)b, (double)c, (double)right, (double)found[i]);
        }
    }
}

/* A number of any sign with few bits set, so that ties come up, or many; its exponent near `near`.
 */
static double near_double(int32_t near, int32_t spread)
{
    const uint64_t few = (next() & 1) != 0 ? UINT64_C(0xfffff) << (next() % 33) : UINT64_MAX;
    const int32_t exponent = near + (int32_t)(next() % (uint64_t)(2 * spread + 1)) - spread;
    const int32_t field = exponent < 0 ? 0 : exponent > 2046 ? 2046 : exponent;
    const uint64_t fraction = next() & few & UINT64_C(0x000fffffffffffff);
    return double_of((next() & 1) << 63 | (uint64_t)field << 52 | fraction);
}

/* verifies number-10.7c6c */
static void any_double_agrees(void **unused)
{
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        check_double(double_of(next()), double_of(next()), double_of(next()));
        const int32_t first = (int32_t)(next() % 2047), second = (int32_t)(next() % 2047);
        const double a = near_double(first, 2), b = near_double(second, 2);
        check_double(a, b, near_double(first + second - 1023, 60)); /* of the product's size */
        check_double(a, b, -(a * b));                               /* what is left is its error */
        check_double(near_double(1023, 3), near_double(1023, 3), near_double(1023, 3));
        check_double(near_double(600, 80), near_double(424, 80), near_double(0, 30));
    }
}

/* verifies number-10.7c6c */
static void any_float_agrees(void **unused)
{
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        const uint64_t x = next(), y = next();
        const float a = float_of((uint32_t)x), b = float_of((uint32_t)(x >> 32));
        check_float(a, b, float_of((uint32_t)y));
        check_float(a, b, -(a * b));
        const float c = (float)near_double(1023, 3), d = (float)near_double(1023, 3);
        check_float(c, d, (float)near_double(1023, 40));
        check_float(c, d, (float)near_double(1023 - 80, 40)); /* breaks a tie from far below */
        check_float(c * 0x1p-80f, d * 0x1p-60f, (float)near_double(1023 - 140, 10));
    }
}

/* The sum in double is a tie between two floats, which what it lost decides. */
/* verifies number-10.7c6c */
static void lost_bits_decide_ties(void **unused)
{
    (void)unused;
    const float a = 0x1.0p-12f + 0x1.0p-30f, b = 0x1.0p-12f - 0x1.0p-30f, odd = 0x1.000002p0f;
    assert_true(bp_fmaf(a, b, odd) == odd); /* 2^-24 (1 - 2^-36) is a little less than half */
    assert_true(bp_fmaf(-a, b, -odd) == -odd);
    assert_true(bp_fmaf(a, a, 1.0f) == odd);    /* and 2^-24 (1 + 2^-18)^2 a little more */
    check_double(2.0, 0x1.8p1023, -0x1.8p1023); /* the product alone has no number */
    check_double(0x1.8p1023, 2.0, -0x1.8p1023);
    check_float(a, b, odd);
    check_float(a, a, 1.0f);
    /* (1 - d) (1 + d) 2^-24 with d = 2^-14 - 2^-23: 2^-60 more than the last double below half,
     * which is odd and stays */
    const float d = 0x1p-14f - 0x1p-23f;
    assert_true(bp_fmaf(1.0f - d, 0x1p-24f * (1.0f + d), odd) == odd);
    assert_true(bp_fmaf(d - 1.0f, 0x1p-24f * (1.0f + d), -odd) == -odd);
    check_float(1.0f - d, 0x1p-24f * (1.0f + d), odd);
}

/* verifies number-10.7c6c */
static void edges_agree(void **unused)
{
    (void)unused;
    static const double edges[] = {0.0,
                                   -0.0,
                                   1.0,
                                   -1.0,
                                   0x1p-1022,
                                   0x1p-1074,
                                   0.5,
                                   0x1p537,
                                   0x1p-537,
                                   (double)INFINITY,
                                   -(double)INFINITY,
                                   (double)NAN,
                                   -1.5,
                                   0x1.fffffffffffffp+1023};
    const size_t count = sizeof edges / sizeof edges[0];
    for (size_t i = 0; i < count * count * count; i++) {
        const double a = edges[i % count], b = edges[i / count % count],
                     c = edges[i / count / count];
        check_double(a, b, c);
        check_float((float)a, (float)b, (float)c);
    }
    check_float(0x1.002p+0f, 0x1.002p+0f, 0x1p-80f);
    check_double(0x1.0000002p+0, 0x1.ffffffcp-1, -1.0);
}

/* verifies number-10.7c6c */
static void this_machine_is_sound(void **unused)
{
    (void)unused;
    assert_null(bp_fused_fault());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_double_agrees),     cmocka_unit_test(any_float_agrees),
        cmocka_unit_test(lost_bits_decide_ties), cmocka_unit_test(edges_agree),
        cmocka_unit_test(this_machine_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
