/* SPDX-License-Identifier: MIT */
/* Matrix products of 16-bit elements on Hopper's own tensor instructions: the sums, and what
 * follows them, in the order and with the bits of matmul_16.cu.
 *
 * A block makes one tile of c after the other, of 128 x 128 or of 256 x 128. One thread brings
 * slices of DEPTH terms of both operands by tensor maps into a ring of STAGES; two warpgroups
 * multiply them, each half of the tile's rows, with wgmma. An operand keeps the direction that it
 * has in memory: a slice is panels of 64 elements along that direction by 64 lines, in the pattern
 * of 128 bytes. */
#include "device/kernels/matmul_hopper.cuh"

BP_DEVICE void slices_bring(const bp_share *s, const bp_map *map_a, const bp_map *map_b)
{
    bool along_a = (s->p->flags & BP_TRANSPOSE_A) != 0;
    bool along_b = (s->p->flags & BP_TRANSPOSE_B) == 0;
    const uint32_t rows = s->rows, stages = STAGES(rows);
    uint32_t stage = 0, turn = 1; /* an empty ring waits for the turn before its first */
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < s->tiles; tile += gridDim.x) {
        uint32_t row, column;
        tile_at(s, tile, &row, &column);
#pragma unroll 1
        for (uint32_t slice = 0; slice < s->slices; slice++) {
            uint32_t to = s->ring + stage * SLICE(rows), full = s->full + stage * 8;
            uint32_t term = s->first + slice * DEPTH;
            bp_barrier_wait(s->empty + stage * 8, turn);
            bp_barrier_expect(full, SLICE(rows));
            slice_bring(to, map_a, full, along_a, row, term, 2 * rows);
            slice_bring(to + 2 * rows * PANEL, map_b, full, along_b, column, term, 2);
            stage = stage + 1 == stages ? 0 : stage + 1;
            turn ^= stage == 0;
        }
    }
}

#define PARAMETERS                                                                                 \
    BP_PRODUCT_PARAMETERS, const __grid_constant__ bp_map map_a,                                   \
        const __grid_constant__ bp_map map_b

/* Both kernels: `rows` is a constant of each. */
BP_DEVICE void product_make(const bp_product *p, const bp_map *map_a, const bp_map *map_b,
                            unsigned char *memory, uint32_t rows)
{
    uint32_t base = bp_shared_address(memory), ring = (base + 1023) / 1024 * 1024;
    const bp_share share = share_of(p, ring, rows);
    ring_begin(&share, 1);
    uint32_t group = threadIdx.x / GROUP;
    if (group == 2) {
        bp_registers_give(40);
        if (threadIdx.x / BP_WARP == 2 * GROUP / BP_WARP && bp_elect()) {
            slices_bring(&share, map_a, map_b);
        }
    } else {
        bp_registers_take(232);
        slices_multiply(&share, group, (float *)(memory + (ring - base) + OUT(rows)));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) bp_matmul_hopper(PARAMETERS)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = BP_PRODUCT_GATHER;
    product_make(&product, &map_a, &map_b, memory, 1);
}

/* Tiles of 256 x 128: b's slices serve twice as many rows. What has so many tiles is not split. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) bp_matmul_hopper_256(PARAMETERS)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    if (m == 0) {
        return;
    }
    bp_product product = BP_PRODUCT_GATHER;
    product.splits = 1;
    product_make(&product, &map_a, &map_b, memory, 2);
}
