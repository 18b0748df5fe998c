/* SPDX-License-Identifier: MIT */
/* Roundings to integers and directed arithmetic. */
extern "C" __global__ void k(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float r = roundf(v) + 2 * rintf(v) + 4 * floorf(v) + 8 * ceilf(v) + 16 * truncf(v);
        r += __fadd_ru(v, 1e-9f) - __fadd_rd(v, 1e-9f);
        r += (float)__float2int_rn(v) + (float)(unsigned char)(int)v + (float)(long long)v;
        y[i] = r + __fmul_rz(v, 0.1f);
    }
}
