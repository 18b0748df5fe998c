/* SPDX-License-Identifier: MIT */
/* A function that calls itself is refused. */
__device__ __noinline__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
extern "C" __global__ void k(int *y)
{
    y[threadIdx.x] = fib(threadIdx.x);
}
