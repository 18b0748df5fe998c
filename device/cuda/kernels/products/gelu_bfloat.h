/* SPDX-License-Identifier: MIT */
/* GELU of a bfloat16 number, for sums that become bfloat16 again: bp_gelu_inline() rounded, of
 * every such number (tests/unit/device/cuda/test_gelu.c has all 65,536), in half of its
 * instructions. Kernels and that test include it. */
#ifndef BP_DEVICE_KERNELS_GELU_BFLOAT_H
#define BP_DEVICE_KERNELS_GELU_BFLOAT_H

#include <math.h>
#include <stdint.h>

#include "core/base/math_inline.h"

/* BP_GELU_A and BP_GELU_B by 1 / ln 2, 2^f for |f| <= 1/2 by powers of f, and the exponent from
 * which on e^u of bp_gelu_inline() is infinite. */
#define BP_GELU_A2   (-0x1.26aec2p+1f)
#define BP_GELU_B2   (-0x1.a5a7cep-4f)
#define BP_GELU_C1   0x1.62e1fp-1f
#define BP_GELU_C2   0x1.ebfb9cp-3f
#define BP_GELU_C3   0x1.c959e6p-5f
#define BP_GELU_C4   0x1.3cf122p-7f
#define BP_GELU_ENDS 127.99f

/* x / (1 + 2^u), both sides by 2^-64 so that no factor leaves the normal numbers: the constant that
 * rounds u has 127 - 64 in its low bits, so that a shift makes 2^(n - 64). The reciprocal begins
 * with bits taken from a constant, in error by an eighth, then by its cube, then by the square. */
static inline float bp_gelu_bfloat_inline(float x)
{
    const float round = BP_ROUND_F + 63.0f;
    float u = x * fmaf(x * x, BP_GELU_B2, BP_GELU_A2);
    u = fmaxf(u, -30.0f); /* 1 + 2^-30 is 1 */
    const float t = u + round, f = u - (t - round);
    float p = fmaf(BP_GELU_C4, f, BP_GELU_C3);
    p = fmaf(p, f, BP_GELU_C2);
    p = fmaf(p, f, BP_GELU_C1);
    p = fmaf(p, f, 1.0f);
    const float d = fmaf(p, bp_float_from_bits(bp_float_bits(t) << 23), 0x1p-64f);
    float y = bp_float_from_bits(UINT32_C(0x7EF311C7) - bp_float_bits(d));
    float e = fmaf(-d, y, 1.0f);
    y = fmaf(y, fmaf(e, e, e), y);
    y = fmaf(y, fmaf(-d, y, 1.0f), y);
    return u > BP_GELU_ENDS ? x * 0.0f : x * (y * 0x1p-64f);
}

#endif
