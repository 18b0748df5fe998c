/* SPDX-License-Identifier: MIT */
/* A call through a pointer is refused. */
__device__ __noinline__ int plus(int a)
{
    return a + 1;
}
__device__ __noinline__ int minus(int a)
{
    return a - 1;
}
__device__ int (*table[2])(int) = {plus, minus};
extern "C" __global__ void k(int *y)
{
    y[threadIdx.x] = table[y[threadIdx.x] & 1](threadIdx.x);
}
