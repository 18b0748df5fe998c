/* SPDX-License-Identifier: MIT */
/* Floats in memory whose type the launch says, so that one text serves all of them: `form` is the
 * operand's type, and whether its groups of four elements are aligned. Arithmetic is always in
 * float; a store rounds to nearest even. The choice is the same in all threads of a launch. */
#ifndef BP_DEVICE_KERNELS_ELEMENT_CUH
#define BP_DEVICE_KERNELS_ELEMENT_CUH

#include "device/cuda/kernels/base.cuh"

/* A form: a bp_dtype, and a bit. device/cuda/plan.h has the same. */
#define BP_SINGLE    0u
#define BP_BFLOAT    1u
#define BP_HALF      2u
#define BP_TYPE_BITS 3u
#define BP_WIDE      4u

/* The same form, of which the compiler knows nothing: else it would write every loop three times.
 */
BP_DEVICE uint32_t bp_hidden(uint32_t form)
{
    asm volatile("" : "+r"(form));
    return form;
}

BP_DEVICE bool bp_is_single(uint32_t form)
{
    return (form & BP_TYPE_BITS) == BP_SINGLE;
}

/* Elements `index` further on. */
BP_DEVICE const void *bp_at(const void *from, uint64_t index, uint32_t form)
{
    return (const unsigned char *)from + (index << (bp_is_single(form) ? 2 : 1));
}

BP_DEVICE void *bp_to(void *to, uint64_t index, uint32_t form)
{
    return (unsigned char *)to + (index << (bp_is_single(form) ? 2 : 1));
}

BP_DEVICE float bp_widen(uint32_t bits, uint32_t form)
{
    float y;
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
        return bp_float_from_bits(bits << 16);
    }
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((uint16_t)bits));
    return y;
}

BP_DEVICE uint32_t bp_narrow(float x, uint32_t form)
{
    uint16_t y;
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    } else {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    }
    return y;
}

/* The functions that end in _as take a form that may be a constant; the others hide theirs. */
BP_DEVICE float bp_get_as(const void *from, uint64_t i, uint32_t form)
{
    if (bp_is_single(form)) {
        return ((const float *)from)[i];
    }
    return bp_widen(((const uint16_t *)from)[i], form);
}

BP_DEVICE void bp_put_as(void *to, uint64_t i, uint32_t form, float x)
{
    if (bp_is_single(form)) {
        ((float *)to)[i] = x;
    } else {
        ((uint16_t *)to)[i] = (uint16_t)bp_narrow(x, form);
    }
}

BP_DEVICE float bp_get(const void *from, uint64_t i, uint32_t form)
{
    return bp_get_as(from, i, bp_hidden(form));
}

BP_DEVICE void bp_put(void *to, uint64_t i, uint32_t form, float x)
{
    bp_put_as(to, i, bp_hidden(form), x);
}

/* Four bit patterns become floats, and back; the type is asked for once. */
BP_DEVICE void bp_widen4(const uint32_t bits[4], uint32_t form, float x[4])
{
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            x[e] = bp_float_from_bits(bits[e] << 16);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            x[e] = bp_widen(bits[e], BP_HALF);
        }
    }
}

BP_DEVICE void bp_narrow4(const float x[4], uint32_t form, uint32_t bits[4])
{
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bits[e] = bp_narrow(x[e], BP_BFLOAT);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bits[e] = bp_narrow(x[e], BP_HALF);
        }
    }
}

/* What a store and a load of this type would make of x. */
BP_DEVICE void bp_round4(uint32_t form, float x[4])
{
    if (!bp_is_single(form)) {
        uint32_t bits[4];
        bp_narrow4(x, form, bits);
        bp_widen4(bits, form, x);
    }
}

/* x[e] = from[first + e * step], which are all there. */
BP_DEVICE void bp_load4_apart(const void *from, uint64_t first, uint64_t step, uint32_t form,
                              float x[4])
{
    form = bp_hidden(form);
    if (bp_is_single(form)) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            x[e] = ((const float *)from)[first + e * step];
        }
    } else {
        uint32_t bits[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bits[e] = ((const uint16_t *)from)[first + e * step];
        }
        bp_widen4(bits, form, x);
    }
}

/* The four elements from `first` on, aligned, which travel at once. */
BP_DEVICE void bp_load4_wide(const void *from, uint64_t first, uint32_t form, float x[4])
{
    if (bp_is_single(form)) {
        *(float4 *)x = *(const float4 *)((const float *)from + first);
    } else {
        uint2 v = *(const uint2 *)((const uint16_t *)from + first);
        const uint32_t bits[4] = {v.x & 0xffff, v.x >> 16, v.y & 0xffff, v.y >> 16};
        bp_widen4(bits, form, x);
    }
}

BP_DEVICE void bp_store4_wide(void *to, uint64_t first, uint32_t form, const float x[4])
{
    if (bp_is_single(form)) {
        *(float4 *)((float *)to + first) = make_float4(x[0], x[1], x[2], x[3]);
    } else {
        uint32_t bits[4];
        bp_narrow4(x, form, bits);
        *(uint2 *)((uint16_t *)to + first) =
            make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
    }
}

/* x[0..3] = from[first ..], of which `count` exist (the others become 0); what is not aligned goes
 * by turns, so that the code is there once. */
BP_DEVICE void bp_load4_as(const void *from, uint64_t first, uint64_t count, uint32_t form,
                           float x[4])
{
    if ((form & BP_WIDE) != 0 && count >= 4) {
        bp_load4_wide(from, first, form, x);
        return;
    }
    x[1] = x[2] = x[3] = 0.0f;
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
        x[3] = e < count ? bp_get_as(from, first + e, form) : 0.0f;
    }
}

/* to[first ..] = x[0..3], as far as there are `count`. */
BP_DEVICE void bp_store4_as(void *to, uint64_t first, uint64_t count, uint32_t form,
                            const float x[4])
{
    if ((form & BP_WIDE) != 0 && count >= 4) {
        bp_store4_wide(to, first, form, x);
        return;
    }
    float a = x[0], b = x[1], c = x[2];
    uint64_t end = first + bp_least(count, 4);
#pragma unroll 1
    for (uint64_t i = first; i < end; i++) {
        bp_put_as(to, i, form, a);
        a = b;
        b = c;
        c = x[3];
    }
}

BP_DEVICE void bp_load4(const void *from, uint64_t first, uint64_t count, uint32_t form, float x[4])
{
    bp_load4_as(from, first, count, bp_hidden(form), x);
}

BP_DEVICE void bp_store4(void *to, uint64_t first, uint64_t count, uint32_t form, const float x[4])
{
    bp_store4_as(to, first, count, bp_hidden(form), x);
}

#endif
