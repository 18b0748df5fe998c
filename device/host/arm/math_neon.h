/* SPDX-License-Identifier: MIT */
/* core/base/math_inline.h in 128-bit registers: line by line the same operations, so the same
 * bits. The largest and the least of a NaN and a number are a NaN here. */
#ifndef BP_DEVICE_HOST_MATH_NEON_H
#define BP_DEVICE_HOST_MATH_NEON_H

#include <arm_neon.h>

#include "core/base/math_inline.h"

/* x * y + z in one rounding. */
static inline float32x4_t bp_fma_neon(float32x4_t x, float32x4_t y, float32x4_t z)
{
    return vfmaq_f32(z, x, y);
}

/* e^r - 1 for |r| <= ln(2)/2. */
static inline float32x4_t bp_expm1_reduced_neon(float32x4_t r)
{
    float32x4_t q = bp_fma_neon(vdupq_n_f32(BP_EXP_C4), r, vdupq_n_f32(BP_EXP_C3));
    q = bp_fma_neon(q, r, vdupq_n_f32(BP_EXP_C2));
    q = bp_fma_neon(q, r, vdupq_n_f32(BP_EXP_C1));
    q = bp_fma_neon(q, r, vdupq_n_f32(BP_EXP_C0));
    return bp_fma_neon(vmulq_f32(r, r), q, r);
}

/* e^x. */
static inline float32x4_t bp_exp_neon(float32x4_t x)
{
    const float32x4_t round = vdupq_n_f32(BP_ROUND_F);
    const uint32x4_t one = vdupq_n_u32(1);
    x = vmaxq_f32(vdupq_n_f32(BP_EXP_LOWEST), x);
    x = vminq_f32(vdupq_n_f32(BP_EXP_HIGHEST), x);
    const float32x4_t t = bp_fma_neon(x, vdupq_n_f32(BP_LOG2_E_F), round);
    const float32x4_t n = vsubq_f32(t, round);
    float32x4_t r = bp_fma_neon(n, vdupq_n_f32(-BP_LN2_HIGH_F), x);
    r = bp_fma_neon(n, vdupq_n_f32(-BP_LN2_LOW_F), r);
    const float32x4_t p = vaddq_f32(vdupq_n_f32(1.0f), bp_expm1_reduced_neon(r));
    const uint32x4_t biased =
        vsubq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(BP_ROUND_F_BITS - 256));
    const uint32x4_t half = vshrq_n_u32(biased, 1);
    const uint32x4_t first = vshlq_n_u32(vsubq_u32(half, one), 23);
    const uint32x4_t second = vshlq_n_u32(vsubq_u32(vsubq_u32(biased, half), one), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_u32(first)), vreinterpretq_f32_u32(second));
}

/* GELU, tanh form. */
static inline float32x4_t bp_gelu_neon(float32x4_t x)
{
    const float32x4_t w =
        bp_fma_neon(vmulq_f32(x, x), vdupq_n_f32(BP_GELU_B), vdupq_n_f32(BP_GELU_A));
    const float32x4_t e = bp_exp_neon(vmulq_f32(x, w));
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), e));
}

/* Its derivative. */
static inline float32x4_t bp_gelu_slope_neon(float32x4_t x)
{
    x = vmaxq_f32(vdupq_n_f32(-BP_GELU_REACH), x);
    x = vminq_f32(vdupq_n_f32(BP_GELU_REACH), x);
    const float32x4_t z = vmulq_f32(x, x);
    const float32x4_t w = bp_fma_neon(z, vdupq_n_f32(BP_GELU_B), vdupq_n_f32(BP_GELU_A));
    const float32x4_t e = bp_exp_neon(vmulq_f32(x, w));
    const float32x4_t s = vdivq_f32(vdupq_n_f32(1.0f), vaddq_f32(vdupq_n_f32(1.0f), e));
    const float32x4_t slope = bp_fma_neon(z, vdupq_n_f32(BP_GELU_SLOPE), vdupq_n_f32(-BP_GELU_A));
    const float32x4_t tail = vmulq_f32(vmulq_f32(e, s), s);
    return bp_fma_neon(vmulq_f32(x, slope), tail, s);
}

#endif
