/* SPDX-License-Identifier: MIT */
/* Matrix products of 16-bit elements on Hopper's own tensor instructions: the sums, and what
 * follows them, in the order and with the bits of matmul_16.cu.
 *
 * A block makes one tile of c after the other. One thread brings slices of DEPTH terms of both
 * operands by tensor maps into a ring; two warpgroups multiply them, each half of the tile's rows,
 * with wgmma. An operand keeps the direction that it has in memory: a slice is panels of 64
 * elements along that direction by 64 lines, in the pattern of 128 bytes. */
#include "device/cuda/kernels/products/matmul_hopper_shapes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    bp_matmul_hopper(BP_PRODUCT_PARAMETERS, const __grid_constant__ bp_map map_a,
                     const __grid_constant__ bp_map map_b)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = BP_PRODUCT_GATHER;
    const uint32_t base = bp_shared_address(memory), ring = (base + 1023) / 1024 * 1024;
    const bp_shaped share = shaped_of(&product, ring);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < share.stages; i++) {
            bp_barrier_init(share.full + i * 8, 1);
            bp_barrier_init(share.empty + i * 8, 2);
        }
        bp_barrier_init_fence();
    }
    __syncthreads();
    const uint32_t group = threadIdx.x / GROUP;
    if (group == 2) {
        bp_registers_give(40);
        if (threadIdx.x / BP_WARP == 2 * GROUP / BP_WARP && bp_elect()) {
            shaped_bring(&share, &map_a, &map_b);
        }
    } else {
        bp_registers_take(232);
        shaped_make(&share, group);
    }
}
