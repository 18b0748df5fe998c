/* SPDX-License-Identifier: MIT */
/* Element types: their names on disk (safetensors) and their sizes. */
/* Installed as part of <bedplate/base.h>. */
#ifndef BP_CORE_DTYPE_H
#define BP_CORE_DTYPE_H

#include "arena/base.h"

typedef enum bp_dtype {
    BP_F32,
    BP_BF16,
    BP_F16,
    BP_F64,
    BP_I8,
    BP_U8,
    BP_I16,
    BP_U16,
    BP_I32,
    BP_U32,
    BP_I64,
    BP_U64,
    BP_BOOL,
    BP_DTYPE_COUNT
} bp_dtype;

/* Bytes of one element; 0 for a value outside the enum. */
size_t bp_dtype_bytes(bp_dtype dtype);

/* The safetensors name, "F32" and so on; "?" for a value outside the enum. */
const char *bp_dtype_name(bp_dtype dtype);

/* The dtype of a safetensors name of `length` bytes; false if there is none. */
bool bp_dtype_parse(const char *name, size_t length, bp_dtype *dtype);

/* Conversions between 32-bit and 16-bit floats. bf16 rounds half away from zero on the magnitude
 * ((bits + 0x8000) >> 16), which is the rule for weights; activations and
 * gradients round to nearest even, and so does f16. A NaN stays one and becomes quiet: in bf16 with
 * the head of its payload, in f16 with none. */
uint16_t bp_bf16_from_f32(float value);
uint16_t bp_bf16_even_from_f32(float value);
float bp_f32_from_bf16(uint16_t bits);
uint16_t bp_f16_from_f32(float value);
float bp_f32_from_f16(uint16_t bits);

#endif
