/* SPDX-License-Identifier: MIT */
/* delta.h and short_conv.h compiled for AVX2. */
#include "device/host/isa.h"
#include "device/host/x86/vector_avx2.h"

#define BP_PLAIN(name) BP_BUILT(bp_##name##_avx2)

#include "device/host/cells/delta.h"
#include "device/host/cells/short_conv.h"
