/* SPDX-License-Identifier: MIT */
/* Constant and global initialised tables, a pointer among them. */
__constant__ float weights[5] = {0.5f, -1.0f, 2.0f, 4.0f, 0.25f};
__device__ int bias[3] = {10, 20, 30};
__device__ int *where = &bias[1];
__device__ unsigned calls;
extern "C" __global__ void k(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * weights[i % 5] + bias[i % 3] + *where;
        atomicAdd(&calls, 1u);
    }
}
