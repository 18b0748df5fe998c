/* SPDX-License-Identifier: MIT */
/* A factor for every element. */
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

static uint64_t scale_tasks(const void *scalars)
{
    const bp_scale_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of elements. */
static void scale_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_scale_scalars *s = call->scalars;
    const bp_scale_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, 0);
    const float factor = (float)s->factor;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        bp_element_store(p->y, i, bp_element_load(p->x, i, type) * factor, type);
    }
}

const bp_host_kernel bp_host_scale = {scale_tasks, scale_run, NULL};
