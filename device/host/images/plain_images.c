/* SPDX-License-Identifier: MIT */
/* The portable form of plain_windows.h and plain_batchnorm.h. */
#define BP_PLAIN(name) bp_host_##name

#include "device/host/images/plain_batchnorm.h"
#include "device/host/images/plain_windows.h"
