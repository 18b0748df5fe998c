/* SPDX-License-Identifier: MIT */
/* Weights of 3 bytes: an e4m3 code that products read, and a 16-bit remainder.
 *
 * A tensor is flattened and cut into blocks of 256 elements, of four groups of 64; the last block
 * has what is left. A block is a header of four bytes, one for each group, then its codes, one byte
 * an element: 1.0156 bytes an element. The remainders are a tensor of their own, 2 bytes an
 * element.
 *
 * With m the largest magnitude of a group, rounded to 20 significant bits, the group's scale is 2^e
 * with the least e for which m / 2^e is at most 448, e4m3's largest number, and not below -117; its
 * byte is e + 127. x / 2^e is kept as e4m19: sign, 4 bits of exponent with bias 7, 19 bits of
 * fraction, numbers below 2^-6 in steps of 2^-25; to nearest, ties to even. Of these 24 bits b the
 * code is the high 8 of b + 0x8000, e4m3 as in core/ops/tape.h, and the remainder the low 16 of
 * b, as in master.h's SPLIT: the high part of b is the code, less 1 where the remainder is 0x8000
 * or more. So code and remainder give the 24 bits again, and a weight that is read is its master
 * rounded to e4m3, half away from zero.
 *
 * A master is within 2^-20 of its value, or within 2^(e - 26) where that is more: below 2^(e - 6).
 * Storing what was loaded stores the same bytes, and scales depend on the values of the group
 * alone, not on what was there before. A group with an infinity or a NaN has byte 255 and loads as
 * NaN. */
#ifndef BP_CORE_FP8_H
#define BP_CORE_FP8_H

#include "arena/base.h"

#define BP_FP8_BLOCK  256 /* elements of a block: that of optimizer states */
#define BP_FP8_GROUP  64  /* elements that share a scale */
#define BP_FP8_HEADER 4   /* bytes before a block's codes */

/* Bytes of the codes of `count` elements and of their headers; saturates. */
static inline uint64_t bp_fp8_bytes(uint64_t count)
{
    const uint64_t blocks = bp_size_ceil_div(count, BP_FP8_BLOCK);
    return bp_size_add(count, bp_size_mul(blocks, BP_FP8_HEADER));
}

/* Codes and remainders of `count` values from the beginning of a block on. */
void bp_fp8_store(const float *values, uint64_t count, uint8_t *codes, uint16_t *rest);

/* The masters that they are. */
void bp_fp8_load(const uint8_t *codes, const uint16_t *rest, uint64_t count, float *values);

/* Element number `index` as products read it: exact in bf16. */
float bp_fp8_read(const uint8_t *codes, uint64_t index);

#endif
