/* SPDX-License-Identifier: MIT */
/* The update rules as the compiler makes them of AVX2 vectors. */
#include "device/host/isa.h"

#define BP_UPDATE_ROW(name) bp_##name##_avx2

#include "device/host/x86/update_vector_avx2.h"

#include "device/host/update/update_blocks.h"
