/* SPDX-License-Identifier: MIT */
/* Elementary functions: float wrappers and the double forms. */
#include "core/base/math.h"

#include <math.h>
#include <string.h>

#include "core/base/math_inline.h"

#define LOG2_E       0x1.71547652b82fep+0
#define LN2_HIGH     0x1.62e42feep-1 /* 32 bits: n * this is exact for every exponent n */
#define LN2_LOW      0x1.a39ef35793c76p-33
#define ROUND        6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer */
#define ROUND_BITS   UINT64_C(0x4338000000000000)
#define TWO_OVER_PI  0x1.45f306dc9c883p-1
#define HALF_PI_1    0x1.921fb544p+0 /* pi/2 in three parts; n * the first two is exact */
#define HALF_PI_2    0x1.0b4611a6p-34
#define HALF_PI_3    0x1.3198a2e037073p-69
#define SQRT_HALF_52 UINT64_C(0x3fe6a09e667f3bcd) /* bits of sqrt(1/2) */

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double double_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* c[0] + c[1] x + ... + c[count-1] x^(count-1). */
static double polynomial(const double *c, int count, double x)
{
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) {
        sum = fma(sum, x, c[i]);
    }
    return sum;
}

float bp_expf(float x)
{
    return bp_expf_inline(x);
}

float bp_logf(float x)
{
    return (float)bp_log((double)x);
}

float bp_tanhf(float x)
{
    return bp_tanhf_inline(x);
}

float bp_erff(float x)
{
    return bp_erff_inline(x);
}

double bp_exp(double x)
{
    /* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2 */
    static const double c[] = {0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d37p-5,
                               0x1.11111111109a6p-7,  0x1.6c16c1789d1d7p-10, 0x1.a01a01a7cebcdp-13,
                               0x1.a019b8ca26fcfp-16, 0x1.71de0d85293b8p-19, 0x1.2891d4ffbb0f9p-22,
                               0x1.af390ba7e6f47p-26};
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double t = fma(x, LOG2_E, ROUND);
    double n = t - ROUND;
    double r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
    double p = 1.0 + fma(r * r, polynomial(c, 10, r), r);
    uint64_t biased = double_bits(t) - ROUND_BITS + 2048; /* n + 2048 */
    uint64_t half = biased >> 1;
    double first = double_from_bits((half - 1) << 52); /* 2^(half - 1024) */
    double second = double_from_bits((biased - half - 1) << 52);
    return p * first * second;
}

/* log x = high + low for a positive normal or subnormal finite x; the pair is good to about 2^-59.
 */
static double log_parts(double x, double *low)
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
    uint64_t bits = double_bits(x) + (UINT64_C(0x3ff0000000000000) - SQRT_HALF_52);
    k += (double)(bits >> 52);
    double m = double_from_bits((bits & UINT64_C(0x000fffffffffffff)) + SQRT_HALF_52);
    double f = m - 1.0;
    double d = 2.0 + f;
    double d_low = (2.0 - d) + f;
    double s = f / d;
    double s_low = (fma(-s, d, f) - s * d_low) / d;
    double z = s * s;
    double tail = fma(s * z, polynomial(c, 8, z), 2.0 * s_low);
    /* k ln 2 is 0 or larger than 2 s, so the sum's error is exact this way */
    double a = k * LN2_HIGH;
    double high = a + 2.0 * s;
    double error = (a == 0.0) ? 0.0 : (a - high) + 2.0 * s;
    double rest = error + fma(k, LN2_LOW, tail);
    double sum = high + rest;
    *low = (high - sum) + rest;
    return sum;
}

double bp_log(double x)
{
    if (x > 0.0 && x < (double)INFINITY) {
        double low;
        return log_parts(x, &low);
    }
    if (x == 0.0) {
        return -(double)INFINITY;
    }
    return x < 0.0 ? (double)NAN : x;
}

/* x - n pi/2 with n the nearest integer; quadrant = n mod 4. */
static double reduce_half_pi(double x, unsigned *quadrant)
{
    double t = fma(x, TWO_OVER_PI, ROUND);
    double n = t - ROUND;
    *quadrant = (unsigned)((double_bits(t) - ROUND_BITS) & 3);
    return fma(n, -HALF_PI_3, fma(n, -HALF_PI_2, fma(n, -HALF_PI_1, x)));
}

static double sin_reduced(double r)
{
    static const double c[] = {-0x1.5555555555555p-3,  0x1.1111111111110p-7,
                               -0x1.a01a01a019936p-13, 0x1.71de3a54605eep-19,
                               -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                               -0x1.ab17a79237a19p-41};
    double z = r * r;
    return fma(r * z, polynomial(c, 7, z), r);
}

static double cos_reduced(double r)
{
    static const double c[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16c16p-10,
                               0x1.a01a01a019d0ap-16, -0x1.27e4fb7712bdfp-22,
                               0x1.1eed8deb6d561p-29, -0x1.9394b9c9c20a4p-37,
                               0x1.ab783376962cfp-45};
    double z = r * r;
    double half = 0.5 * z;
    double w = 1.0 - half;
    return w + (((1.0 - w) - half) + (z * z) * polynomial(c, 7, z));
}

double bp_sin(double x)
{
    unsigned quadrant;
    double r = reduce_half_pi(x, &quadrant);
    double y = (quadrant & 1) != 0 ? cos_reduced(r) : sin_reduced(r);
    return (quadrant & 2) != 0 ? -y : y;
}

double bp_cos(double x)
{
    unsigned quadrant;
    double r = reduce_half_pi(x, &quadrant);
    double y = (quadrant & 1) != 0 ? sin_reduced(r) : cos_reduced(r);
    return quadrant == 1 || quadrant == 2 ? -y : y;
}

double bp_pow(double base, double exponent)
{
    double low;
    double high = log_parts(base, &low);
    double y = exponent * high;
    double y_low = fma(exponent, low, fma(exponent, high, -y));
    double power = bp_exp(y);
    return fma(power, y_low, power);
}

double bp_powi(double base, uint64_t n)
{
    double power = 1.0;
    while (n != 0) {
        if ((n & 1) != 0) {
            power *= base;
        }
        base *= base;
        n >>= 1;
    }
    return power;
}
