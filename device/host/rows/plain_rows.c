/* SPDX-License-Identifier: MIT */
/* The portable form of plain_rows.h. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/rows/plain_rows.h"
