/* SPDX-License-Identifier: MIT */
/* plain_rows.h compiled for NEON. */
#include "device/host/isa.h"
#include "device/host/arm/vector_neon.h"

#define BP_PLAIN(name) BP_BUILT(bp_##name##_neon)

#include "device/host/rows/plain_rows.h"
