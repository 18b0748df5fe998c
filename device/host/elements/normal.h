/* SPDX-License-Identifier: MIT */
/* What all forms of random_normal share. */
#ifndef BP_DEVICE_HOST_NORMAL_H
#define BP_DEVICE_HOST_NORMAL_H

#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"

/* A task is a run of elements, of even length unless it is the last, so variates come in pairs. */
static inline uint64_t bp_normal_tasks(const void *scalars)
{
    const bp_random_normal_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* The seed of a call, which may change from time to time. */
static inline uint64_t bp_normal_seed(const bp_host_call *call)
{
    const bp_random_normal_scalars *s = call->scalars;
    const bp_random_normal_pointers *p = call->pointers;
    const uint64_t seed = ((const bp_step_block *)p->step)->seed;
    if (s->interval == 0 || p->control == NULL) {
        return seed;
    }
    const uint64_t applied = ((const bp_control_block *)p->control)->applied;
    return bp_interval_key(seed, (applied > 0 ? applied - 1 : 0) / (uint64_t)s->interval);
}

#endif
