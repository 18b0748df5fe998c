/* SPDX-License-Identifier: MIT */
/* Sums of gradients in 8 bits as the compiler makes them of AVX2 vectors. */
#include "device/host/isa.h"

#define BP_SUMS(name) bp_##name##_avx2

#include "device/host/update/update_sums.h"
