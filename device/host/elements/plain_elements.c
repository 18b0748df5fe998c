/* SPDX-License-Identifier: MIT */
/* The portable form of plain_elements.h. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/elements/plain_elements.h"
