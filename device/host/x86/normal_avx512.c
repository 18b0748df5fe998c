/* SPDX-License-Identifier: MIT */
/* plain_normal.h compiled for AVX-512. */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx512

#include "device/host/elements/plain_normal.h"
