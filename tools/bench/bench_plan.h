/* SPDX-License-Identifier: MIT */
/* Planning in new memory. */
#ifndef BP_TOOLS_BENCH_PLAN_H
#define BP_TOOLS_BENCH_PLAN_H

#include <stdlib.h>

#include "core/plan/planned.h"

/* Counts and plans a spec; *memory is the caller's to free, whatever the answer. */
static inline bool bench_plan(bp_plan *plan, const bp_spec *spec, void **memory)
{
    const uint64_t scratch = bp_plan_scratch(spec);
    *memory = malloc((size_t)scratch);
    if (*memory == NULL || bp_plan_count(plan, spec, *memory, scratch) != BP_OK) {
        return false;
    }
    free(*memory);
    *memory = malloc((size_t)plan->host_bytes);
    return *memory != NULL && bp_plan_make_counted(plan, *memory, plan->host_bytes) == BP_OK;
}

#endif
