/* SPDX-License-Identifier: MIT */
/* The portable form of tape.h. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/elements/tape.h"
