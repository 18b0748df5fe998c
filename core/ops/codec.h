/* SPDX-License-Identifier: MIT */
/* Forms of optimizer state: how a tensor of moments is stored in 32, 8 or 4 bits per element.
 *
 * A state is a row of blocks of 256 elements: a header with the block's scales, then its codes. The
 * last block has as many codes as elements are left. So a part of a tensor that begins at a
 * multiple of 256 is itself a state. Bytes per element: F32 4, BLOCK8 1.0156, COMPANDED8 1.0625,
 * BLOCK4 0.53125. All zero bytes decode to zeros.
 *
 * BLOCK8 (Dettmers et al., arXiv 2110.02861): value = scale * codebook[code], one f32 scale per
 * block. The signed codebook (bp_codec_signed) has 127 negative values, 0 and 128 positive ones up
 * to 1; the unsigned one (bp_codec_unsigned) 0 and 255 positive ones: decades 10^-6 to 1, each cut
 * into twice as many equal intervals as the one below it, whose midpoints are the values, and 1.
 * The scale is the element of largest magnitude with its sign, so that it is always exactly 1 (-1
 * is in no codebook), and 0 where that is below the least normal float. Rounding is to nearest,
 * ties away from zero; what x / scale makes negative never becomes 0 (as in bitsandbytes), and a
 * positive second moment never does either: its root divides.
 *
 * COMPANDED8 (FlashOptim, arXiv 2602.23349), no table: groups of 32, each with the largest
 * magnitude as a 16-bit scale s (bf16, rounded up, since small moments lie below fp16's range).
 * Signed: n = x / s, code = round(127 * 2 n / (1 + |n|)) as int8. Unsigned: n = sqrt(x) / s with s
 * = sqrt(largest), code = round(255 n), at least 1 where x > 0.
 *
 * BLOCK4 (Li, Chen and Zhu, arXiv 2309.01507): groups of 128 with an f32 scale; element 2 i in the
 * low half of a byte. Signed: the same construction with 4 bits (7 negative values, 0, 8 positive);
 * unsigned, without zero: ((code + 1) / 16)^4 and not the paper's (code + 1) / 16, whose least
 * value lets small second moments grow to a sixteenth of their group's largest: 2,000 steps of a
 * small GPT (tools/bench/drift.sh) end 0.4 % below fp32 with this codebook, 4.2 % above with that
 * one.
 */
#ifndef BP_CORE_CODEC_H
#define BP_CORE_CODEC_H

#include "arena/base.h"

#define BP_CODEC_BLOCK 256 /* elements */

typedef enum bp_codec {
    BP_CODEC_F32,
    BP_CODEC_BLOCK8,
    BP_CODEC_COMPANDED8,
    BP_CODEC_BLOCK4,
    BP_CODEC_COUNT
} bp_codec;

/* Bytes before the codes of each block. */
static inline uint64_t bp_codec_header(int64_t form)
{
    return form == BP_CODEC_BLOCK8       ? 4
           : form == BP_CODEC_COMPANDED8 ? 16
           : form == BP_CODEC_BLOCK4     ? 8
                                         : 0;
}

/* Bytes of the codes of `count` elements, headers left out. */
static inline uint64_t bp_codec_code_bytes(uint64_t count, int64_t form)
{
    return form == BP_CODEC_F32      ? bp_size_mul(count, 4)
           : form == BP_CODEC_BLOCK4 ? bp_size_ceil_div(count, 2)
                                     : count;
}

/* Bytes of a state of `count` elements; saturates. */
static inline uint64_t bp_codec_bytes(uint64_t count, int64_t form)
{
    uint64_t headers = bp_size_mul(bp_size_ceil_div(count, BP_CODEC_BLOCK), bp_codec_header(form));
    return bp_size_add(headers, bp_codec_code_bytes(count, form));
}

/* The codebooks by code. */
extern const float bp_codec_signed[256];
extern const float bp_codec_unsigned[256];
extern const float bp_codec_signed4[16];

/* The states of one block: `count` <= 256 elements at `state`. The specification of what the
 * update kernels store; plain and slow. */
void bp_codec_encode(bp_codec form, bool has_sign, const float *values, uint32_t count,
                     void *state);
void bp_codec_decode(bp_codec form, bool has_sign, const void *state, uint32_t count,
                     float *values);

#endif
