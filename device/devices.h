/* SPDX-License-Identifier: MIT */
/* The devices that there are. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_DEVICE_DEVICES_H
#define BP_DEVICE_DEVICES_H

#include "core/ir/device_options.h"

/* Kernels in C on a pool of threads, in the caller's memory. Results depend neither on the number
 * of threads nor on the variant. */
extern const bp_device bp_device_host;

/* The same on the caller's own thread, with the kernels of device_options.kernels and no others: an
 * appliance links what its table names (docs/how-to/appliance.md). The bits are those of the host.
 * A model that needs another kernel is refused with its name when it is planned. */
extern const bp_device bp_device_bare;

/* An NVIDIA GPU through its driver alone, which is loaded when the device is opened. It brings its
 * own arena. */
extern const bp_device bp_device_cuda;

#endif
