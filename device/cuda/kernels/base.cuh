/* SPDX-License-Identifier: MIT */
/* What every kernel file starts with: the words of the subset, and the project's float functions as
 * device code.
 *
 * Kernels are written in a C subset of CUDA C: no classes, no templates, no device heap, no printf.
 * They are compiled with -fmad=false: a fused multiply-add is written fmaf() or fma(), everything
 * else rounds once per operation, as on the host. Every kernel returns at once when its parameters
 * are all zero (device/cuda/launch.h). */
#ifndef BP_DEVICE_KERNELS_BASE_CUH
#define BP_DEVICE_KERNELS_BASE_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

/* core/base/math_inline.h says `static inline`; here that means a device function. */
#define inline __forceinline__ __device__
#include "core/base/math_inline.h"
#undef inline

#include "core/ir/step.h"

#define BP_KERNEL      extern "C" __global__ void
#define BP_DEVICE      static __forceinline__ __device__
#define BP_WARP        32
#define BP_ALL_LANES   0xffffffffu
#define BP_RUN_THREADS 256 /* of an elementwise block; each thread takes 4 elements */

BP_DEVICE uint64_t bp_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* First of the four elements of this thread in an elementwise kernel. */
BP_DEVICE uint64_t bp_run_first(void)
{
    return ((uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x) * 4;
}

#endif
