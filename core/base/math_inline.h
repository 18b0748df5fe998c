/* SPDX-License-Identifier: MIT */
/* The float elementary functions as inline code, so that kernels avoid a call per element.
 *
 * A vector form mirrors these line by line: every line is one IEEE operation or one integer
 * operation per lane, and there are no branches, only selections written `c ? a : b`. Polynomials
 * are fitted for the least largest error on the stated intervals. */
#ifndef BP_CORE_MATH_INLINE_H
#define BP_CORE_MATH_INLINE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define BP_LOG2_E_F     0x1.715476p+0f  /* 1 / ln 2 */
#define BP_LN2_HIGH_F   0x1.62e4p-1f    /* ln 2 in 15 bits: n * this is exact for |n| < 2^9 */
#define BP_LN2_LOW_F    0x1.7f7d1cp-20f /* the rest */
#define BP_ROUND_F      12582912.0f     /* 1.5 * 2^23: adding it rounds to an integer */
#define BP_ROUND_F_BITS UINT32_C(0x4B400000)

/* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, lowest power first; relative error of e^r 2^-27.9. */
#define BP_EXP_C0 0x1p-1f
#define BP_EXP_C1 0x1.5554a2p-3f
#define BP_EXP_C2 0x1.555686p-5f
#define BP_EXP_C3 0x1.12301p-7f
#define BP_EXP_C4 0x1.6b6dfcp-10f

#define BP_EXP_LOWEST  (-104.0f) /* e^x rounds to 0 from here down */
#define BP_EXP_HIGHEST 89.0f     /* e^x is infinite from here up */

/* The tanh form of GELU is x / (1 + e^(x * (A + B x^2))) with A = -2 sqrt(2/pi), B = 0.044715 A. */
#define BP_GELU_A     (-0x1.988454p+0f)
#define BP_GELU_B     (-0x1.2444f2p-4f)
#define BP_GELU_SLOPE 0x1.b6676cp-3f /* -3 B: the derivative of the exponent is -(A + 3 B x^2) */
#define BP_GELU_REACH 10.0f          /* the derivative is 0 or 1 in every bit beyond */

/* erf(a) / a in a^2 for |a| <= 1, relative error 2^-23.9; log(erfc(a)) + a^2 in a for 1 <= a
 * <= 4.7, relative error of erfc 2^-22.2; least errors on Chebyshev points. Beyond 4.6 erfc is
 * taken as 0. */
#define BP_ERF_C0     0x1.20dd74p+0f
#define BP_ERF_C1     (-0x1.81273ep-2f)
#define BP_ERF_C2     0x1.ce2d18p-4f
#define BP_ERF_C3     (-0x1.b7fb38p-6f)
#define BP_ERF_C4     0x1.541636p-8f
#define BP_ERF_C5     (-0x1.a46b4p-11f)
#define BP_ERF_C6     0x1.4a9dacp-14f
#define BP_ERFC_C0    0x1.206796p-15f
#define BP_ERFC_C1    (-0x1.210d3ap+0f)
#define BP_ERFC_C2    0x1.771992p-2f
#define BP_ERFC_C3    (-0x1.bbeb46p-4f)
#define BP_ERFC_C4    0x1.a18faap-6f
#define BP_ERFC_C5    (-0x1.23178cp-8f)
#define BP_ERFC_C6    0x1.169c3cp-11f
#define BP_ERFC_C7    (-0x1.43c144p-15f)
#define BP_ERFC_C8    0x1.5621eep-20f
#define BP_ERFC_REACH 4.6f
#define BP_SQRT_HALF  0x1.6a09e6p-1f /* 1 / sqrt(2) */
#define BP_NORMAL_TOP 0x1.988454p-2f /* 1 / sqrt(2 pi) */

static inline uint32_t bp_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float bp_float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* e^r - 1 for |r| <= ln(2)/2. */
static inline float bp_expm1_reduced(float r)
{
    float q = fmaf(BP_EXP_C4, r, BP_EXP_C3);
    q = fmaf(q, r, BP_EXP_C2);
    q = fmaf(q, r, BP_EXP_C1);
    q = fmaf(q, r, BP_EXP_C0);
    return fmaf(r * r, q, r);
}

/* e^x; the contract is in core/base/math.h. 2^n is applied in two factors, so that results below
 * the smallest normal number are rounded once. */
static inline float bp_expf_inline(float x)
{
    x = x < BP_EXP_LOWEST ? BP_EXP_LOWEST : x;
    x = x > BP_EXP_HIGHEST ? BP_EXP_HIGHEST : x;
    float t = fmaf(x, BP_LOG2_E_F, BP_ROUND_F);
    float n = t - BP_ROUND_F;
    float r = fmaf(n, -BP_LN2_HIGH_F, x);
    r = fmaf(n, -BP_LN2_LOW_F, r);
    float p = 1.0f + bp_expm1_reduced(r);
    uint32_t biased = bp_float_bits(t) - BP_ROUND_F_BITS + 256; /* n + 256 */
    uint32_t half = biased >> 1;
    float first = bp_float_from_bits((half - 1) << 23); /* 2^(half - 128) */
    float second = bp_float_from_bits((biased - half - 1) << 23);
    return p * first * second;
}

/* tanh x = e / (e + 2) with e = e^(2|x|) - 1, the sign put back. */
static inline float bp_tanhf_inline(float x)
{
    uint32_t sign = bp_float_bits(x) & UINT32_C(0x80000000);
    float a = bp_float_from_bits(bp_float_bits(x) ^ sign);
    a = a > 10.0f ? 10.0f : a;
    a = a + a;
    float t = fmaf(a, BP_LOG2_E_F, BP_ROUND_F);
    float n = t - BP_ROUND_F;
    float r = fmaf(n, -BP_LN2_HIGH_F, a);
    r = fmaf(n, -BP_LN2_LOW_F, r);
    float scale = bp_float_from_bits((bp_float_bits(t) - BP_ROUND_F_BITS + 127) << 23);
    float e = fmaf(scale, bp_expm1_reduced(r), scale - 1.0f);
    return bp_float_from_bits(bp_float_bits(e / (e + 2.0f)) | sign);
}

/* GELU, tanh form: x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which equals
 * 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) without its cancellation for negative x. */
static inline float bp_gelu_inline(float x)
{
    float w = fmaf(x * x, BP_GELU_B, BP_GELU_A);
    float e = bp_expf_inline(x * w);
    return x / (1.0f + e);
}

/* Its derivative: s + x s (1 - s) u', with s = 1 / (1 + e), 1 - s = e s and u = -x (A + B x^2). */
static inline float bp_gelu_slope_inline(float x)
{
    x = x < -BP_GELU_REACH ? -BP_GELU_REACH : x;
    x = x > BP_GELU_REACH ? BP_GELU_REACH : x;
    float z = x * x;
    float w = fmaf(z, BP_GELU_B, BP_GELU_A);
    float e = bp_expf_inline(x * w);
    float s = 1.0f / (1.0f + e);
    float slope = fmaf(z, BP_GELU_SLOPE, -BP_GELU_A);
    return fmaf(x * slope, (e * s) * s, s);
}

/* erf(a) for |a| <= 1. */
static inline float bp_erf_central(float a)
{
    float s = a * a;
    float q = fmaf(BP_ERF_C6, s, BP_ERF_C5);
    q = fmaf(q, s, BP_ERF_C4);
    q = fmaf(q, s, BP_ERF_C3);
    q = fmaf(q, s, BP_ERF_C2);
    q = fmaf(q, s, BP_ERF_C1);
    q = fmaf(q, s, BP_ERF_C0);
    return q * a;
}

/* erfc(a) for a >= 1. */
static inline float bp_erfc_tail(float a)
{
    a = a > BP_ERFC_REACH ? BP_ERFC_REACH : a;
    float q = fmaf(BP_ERFC_C8, a, BP_ERFC_C7);
    q = fmaf(q, a, BP_ERFC_C6);
    q = fmaf(q, a, BP_ERFC_C5);
    q = fmaf(q, a, BP_ERFC_C4);
    q = fmaf(q, a, BP_ERFC_C3);
    q = fmaf(q, a, BP_ERFC_C2);
    q = fmaf(q, a, BP_ERFC_C1);
    q = fmaf(q, a, BP_ERFC_C0);
    float e = bp_expf_inline(fmaf(-a, a, q));
    return a >= BP_ERFC_REACH ? 0.0f : e;
}

/* erf x; the contract is in core/base/math.h. */
static inline float bp_erff_inline(float x)
{
    float a = fabsf(x);
    float central = bp_erf_central(a > 1.0f ? 1.0f : a);
    float tail = 1.0f - bp_erfc_tail(a < 1.0f ? 1.0f : a);
    float r = a < 1.0f ? central : tail;
    r = a != a ? a : r;
    return copysignf(r, x);
}

/* The normal distribution, (1 + erf(x / sqrt(2))) / 2, without cancellation in its lower tail. */
static inline float bp_normal_inline(float x)
{
    float a = fabsf(x) * BP_SQRT_HALF;
    float half = 0.5f * bp_erf_central(a > 1.0f ? 1.0f : a);
    float tail = 0.5f * bp_erfc_tail(a < 1.0f ? 1.0f : a);
    float below = a < 1.0f ? 0.5f - half : tail;
    float above = a < 1.0f ? 0.5f + half : 1.0f - tail;
    return x < 0.0f ? below : above;
}

/* GELU, the form with the error function: x times the normal distribution. */
static inline float bp_gelu_erf_inline(float x)
{
    return x * bp_normal_inline(x);
}

/* Its derivative: the distribution plus x times its density. */
static inline float bp_gelu_erf_slope_inline(float x)
{
    float density = BP_NORMAL_TOP * bp_expf_inline(-0.5f * x * x);
    return fmaf(x < -BP_GELU_REACH  ? 0.0f
                : x > BP_GELU_REACH ? 0.0f
                                    : x,
                density, bp_normal_inline(x));
}

/* x / (1 + e^-x). */
static inline float bp_silu_inline(float x)
{
    return x / (1.0f + bp_expf_inline(-x));
}

#endif
