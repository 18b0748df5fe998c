/* SPDX-License-Identifier: MIT */
/* Names and sizes of the element types, and the 16-bit float conversions. */
#include "core/base/dtype.h"

#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t bytes;
} dtype_row;

static const dtype_row dtype_rows[BP_DTYPE_COUNT] = {
    [BP_F32] = {"F32", 4},   [BP_BF16] = {"BF16", 2}, [BP_F16] = {"F16", 2}, [BP_F64] = {"F64", 8},
    [BP_I8] = {"I8", 1},     [BP_U8] = {"U8", 1},     [BP_I16] = {"I16", 2}, [BP_U16] = {"U16", 2},
    [BP_I32] = {"I32", 4},   [BP_U32] = {"U32", 4},   [BP_I64] = {"I64", 8}, [BP_U64] = {"U64", 8},
    [BP_BOOL] = {"BOOL", 1},
};

size_t bp_dtype_bytes(bp_dtype dtype)
{
    return (size_t)dtype < (size_t)BP_DTYPE_COUNT ? dtype_rows[dtype].bytes : 0;
}

const char *bp_dtype_name(bp_dtype dtype)
{
    return (size_t)dtype < (size_t)BP_DTYPE_COUNT ? dtype_rows[dtype].name : "?";
}

bool bp_dtype_parse(const char *name, size_t length, bp_dtype *dtype)
{
    for (size_t i = 0; i < (size_t)BP_DTYPE_COUNT; i++) {
        const char *known = dtype_rows[i].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            *dtype = (bp_dtype)i;
            return true;
        }
    }
    return false;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t bp_bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        /* Adding could carry a NaN into infinity; setting the quiet bit keeps its payload's head.
         */
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x8000u) >> 16);
}

uint16_t bp_bf16_even_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float bp_f32_from_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/* The 10 fraction bits and what follows them, rounded to nearest even: `mantissa` loses its last
 * `drop` bits. 1 <= drop <= 31. */
static uint32_t round_even(uint32_t mantissa, uint32_t drop)
{
    uint32_t kept = mantissa >> drop;
    uint32_t rest = mantissa & (((uint32_t)1 << drop) - 1);
    uint32_t half = (uint32_t)1 << (drop - 1);
    if (rest == half) {
        return kept + (kept & 1u);
    }
    return kept + (rest > half ? 1u : 0u);
}

uint16_t bp_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (magnitude >= 0x47800000u) {
        return (uint16_t)(sign | 0x7c00u); /* 2^16 and above, infinity included */
    }
    if (magnitude >= 0x38800000u) {
        /* Normal, 2^-14 and above: the exponent is moved from bias 127 to bias 15, and a carry out
         * of the fraction lands in it, up to infinity. */
        return (uint16_t)(sign | round_even(magnitude - 0x38000000u, 13));
    }
    if (magnitude < 0x33000000u) {
        return (uint16_t)sign; /* below half of the least subnormal, 2^-25 */
    }
    uint32_t exponent = magnitude >> 23;
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | round_even(mantissa, 126 - exponent));
}

float bp_f32_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        /* Subnormal: fraction x 2^-24, exact in 32 bits. */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    if (exponent == 31) {
        /* a NaN comes out quiet, as from the processor's own instruction */
        return float_of(sign | 0x7f800000u | fraction << 13 | (fraction != 0 ? 0x400000u : 0));
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}
