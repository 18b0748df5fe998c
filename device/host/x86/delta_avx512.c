/* SPDX-License-Identifier: MIT */
/* delta.h and short_conv.h compiled for AVX-512. */
#include "device/host/isa.h"
#include "device/host/x86/vector_avx512.h"

#define BP_PLAIN(name) BP_BUILT(bp_##name##_avx512)

#include "device/host/cells/delta.h"
#include "device/host/cells/short_conv.h"
