/* SPDX-License-Identifier: MIT */
/* Groups of four elements to and from memory. */
#ifndef BP_DEVICE_KERNELS_ELEMENT_CUH
#define BP_DEVICE_KERNELS_ELEMENT_CUH

#include "device/kernels/convert.cuh"

/* x[0..3] = from[0..3], of which `count` exist (the others become 0). wide: `from` is aligned to four
 * elements, so all four travel at once. */
BP_DEVICE void bp_load4(const bp_element *from, uint64_t count, bool wide, float x[4])
{
    if (wide && count >= 4) {
        bp_unpack4(*(const bp_element4 *)from, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = (uint64_t)i < count ? bp_from_element(from[i]) : 0.0f;
    }
}

BP_DEVICE void bp_store4(bp_element *to, uint64_t count, bool wide, const float x[4])
{
    if (wide && count >= 4) {
        *(bp_element4 *)to = bp_pack4(x);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if ((uint64_t)i < count) {
            to[i] = bp_to_element(x[i]);
        }
    }
}

/* The same for floats, whatever the element type. */
BP_DEVICE void bp_load4f(const float *from, uint64_t count, bool wide, float x[4])
{
    if (wide && count >= 4) {
        float4 v = *(const float4 *)from;
        x[0] = v.x;
        x[1] = v.y;
        x[2] = v.z;
        x[3] = v.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = (uint64_t)i < count ? from[i] : 0.0f;
    }
}

BP_DEVICE void bp_store4f(float *to, uint64_t count, bool wide, const float x[4])
{
    if (wide && count >= 4) {
        *(float4 *)to = make_float4(x[0], x[1], x[2], x[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if ((uint64_t)i < count) {
            to[i] = x[i];
        }
    }
}

#endif
