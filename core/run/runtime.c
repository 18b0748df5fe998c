/* SPDX-License-Identifier: MIT */
/* The runtime's life: a plan is taken, opened, closed. Steps are in run.c, the state in state.c. */
#include "core/run/runtime.h"

#include <string.h>

#include "core/base/sort.h"
#include "core/plan/working.h"
#include "core/run/sorted.h"

static const char where[] = "runtime";

static bool name_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_graph *graph = user;
    return strcmp(bp_graph_name(graph, a), bp_graph_name(graph, b)) < 0;
}

static void order_state(bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->plan->graph;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (graph->buffers[i].scope == BP_SCOPE_PERSISTENT) {
            runtime->state[runtime->state_count++] = i;
        }
    }
    bp_order(runtime->state, runtime->state_count, name_before, graph);
}

/* One column of the group for each declared input. */
static void set_columns(bp_runtime *runtime, const bp_working *working)
{
    const bp_compile *compile = &runtime->plan->compile;
    bp_group *group = &runtime->group;
    group->columns = compile->input_count;
    for (uint32_t i = 0; i < group->columns; i++) {
        const bp_input *input = &compile->input[i];
        group->column[i] = (bp_column){.from = input->from,
                                       .dtype = input->dtype,
                                       .elements = (uint32_t)bp_input_elements(input),
                                       .fill = input->fill,
                                       .data = working->column[i]};
    }
}

/* The plan has left room for all of it. */
static bp_status allocate_working(bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->plan->spec;
    bp_working working;
    BP_TRY(bp_working_allocate(&working, spec, runtime->plan->graph.used.buffers,
                               &runtime->plan->memory));
    runtime->group.longest = spec->length_count > 0 ? working.longest : NULL;
    runtime->state = working.state;
    runtime->staging[0] = working.staging[0];
    runtime->staging[1] = working.staging[1];
    runtime->lengths = working.lengths;
    runtime->window = working.window;
    runtime->logits_host = working.logits;
    runtime->transfer = working.transfer;
    runtime->device = memset(working.device, 0, spec->device->context_bytes);
    bp_sorted_place(runtime, &working);
    set_columns(runtime, &working);
    order_state(runtime);
    return BP_OK;
}

static bp_status take(bp_runtime *runtime)
{
    const bp_plan *plan = runtime->plan;
    BP_TRY(allocate_working(runtime));
    BP_TRY(bp_link_graph(&runtime->link, &plan->graph, plan->spec.device, plan->spec.poison,
                         &runtime->plan->memory));
    return bp_length_bucket_link(runtime);
}

static bp_status take_state(bp_runtime *runtime, const bp_plan *plan)
{
    BP_TRY(bp_runtime_require(runtime, !runtime->open, "a runtime that is open is closed first"));
    return bp_runtime_require(runtime, plan->made && !plan->open,
                              "a plan is opened when it is made, by one runtime at a time");
}

bp_status bp_runtime_take(bp_runtime *runtime, bp_plan *plan)
{
    BP_TRY(take_state(runtime, plan));
    if (plan->taken == runtime && runtime->plan == plan) { /* and was not made anew since */
        return BP_OK;
    }
    *runtime = (bp_runtime){.plan = plan};
    plan->taken = NULL;
    plan->memory.sealed = false;
    BP_TRY(bp_arena_rewind(&plan->memory, plan->used));
    BP_TRY(take(runtime));
    plan->taken = runtime;
    return BP_OK;
}

/* A device call that failed without a word of its own gets one. */
static bp_status device_status(bp_runtime *runtime, bp_status status)
{
    if (status == BP_OK) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, status, where, "the device refused a program",
                        runtime->plan->spec.device->name);
}

static bp_status link_programs(bp_runtime *runtime)
{
    const bp_device *device = runtime->plan->spec.device;
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (runtime->link.programs[program].count == 0) {
            continue;
        }
        BP_TRY(device_status(runtime, device->link(runtime->device, program,
                                                   &runtime->link.programs[program],
                                                   runtime->link.device_memory[program],
                                                   runtime->link.device_bytes[program])));
    }
    BP_TRY(device_status(runtime, bp_length_bucket_open(runtime)));
    return device_status(runtime, device->seal(runtime->device));
}

/* Each space must have the bytes of its plan; more are not used. */
static bp_status take_regions(bp_runtime *runtime, const bp_report *report, const bp_regions *given,
                              bp_regions *regions)
{
    const uint64_t needed[BP_SPACE_COUNT] = {
        [BP_SPACE_DEVICE] = report->arena_bytes,
        [BP_SPACE_HOST] = report->host.arena_bytes,
        [BP_SPACE_OFFLOAD] = report->offload.arena_bytes,
    };
    static const char *const names[BP_SPACE_COUNT] = {[BP_SPACE_DEVICE] = "arena",
                                                      [BP_SPACE_HOST] = "host arena",
                                                      [BP_SPACE_OFFLOAD] = "offload"};
    *regions = *given;
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        if (given->space[i].bytes < needed[i]) {
            return bp_error_limit(
                &runtime->error, BP_ERR_FIT, where, "the arena is smaller than the plan", names[i],
                bp_size_signed(given->space[i].bytes), BP_LIMIT_LEAST, bp_size_signed(needed[i]));
        }
        regions->space[i].bytes = needed[i];
    }
    return BP_OK;
}

bp_status bp_runtime_open(bp_runtime *runtime, bp_plan *plan, void *arena, uint64_t bytes)
{
    const bp_regions regions = bp_regions_device(arena, bytes);
    return bp_runtime_open_regions(runtime, plan, &regions);
}

static bp_status put_class_weights(bp_runtime *runtime)
{
    const bp_ref weights = runtime->plan->builder.class_weights;
    if (!bp_ref_present(weights)) {
        return BP_OK;
    }
    const bp_spec *spec = &runtime->plan->spec;
    return bp_runtime_write(runtime, &runtime->plan->graph.buffers[weights.buffer], 0,
                            spec->class_weights, spec->config.classes * sizeof(float));
}

bp_status bp_runtime_open_regions(bp_runtime *runtime, bp_plan *plan, const bp_regions *given)
{
    const bp_device *device = plan->spec.device;
    bp_regions regions;
    BP_TRY(take_state(runtime, plan));
    BP_TRY(take_regions(runtime, &plan->report, given, &regions));
    BP_TRY(bp_runtime_take(runtime, plan));
    runtime->fabric = regions.fabric;
    runtime->fabric_rank = regions.rank;
    if (regions.fabric != NULL) {
        uint64_t digest = bp_graph_digest(&plan->graph);
        BP_TRY(regions.fabric->agree(regions.rank, digest, &runtime->error));
    }
    BP_TRY(device->open(runtime->device, &plan->spec.device_options, &regions, &runtime->error));
    runtime->open = true;
    plan->open = true;
    runtime->zeroed = given->zeroed;
    for (uint32_t i = 0; i < BP_SPACE_COUNT; i++) {
        runtime->zeroed =
            runtime->zeroed && (given->space[i].address != NULL || regions.space[i].bytes == 0);
    }
    bp_status status = link_programs(runtime);
    status = status == BP_OK ? put_class_weights(runtime) : status;
    if (status != BP_OK) {
        bp_runtime_close(runtime);
        return status;
    }
    bp_arena_seal(&plan->memory);
    return BP_OK;
}

void bp_runtime_close(bp_runtime *runtime)
{
    if (runtime->open) {
        runtime->plan->spec.device->close(runtime->device);
        runtime->plan->open = false;
        runtime->open = false;
    }
}
