/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), as core/base/random.c has it. */
#ifndef BP_DEVICE_KERNELS_PHILOX_CUH
#define BP_DEVICE_KERNELS_PHILOX_CUH

#include "device/cuda/kernels/base.cuh"

BP_DEVICE void bp_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key,
                         uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll 1
    for (int round = 0; round < 10; round++) {
        uint32_t low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0);
        uint32_t low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
