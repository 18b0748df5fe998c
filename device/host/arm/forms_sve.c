/* SPDX-License-Identifier: MIT */
/* The table of the SVE form: products; all else is NEON's. */
#include "device/host/isa.h"

#define PRODUCTS                                                                                   \
    [BP_KERNEL_matmul] = &bp_matmul_sve, [BP_KERNEL_matmul_quantised] = &bp_matmul_quantised_sve

const bp_host_isa bp_host_sve = {"sve", {{PRODUCTS}, {PRODUCTS}, {PRODUCTS}}, NULL, NULL, NULL};
