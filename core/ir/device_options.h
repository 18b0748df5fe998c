/* SPDX-License-Identifier: MIT */
/* What a user asks of a device. The table of functions that a device is stands in
 * core/ir/device.h. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_DEVICE_OPTIONS_H
#define BP_CORE_DEVICE_OPTIONS_H

#include "arena/base.h"
#include "core/base/dtype.h"

/* Every buffer starts at a multiple of this, and so does the arena, unless
 * bp_device_options.alignment asks for less. */
#define BP_ARENA_ALIGNMENT       256
#define BP_ARENA_ALIGNMENT_LEAST 32

/* A kernel that an application brings along: one row of the table that bp_device_bare takes. Forms
 * are objects of the library, bp_host_NAME for fp32, and for 16 bits bp_host_NAME_bf16 and _f16 or,
 * where one form serves all types, the same. */
typedef struct bp_host_kernel bp_host_kernel;
typedef struct bp_kernel_row {
    const char *name; /* as a listing says it, "matmul"; NULL: the table's end */
    bp_dtype element; /* that it works in */
    const bp_host_kernel *form;
} bp_kernel_row;

/* What the checks of products have seen (bp_device_options.verify): all 0 at first; the device adds
 * to it while it runs, and whoever owns it reads it between runs. */
typedef struct bp_checked {
    uint64_t ops;      /* products and attentions that were checked */
    uint64_t columns;  /* of products, computed again because their sums differed */
    uint64_t repaired; /* elements of products, and calls of attention, that were wrong */
    uint64_t own;      /* alarms where the check itself had been wrong, and the result was right */
    bool damaged;      /* computing again did not settle it */
    uint32_t kernel;   /* bp_kernel of the last op that was repaired or not settled */
    float level[64];   /* by kind of product: what rounding has made of the sums, in units */
} bp_checked;

/* Part of the plan, so it never depends on the machine found. */
typedef struct bp_device_options {
    uint32_t threads;    /* host: workers asked for, 1 .. BP_THREADS_MAX */
    const char *variant; /* host: "portable", "neon", "avx2", "avx512" or NULL: the best here;
                            cuda: "graph" (NULL), or "plain" for launches one by one */
    uint32_t ordinal;    /* GPU number */
    const char *target;  /* cuda: "sm_80", "sm_90a", ...; NULL is "sm_80", which every GPU runs */
    bool tf32;           /* cuda: fp32 products may round their inputs to TF32 */
    bool dequantizes; /* cuda:sm_90a: products of many rows with a matrix in 4 or 8 bits dequantize
                     it into their workspace first: fewer instructions, the same bits, at most the
                     bytes of the largest such matrix in 16 bits more */
    const bp_kernel_row *kernels; /* bare: what there is */
    uint32_t alignment; /* of buffers and arenas: 32, 64, 128 or 256, as far as the device allows
                           it (bp_device.alignment); 0: BP_ARENA_ALIGNMENT */
    bp_checked *verify; /* host: products and attention are checked while they run, by fast forms
                          with the bits of all; the caller's, until close; NULL: they are not */
} bp_device_options;

/* The alignment that the options ask for. */
static inline uint32_t bp_device_alignment(const bp_device_options *options)
{
    return options->alignment == 0 ? BP_ARENA_ALIGNMENT : options->alignment;
}

typedef struct bp_device bp_device;

#endif
