/* SPDX-License-Identifier: MIT */
/* The room is that of the budget; where buffers cannot be laid out in it without waste, it is less
 * by what is wasted. */
#include "tools/bedplate/planning/below_keep.h"

#include <stdlib.h>

#include "tools/bedplate/session/counted.h"

#define KEEP_TRIES 5

uint64_t below_moved(const bp_runtime *runtime, uint64_t *moved)
{
    const bp_graph *graph = &runtime->graph;
    uint64_t written = 0;
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        const uint64_t runs = bp_compile_runs(&runtime->spec, (bp_program_kind)program);
        for (uint32_t i = 0; runs > 0 && i < graph->program_count[program]; i++) {
            const bp_op *op = &graph->ops[graph->program_first[program] + i];
            const bp_kernel_info *info = bp_kernel_describe(op->kernel);
            if (info->flight != BP_FLIGHT_BEGIN || info->engine != BP_ENGINE_COPY) {
                continue;
            }
            const bp_copy_begin_scalars *s = (const void *)(graph->scalars + op->scalar);
            for (uint32_t k = 0; k < 2; k++) {
                const uint32_t buffer = graph->refs[op->operand + k].buffer;
                const bool below = graph->buffers[buffer].space != BP_SPACE_DEVICE;
                const uint64_t bytes = below ? runs * (uint64_t)s->rows * (uint64_t)s->width : 0;
                moved[buffer] += bytes;
                written += k == 0 ? bytes : 0; /* the first operand is where it goes */
            }
        }
    }
    return written;
}

/* Writes the programs of a spec and adds up what they move; where `arena` is not NULL, plans them.
 */
static bp_status keep_plan(const bp_spec *spec, uint64_t *arena, below_bytes *sum, bp_error *error)
{
    static bp_runtime runtime; /* large */
    memory_block memory = {NULL, 0};
    BP_TRY(counted_take(&runtime, spec, 0, &memory, error));
    bp_status status = arena != NULL
                           ? bp_runtime_plan_counted(&runtime, memory.address, memory.bytes)
                           : bp_runtime_write_counted(&runtime, memory.address, memory.bytes);
    const uint32_t buffers = runtime.graph.used.buffers;
    uint64_t *moved = calloc((size_t)buffers + 1, sizeof *moved);
    *sum = (below_bytes){0};
    if (arena != NULL) {
        *arena = runtime.report.arena_bytes;
    }
    if (status == BP_OK && moved == NULL) {
        status = bp_error_set(error, BP_ERR_FIT, "below", "no memory to count what moves", "");
    } else if (status == BP_OK) {
        sum->written = below_moved(&runtime, moved);
    } else if (error->code == BP_OK) {
        *error = runtime.error;
    }
    for (uint32_t i = 0; status == BP_OK && i < buffers; i++) {
        sum->moved += moved[i];
    }
    free(moved);
    memory_give_back(&memory);
    return status;
}

bp_status below_moves(const bp_spec *spec, below_bytes *moved, bp_error *error)
{
    return keep_plan(spec, NULL, moved, error);
}

bp_status below_keep(bp_spec *spec, uint64_t budget, uint64_t *arena, below_bytes *moved,
                     bp_error *error)
{
    bp_spec trial = *spec;
    trial.below.room = budget;
    trial.plan_nodes = 0; /* a search for a better layout finds none that is worse */
    for (uint32_t tries = 1; tries <= KEEP_TRIES; tries++) {
        BP_TRY(keep_plan(&trial, arena, moved, error));
        if (*arena <= budget) {
            spec->below.room = trial.below.room;
            return BP_OK;
        }
        const uint64_t less = tries * (*arena - budget);
        trial.below.room -= less < trial.below.room ? less : trial.below.room - 1;
    }
    spec->below.room = 0;
    return keep_plan(spec, arena, moved, error);
}
