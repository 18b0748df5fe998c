/* SPDX-License-Identifier: MIT */
/* Printf is an extern function and refused. */
#include <cstdio>
extern "C" __global__ void k(int *y)
{
    printf("%d", y[threadIdx.x]);
}
