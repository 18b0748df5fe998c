/* SPDX-License-Identifier: MIT */
/* Half2 arithmetic and comparison. */
#include <cuda_fp16.h>
extern "C" __global__ void k(__half2 *y, const float2 *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        __half2 v = __float22half2_rn(x[i]);
        __half2 limit = __float2half2_rn(2.0f);
        __half2 big = __hgt2(v, limit);
        y[i] = __hfma2(v, v, __hadd2(big, __hsub2(v, limit)));
    }
}
