/* SPDX-License-Identifier: MIT */
/* The element type that a file is compiled for, BP_ELEMENT: 0 float, 1 bfloat16, 2 half. Arithmetic
 * is always in float; a store rounds to nearest even. */
#ifndef BP_DEVICE_KERNELS_CONVERT_CUH
#define BP_DEVICE_KERNELS_CONVERT_CUH

#include "device/kernels/base.cuh"

#if BP_ELEMENT == 0
typedef float bp_element;
typedef float4 bp_element4;
#else
typedef uint16_t bp_element;
typedef uint2 bp_element4;
#endif

BP_DEVICE float bp_from_element(bp_element x)
{
#if BP_ELEMENT == 0
    return x;
#elif BP_ELEMENT == 1
    return bp_float_from_bits((uint32_t)x << 16);
#else
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#endif
}

BP_DEVICE bp_element bp_to_element(float x)
{
#if BP_ELEMENT == 0
    return x;
#elif BP_ELEMENT == 1
    bp_element y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    bp_element y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

BP_DEVICE void bp_unpack4(bp_element4 v, float x[4])
{
#if BP_ELEMENT == 0
    x[0] = v.x;
    x[1] = v.y;
    x[2] = v.z;
    x[3] = v.w;
#else
    x[0] = bp_from_element((bp_element)v.x);
    x[1] = bp_from_element((bp_element)(v.x >> 16));
    x[2] = bp_from_element((bp_element)v.y);
    x[3] = bp_from_element((bp_element)(v.y >> 16));
#endif
}

BP_DEVICE bp_element4 bp_pack4(const float x[4])
{
    bp_element4 v;
#if BP_ELEMENT == 0
    v.x = x[0];
    v.y = x[1];
    v.z = x[2];
    v.w = x[3];
#else
    v.x = (uint32_t)bp_to_element(x[0]) | (uint32_t)bp_to_element(x[1]) << 16;
    v.y = (uint32_t)bp_to_element(x[2]) | (uint32_t)bp_to_element(x[3]) << 16;
#endif
    return v;
}

#endif
