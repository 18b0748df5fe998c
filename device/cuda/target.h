/* SPDX-License-Identifier: MIT */
/* Targets: what launches are planned for, by name and never by the machine found, so that the plan,
 * the launches and the results of a target are the same on every GPU that can run it. */
#ifndef BP_DEVICE_CUDA_TARGET_H
#define BP_DEVICE_CUDA_TARGET_H

#include "device/cuda/launch.h"

typedef struct bp_cuda_target_row {
    const char *name;         /* as in --device cuda:NAME */
    const char *variant;      /* names the kernel forms, for checkpoints */
    const char *variant_tf32; /* the same with fp32 products in TF32 */
    uint32_t capability;      /* least compute capability of a GPU: 80 is 8.0 */
    bool exact;               /* that capability and no later one */
    uint32_t shared_bytes;    /* shared memory that a block must be able to opt in to */
    int driver;               /* least driver version: 12000 is 12.0 */
} bp_cuda_target_row;

/* The target of a name; NULL names the first, which every supported GPU runs. NULL when there is
 * no such target. */
const bp_cuda_target_row *bp_cuda_target_find(const char *name);

/* The best target that a GPU of this capability and opted-in shared memory can run, under a driver
 * of this version. NULL when it can run none. */
const bp_cuda_target_row *bp_cuda_target_for(uint32_t capability, uint32_t shared_bytes,
                                             int driver);

/* Whether code compiled for the target named `text` runs on this one: the higher the more special
 * it is, and negative when it does not run. */
int bp_cuda_target_rank(const bp_cuda_target *target, const char *text);

/* What the launch planner takes. */
bp_cuda_target bp_cuda_target_of(const bp_cuda_target_row *row, bool tf32);

#endif
