/* SPDX-License-Identifier: MIT */
/* The double elementary functions as inline code, from which core/base/math.c has its functions and
 * loops over many numbers their vectors: no branches but selections. Errors are those that math.h
 * states. */
#ifndef BP_CORE_MATH_DOUBLE_H
#define BP_CORE_MATH_DOUBLE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BP_LOG2_E       0x1.71547652b82fep+0
#define BP_LN2_HIGH     0x1.62e42feep-1 /* 32 bits: n * this is exact for every exponent n */
#define BP_LN2_LOW      0x1.a39ef35793c76p-33
#define BP_ROUND        6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer */
#define BP_ROUND_BITS   UINT64_C(0x4338000000000000)
#define BP_TWO_OVER_PI  0x1.45f306dc9c883p-1
#define BP_HALF_PI_1    0x1.921fb544p+0 /* pi/2 in three parts; n * the first two is exact */
#define BP_HALF_PI_2    0x1.0b4611a6p-34
#define BP_HALF_PI_3    0x1.3198a2e037073p-69
#define BP_SQRT_HALF_52 UINT64_C(0x3fe6a09e667f3bcd) /* bits of sqrt(1/2) */

static inline uint64_t bp_double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double bp_double_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* c[0] + c[1] x + ... + c[count-1] x^(count-1). */
static inline double bp_polynomial(const double *c, int count, double x)
{
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) {
        sum = fma(sum, x, c[i]);
    }
    return sum;
}

/* log x = high + low for a positive normal or subnormal finite x; the pair is good to about 2^-59.
 */
static inline double bp_log_parts(double x, double *low)
{
    /* (2 atanh(s) / s - 2) / s^2 as a polynomial of s^2, |s| <= 3 - sqrt 8 */
    static const double c[] = {0x1.5555555555555p-1, 0x1.9999999999a39p-2, 0x1.2492492476a1ap-2,
                               0x1.c71c7201a55d7p-3, 0x1.745cf8e4bba1bp-3, 0x1.3b1c3c1c81c8fp-3,
                               0x1.0fbde0f4ad17bp-3, 0x1.0c0aff044a970p-3};
    double k = -1023.0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k -= 54.0;
    }
    /* m in [sqrt 1/2, sqrt 2), x = 2^k m */
    uint64_t bits = bp_double_bits(x) + (UINT64_C(0x3ff0000000000000) - BP_SQRT_HALF_52);
    k += (double)(int32_t)(bits >> 52);
    double m = bp_double_from_bits((bits & UINT64_C(0x000fffffffffffff)) + BP_SQRT_HALF_52);
    double f = m - 1.0;
    double d = 2.0 + f;
    double d_low = (2.0 - d) + f;
    double s = f / d;
    double s_low = (fma(-s, d, f) - s * d_low) / d;
    double z = s * s;
    double tail = fma(s * z, bp_polynomial(c, 8, z), 2.0 * s_low);
    /* k ln 2 is 0 or larger than 2 s, so the sum's error is exact this way */
    double a = k * BP_LN2_HIGH;
    double high = a + 2.0 * s;
    double error = (a == 0.0) ? 0.0 : (a - high) + 2.0 * s;
    double rest = error + fma(k, BP_LN2_LOW, tail);
    double sum = high + rest;
    *low = (high - sum) + rest;
    return sum;
}

/* x - n pi/2 with n the nearest integer; quadrant = n mod 4. */
static inline double bp_reduce_half_pi(double x, uint64_t *quadrant)
{
    double t = fma(x, BP_TWO_OVER_PI, BP_ROUND);
    double n = t - BP_ROUND;
    *quadrant = (bp_double_bits(t) - BP_ROUND_BITS) & 3;
    return fma(n, -BP_HALF_PI_3, fma(n, -BP_HALF_PI_2, fma(n, -BP_HALF_PI_1, x)));
}

static inline double bp_sin_reduced(double r)
{
    static const double c[] = {-0x1.5555555555555p-3,  0x1.1111111111110p-7,
                               -0x1.a01a01a019936p-13, 0x1.71de3a54605eep-19,
                               -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                               -0x1.ab17a79237a19p-41};
    double z = r * r;
    return fma(r * z, bp_polynomial(c, 7, z), r);
}

static inline double bp_cos_reduced(double r)
{
    static const double c[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16c16p-10,
                               0x1.a01a01a019d0ap-16, -0x1.27e4fb7712bdfp-22,
                               0x1.1eed8deb6d561p-29, -0x1.9394b9c9c20a4p-37,
                               0x1.ab783376962cfp-45};
    double z = r * r;
    double half = 0.5 * z;
    double w = 1.0 - half;
    return w + (((1.0 - w) - half) + (z * z) * bp_polynomial(c, 7, z));
}

#endif
