/* SPDX-License-Identifier: MIT */
/* Sums and maxima over a block, in a fixed order: within each warp pairwise at distance 16, 8, 4,
 * 2, 1, then over the warps' results the same way. Blocks have whole warps, at most 32. */
#ifndef BP_DEVICE_KERNELS_REDUCE_CUH
#define BP_DEVICE_KERNELS_REDUCE_CUH

#include "device/cuda/kernels/base.cuh"

/* Defines a reduction to lane 0 of a warp, then to every thread of the block. */
#define BP_BLOCK_REDUCTION(name, type, combined, neutral)                                          \
    BP_DEVICE type name##_warp(type a)                                                             \
    {                                                                                              \
        _Pragma("unroll 1") for (int distance = BP_WARP / 2; distance > 0; distance /= 2)          \
        {                                                                                          \
            type b = __shfl_xor_sync(BP_ALL_LANES, a, distance);                                   \
            a = combined;                                                                          \
        }                                                                                          \
        return a;                                                                                  \
    }                                                                                              \
    BP_DEVICE type name(type a)                                                                    \
    {                                                                                              \
        __shared__ type part[BP_WARP];                                                             \
        uint32_t lane = threadIdx.x % BP_WARP, warp = threadIdx.x / BP_WARP;                       \
        a = name##_warp(a);                                                                        \
        __syncthreads();                                                                           \
        if (lane == 0) {                                                                           \
            part[warp] = a;                                                                        \
        }                                                                                          \
        __syncthreads();                                                                           \
        a = lane < blockDim.x / BP_WARP ? part[lane] : (type)(neutral);                            \
        return name##_warp(a);                                                                     \
    }

BP_BLOCK_REDUCTION(bp_block_sum, float, a + b, 0.0f)
BP_BLOCK_REDUCTION(bp_block_max, float, b > a ? b : a, -INFINITY)
BP_BLOCK_REDUCTION(bp_block_sum_double, double, a + b, 0.0)

#endif
