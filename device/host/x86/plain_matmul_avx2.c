/* SPDX-License-Identifier: MIT */
/* plain_matmul.h for processors with FMA: the portable form's products there (isa.c). */
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_plain_##name##_avx2

#include "device/host/matmul/plain_matmul.h"
