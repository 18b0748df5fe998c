/* SPDX-License-Identifier: MIT */
/* 64-bit products, quotients and bit counts. */
extern "C" __global__ void k(unsigned long long *y, const unsigned long long *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned long long a = x[i], b = x[(i + 1) % n] | 1;
        long long s = (long long)a;
        y[i] = __umul64hi(a, b) ^ (a / b) ^ (a % b) ^ (unsigned long long)(s / 7) ^
               (unsigned long long)__popcll(a) ^ ((unsigned long long)__clzll((long long)b) << 32) ^
               __brevll(a);
    }
}
