/* SPDX-License-Identifier: MIT */
/* Elementary functions: float wrappers and the double forms. */
#include "core/base/math.h"

#include <math.h>
#include <string.h>

#include "core/base/math_double.h"
#include "core/base/math_inline.h"

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
    double t = fma(x, BP_LOG2_E, BP_ROUND);
    double n = t - BP_ROUND;
    double r = fma(n, -BP_LN2_LOW, fma(n, -BP_LN2_HIGH, x));
    double p = 1.0 + fma(r * r, bp_polynomial(c, 10, r), r);
    uint64_t biased = bp_double_bits(t) - BP_ROUND_BITS + 2048; /* n + 2048 */
    uint64_t half = biased >> 1;
    double first = bp_double_from_bits((half - 1) << 52); /* 2^(half - 1024) */
    double second = bp_double_from_bits((biased - half - 1) << 52);
    return p * first * second;
}

double bp_log(double x)
{
    if (x > 0.0 && x < (double)INFINITY) {
        double low;
        return bp_log_parts(x, &low);
    }
    if (x == 0.0) {
        return -(double)INFINITY;
    }
    return x < 0.0 ? (double)NAN : x;
}

double bp_sin(double x)
{
    uint64_t quadrant;
    double r = bp_reduce_half_pi(x, &quadrant);
    double y = (quadrant & 1) != 0 ? bp_cos_reduced(r) : bp_sin_reduced(r);
    return (quadrant & 2) != 0 ? -y : y;
}

double bp_cos(double x)
{
    uint64_t quadrant;
    double r = bp_reduce_half_pi(x, &quadrant);
    double y = (quadrant & 1) != 0 ? bp_sin_reduced(r) : bp_cos_reduced(r);
    return quadrant == 1 || quadrant == 2 ? -y : y;
}

double bp_pow(double base, double exponent)
{
    double low;
    double high = bp_log_parts(base, &low);
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
