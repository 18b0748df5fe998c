/* SPDX-License-Identifier: MIT */
/* Single precision functions of the toolkit, each answer in a column of its own. */
extern "C" __global__ void k(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float *r = y + i * 24;
        r[0] = asinf(v);
        r[1] = acosf(v);
        r[2] = atanf(v);
        r[3] = atan2f(v, 0.25f);
        r[4] = sinhf(v);
        r[5] = coshf(v);
        r[6] = tanf(v);
        r[7] = log2f(v + 2.0f);
        r[8] = log1pf(v);
        r[9] = expm1f(v);
        r[10] = powf(v + 1.5f, 1.7f);
        r[11] = cbrtf(v);
        r[12] = hypotf(v, 2.0f);
        r[13] = erfcf(v);
        r[14] = tgammaf(v + 3.0f);
        r[15] = fmodf(v, 0.3f);
        r[16] = ldexpf(v, 3);
        r[17] = nextafterf(v, 2.0f);
        r[18] = rsqrtf(v + 1.0f);
        r[19] = fdimf(v, 0.2f);
        r[20] = copysignf(v, -1.0f);
        r[21] = exp10f(v);
        r[22] = tanhf(v);
        r[23] = erff(v);
    }
}
