/* SPDX-License-Identifier: MIT */
/* Y = a x + y, the plainest kernel. */
extern "C" __global__ void k(float *y, const float *x, float a, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = a * x[i] + y[i];
    }
}
