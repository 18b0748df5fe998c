/* SPDX-License-Identifier: MIT */
/* What the files that plan products have in common: the bits of a product kernel's flags, and what
 * Hopper's own products need. */
#ifndef BP_DEVICE_CUDA_PLAN_PRODUCT_H
#define BP_DEVICE_CUDA_PLAN_PRODUCT_H

#include "device/cuda/plan.h"

/* Bits of a product kernel's `flags`, as device/cuda/kernels/products/matmul.cuh has them. */
#define TRANSPOSE_A  1u
#define TRANSPOSE_B  2u
#define ACCUMULATE   4u
#define GELU         8u
#define WIDE_A       16u
#define WIDE_B       32u
#define WIDE_C       64u
#define WIDE_ROWS    128u
#define TYPE_C       8
#define TYPE_OTHERS  10
#define TILE_ROWS    12 /* of Hopper's: rows of a tile by 128, less 1; columns by 32 */
#define TILE_COLUMNS 13

#define TENSOR_THREADS 128

#define HOPPER_BLOCKS 132 /* that run at once on most; what is split is counted by it on all */
#define HOPPER_LEAST  48  /* fewer blocks leave too much of the GPU idle */
#define HOPPER_BOX    64
#define HOPPER_MAP    131072 /* bytes: hardware may look so far behind the start of a tensor */

/* Why a product is none for Hopper's own kernels. */
#define HOPPER_SIDE  "a side of 2^31 or more"
#define HOPPER_ROWS  "rows that are no multiples of 16 bytes apart"
#define HOPPER_SMALL "an operand of less than 128 KiB"
#define HOPPER_FEW   "fewer than 48 tiles of 128 x 128"

/* How many blocks run at once, each of which makes one tile after the other. */
static inline uint64_t bp_cuda_blocks(const bp_cuda_target *target)
{
    return target->multiprocessors > 0 ? target->multiprocessors : HOPPER_BLOCKS;
}

/* Whether an operand of `lines` lines of 16-bit elements is no smaller than what hardware may look
 * at. */
bool bp_cuda_map_fits(int64_t lines, int64_t pitch);

/* Adds the tensor map of an operand of 16-bit elements, in boxes of HOPPER_BOX x HOPPER_BOX. */
void bp_cuda_product_map(bp_cuda_plan *plan, uint32_t operand, int64_t lines, int64_t length,
                         int64_t pitch);

#endif
