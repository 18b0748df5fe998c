/* SPDX-License-Identifier: MIT */
/* Sum of each block through shared memory and shuffles. */
__device__ float warp_sum(float v)
{
    for (int o = 16; o > 0; o >>= 1) {
        v += __shfl_xor_sync(0xffffffffu, v, o);
    }
    return v;
}
extern "C" __global__ void k(float *y, const float *x, int n)
{
    __shared__ float parts[8];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        v += x[i];
    }
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = v;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        v = warp_sum(v);
        if (threadIdx.x == 0) {
            y[blockIdx.x] = v;
        }
    }
}
