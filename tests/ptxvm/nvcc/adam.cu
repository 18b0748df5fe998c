/* SPDX-License-Identifier: MIT */
/* Vector loads and stores, sqrtf and division. */
extern "C" __global__ void k(float4 *w, float4 *m, float4 *v, const float4 *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 a = w[i], b = m[i], c = v[i], d = g[i];
        float *p = &a.x, *q = &b.x, *r = &c.x, *s = &d.x;
        for (int j = 0; j < 4; j++) {
            q[j] = 0.9f * q[j] + 0.1f * s[j];
            r[j] = 0.99f * r[j] + 0.01f * s[j] * s[j];
            p[j] -= rate * q[j] / (sqrtf(r[j]) + 1e-8f);
        }
        w[i] = a;
        m[i] = b;
        v[i] = c;
    }
}
