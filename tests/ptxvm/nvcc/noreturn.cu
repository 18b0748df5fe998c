/* SPDX-License-Identifier: MIT */
/* __trap and a block size bound. */
extern "C" __global__ void __launch_bounds__(64) k(int *y, int n)
{
    if ((int)threadIdx.x >= n) {
        __trap();
    }
    y[threadIdx.x] = n;
}
