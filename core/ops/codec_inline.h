/* SPDX-License-Identifier: MIT */
/* core/ops/codec.h block by block, as loops that a compiler turns into vectors. */
#ifndef BP_CORE_CODEC_INLINE_H
#define BP_CORE_CODEC_INLINE_H

#include "core/ops/codec.h"
#include "core/ops/codec_element.h"

#define BP_CODEC_GROUP8 32  /* elements per scale of COMPANDED8 */
#define BP_CODEC_GROUP4 128 /* of BLOCK4 */

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
    float inverse = bp_codec_inverse(scale);
    uint8_t *restrict codes = state + 4;
    bp_codec_put_float(state, inverse != 0.0f ? scale : 0.0f);
    if (inverse == 0.0f) {
        memset(codes, 0, count);
    } else if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_code8_signed(x[i], inverse);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_code8_unsigned(x[i], inverse);
        }
    }
}

static inline void bp_codec_decode8(bool has_sign, const uint8_t *restrict state, uint32_t count,
                                    float *restrict x)
{
    const float *codebook = has_sign ? bp_codec_signed : bp_codec_unsigned;
    const uint8_t *codes = state + 4;
    float scale = bp_codec_get_float(state);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = codebook[codes[i]] * scale;
    }
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
                                    float inverse, uint8_t *restrict codes)
{
    if (inverse == 0.0f) {
        memset(codes, 0, count);
    } else if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_compand_signed(x[i], inverse);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_compand_unsigned(x[i], inverse);
        }
    }
}

/* One group; a size that is known makes straight code of it. */
static inline void bp_codec_group8(bool has_sign, const float *restrict x, uint32_t size,
                                   uint8_t *restrict scale, uint8_t *restrict codes)
{
    float most = has_sign ? fabsf(bp_codec_largest(x, size)) : sqrtf(bp_codec_most(x, size));
    uint32_t half = bp_codec_round_up(most);
    float inverse = bp_codec_inverse(bp_codec_float(half << 16));
    bp_codec_put_half(scale, inverse != 0.0f ? half : 0);
    bp_codec_compand(has_sign, x, size, inverse, codes);
}

static inline void bp_codec_encode_companded(bool has_sign, const float *restrict x, uint32_t count,
                                             uint8_t *restrict state)
{
    uint32_t first = 0, group = 0;
    memset(state, 0, 16);
    for (; first + BP_CODEC_GROUP8 <= count; first += BP_CODEC_GROUP8, group++) {
        bp_codec_group8(has_sign, x + first, BP_CODEC_GROUP8, state + 2 * group,
                        state + 16 + first);
    }
    if (first < count) {
        bp_codec_group8(has_sign, x + first, count - first, state + 2 * group, state + 16 + first);
    }
}

static inline void bp_codec_expand(bool has_sign, const uint8_t *restrict codes, uint32_t count,
                                   float scale, float *restrict x)
{
    if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            x[i] = bp_codec_expand_signed(codes[i], scale);
        }
    } else {
        float unit = scale * (1.0f / 255.0f);
        for (uint32_t i = 0; i < count; i++) {
            x[i] = bp_codec_expand_unsigned(codes[i], unit);
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

static inline void bp_codec_codes4(bool has_sign, const float *restrict x, uint32_t count,
                                   float inverse, uint8_t *restrict codes)
{
    if (inverse == 0.0f) {
        memset(codes, 0, count);
    } else if (has_sign) {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_code4_signed(x[i], inverse);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            codes[i] = bp_codec_code4_unsigned(x[i], inverse);
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
        float inverse = bp_codec_inverse(scale);
        bp_codec_put_float(state + 4 * group, inverse != 0.0f ? scale : 0.0f);
        bp_codec_codes4(has_sign, x + first, size, inverse, codes + first);
    }
    codes[count] = 0;
    for (uint32_t i = 0; i < (count + 1) / 2; i++) {
        state[8 + i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
    }
}

static inline void bp_codec_decode4(bool has_sign, const uint8_t *restrict state, uint32_t count,
                                    float *restrict x)
{
    uint8_t codes[BP_CODEC_BLOCK + 1];
    for (uint32_t i = 0; i < (count + 1) / 2; i++) {
        codes[2 * i] = state[8 + i] & 15u;
        codes[2 * i + 1] = (uint8_t)(state[8 + i] >> 4);
    }
    for (uint32_t first = 0, group = 0; first < count; first += BP_CODEC_GROUP4, group++) {
        uint32_t size = count - first < BP_CODEC_GROUP4 ? count - first : BP_CODEC_GROUP4;
        float scale = bp_codec_get_float(state + 4 * group);
        for (uint32_t i = first; has_sign && i < first + size; i++) {
            x[i] = bp_codec_value4_signed(codes[i]) * scale;
        }
        for (uint32_t i = first; !has_sign && i < first + size; i++) {
            x[i] = bp_codec_value4_unsigned(codes[i]) * scale;
        }
    }
}

#endif
