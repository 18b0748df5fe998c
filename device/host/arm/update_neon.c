/* SPDX-License-Identifier: MIT */
/* The update rules as the compiler makes them of NEON vectors, with state of 8 bits by register. */
#include "device/host/isa.h"

#define BP_UPDATE_ROW(name) bp_##name##_neon

#include "device/host/arm/codec_neon.h"

#include "device/host/update/update_blocks.h"
