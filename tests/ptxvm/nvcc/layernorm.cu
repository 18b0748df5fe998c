/* SPDX-License-Identifier: MIT */
/* Mean, variance and scale of a row, rsqrtf. */
extern "C" __global__ void k(float *y, const float *x, const float *g, const float *b, int n)
{
    __shared__ float s[2];
    const float *row = x + (size_t)blockIdx.x * n;
    float m = 0, v = 0;
    if (threadIdx.x < 32) {
        for (int i = threadIdx.x; i < n; i += 32) {
            m += row[i];
        }
        for (int o = 16; o > 0; o >>= 1) {
            m += __shfl_xor_sync(0xffffffffu, m, o);
        }
        m /= n;
        for (int i = threadIdx.x; i < n; i += 32) {
            v += (row[i] - m) * (row[i] - m);
        }
        for (int o = 16; o > 0; o >>= 1) {
            v += __shfl_xor_sync(0xffffffffu, v, o);
        }
        if (threadIdx.x == 0) {
            s[0] = m;
            s[1] = rsqrtf(v / n + 1e-5f);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[(size_t)blockIdx.x * n + i] = (row[i] - s[0]) * s[1] * g[i] + b[i];
    }
}
