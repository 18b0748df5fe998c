/* SPDX-License-Identifier: MIT */
/* Elements of 16 bits, one at a time: what the portable kernels read and write, and the ends of
 * rows in the fast ones. Arithmetic is in float; a store rounds to nearest even. */
#ifndef BP_DEVICE_HOST_HALF_H
#define BP_DEVICE_HOST_HALF_H

#include "core/base/dtype.h"
#include "device/host/kernel.h"

/* The type of a call's operand, by its place in kernels.def. */
static inline bp_dtype bp_call_type(const bp_host_call *call, uint32_t operand)
{
    return call->dtypes != NULL ? (bp_dtype)call->dtypes[operand] : BP_F32;
}

/* Element i of x, whose type is BP_F32, BP_BF16 or BP_F16. */
static inline float bp_element_load(const void *x, uint64_t i, bp_dtype type)
{
    if (type == BP_F32) {
        return ((const float *)x)[i];
    }
    uint16_t bits = ((const uint16_t *)x)[i];
    return type == BP_BF16 ? bp_f32_from_bf16(bits) : bp_f32_from_f16(bits);
}

/* The nearest value that the type holds. */
static inline float bp_element_round(float value, bp_dtype type)
{
    if (type == BP_F32) {
        return value;
    }
    return type == BP_BF16 ? bp_f32_from_bf16(bp_bf16_even_from_f32(value))
                           : bp_f32_from_f16(bp_f16_from_f32(value));
}

static inline void bp_element_store(void *x, uint64_t i, float value, bp_dtype type)
{
    if (type == BP_F32) {
        ((float *)x)[i] = value;
    } else {
        ((uint16_t *)x)[i] =
            type == BP_BF16 ? bp_bf16_even_from_f32(value) : bp_f16_from_f32(value);
    }
}

/* Where element i lies. */
static inline const void *bp_element_at(const void *x, int64_t i, bp_dtype type)
{
    return (const char *)x + i * (type == BP_F32 ? 4 : 2);
}

#endif
