/* SPDX-License-Identifier: MIT */
/* The same compiled for AVX2. */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx2

#include "device/host/images/plain_batchnorm.h"
#include "device/host/images/plain_windows.h"
