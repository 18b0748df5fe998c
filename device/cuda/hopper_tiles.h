/* SPDX-License-Identifier: MIT */
/* The tiles of Hopper's own products of 16-bit elements, and what they take by a model of waves: a
 * block has tile after tile, each so many slices of 64 terms and what does not run beside them.
 *
 * No GPU was measured. Per slice: the larger of 2,048 multiply-adds a clock and the bytes of both
 * operands, in whole panels of 64, at 46.6 a clock, which is what a level-2 cache gives each of 132
 * multiprocessors at once. Per tile: 700 until the first slice has come, and the tile's bytes in 16
 * bits at the same rate. On a Hopper tools/bench/gpu_kernels.c prints these rows anew, in a unit of
 * time; they choose who makes a product, and never its bits. */
#ifndef BP_DEVICE_CUDA_HOPPER_TILES_H
#define BP_DEVICE_CUDA_HOPPER_TILES_H

#include "device/cuda/plan_product.h"

typedef struct bp_hopper_tile {
    uint32_t rows;
    uint32_t columns;
    uint32_t shared;       /* bytes: the ring of slices, 2 x 64 x 64 sums, barriers */
    uint32_t slice_clocks; /* of both operands, multiplied */
    uint32_t tile_clocks;  /* of a tile beside its slices */
} bp_hopper_tile;

static const bp_hopper_tile bp_hopper_tiles[] = {
    {128, 128, 212048, 703, 1403},  {256, 128, 195632, 1055, 2106}, {256, 160, 220208, 1280, 2458},
    {256, 192, 220208, 1536, 2810}, {128, 192, 212032, 879, 1755},
};

#define BP_HOPPER_TILES (sizeof bp_hopper_tiles / sizeof bp_hopper_tiles[0])

#endif
