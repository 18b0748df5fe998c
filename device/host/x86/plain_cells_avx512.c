/* SPDX-License-Identifier: MIT */
/* plain_cells.h compiled for AVX-512. */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx512

#include "device/host/cells/plain_cells.h"
