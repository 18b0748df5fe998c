/* SPDX-License-Identifier: MIT */
/* The arithmetic of core/ops/codec.h for one element, as inline code: the host's loops and the
 * CUDA kernels are built from this one text, so they agree to the last bit. */
#ifndef BP_CORE_CODEC_ELEMENT_H
#define BP_CORE_CODEC_ELEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* What elements are multiplied by to be divided by the scale; 0 for a scale that is no normal
 * number: then all codes are 0, and so is the scale that is stored. */
static inline float bp_codec_inverse(float scale)
{
    float a = fabsf(scale);
    return a >= 0x1p-126f && a <= 0x1.fffffep+127f ? 1.0f / scale : 0.0f;
}

/* One step of the choice of a decade: from `threshold`, the midpoint between two decades, on, the
 * interval of magnitude a is number slope * a + start, at most last. */
#define BP_CODEC_DECADE(threshold, a_slope, a_start, a_last)                                       \
    slope = a >= (threshold) ? (a_slope) : slope;                                                  \
    start = a >= (threshold) ? (a_start) : start;                                                  \
    last = a >= (threshold) ? (a_last) : last;

/* Index of the signed codebook's magnitude nearest to a in [0, 1]: 0 is 0, 2^i .. 2^(i+1) - 1 the
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

/* The same of the unsigned codebook: 2^(i+1) - 1 .. 2^(i+2) - 2 is the decade from 10^(i-7), 255
 * is 1. slope = 10^(6-i) 2^(i+1) / 0.9, start = 2^(i+1) 8/9 - 1. */
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

/* Decade 2^e of a codebook: from `low` = 10^(e-7) on, in parts of `width`. */
#define BP_CODEC_PARTS(number, a_low, a_width)                                                     \
    low = s >= (number)*parts ? (a_low) : low;                                                     \
    width = s >= (number)*parts ? (a_width) : width;                                               \
    first = s >= (number)*parts ? (number) : first;

/* The midpoint of interval number s - 2^e parts of decade e, which holds s; parts: of decade 0. */
static inline float bp_codec_midpoint(float s, float parts)
{
    float low = 0x1.ad7f2ap-24f, width = 0x1.e32f0ep-21f, first = 1.0f;
    BP_CODEC_PARTS(2.0f, 0x1.0c6f7ap-20f, 0x1.2dfd6ap-18f)
    BP_CODEC_PARTS(4.0f, 0x1.4f8b58p-17f, 0x1.797cc4p-16f)
    BP_CODEC_PARTS(8.0f, 0x1.a36e2ep-14f, 0x1.d7dbf4p-14f)
    BP_CODEC_PARTS(16.0f, 0x1.0624dep-10f, 0x1.26e978p-11f)
    BP_CODEC_PARTS(32.0f, 0x1.47ae14p-7f, 0x1.70a3d8p-9f)
    BP_CODEC_PARTS(64.0f, 0x1.99999ap-4f, 0x1.ccccccp-7f)
    return fmaf(s - first * parts + 0.5f, width / parts, low);
}

/* The codebooks by code. */
static inline float bp_codec_codebook_signed(int32_t code)
{
    int32_t index = code < 127 ? 127 - code : code - 127;
    float a = bp_codec_midpoint((float)index, 1.0f);
    a = index == 0 ? 0.0f : a;
    a = index == 128 ? 1.0f : a;
    return code < 127 ? -a : a;
}

static inline float bp_codec_codebook_unsigned(int32_t code)
{
    float a = bp_codec_midpoint((float)(code + 1), 2.0f);
    a = code == 0 ? 0.0f : a;
    return code == 255 ? 1.0f : a;
}

/* Codes of x, whose scale's inverse is not 0. */
static inline uint8_t bp_codec_code8_signed(float x, float inverse)
{
    float n = x * inverse;
    return bp_codec_around(bp_codec_index_signed(bp_codec_magnitude(n)), n, 127);
}

static inline uint8_t bp_codec_code8_unsigned(float x, float inverse)
{
    int32_t index = bp_codec_index_unsigned(bp_codec_magnitude(x * inverse));
    int32_t least = x > 0.0f ? 1 : 0;
    return (uint8_t)(index > least ? index : least);
}

static inline uint8_t bp_codec_compand_signed(float x, float inverse)
{
    float n = x * inverse, a = bp_codec_magnitude(n);
    uint32_t q = bp_codec_bits(254.0f * a / (1.0f + a) + BP_CODEC_ROUND) & 0x7fu;
    return (uint8_t)(n < 0.0f ? 0u - q : q);
}

/* The code of a finite x with sign, rounded at random: of the two codes whose values lie around n =
 * |x * inverse|, c / (254 - c) and (c + 1) / (253 - c), the upper one when 16 random bits fall
 * below its share p of 2^16, so that the expected value is n. */
static inline uint8_t bp_codec_compand_random(float x, float inverse, uint32_t random)
{
    float n = x * inverse, a = fabsf(n);
    float c = (float)(int32_t)(254.0f * a / (1.0f + a));
    float p = (a * (254.0f - c) - c) * (253.0f - c) * (1.0f / 254.0f);
    int32_t q = (int32_t)c + ((float)(int32_t)random < 65536.0f * p ? 1 : 0);
    q = q < 127 ? q : 127; /* rounding may take n past 1 */
    return (uint8_t)(n < 0.0f ? -q : q);
}

static inline uint8_t bp_codec_compand_unsigned(float x, float inverse)
{
    float n = bp_codec_magnitude(sqrtf(x) * inverse);
    uint32_t q = bp_codec_bits(255.0f * n + BP_CODEC_ROUND) & 0xffu;
    uint32_t least = x > 0.0f ? 1u : 0u;
    return (uint8_t)(q > least ? q : least);
}

static inline float bp_codec_expand_signed(uint8_t code, float scale)
{
    float c = (float)(int8_t)code;
    return scale * (c / (254.0f - fabsf(c)));
}

static inline float bp_codec_expand_unsigned(uint8_t code, float unit)
{
    float root = (float)code * unit;
    return root * root;
}

/* A positive scale as bf16, rounded up but not to infinity, so that no quotient exceeds 1. */
static inline uint32_t bp_codec_round_up(float scale)
{
    uint32_t bits = (bp_codec_bits(scale) + 0xffffu) >> 16;
    return bits < 0x7f7fu ? bits : 0x7f7fu;
}

/* How many of the midpoints of the signed magnitudes of 4 bits lie at or below a. */
static inline int32_t bp_codec_index4(float a)
{
    return (a >= 0.00275f) + (a >= 0.019f) + (a >= 0.055f) + (a >= 0.145f) + (a >= 0.325f) +
           (a >= 0.55f) + (a >= 0.775f) + (a >= 0.94375f);
}

/* Magnitude `index` of the signed codebook of 4 bits. */
static inline float bp_codec_codebook4(int32_t index)
{
    float a = index >= 1 ? 0.0055f : 0.0f;
    a = index >= 2 ? 0.0325f : a;
    a = index >= 3 ? 0.0775f : a;
    a = index >= 4 ? 0.2125f : a;
    a = index >= 5 ? 0.4375f : a;
    a = index >= 6 ? 0.6625f : a;
    a = index >= 7 ? 0.8875f : a;
    return index >= 8 ? 1.0f : a;
}

/* The values of codes of 4 bits. */
static inline float bp_codec_value4_signed(uint8_t code)
{
    int32_t index = (int32_t)code - 7;
    float a = bp_codec_codebook4(index < 0 ? -index : index);
    return index < 0 ? -a : a;
}

/* ((index) / 16)^4, exact. */
static inline float bp_codec_power4(int32_t index)
{
    float root = (float)index * 0.0625f;
    float square = root * root;
    return square * square;
}

static inline float bp_codec_value4_unsigned(uint8_t code)
{
    return bp_codec_power4(code + 1);
}

static inline uint8_t bp_codec_code4_signed(float x, float inverse)
{
    float n = x * inverse;
    return bp_codec_around(bp_codec_index4(bp_codec_magnitude(n)), n, 7);
}

static inline uint8_t bp_codec_code4_unsigned(float x, float inverse)
{
    float a = bp_codec_magnitude(x * inverse);
    int32_t below = (int32_t)(16.0f * sqrtf(sqrtf(a)));
    below = below > 15 ? 15 : below;
    float midpoint = 0.5f * (bp_codec_power4(below) + bp_codec_power4(below + 1));
    int32_t index = a >= midpoint ? below + 1 : below;
    return (uint8_t)(index > 1 ? index - 1 : 0);
}

#endif
