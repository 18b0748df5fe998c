/* SPDX-License-Identifier: MIT */
/* The tile of the SVE form, which else is NEON's. */
#ifndef BP_DEVICE_HOST_MATMUL_SVE_H
#define BP_DEVICE_HOST_MATMUL_SVE_H

#include "device/host/matmul/matmul_pack.h"

void bp_matmul_tile_sve(const bp_matmul_tile *t);

#endif
