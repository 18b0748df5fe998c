/* SPDX-License-Identifier: MIT */
/* Blocks of weights, masters and gradients to and from f32, as loops that a compiler turns into
 * vectors; element by element they do what core/ops/master.h and core/base/dtype.h say.
 * Included once per form of the host's kernels. */
#ifndef BP_DEVICE_HOST_UPDATE_STORE_H
#define BP_DEVICE_HOST_UPDATE_STORE_H

#include "core/ops/codec_inline.h"
#include "core/ops/fp8_element.h"
#include "core/ops/master.h"

/* Half precision to single: the exponent moves by a product that is exact, subnormals included. */
static inline float from_f16(uint32_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    float value = bp_codec_float(magnitude << 13) * 0x1p112f;
    uint32_t bits = bp_codec_bits(value);
    bits = magnitude >= 0x7c00u ? 0x7f800000u | (magnitude & 0x3ffu) << 13 : bits;
    return bp_codec_float(bits | (half & 0x8000u) << 16);
}

/* Single to half, to nearest even. Below 2^-14, adding 0.5 rounds to units of 2^-24. */
static inline uint32_t to_f16(float value)
{
    uint32_t bits = bp_codec_bits(value), magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t small = bp_codec_bits(bp_codec_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x47800000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return half | (bits >> 16 & 0x8000u);
}

/* Single to bf16, half away from zero; NaN stays NaN. */
static inline uint32_t to_bf16(uint32_t bits)
{
    uint32_t rounded = (bits + 0x8000u) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16 | 0x40u) : rounded;
}

static inline void load_bf16(const uint16_t *restrict from, uint32_t count, float *restrict to)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = bp_codec_float((uint32_t)from[i] << 16);
    }
}

static inline void load_f16(const uint16_t *restrict from, uint32_t count, float *restrict to)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = from_f16(from[i]);
    }
}

/* `count` elements of any type; f32 is copied. */
static inline void load_floats(bp_dtype dtype, const void *from, uint32_t count, float *to)
{
    if (dtype == BP_F32) {
        memcpy(to, from, count * sizeof *to);
    } else if (dtype == BP_BF16) {
        load_bf16(from, count, to);
    } else {
        load_f16(from, count, to);
    }
}

static inline void scale_floats(float *restrict x, uint32_t count, float factor)
{
    for (uint32_t i = 0; i < count; i++) {
        x[i] *= factor;
    }
}

static inline void store_floats(bp_dtype dtype, const float *restrict from, uint32_t count,
                                void *restrict to)
{
    uint16_t *restrict half = to;
    if (dtype == BP_F32) {
        memcpy(to, from, count * sizeof *from);
    } else if (dtype == BP_BF16) {
        for (uint32_t i = 0; i < count; i++) {
            half[i] = (uint16_t)to_bf16(bp_codec_bits(from[i]));
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            half[i] = (uint16_t)to_f16(from[i]);
        }
    }
}

static inline void load_split(const uint16_t *restrict weight, const uint16_t *restrict rest,
                              uint32_t count, float *restrict to)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t low = rest[i];
        to[i] = bp_codec_float((weight[i] - (low >> 15)) << 16 | low);
    }
}

static inline void load_split8(const uint16_t *restrict weight, const uint8_t *restrict rest,
                               uint32_t count, float *restrict to)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t low = rest[i];
        to[i] = bp_codec_float((weight[i] - (low >> 7)) << 16 | low << 8);
    }
}

static inline void store_split(const float *restrict from, uint32_t count,
                               uint16_t *restrict weight, uint16_t *restrict rest)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = bp_codec_bits(from[i]);
        weight[i] = (uint16_t)((bits + 0x8000u) >> 16);
        rest[i] = (uint16_t)bits;
    }
}

static inline void store_split8(const float *restrict from, uint32_t count,
                                uint16_t *restrict weight, uint8_t *restrict rest)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = bp_codec_bits(from[i]);
        uint32_t b24 = (bits >> 8) + (bits >> 7 & 1u);
        weight[i] = (uint16_t)((b24 + 0x80u) >> 8);
        rest[i] = (uint8_t)b24;
    }
}

/* A block of at most 256 elements of core/ops/fp8.h, group by group. */
static inline void load_fp8(const uint8_t *restrict codes, const uint16_t *restrict rest,
                            uint32_t count, float *restrict to)
{
    for (uint32_t at = 0; at < count; at += BP_FP8_GROUP) {
        const uint32_t byte = codes[at / BP_FP8_GROUP];
        const uint32_t end = count - at < BP_FP8_GROUP ? count : at + BP_FP8_GROUP;
        for (uint32_t i = at; i < end; i++) {
            to[i] = bp_fp8_value(bp_fp8_join(codes[BP_FP8_HEADER + i], rest[i]), byte);
        }
    }
}

static inline void store_fp8(const float *restrict from, uint32_t count, uint8_t *restrict codes,
                             uint16_t *restrict rest)
{
    for (uint32_t at = 0; at < count; at += BP_FP8_GROUP) {
        const uint32_t end = count - at < BP_FP8_GROUP ? count : at + BP_FP8_GROUP;
        uint32_t largest = 0;
        for (uint32_t i = at; i < end; i++) {
            const uint32_t bits = bp_tape_bits(from[i]) & 0x7fffffffu;
            largest = bits > largest ? bits : largest;
        }
        const uint32_t byte = bp_fp8_scale(largest);
        const float inverse = bp_tape_inverse(byte);
        const uint32_t kept = byte == BP_TAPE_NOT_FINITE ? 0 : UINT32_MAX;
        codes[at / BP_FP8_GROUP] = (uint8_t)byte;
        for (uint32_t i = at; i < end; i++) {
            const uint32_t bits = bp_fp8_bits(from[i] * inverse) & kept;
            codes[BP_FP8_HEADER + i] = (uint8_t)bp_fp8_code(bits);
            rest[i] = (uint16_t)bits;
        }
    }
}

/* Random bits added below the last place that bf16 keeps: up with the probability that makes the
 * mean exact. What would round to infinity is cut off instead. */
static inline void store_stochastic(const float *restrict from, const uint16_t *restrict random,
                                    uint32_t count, uint16_t *restrict weight)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = bp_codec_bits(from[i]);
        uint32_t high = (bits + random[i]) >> 16;
        weight[i] = (uint16_t)((high & 0x7f80u) == 0x7f80u ? bits >> 16 : high);
    }
}

/* The bits of core/base/random.h's bp_rounding_bits for the elements of block number `block`:
 * generator j makes those of elements 4 j .. 4 j + 3 in the low halves of its words, and of the
 * four 128 further on in the high halves. */
static inline void rounding_block(uint64_t key, uint32_t step, uint32_t stream, uint64_t block,
                                  uint16_t random[BP_CODEC_BLOCK])
{
    uint32_t c0[32], c1[32], c2[32], c3[32];
    for (uint32_t j = 0; j < 32; j++) {
        c0[j] = (uint32_t)(block * 32) + j;
        c1[j] = (uint32_t)(block * 32 >> 32);
        c2[j] = stream;
        c3[j] = step;
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        for (uint32_t j = 0; j < 32; j++) {
            uint64_t p0 = UINT64_C(0xD2511F53) * c0[j];
            uint64_t p1 = UINT64_C(0xCD9E8D57) * c2[j];
            c0[j] = (uint32_t)(p1 >> 32) ^ c1[j] ^ k0;
            c1[j] = (uint32_t)p1;
            c2[j] = (uint32_t)(p0 >> 32) ^ c3[j] ^ k1;
            c3[j] = (uint32_t)p0;
        }
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    for (uint32_t j = 0; j < 32; j++) {
        const uint32_t word[4] = {c0[j], c1[j], c2[j], c3[j]};
        for (uint32_t k = 0; k < 4; k++) {
            random[4 * j + k] = (uint16_t)word[k];
            random[128 + 4 * j + k] = (uint16_t)(word[k] >> 16);
        }
    }
}

#endif
