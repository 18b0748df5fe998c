/* SPDX-License-Identifier: MIT */
/* Whole blocks of 8-bit state there and back, sixteen elements at a time: what
 * core/ops/codec_inline.h says with tables in registers for its chains of choices, so the same
 * bits. */
#ifndef BP_DEVICE_HOST_CODEC_NEON_H
#define BP_DEVICE_HOST_CODEC_NEON_H

#include <arm_neon.h>

#include "core/ops/codec_inline.h"
#include "device/host/update/codec_decades.h"

#define BP_UPDATE_CODEC /* what update_blocks.h then leaves to this file */

#define BESIDE 4 /* vectors whose codes are stored as 16 bytes */

/* Where the entries of this number, modulo 8, have their bytes. */
static inline uint8x16_t codec_at(uint32x4_t number)
{
    const uint32x4_t entry = vandq_u32(number, vdupq_n_u32(7));
    return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), entry, 0x04040404));
}

static inline float32x4_t codec_entry(const float table[8], uint8x16_t at)
{
    const uint8x16x2_t bytes = {
        {vreinterpretq_u8_f32(vld1q_f32(table)), vreinterpretq_u8_f32(vld1q_f32(table + 4))}};
    return vreinterpretq_f32_u8(vqtbl2q_u8(bytes, at));
}

/* bp_codec_magnitude: of a NaN and a number the number. */
static inline float32x4_t codec_magnitude(float32x4_t n)
{
    return vminnmq_f32(vabsq_f32(n), vdupq_n_f32(1.0f));
}

/* The index (unsigned: and 1) of magnitudes a, found as codec_avx2.h's codec_index does. */
static inline float32x4_t codec_index(const codec_table *t, float32x4_t a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(vmaxq_f32(a, vdupq_n_f32(0x1p-23f)));
    const uint32x4_t decade = vshrq_n_u32(vmulq_n_u32(vshrq_n_u32(bits, 16), 154), 16);
    const uint32x4_t above = vcgeq_f32(a, codec_entry(t->next, codec_at(decade)));
    const uint8x16_t at = codec_at(vsubq_u32(decade, above));
    const float32x4_t place = vfmaq_f32(codec_entry(t->start, at), a, codec_entry(t->slope, at));
    return vminq_f32(place, codec_entry(t->last, at));
}

/* The lowest byte of each of four vectors' elements, in their order. */
static inline uint8x16_t codec_pack(const uint32x4_t c[BESIDE])
{
    const uint16x8_t a = vuzp1q_u16(vreinterpretq_u16_u32(c[0]), vreinterpretq_u16_u32(c[1]));
    const uint16x8_t b = vuzp1q_u16(vreinterpretq_u16_u32(c[2]), vreinterpretq_u16_u32(c[3]));
    return vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
}

/* Sixteen bytes as numbers. */
static inline void codec_numbers(const uint8_t *codes, float32x4_t to[BESIDE])
{
    const uint8x16_t bytes = vld1q_u8(codes);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    to[0] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)));
    to[1] = vcvtq_f32_u32(vmovl_high_u16(low));
    to[2] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)));
    to[3] = vcvtq_f32_u32(vmovl_high_u16(high));
}

static inline void codec_signed_numbers(const uint8_t *codes, float32x4_t to[BESIDE])
{
    const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(codes));
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    to[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    to[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    to[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    to[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}

/* bp_codec_code8_signed of 16 elements. */
static inline uint8x16_t codec_code8_signed(const float *x, float inverse)
{
    const uint8x16_t middle = vdupq_n_u8(127);
    uint32x4_t index[BESIDE], below[BESIDE];
    for (uint32_t k = 0; k < BESIDE; k++) {
        const float32x4_t n = vmulq_n_f32(vld1q_f32(x + 4 * k), inverse);
        below[k] = vcltzq_f32(n);
        index[k] = vcvtq_u32_f32(codec_index(&codec_signed, codec_magnitude(n)));
    }
    const uint8x16_t up = codec_pack(index);
    const uint8x16_t down = vmaxq_u8(vminq_u8(up, middle), vdupq_n_u8(1));
    return vbslq_u8(codec_pack(below), vsubq_u8(middle, down), vaddq_u8(middle, up));
}

/* bp_codec_code8_unsigned: above 0 the index is 1 at least. */
static inline uint8x16_t codec_code8_unsigned(const float *x, float inverse)
{
    uint32x4_t index[BESIDE];
    for (uint32_t k = 0; k < BESIDE; k++) {
        const float32x4_t v = vld1q_f32(x + 4 * k);
        const float32x4_t a = codec_magnitude(vmulq_n_f32(v, inverse));
        const uint32x4_t least = vandq_u32(vcgtzq_f32(v), vdupq_n_u32(2));
        index[k] = vmaxq_u32(vcvtq_u32_f32(codec_index(&codec_unsigned, a)), least);
        index[k] = vsubq_u32(index[k], vdupq_n_u32(1));
    }
    return codec_pack(index);
}

static void encode_block8(bool has_sign, const float *x, uint8_t *state)
{
    const float scale =
        has_sign ? bp_codec_largest(x, BP_CODEC_BLOCK) : bp_codec_most(x, BP_CODEC_BLOCK);
    const float inverse = bp_codec_inverse(scale);
    bp_codec_put_float(state, inverse != 0.0f ? scale : 0.0f);
    if (inverse == 0.0f) {
        memset(state + 4, 0, BP_CODEC_BLOCK);
        return;
    }
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 4 * BESIDE) {
        vst1q_u8(state + 4 + i, has_sign ? codec_code8_signed(x + i, inverse)
                                         : codec_code8_unsigned(x + i, inverse));
    }
}

/* What y is beyond its power of two, times the width of its decade, from its low end on. */
static inline float32x4_t codec_codebook(const codec_table *t, float32x4_t y)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(y);
    const uint8x16_t at = codec_at(vshrq_n_u32(bits, 23));
    const uint32x4_t power = vandq_u32(bits, vdupq_n_u32(0x7f800000));
    return vfmaq_f32(codec_entry(t->low, at), vsubq_f32(y, vreinterpretq_f32_u32(power)),
                     codec_entry(t->width, at));
}

/* A code's value before it is scaled, the code as a number: y is its interval's number and a half;
 * that of unsigned code 0 is 1 1/2, whose entry is that of 256 1/2. */
static inline float32x4_t codec_value8(bool has_sign, float32x4_t code)
{
    if (has_sign) {
        const float32x4_t n = vsubq_f32(code, vdupq_n_f32(127.0f));
        const float32x4_t a =
            codec_codebook(&codec_signed, vaddq_f32(vabsq_f32(n), vdupq_n_f32(0.5f)));
        return vbslq_f32(vdupq_n_u32(0x80000000u), n, a);
    }
    const float32x4_t a = codec_codebook(&codec_unsigned, vaddq_f32(code, vdupq_n_f32(1.5f)));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgtzq_f32(code)));
}

static void decode_block8(bool has_sign, const uint8_t *state, float *x)
{
    const float scale = bp_codec_get_float(state);
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 4 * BESIDE) {
        float32x4_t code[BESIDE];
        codec_numbers(state + 4 + i, code);
        for (uint32_t k = 0; k < BESIDE; k++) {
            vst1q_f32(x + i + 4 * k, vmulq_n_f32(codec_value8(has_sign, code[k]), scale));
        }
    }
}

/* The largest magnitude of a group with sign, or the largest of one without. */
static inline float codec_group_most(bool has_sign, const float *x)
{
    int32x4_t most = vdupq_n_s32(0);
    for (uint32_t i = 0; i < BP_CODEC_GROUP8; i += 4) {
        const float32x4_t v = vld1q_f32(x + i);
        most = vmaxq_s32(most, vreinterpretq_s32_f32(has_sign ? vabsq_f32(v) : v));
    }
    return bp_codec_float((uint32_t)vmaxvq_s32(most));
}

/* bp_codec_compand_signed, _unsigned. */
static inline uint32x4_t codec_compand(bool has_sign, float32x4_t x, float inverse)
{
    const float32x4_t round = vdupq_n_f32(BP_CODEC_ROUND);
    const float32x4_t n = vmulq_n_f32(has_sign ? x : vsqrtq_f32(x), inverse);
    const float32x4_t a = codec_magnitude(n);
    if (has_sign) {
        const float32x4_t q =
            vdivq_f32(vmulq_f32(vdupq_n_f32(254.0f), a), vaddq_f32(vdupq_n_f32(1.0f), a));
        const uint32x4_t code = vreinterpretq_u32_f32(vaddq_f32(q, round));
        const uint32x4_t below = vcltzq_f32(n);
        return vsubq_u32(veorq_u32(vandq_u32(code, vdupq_n_u32(0x7f)), below), below);
    }
    const float32x4_t q = vaddq_f32(vmulq_f32(vdupq_n_f32(255.0f), a), round);
    const uint32x4_t code = vandq_u32(vreinterpretq_u32_f32(q), vdupq_n_u32(0xff));
    return vmaxq_u32(code, vshrq_n_u32(vcgtzq_f32(x), 31));
}

static void encode_companded(bool has_sign, const float *x, uint8_t *state)
{
    for (uint32_t g = 0; g < BP_CODEC_BLOCK / BP_CODEC_GROUP8; g++) {
        const float *group = x + g * BP_CODEC_GROUP8;
        uint8_t *codes = state + 16 + g * BP_CODEC_GROUP8;
        const float most = codec_group_most(has_sign, group);
        const uint32_t half = bp_codec_round_up(has_sign ? most : sqrtf(most));
        const float inverse = bp_codec_inverse(bp_codec_float(half << 16));
        bp_codec_put_half(state + 2 * g, inverse != 0.0f ? half : 0);
        if (inverse == 0.0f) {
            memset(codes, 0, BP_CODEC_GROUP8);
            continue;
        }
        for (uint32_t i = 0; i < BP_CODEC_GROUP8; i += 4 * BESIDE) {
            uint32x4_t code[BESIDE];
            for (uint32_t k = 0; k < BESIDE; k++) {
                code[k] = codec_compand(has_sign, vld1q_f32(group + i + 4 * k), inverse);
            }
            vst1q_u8(codes + i, codec_pack(code));
        }
    }
}

/* bp_codec_expand_signed, _unsigned. */
static void decode_companded(bool has_sign, const uint8_t *state, float *x)
{
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 4 * BESIDE) {
        const float scale = bp_codec_get_half(state + i / BP_CODEC_GROUP8 * 2);
        float32x4_t code[BESIDE];
        if (has_sign) {
            codec_signed_numbers(state + 16 + i, code);
        } else {
            codec_numbers(state + 16 + i, code);
        }
        for (uint32_t k = 0; k < BESIDE; k++) {
            float32x4_t value;
            if (has_sign) {
                const float32x4_t below = vsubq_f32(vdupq_n_f32(254.0f), vabsq_f32(code[k]));
                value = vmulq_n_f32(vdivq_f32(code[k], below), scale);
            } else {
                const float32x4_t root = vmulq_n_f32(code[k], scale * (1.0f / 255.0f));
                value = vmulq_f32(root, root);
            }
            vst1q_f32(x + i + 4 * k, value);
        }
    }
}

#endif
