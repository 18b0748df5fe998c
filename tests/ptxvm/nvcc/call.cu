/* SPDX-License-Identifier: MIT */
/* Device functions that are not inlined, a structure by value. */
struct pair {
    int a;
    double b;
    short c[3];
};
__device__ __noinline__ pair twist(pair p, int i)
{
    pair r;
    r.a = p.a * 3 + i;
    r.b = p.b * 0.5 + p.c[i % 3];
    for (int j = 0; j < 3; j++) {
        r.c[j] = (short)(p.c[2 - j] + i);
    }
    return r;
}
__device__ __noinline__ int early(int v)
{
    if (v % 3 == 0) {
        return -v;
    }
    if (v % 5 == 0) {
        return v * 100;
    }
    return v;
}
extern "C" __global__ void k(double *y, const int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        pair p = {x[i], (double)x[i], {1, 2, 3}};
        pair q = twist(twist(p, i), i + 1);
        y[i] = q.a + q.b + q.c[0] * 10 + q.c[1] * 100 + q.c[2] * 1000 + early(i);
    }
}
