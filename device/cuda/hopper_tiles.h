/* SPDX-License-Identifier: MIT */
/* The tiles of Hopper's own products of 16-bit elements, and what they take by a model of waves: a
 * block has tile after tile, each so many slices of 64 terms and what does not run beside them.
 *
 * No GPU was measured. Per slice: the larger of 4,096 multiply-adds a clock and the bytes of both
 * operands at 46.6 a clock, which is what a level-2 cache gives each of 132 multiprocessors at
 * once. Per tile: 700 until the first slice has come, and the tile's bytes in 16 bits at the same
 * rate. Whoever measures writes these numbers anew: they choose who makes a product, and never its
 * bits. */
#ifndef BP_DEVICE_CUDA_HOPPER_TILES_H
#define BP_DEVICE_CUDA_HOPPER_TILES_H

#include "device/cuda/plan_product.h"

typedef struct bp_hopper_tile {
    uint32_t rows; /* by 128 columns */
    uint32_t function;
    uint32_t shared;       /* bytes: the ring of slices, the sums of 128 rows, barriers */
    uint32_t slice_clocks; /* of both operands, multiplied */
    uint32_t tile_clocks;  /* of a tile beside its slices */
} bp_hopper_tile;

static const bp_hopper_tile bp_hopper_tiles[] = {
    {128, BP_CUDA_FUNCTION_matmul_hopper, 199744, 703, 1403},
    {256, BP_CUDA_FUNCTION_matmul_hopper_256, 216112, 1055, 2106},
};

#define BP_HOPPER_TILES (sizeof bp_hopper_tiles / sizeof bp_hopper_tiles[0])

#endif
