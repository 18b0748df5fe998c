/* SPDX-License-Identifier: MIT */
/* Tanhf, erff and logf with fast mathematics and flushed subnormals. */
extern "C" __global__ void k(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float t = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
        y[i] = t + erff(v) + logf(1.0f + v * v) + __powf(2.0f, v);
    }
}
