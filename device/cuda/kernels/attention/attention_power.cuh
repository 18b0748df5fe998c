/* SPDX-License-Identifier: MIT */
/* Weights of attention with 16-bit elements, as every GPU's form has them: powers of 2, and the
 * scores' gradients. A weight is one 16-bit element of the second product: it is wrong by 2^-9 of
 * itself in bfloat16 and by 2^-12 in half, so that an output sum(p v) / sum(p) is wrong by that
 * part of the largest |v| at most, no more than its own rounding. 2^x is the GPU's approximation,
 * with an error below 2^-22 (PTX ISA, ex2.approx.ftz); sum(p) is of weights before they are
 * rounded. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_POWER_CUH
#define BP_DEVICE_KERNELS_ATTENTION_POWER_CUH

#include "device/cuda/kernels/attention/attention.cuh"

#define BP_LN2_F 0x1.62e43p-1f

/* Exponents below this are so exact that a product need not be rounded before they are subtracted:
 * the largest exponent of a row is then above its largest score by less than 1/8. */
#define BP_POWER_EXACT 0x1p21f

BP_DEVICE float bp_power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* What a dot product, or a capped score, is multiplied by to be an exponent. */
BP_DEVICE float weight_scale(const bp_attention *at)
{
    return at->cap > 0.0f ? BP_LOG2_E_F : at->scale * BP_LOG2_E_F;
}

/* Whether dot products stay as they are until they are exponents: their order is that of these. */
BP_DEVICE bool weight_raw(float scale)
{
    return scale > 0.0f;
}

BP_DEVICE float weight_of(float score, float scale, float top)
{
    float x = score * scale - top;
    return bp_power(fabsf(top) < BP_POWER_EXACT ? fmaf(score, scale, -top) : x);
}

BP_DEVICE float weight_shrink(float before, float top)
{
    return bp_power(before - top);
}

/* The log-sum-exp of a row, to base e, from its largest exponent and the sum of its weights. */
BP_DEVICE float weight_lse(float most, float total)
{
    return fmaf(most, BP_LN2_F, bp_logf(total));
}

/* A row's log-sum-exp as an exponent, and its delta as gradients take it. Where exponents are not
 * exact it is above its own error, below 2^-22 of it, so that no probability is above 1. */
BP_DEVICE float known_lse(float lse)
{
    const float top = lse * BP_LOG2_E_F;
    return fabsf(top) < BP_POWER_EXACT ? top : fmaf(fabsf(top), 0x1p-21f, top);
}

BP_DEVICE float known_delta(float delta, const bp_attention *at)
{
    return delta * at->scale;
}

BP_DEVICE float probability_of(float dot, float lse, const bp_attention *at)
{
    if (at->cap > 0.0f) {
        float slope;
        dot = bp_head_score(at, dot, &slope);
    }
    return bp_power(fmaf(dot, weight_scale(at), -lse));
}

/* The score of a probability above 0. */
BP_DEVICE float probability_score(float e, float lse)
{
    return fmaf(lse, BP_LN2_F, bp_logf(e));
}

/* The gradient of a score, before its cap. */
BP_DEVICE float gradient_of(float e, float dot, float delta, const bp_attention *at)
{
    return e * fmaf(dot, at->scale, -delta);
}

#endif
