/* SPDX-License-Identifier: MIT */
/* A libcuda.so.1 for tests as an old driver's may be: it has the first entry point and no other. */
int cuInit(unsigned flags);

int cuInit(unsigned flags)
{
    return flags == 0 ? 0 : 1;
}
