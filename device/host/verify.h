/* SPDX-License-Identifier: MIT */
/* What stands between a program's ops and the kernels where the options ask for checks
 * (bp_device_options.verify): products and attention are found wrong while they run. */
#ifndef BP_DEVICE_HOST_VERIFY_H
#define BP_DEVICE_HOST_VERIFY_H

#include "device/host/device_private.h"

/* Bytes that an op's workspace has more for it, behind the kernel's own. */
uint64_t bp_host_verify_bytes(const bp_device_options *options, bp_kernel kernel,
                              const void *scalars);

host_verifier bp_host_verify;

#endif
