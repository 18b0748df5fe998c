/* SPDX-License-Identifier: MIT */
/* Elements of matrices stored in 4 or 8 bits (core/ops/quantised.h, fp8.h) as device code. */
#ifndef BP_DEVICE_KERNELS_QUANTISED_CUH
#define BP_DEVICE_KERNELS_QUANTISED_CUH

#include "device/cuda/kernels/element.cuh"

#define inline __forceinline__ __device__
#include "core/ops/tape_element.h"
#undef inline

/* bp_quantised of core/ops/quantised.h, and where things lie in `nested`. */
#define INT8          3u
#define FP8           4u
#define FP4           5u
#define NESTED_MAP    1
#define NESTED_SCALES 257

typedef struct bp_codes {
    const uint8_t *codes;
    const void *scales;
    const float *nested;
    uint32_t form;
} bp_codes;

/* The sixteen values of NF4. */
BP_DEVICE float nf4_value(uint32_t code)
{
    float low = (code & 2) != 0 ? ((code & 1) != 0 ? -0.39491748809814453f : -0.5250730514526367f)
                                : ((code & 1) != 0 ? -0.6961928009986877f : -1.0f);
    float second = (code & 2) != 0
                       ? ((code & 1) != 0 ? 0.0f : -0.09105003625154495f)
                       : ((code & 1) != 0 ? -0.18477343022823334f : -0.28444138169288635f);
    float third = (code & 2) != 0 ? ((code & 1) != 0 ? 0.33791524171829224f : 0.24611230194568634f)
                                  : ((code & 1) != 0 ? 0.16093020141124725f : 0.07958029955625534f);
    float high = (code & 2) != 0 ? ((code & 1) != 0 ? 1.0f : 0.7229568362236023f)
                                 : ((code & 1) != 0 ? 0.5626170039176941f : 0.44070982933044434f);
    float lower = (code & 4) != 0 ? second : low, upper = (code & 4) != 0 ? high : third;
    return (code & 8) != 0 ? upper : lower;
}

/* The sixteen of FP4: a sign, then three bits. */
BP_DEVICE float fp4_value(uint32_t code)
{
    float low = (code & 2) != 0 ? ((code & 1) != 0 ? 1.0f : 0.6666666865348816f)
                                : ((code & 1) != 0 ? 0.0052083334885537624f : 0.0f);
    float high = (code & 2) != 0 ? ((code & 1) != 0 ? 0.25f : 0.1666666716337204f)
                                 : ((code & 1) != 0 ? 0.5f : 0.3333333432674408f);
    float size = (code & 4) != 0 ? high : low;
    return code > 8 ? -size : size;
}

BP_DEVICE float book_value(uint32_t form, uint32_t code)
{
    return (form & 7) >= FP4 ? fp4_value(code) : nf4_value(code);
}

/* Which block of 4 bits element number `index` is in, and whether its scale has a scale. */
BP_DEVICE uint64_t block_of(uint32_t form, uint64_t index)
{
    return index >> (form >= 56 ? 5 : 6 + (form >> 3));
}

BP_DEVICE bool is_nested(uint32_t form)
{
    return (form & 3) == 2;
}

/* The scale of element number `index`, which is in this row of memory. Not for FP8. */
BP_DEVICE float scale_of(const bp_codes *b, uint64_t index, uint64_t row)
{
    if (b->form == INT8) {
        return ((const float *)b->scales)[row];
    }
    uint64_t block = block_of(b->form, index);
    if (is_nested(b->form)) {
        float scale = b->nested[NESTED_MAP + ((const uint8_t *)b->scales)[block]] *
                      b->nested[NESTED_SCALES + block / 256];
        return scale + b->nested[0];
    }
    return ((const float *)b->scales)[block];
}

BP_DEVICE float code_value(const bp_codes *b, uint64_t index, uint64_t row, const float *table)
{
    if (b->form == FP8) {
        const uint8_t *block = b->codes + index / 256 * 260;
        const uint32_t at = (uint32_t)index % 256;
        return bp_tape_value(block[4 + at], block[at / 64]);
    }
    float scale = scale_of(b, index, row);
    if (b->form == INT8) {
        return (float)(int8_t)b->codes[index] * scale * 7.874015718698502e-3f;
    }
    uint32_t pair = b->codes[index / 2];
    return table[index % 2 == 0 ? pair >> 4 : pair & 15] * scale;
}

/* Eight codes of a row of memory that begin at a multiple of eight, and so lie in one block and in
 * words; with the bits of what scales them. */
typedef struct bp_code_piece {
    uint32_t low;
    uint32_t high;
    uint32_t scale;
} bp_code_piece;

BP_DEVICE bp_code_piece code_piece_load(const bp_codes *b, uint64_t first, uint64_t row)
{
    const bool nibbles = b->form != INT8 && b->form != FP8;
    const uint64_t block = first / 256 * 260;
    const uint64_t from = b->form == FP8 ? block + 4 + first % 256 : (nibbles ? first / 2 : first);
    const uint32_t *words = (const uint32_t *)(b->codes + from);
    bp_code_piece piece;
    piece.low = words[0];
    piece.high = nibbles ? 0 : words[1];
    piece.scale = b->form == FP8 ? b->codes[block + first % 256 / 64]
                                 : bp_float_bits(scale_of(b, first, row));
    return piece;
}

BP_DEVICE void code_piece_values(uint32_t form, const bp_code_piece *piece, const float *table,
                                 float x[8])
{
    const bool nibbles = form != INT8 && form != FP8;
    const float scale = bp_float_from_bits(piece->scale);
#pragma unroll
    for (uint32_t e = 0; e < 8; e++) {
        if (nibbles) { /* the first of two in the high half of a byte */
            x[e] = table[piece->low >> (e / 2 * 8 + (e % 2 == 0 ? 4 : 0)) & 15] * scale;
        } else {
            const uint32_t code = (e < 4 ? piece->low : piece->high) >> (e % 4 * 8) & 0xff;
            x[e] = form == FP8 ? bp_tape_value(code, piece->scale)
                               : (float)(int8_t)code * scale * 7.874015718698502e-3f;
        }
    }
}

#endif
