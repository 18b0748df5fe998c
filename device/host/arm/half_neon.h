/* SPDX-License-Identifier: MIT */
/* Four elements of 16 bits at once: the bits of half.h. */
#ifndef BP_DEVICE_HOST_HALF_NEON_H
#define BP_DEVICE_HOST_HALF_NEON_H

#include <arm_neon.h>

#include "core/base/dtype.h"

/* type is BP_BF16 or BP_F16. A signalling half becomes quiet. */
static inline float32x4_t bp_half_widen_neon(uint16x4_t x, bp_dtype type)
{
    if (type == BP_BF16) {
        return vreinterpretq_f32_u32(vshll_n_u16(x, 16));
    }
    return vcvt_f32_f16(vreinterpret_f16_u16(x));
}

static inline uint16x4_t bp_half_narrow_neon(float32x4_t x, bp_dtype type)
{
    const uint32x4_t number = vceqq_f32(x, x);
    if (type == BP_BF16) {
        const uint32x4_t bits = vreinterpretq_u32_f32(x);
        const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
        const uint32x4_t sum = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
        return vshrn_n_u32(vbslq_u32(number, sum, quiet), 16);
    }
    const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(x));
    const uint16x4_t quiet = vorr_u16(vand_u16(half, vdup_n_u16(0x8000)), vdup_n_u16(0x7e00));
    return vbsl_u16(vmovn_u32(number), half, quiet);
}

#endif
