/* SPDX-License-Identifier: MIT */
/* Bf16 conversions and packed arithmetic. */
#include <cuda_bf16.h>
extern "C" __global__ void k(__nv_bfloat162 *y, const float2 *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        __nv_bfloat162 v = __float22bfloat162_rn(x[i]);
        __nv_bfloat162 s = __hmul2(v, v);
        y[i] = __hfma2(s, v, __hmax2(v, __hneg2(v)));
    }
}
