/* SPDX-License-Identifier: MIT */
/* plain_cells.h, plain_batchnorm.h and plain_windows.h, of fp32 alone, compiled for AVX-512. */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx512

#include "device/host/cells/plain_cells.h"
#include "device/host/images/plain_batchnorm.h"
#include "device/host/images/plain_windows.h"
