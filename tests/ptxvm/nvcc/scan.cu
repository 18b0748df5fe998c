/* SPDX-License-Identifier: MIT */
/* Inclusive sum of a warp by shfl_up. */
extern "C" __global__ void k(int *y, const int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? x[i] : 0;
    for (int o = 1; o < 32; o *= 2) {
        int u = __shfl_up_sync(0xffffffffu, v, o);
        if (threadIdx.x % 32 >= (unsigned)o) {
            v += u;
        }
    }
    if (i < n) {
        y[i] = v;
    }
}
