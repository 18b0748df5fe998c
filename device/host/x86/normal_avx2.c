/* SPDX-License-Identifier: MIT */
/* plain_normal.h compiled for AVX2. */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx2

#include "device/host/elements/plain_normal.h"
