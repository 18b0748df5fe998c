/* SPDX-License-Identifier: MIT */
/* A switch with many cases. */
extern "C" __global__ void k(int *y, const int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    int v = x[i], r = 0;
    switch (v) {
    case 0:
        r = v + i;
        break;
    case 1:
        r = v * i + 7;
        break;
    case 2:
        r = i / (v + 1);
        break;
    case 3:
        r = i % (v + 2);
        break;
    case 4:
        r = v ^ i;
        for (int j = 0; j < i % 4; j++)
            r += y[i] + j;
        break;
    case 5:
        r = ~i;
        break;
    case 6:
        r = i << v;
        break;
    case 7:
        r = i * i - 3;
        break;
    case 8:
        r = i * 31;
        break;
    default:
        r = -1;
        break;
    }
    y[i] = r;
}
