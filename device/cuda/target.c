/* SPDX-License-Identifier: MIT */
/* The table of targets. */
#include "device/cuda/target.h"

#include <string.h>

/* From the one that every GPU runs to the most special one. The PTX of sm_80 is of version 7.4, but
 * the entry points are those of CUDA 12.0. That of sm_90a is of version 8.0; drivers before 12.8
 * compile it badly: up to 12.3 they serialise its products, up to 12.6 they spill. */
static const bp_cuda_target_row targets[] = {
    {"sm_80", "cuda sm_80", "cuda sm_80 tf32", 80, false, BP_CUDA_SHARED_LEAST, 12000},
    {"sm_90a", "cuda sm_90a", "cuda sm_90a tf32", 90, true, 227 * 1024, 12080},
};

#define TARGETS (sizeof targets / sizeof targets[0])

const bp_cuda_target_row *bp_cuda_target_find(const char *name)
{
    if (name == NULL) {
        return &targets[0];
    }
    for (size_t i = 0; i < TARGETS; i++) {
        if (strcmp(targets[i].name, name) == 0) {
            return &targets[i];
        }
    }
    return NULL;
}

static bool runs(const bp_cuda_target_row *row, uint32_t capability, uint32_t shared_bytes,
                 int driver)
{
    bool able = row->exact ? capability == row->capability : capability >= row->capability;
    return able && shared_bytes >= row->shared_bytes && driver >= row->driver;
}

const bp_cuda_target_row *bp_cuda_target_for(uint32_t capability, uint32_t shared_bytes, int driver)
{
    const bp_cuda_target_row *best = NULL;
    for (size_t i = 0; i < TARGETS; i++) {
        if (runs(&targets[i], capability, shared_bytes, driver)) {
            best = &targets[i];
        }
    }
    return best;
}

int bp_cuda_target_rank(const bp_cuda_target *target, const char *text)
{
    const bp_cuda_target_row *row = bp_cuda_target_find(text);
    bool takes =
        row != NULL && (row->exact ? target->hopper && target->capability == row->capability
                                   : target->capability >= row->capability);
    return takes ? (int)(row - targets) : -1;
}

bp_cuda_target bp_cuda_target_of(const bp_cuda_target_row *row, bool tf32)
{
    return (bp_cuda_target){.capability = row->capability,
                            .hopper = row->exact,
                            .tf32 = tf32,
                            .shared_limit = row->shared_bytes};
}
