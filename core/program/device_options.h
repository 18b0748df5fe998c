/* SPDX-License-Identifier: MIT */
/* What a user asks of a device. The table of functions that a device is stands in
 * core/program/device.h. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_DEVICE_OPTIONS_H
#define BP_CORE_DEVICE_OPTIONS_H

#include "arena/base.h"

/* Every buffer starts at a multiple of this, and so does the arena. */
#define BP_ARENA_ALIGNMENT 256

#define BP_THREADS_MAX 256

/* Part of the plan, so it never depends on the machine found. */
typedef struct bp_device_options {
    uint32_t threads;    /* host: workers asked for, 1 .. BP_THREADS_MAX */
    const char *variant; /* host: "portable", "avx2", "avx512" or NULL for the best this CPU has;
                            cuda: "graph" (NULL), or "plain" for launches one by one */
    uint32_t ordinal;    /* GPU number */
    const char *target;  /* cuda: "sm_80", "sm_90a", ...; NULL is "sm_80", which every GPU runs */
    bool tf32;           /* cuda: fp32 products may round their inputs to TF32 */
} bp_device_options;

typedef struct bp_device bp_device;

#endif
