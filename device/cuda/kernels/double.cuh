/* SPDX-License-Identifier: MIT */
/* Elementary functions in double, operation for operation as in core/base/math.c, so that they
 * give the host's bits; a test compares them through random_normal and the loss. */
#ifndef BP_DEVICE_KERNELS_DOUBLE_CUH
#define BP_DEVICE_KERNELS_DOUBLE_CUH

#include "device/cuda/kernels/base.cuh"

#define LN2_HIGH     0x1.62e42feep-1
#define LN2_LOW      0x1.a39ef35793c76p-33
#define LOG2_E       0x1.71547652b82fep+0
#define ROUND        6755399441055744.0 /* 1.5 * 2^52 */
#define ROUND_BITS   0x4338000000000000ull
#define TWO_OVER_PI  0x1.45f306dc9c883p-1
#define HALF_PI_1    0x1.921fb544p+0
#define HALF_PI_2    0x1.0b4611a6p-34
#define HALF_PI_3    0x1.3198a2e037073p-69
#define SQRT_HALF_52 0x3fe6a09e667f3bcdull

/* ((c7 x + c6) x + ...) + c0, fused; the unused high coefficients are left out. */
#define BP_POLYNOMIAL_7(x, c0, c1, c2, c3, c4, c5, c6)                                             \
    fma(fma(fma(fma(fma(fma(c6, x, c5), x, c4), x, c3), x, c2), x, c1), x, c0)

/* log x = high + low for positive finite x; the pair is good to about 2^-59. */
BP_DEVICE double log_parts(double x, double *low)
{
    double k = -1023.0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k -= 54.0;
    }
    uint64_t bits = (uint64_t)__double_as_longlong(x) + (0x3ff0000000000000ull - SQRT_HALF_52);
    k += (double)(bits >> 52);
    double m = __longlong_as_double((long long)((bits & 0x000fffffffffffffull) + SQRT_HALF_52));
    double f = m - 1.0;
    double d = 2.0 + f;
    double d_low = (2.0 - d) + f;
    double s = f / d;
    double s_low = (fma(-s, d, f) - s * d_low) / d;
    double z = s * s;
    double polynomial = fma(0x1.0c0aff044a970p-3, z, 0x1.0fbde0f4ad17bp-3);
    polynomial = fma(polynomial, z, 0x1.3b1c3c1c81c8fp-3);
    polynomial = fma(polynomial, z, 0x1.745cf8e4bba1bp-3);
    polynomial = fma(polynomial, z, 0x1.c71c7201a55d7p-3);
    polynomial = fma(polynomial, z, 0x1.2492492476a1ap-2);
    polynomial = fma(polynomial, z, 0x1.9999999999a39p-2);
    polynomial = fma(polynomial, z, 0x1.5555555555555p-1);
    double tail = fma(s * z, polynomial, 2.0 * s_low);
    double a = k * LN2_HIGH;
    double high = a + 2.0 * s;
    double error = a == 0.0 ? 0.0 : (a - high) + 2.0 * s;
    double rest = error + fma(k, LN2_LOW, tail);
    double sum = high + rest;
    *low = (high - sum) + rest;
    return sum;
}

BP_DEVICE double bp_log(double x)
{
    if (x > 0.0 && x < (double)INFINITY) {
        double low;
        return log_parts(x, &low);
    }
    double other = x < 0.0 ? (double)NAN : x;
    return x == 0.0 ? -(double)INFINITY : other;
}

/* e^x; 2^n is applied in two factors. */
BP_DEVICE double bp_exp(double x)
{
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double t = fma(x, LOG2_E, ROUND);
    double n = t - ROUND;
    double r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
    double q = fma(0x1.af390ba7e6f47p-26, r, 0x1.2891d4ffbb0f9p-22);
    q = fma(q, r, 0x1.71de0d85293b8p-19);
    q = fma(q, r, 0x1.a019b8ca26fcfp-16);
    q = fma(q, r, 0x1.a01a01a7cebcdp-13);
    q = fma(q, r, 0x1.6c16c1789d1d7p-10);
    q = fma(q, r, 0x1.11111111109a6p-7);
    q = fma(q, r, 0x1.5555555553d37p-5);
    q = fma(q, r, 0x1.5555555555556p-3);
    q = fma(q, r, 0x1.0000000000001p-1);
    double p = 1.0 + fma(r * r, q, r);
    uint64_t biased = (uint64_t)__double_as_longlong(t) - ROUND_BITS + 2048; /* n + 2048 */
    uint64_t half = biased >> 1;
    double first = __longlong_as_double((long long)((half - 1) << 52)); /* 2^(half - 1024) */
    double second = __longlong_as_double((long long)((biased - half - 1) << 52));
    return p * first * second;
}

/* base^exponent for a positive finite base. */
BP_DEVICE double bp_pow(double base, double exponent)
{
    double low;
    double high = log_parts(base, &low);
    double y = exponent * high;
    double y_low = fma(exponent, low, fma(exponent, high, -y));
    double power = bp_exp(y);
    return fma(power, y_low, power);
}

BP_DEVICE float bp_logf(float x)
{
    return (float)bp_log((double)x);
}

BP_DEVICE double sin_reduced(double r)
{
    double z = r * r;
    double p =
        BP_POLYNOMIAL_7(z, -0x1.5555555555555p-3, 0x1.1111111111110p-7, -0x1.a01a01a019936p-13,
                        0x1.71de3a54605eep-19, -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                        -0x1.ab17a79237a19p-41);
    return fma(r * z, p, r);
}

BP_DEVICE double cos_reduced(double r)
{
    double z = r * r;
    double half = 0.5 * z;
    double w = 1.0 - half;
    double p = BP_POLYNOMIAL_7(z, 0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10,
                               0x1.a01a01a019d0ap-16, -0x1.27e4fb7712bdfp-22, 0x1.1eed8deb6d561p-29,
                               -0x1.9394b9c9c20a4p-37, 0x1.ab783376962cfp-45);
    return w + (((1.0 - w) - half) + (z * z) * p);
}

/* sin and cos of the same angle, |x| <= 2^20. */
BP_DEVICE void bp_sin_cos(double x, double *sine, double *cosine)
{
    double t = fma(x, TWO_OVER_PI, ROUND);
    double n = t - ROUND;
    uint32_t quadrant = (uint32_t)((uint64_t)__double_as_longlong(t) - ROUND_BITS) & 3;
    double r = fma(n, -HALF_PI_3, fma(n, -HALF_PI_2, fma(n, -HALF_PI_1, x)));
    double s = sin_reduced(r), c = cos_reduced(r);
    double y = (quadrant & 1) != 0 ? c : s;
    *sine = (quadrant & 2) != 0 ? -y : y;
    y = (quadrant & 1) != 0 ? s : c;
    *cosine = quadrant == 1 || quadrant == 2 ? -y : y;
}

#endif
