/* SPDX-License-Identifier: MIT */
/* The tape in 8 bits: rows of floats as e4m3 codes with a scale for each block of 128 of a row.
 *
 * A row of `width` elements is cut into blocks of 128; the last one has what is left, and none
 * reaches into another row, so that a row's codes do not depend on its neighbours. With m the
 * largest magnitude of a block, its scale is 2^e with the least e for which m / 2^e is at most 448,
 * e4m3's largest number, and not below -117; stored is the byte e + 127. A code is the e4m3 number
 * (sign, 4 bits of exponent with bias 7, 3 bits of mantissa, as in OCP's "fn" variant without
 * infinities) nearest to x / 2^e, ties to even; the value is code * 2^e, which is exact in bf16 and
 * fp32, and in fp16 bounded by its largest number. So |x - value| is at most |x| / 16 where |x| is
 * at least 2^e / 64, and at most 2^e / 1024 below. -0 stays -0.
 *
 * Where an element of a block is not finite the byte is 255 and all values of the block are NaN:
 * what comes of them is seen as an overflow.
 *
 * Packed: all codes, row after row without padding, then all scales likewise. Packing values that
 * have been packed and unpacked gives the same values again. */
#ifndef BP_CORE_TAPE_H
#define BP_CORE_TAPE_H

#include "arena/base.h"

#define BP_TAPE_BLOCK 128 /* elements */

/* Bytes of `rows` packed rows; saturates. */
static inline uint64_t bp_tape_bytes(uint64_t rows, uint64_t width)
{
    const uint64_t scales = bp_size_ceil_div(width, BP_TAPE_BLOCK);
    return bp_size_mul(rows, bp_size_add(width, scales));
}

#endif
