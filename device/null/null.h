/* SPDX-License-Identifier: MIT */
/* The null device: executes nothing and counts the ops that it is given. For plans, and for
 * tests that need a device but no kernel. */
#ifndef BP_DEVICE_NULL_NULL_H
#define BP_DEVICE_NULL_NULL_H

#include "core/ir/device.h"

typedef struct bp_null_counts {
    uint64_t linked[BP_KERNEL_COUNT]; /* ops of the programs that were linked, by kernel */
    uint64_t runs;
    uint64_t ops;            /* of these runs */
    uint64_t uploaded_bytes; /* to anywhere */
} bp_null_counts;

/* What a context of the device has counted since it was opened. */
const bp_null_counts *bp_null_counted(const void *context);

#endif
