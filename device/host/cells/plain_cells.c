/* SPDX-License-Identifier: MIT */
/* The portable form of plain_cells.h. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/cells/plain_cells.h"
