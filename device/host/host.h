/* SPDX-License-Identifier: MIT */
/* The host device: kernels in C on a pool of threads. */
#ifndef BP_DEVICE_HOST_HOST_H
#define BP_DEVICE_HOST_HOST_H

#include "core/ir/device.h"
#include "device/devices.h"

/* bp_device_host. open: BP_ERR_USAGE for more than BP_THREADS_MAX threads (0 counts as 1), an
 * unknown variant or an arena that is missing or not aligned; BP_ERR_DEVICE for a variant that this
 * processor lacks or threads that the system refuses. link: `memory` aligned to 16 bytes. run
 * returns when the program has ended. Results depend neither on the number of threads nor on the
 * variant. */

#endif
