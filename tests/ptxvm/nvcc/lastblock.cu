/* SPDX-License-Identifier: MIT */
/* The last block to finish adds up what the others wrote. */
extern "C" __global__ void k(float *y, float *parts, unsigned *ticket, const float *x, int n)
{
    __shared__ bool last;
    float v = 0;
    if (threadIdx.x == 0) {
        for (int i = blockIdx.x; i < n; i += gridDim.x) {
            v += x[i];
        }
        parts[blockIdx.x] = v;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int b = 0; b < (int)gridDim.x; b++) {
            sum += parts[b];
        }
        *y = sum;
    }
}
