/* SPDX-License-Identifier: MIT */
/* Given to the compiler in front of every source of a freestanding build (-include): where neither
 * the processor nor the C library promises a fused multiply-add, our own takes its name. */
#ifndef BP_DEVICE_BARE_FUSED_H
#define BP_DEVICE_BARE_FUSED_H

#include <math.h>

#include "core/base/fused.h"

#if !defined(__FP_FAST_FMA)
#define fma bp_fma
#endif
#if !defined(__FP_FAST_FMAF) && defined(__riscv_float_abi_soft)
#define fmaf bp_fmaf_integers
#elif !defined(__FP_FAST_FMAF)
#define fmaf bp_fmaf
#endif

#endif
