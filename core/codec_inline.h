/* SPDX-License-Identifier: MIT */
/* The arithmetic of core/codec.h as loops over one block that a compiler turns into vectors. Every
 * form of the host's kernels is built from this one text, so they agree to the last bit. */
#ifndef BP_CORE_CODEC_INLINE_H
#define BP_CORE_CODEC_INLINE_H

#include <math.h>
#include <string.h>

#include "core/codec.h"

#define BP_CODEC_GROUP8 32  /* elements per scale of COMPANDED8 */
#define BP_CODEC_GROUP4 128 /* of BLOCK4 */

/* Adding it to a number of magnitude below 2^22 leaves the nearest integer, ties to even, in the
 * last bits of the sum. */
#define BP_CODEC_ROUND 12582912.0f

static inline uint32_t bp_codec_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bp_codec_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The element of largest magnitude, with its sign; the positive one of two. Bits of positive floats
 * are in the floats' order. */
static inline float bp_codec_largest(const float *x, uint32_t count)
{
    int32_t most = 0, least = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = bp_codec_bits(x[i]);
        int32_t up = (int32_t)bits, down = (int32_t)(bits ^ 0x80000000u);
        most = up > most ? up : most;
        least = down > least ? down : least;
    }
    return most >= least ? bp_codec_float((uint32_t)most) : -bp_codec_float((uint32_t)least);
}

/* The largest of values that are not negative. */
static inline float bp_codec_most(const float *x, uint32_t count)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        int32_t up = (int32_t)bp_codec_bits(x[i]);
        most = up > most ? up : most;
    }
    return bp_codec_float((uint32_t)most);
}

/* One step of the choice of a decade: from `threshold`, the midpoint between two decades, on, the
 * interval of magnitude a is number slope * a + start, at most last. */
#define BP_CODEC_DECADE(threshold, a_slope, a_start, a_last)                                       \
    slope = a >= (threshold) ? (a_slope) : slope;                                                  \
    start = a >= (threshold) ? (a_start) : start;                                                  \
    last = a >= (threshold) ? (a_last) : last;

/* Index of the signed book's magnitude nearest to a in [0, 1]: 0 is 0, 2^i .. 2^(i+1) - 1 the
 * decade from 10^(i-7), 128 is 1. slope = 10^(6-i) 2^i / 0.9, start = 2^i 8/9. */
static inline int32_t bp_codec_index_signed(float a)
{
    float slope = 0x1.0f44720000000p+20f, start = 0x1.c71c72p-1f, last = 1.0f;
    BP_CODEC_DECADE(0x1.fe07020000000p-20f, 0x1.b2071c0000000p+17f, 0x1.c71c72p+0f, 3.0f)
    BP_CODEC_DECADE(0x1.e68a0e0000000p-17f, 0x1.5b38e40000000p+15f, 0x1.c71c72p+1f, 7.0f)
    BP_CODEC_DECADE(0x1.00e6b00000000p-13f, 0x1.15c71c0000000p+13f, 0x1.c71c72p+2f, 15.0f)
    BP_CODEC_DECADE(0x1.23a29c0000000p-10f, 0x1.bc71c80000000p+10f, 0x1.c71c72p+3f, 31.0f)
    BP_CODEC_DECADE(0x1.5a1cac0000000p-7f, 0x1.638e380000000p+8f, 0x1.c71c72p+4f, 63.0f)
    BP_CODEC_DECADE(0x1.a51eb80000000p-4f, 0x1.1c71c80000000p+6f, 0x1.c71c72p+5f, 127.0f)
    float place = fmaf(a, slope, start);
    place = place < last ? place : last;
    place = a >= 0x1.27476c0000000p-22f ? place : 0.0f;
    place = a >= 0x1.fe33340000000p-1f ? 128.0f : place;
    return (int32_t)place;
}

/* The same of the unsigned book: 2^(i+1) - 1 .. 2^(i+2) - 2 is the decade from 10^(i-7), 255 is 1.
 * slope = 10^(6-i) 2^(i+1) / 0.9, start = 2^(i+1) 8/9 - 1. */
static inline int32_t bp_codec_index_unsigned(float a)
{
    float slope = 0x1.0f44720000000p+21f, start = 0x1.c71c72p+0f, last = 3.0f;
    BP_CODEC_DECADE(0x1.853b3e0000000p-20f, 0x1.b2071c0000000p+18f, 0x1.c71c72p+1f, 7.0f)
    BP_CODEC_DECADE(0x1.9b0ab20000000p-17f, 0x1.5b38e40000000p+16f, 0x1.c71c72p+2f, 15.0f)
    BP_CODEC_DECADE(0x1.d29dc80000000p-14f, 0x1.15c71c0000000p+14f, 0x1.c71c72p+3f, 31.0f)
    BP_CODEC_DECADE(0x1.14e3bc0000000p-10f, 0x1.bc71c80000000p+11f, 0x1.c71c72p+4f, 63.0f)
    BP_CODEC_DECADE(0x1.50e5600000000p-7f, 0x1.638e380000000p+9f, 0x1.c71c72p+5f, 127.0f)
    BP_CODEC_DECADE(0x1.9f5c280000000p-4f, 0x1.1c71c80000000p+7f, 0x1.c71c72p+6f, 255.0f)
    float place = fmaf(a, slope, start);
    place = place < last ? place : last;
    place = a >= 0x1.5cf7520000000p-23f ? place : 1.0f;
    place = a >= 0x1.ff199a0000000p-1f ? 256.0f : place;
    return (int32_t)place - 1;
}

/* The code of one of `codes` signed values around `zero`: a negative one is never 0, and -1 is not
 * there. */
static inline uint8_t bp_codec_around(int32_t index, float n, int32_t zero)
{
    int32_t below = index < 1 ? 1 : index;
    below = below > zero ? zero : below;
    return (uint8_t)(n < 0.0f ? zero - below : zero + index);
}

/* |n| at most 1; NaN becomes 1. */
static inline float bp_codec_magnitude(float n)
{
    float a = fabsf(n);
    return a <= 1.0f ? a : 1.0f;
}

static inline void bp_codec_put_float(uint8_t *to, float value)
{
    memcpy(to, &value, sizeof value);
}

static inline float bp_codec_get_float(const uint8_t *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void bp_codec_encode8(bool has_sign, const float *restrict x, uint32_t count,
                                    uint8_t *restrict state)
{
    float scale = has_sign ? bp_codec_largest(x, count) : bp_codec_most(x, count);
    uint8_t *restrict codes = state + 4;
    bp_codec_put_float(state, scale);
    if (scale == 0.0f) {
        memset(codes, 0, count);
    } else if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            float n = x[i] / scale;
            codes[i] = bp_codec_around(bp_codec_index_signed(bp_codec_magnitude(n)), n, 127);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            int32_t index = bp_codec_index_unsigned(bp_codec_magnitude(x[i] / scale));
            int32_t least = x[i] > 0.0f ? 1 : 0;
            codes[i] = (uint8_t)(index > least ? index : least);
        }
    }
}

static inline void bp_codec_decode8(bool has_sign, const uint8_t *restrict state, uint32_t count,
                                    float *restrict x)
{
    const float *book = has_sign ? bp_codec_signed : bp_codec_unsigned;
    const uint8_t *codes = state + 4;
    float scale = bp_codec_get_float(state);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = book[codes[i]] * scale;
    }
}

/* A positive scale as bf16, rounded up but not to infinity, so that no quotient exceeds 1. */
static inline uint32_t bp_codec_round_up(float scale)
{
    uint32_t bits = (bp_codec_bits(scale) + 0xffffu) >> 16;
    return bits < 0x7f7fu ? bits : 0x7f7fu;
}

static inline void bp_codec_put_half(uint8_t *to, uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    memcpy(to, &half, sizeof half);
}

static inline float bp_codec_get_half(const uint8_t *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return bp_codec_float((uint32_t)half << 16);
}

static inline void bp_codec_compand(bool has_sign, const float *restrict x, uint32_t count,
                                    float scale, uint8_t *restrict codes)
{
    if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            float n = x[i] / scale, a = bp_codec_magnitude(n);
            float place = 254.0f * a / (1.0f + a) + BP_CODEC_ROUND;
            uint32_t q = bp_codec_bits(place) & 0x7fu;
            codes[i] = (uint8_t)(n < 0.0f ? 0u - q : q);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            float n = bp_codec_magnitude(sqrtf(x[i]) / scale);
            uint32_t q = bp_codec_bits(255.0f * n + BP_CODEC_ROUND) & 0xffu;
            uint32_t least = x[i] > 0.0f ? 1u : 0u;
            codes[i] = (uint8_t)(q > least ? q : least);
        }
    }
}

static inline void bp_codec_encode_companded(bool has_sign, const float *restrict x, uint32_t count,
                                             uint8_t *restrict state)
{
    memset(state, 0, 16);
    for (uint32_t first = 0, group = 0; first < count; first += BP_CODEC_GROUP8, group++) {
        uint32_t size = count - first < BP_CODEC_GROUP8 ? count - first : BP_CODEC_GROUP8;
        float most = has_sign ? fabsf(bp_codec_largest(x + first, size))
                              : sqrtf(bp_codec_most(x + first, size));
        uint32_t half = bp_codec_round_up(most);
        bp_codec_put_half(state + 2 * group, half);
        if (half == 0) {
            memset(state + 16 + first, 0, size);
        } else {
            bp_codec_compand(has_sign, x + first, size, bp_codec_float(half << 16),
                             state + 16 + first);
        }
    }
}

static inline void bp_codec_expand(bool has_sign, const uint8_t *restrict codes, uint32_t count,
                                   float scale, float *restrict x)
{
    if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            float c = (float)(int8_t)codes[i];
            x[i] = scale * (c / (254.0f - fabsf(c)));
        }
    } else {
        float unit = scale * (1.0f / 255.0f);
        for (uint32_t i = 0; i < count; i++) {
            float root = (float)codes[i] * unit;
            x[i] = root * root;
        }
    }
}

static inline void bp_codec_decode_companded(bool has_sign, const uint8_t *restrict state,
                                             uint32_t count, float *restrict x)
{
    for (uint32_t first = 0, group = 0; first < count; first += BP_CODEC_GROUP8, group++) {
        uint32_t size = count - first < BP_CODEC_GROUP8 ? count - first : BP_CODEC_GROUP8;
        bp_codec_expand(has_sign, state + 16 + first, size, bp_codec_get_half(state + 2 * group),
                        x + first);
    }
}

/* How many of the midpoints of the signed magnitudes of 4 bits lie at or below a. */
static inline int32_t bp_codec_index4(float a)
{
    return (a >= 0.00275f) + (a >= 0.019f) + (a >= 0.055f) + (a >= 0.145f) + (a >= 0.325f) +
           (a >= 0.55f) + (a >= 0.775f) + (a >= 0.94375f);
}

static inline void bp_codec_codes4(bool has_sign, const float *restrict x, uint32_t count,
                                   float scale, uint8_t *restrict codes)
{
    if (scale == 0.0f) {
        memset(codes, 0, count);
    } else if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            float n = x[i] / scale;
            codes[i] = bp_codec_around(bp_codec_index4(bp_codec_magnitude(n)), n, 7);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            int32_t index = (int32_t)(16.0f * bp_codec_magnitude(x[i] / scale) + 0.5f);
            codes[i] = (uint8_t)(index > 1 ? index - 1 : 0);
        }
    }
}

static inline void bp_codec_encode4(bool has_sign, const float *restrict x, uint32_t count,
                                    uint8_t *restrict state)
{
    uint8_t codes[BP_CODEC_BLOCK + 1];
    memset(state, 0, 8);
    for (uint32_t first = 0, group = 0; first < count; first += BP_CODEC_GROUP4, group++) {
        uint32_t size = count - first < BP_CODEC_GROUP4 ? count - first : BP_CODEC_GROUP4;
        float scale = has_sign ? bp_codec_largest(x + first, size) : bp_codec_most(x + first, size);
        bp_codec_put_float(state + 4 * group, scale);
        bp_codec_codes4(has_sign, x + first, size, scale, codes + first);
    }
    codes[count] = 0;
    for (uint32_t i = 0; i < (count + 1) / 2; i++) {
        state[8 + i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    }
}

static inline void bp_codec_decode4(bool has_sign, const uint8_t *restrict state, uint32_t count,
                                    float *restrict x)
{
    float scale[2] = {bp_codec_get_float(state), bp_codec_get_float(state + 4)};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t code = (uint32_t)state[8 + i / 2] >> 4 * (i % 2) & 15u;
        float value = has_sign ? bp_codec_signed4[code] : (float)(code + 1) * 0.0625f;
        x[i] = value * scale[i / BP_CODEC_GROUP4];
    }
}

#endif
