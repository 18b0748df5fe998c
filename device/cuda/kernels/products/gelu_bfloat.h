/* SPDX-License-Identifier: MIT */
/* GELU of a bfloat16 number, for sums that become bfloat16 again: bp_gelu_inline() rounded, in
 * seven instructions, of which two are the GPU's approximate 2^u and 1 / d. Errors of these up to
 * 2^-21, where NVIDIA's PTX ISA allows 2^-22 and 2^-23, change no bit of a rounded result that is a
 * normal number: tests/unit/device/cuda/test_gelu.c has all 65,536. A result below 2^-126 is x / 2,
 * and as right as the GPU's reciprocal of 2: exact, or one unit of 2^-133 away. Kernels and that
 * test include it, each with its own bp_gelu_power() and bp_gelu_reciprocal(). */
#ifndef BP_DEVICE_KERNELS_GELU_BFLOAT_H
#define BP_DEVICE_KERNELS_GELU_BFLOAT_H

#include <math.h>

#include "core/base/math_inline.h"

/* BP_GELU_A and BP_GELU_B by 1 / ln 2: powers of 2. */
#define BP_GELU_A2 (-0x1.26aec2p+1f)
#define BP_GELU_B2 (-0x1.a5a7cep-4f)

static inline float bp_gelu_bfloat_inline(float x)
{
    const float u = x * fmaf(x * x, BP_GELU_B2, BP_GELU_A2);
    return x * bp_gelu_reciprocal(1.0f + bp_gelu_power(u));
}

#endif
