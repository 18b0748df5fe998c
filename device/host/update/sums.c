/* SPDX-License-Identifier: MIT */
/* Sums of gradients in 8 bits, portable form. */
#define BP_SUMS(name) bp_host_##name

#include "device/host/update/update_sums.h"
