/* SPDX-License-Identifier: MIT */
/* Arrays indexed at run time live in local memory. */
extern "C" __global__ void k(int *y, const int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int stack[24];
        for (int j = 0; j < 24; j++) {
            stack[j] = x[(i + j) % n];
        }
        for (int j = 1; j < 24; j++) {
            int v = stack[j], at = j;
            while (at > 0 && stack[at - 1] > v) {
                stack[at] = stack[at - 1];
                at--;
            }
            stack[at] = v;
        }
        y[i] = stack[x[i] & 15] * 2 + stack[23];
    }
}
