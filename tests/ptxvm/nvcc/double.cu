/* SPDX-License-Identifier: MIT */
/* Double precision functions of the toolkit. */
extern "C" __global__ void k(double *y, const double *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double v = x[i];
        y[i] = exp(-v) + sqrt(v) / (1.0 + v) + log(v + 1.0) + rint(v * 3.0) + cbrt(v);
    }
}
