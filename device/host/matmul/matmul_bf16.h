/* SPDX-License-Identifier: MIT */
/* The products of bf16 of the NEON form, where a processor has them (bp_cpu_has_bf16). */
#ifndef BP_DEVICE_HOST_MATMUL_BF16_H
#define BP_DEVICE_HOST_MATMUL_BF16_H

#include "device/host/matmul/matmul_pack.h"

extern const bp_matmul_pairs bp_matmul_pairs_neon;

#endif
