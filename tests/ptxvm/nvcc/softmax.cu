/* SPDX-License-Identifier: MIT */
/* Softmax of rows, one warp each, expf. */
extern "C" __global__ void k(float *y, const float *x, int n)
{
    const float *row = x + blockIdx.x * n;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += 32) {
        top = fmaxf(top, row[i]);
    }
    for (int o = 16; o > 0; o >>= 1) {
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    }
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        sum += expf(row[i] - top);
    }
    for (int o = 16; o > 0; o >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    }
    for (int i = threadIdx.x; i < n; i += 32) {
        y[blockIdx.x * n + i] = expf(row[i] - top) / sum;
    }
}
