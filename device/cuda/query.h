/* SPDX-License-Identifier: MIT */
/* What GPUs this machine has, and in words why one of them cannot be used. For a program's own
 * listing and its choice of target; the CUDA device itself asks nothing of this. */
#ifndef BP_DEVICE_CUDA_QUERY_H
#define BP_DEVICE_CUDA_QUERY_H

#include "core/base/error.h"
#include "core/ir/device.h"

#define BP_CUDA_NAME_MAX 96
#define BP_CUDA_LOG_MAX  4096

typedef struct bp_cuda_gpu {
    char name[BP_CUDA_NAME_MAX];
    unsigned char uuid[16];
    uint32_t capability; /* 90 is 9.0 */
    uint32_t multiprocessors;
    uint32_t shared_bytes; /* shared memory that a block may opt in to */
    uint64_t memory_bytes; /* all of it */
    int driver;            /* 12020 is 12.2: what the installed driver supports */
    const char *target;    /* the best one it runs, for bp_device_options; NULL: it is of no use */
    const char *reason;    /* static: why it is of no use; NULL when it is */
} bp_cuda_gpu;

typedef struct bp_cuda_probe {
    uint64_t free_bytes;       /* with a context and before any allocation */
    uint32_t modules;          /* of PTX that the target may need */
    double jit_seconds;        /* to compile them all */
    char log[BP_CUDA_LOG_MAX]; /* the compiler's words about one that it refused; "" else */
} bp_cuda_probe;

/* The number of GPUs and the driver's version. BP_ERR_DEVICE, with the reason in words, when there
 * is no driver, when it is too old to have what is needed, or when it finds no GPU. */
bp_status bp_cuda_query_count(uint32_t *count, int *driver, bp_error *error) BP_MUST_CHECK;

/* Describes GPU number `ordinal`. A GPU that cannot be used is no error: gpu->reason says why.
 * Makes no context and takes no memory on the GPU. */
bp_status bp_cuda_query(uint32_t ordinal, bp_cuda_gpu *gpu, bp_error *error) BP_MUST_CHECK;

/* Whose PTX texts a target (NULL: sm_80) runs: its own, beside sm_80's, where there are any, else
 * "sm_80". NULL when there is no such target. Asks no driver. */
const char *bp_cuda_query_texts(const char *target);

/* Why an op of a plan for a target (NULL: sm_80) runs with kernels for every GPU although the
 * target has kernels of its own for its kind: bp_cuda_plan_misses. Asks no driver. */
const char *bp_cuda_query_misses(const char *target, const bp_linked_op *op);

/* Makes a context, compiles every PTX module that the target (NULL: sm_80) may need, and gives all
 * of it back: hundreds of megabytes of the GPU for as long as it takes. The time is that of a cold
 * start when nothing in this process has used the driver before (the environment variable
 * CUDA_CACHE_DISABLE is set, which the driver reads once). */
bp_status bp_cuda_query_probe(uint32_t ordinal, const char *target, bp_cuda_probe *probe,
                              bp_error *error) BP_MUST_CHECK;

#endif
