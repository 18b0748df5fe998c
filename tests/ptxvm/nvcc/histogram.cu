/* SPDX-License-Identifier: MIT */
/* Shared and global integer atomics. */
extern "C" __global__ void k(unsigned *counts, const unsigned char *x, int n)
{
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&local[x[i]], 1u);
    }
    __syncthreads();
    if (local[threadIdx.x] != 0) {
        atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
    }
}
