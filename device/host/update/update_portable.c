/* SPDX-License-Identifier: MIT */
/* The update rules, portable form. */
#define BP_UPDATE_ROW(name) bp_host_##name

#include "device/host/update/update_blocks.h"
