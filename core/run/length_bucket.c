/* SPDX-License-Identifier: MIT */
/* Length buckets on a device. */
#include "core/run/length_bucket.h"

#include "core/run/runtime.h"

/* What a length runs: the first and the later micro-batches of a group, or its only program, and
 * evaluation. */
enum { PROGRAM_FIRST, PROGRAM_NEXT, PROGRAM_EVALUATES, PROGRAMS };

typedef char
    programs_fit[BP_PROGRAM_COUNT + BP_LENGTH_BUCKETS_MAX * PROGRAMS <= BP_PROGRAMS_MAX ? 1 : -1];

uint32_t bp_length_bucket_program(const bp_runtime *runtime, const bp_length_bucket *bucket,
                                  bp_program_kind program)
{
    const uint32_t which = (uint32_t)(bucket - runtime->plan->buckets);
    const uint32_t part = program == BP_PROGRAM_EVAL         ? PROGRAM_EVALUATES
                          : program == BP_PROGRAM_MICRO_NEXT ? PROGRAM_NEXT
                                                             : PROGRAM_FIRST;
    return BP_PROGRAM_COUNT + which * PROGRAMS + part;
}

bp_length_run *bp_length_bucket_run(const bp_runtime *runtime, const bp_length_bucket *bucket)
{
    return &runtime->lengths[bucket - runtime->plan->buckets];
}

bp_status bp_length_bucket_link(bp_runtime *runtime)
{
    bp_plan *plan = runtime->plan;
    for (uint32_t i = 0; i < plan->bucket_count; i++) {
        runtime->lengths[i] = (bp_length_run){.runs = 0};
        BP_TRY(bp_link_graph(&runtime->lengths[i].link, &plan->buckets[i].graph, plan->spec.device,
                             plan->spec.poison, &plan->memory));
    }
    return BP_OK;
}

bp_status bp_length_bucket_open(bp_runtime *runtime)
{
    const bp_plan *plan = runtime->plan;
    const bp_device *device = plan->spec.device;
    for (uint32_t i = 0; i < plan->bucket_count; i++) {
        const bp_link *link = &runtime->lengths[i].link;
        for (uint32_t kind = 0; kind < BP_PROGRAM_COUNT; kind++) {
            if (link->programs[kind].count == 0) {
                continue;
            }
            const uint32_t program =
                bp_length_bucket_program(runtime, &plan->buckets[i], (bp_program_kind)kind);
            BP_TRY(device->link(runtime->device, program, &link->programs[kind],
                                link->device_memory[kind], link->device_bytes[kind]));
        }
    }
    return BP_OK;
}
