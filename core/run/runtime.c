/* SPDX-License-Identifier: MIT */
/* The runtime's life: compile, plan, open, close. Steps are in run.c, the state in state.c. */
#include "core/run/runtime.h"

#include <string.h>

#include "core/base/sort.h"
#include "core/ir/verify/verify.h"
#include "core/run/sorted.h"

#define ALLOCATE_ALIGNMENT 64
#define ALLOCATES          16 /* separate pieces allocated below, each of which may be padded */

static const char where[] = "runtime";

/* Room for one upload: the inputs of a micro-batch. */
static uint64_t staging_bytes(const bp_spec *spec)
{
    return bp_compile_micro_bytes(spec);
}

/* Room for those that decode programs make, and for those that evaluation keeps. */
static uint64_t logits_bytes(const bp_spec *spec)
{
    uint64_t made = spec->generate_context > 0
                        ? bp_size_mul(bp_spec_decode_rows(spec), spec->config.vocabulary)
                        : 0;
    uint64_t kept = bp_size_mul(bp_compile_logits_rows(spec), bp_compile_logits_width(spec));
    return bp_size_mul(made > kept ? made : kept, sizeof(float));
}

/* What the feed stages of an input for a group. */
static uint64_t column_bytes(const bp_spec *spec, const bp_input *input)
{
    const uint64_t group = bp_size_mul(spec->batch, spec->accumulation);
    const uint64_t evaluated = spec->evaluate ? bp_spec_eval_batch(spec) : 0;
    const uint64_t samples = evaluated > group ? evaluated : group;
    const uint64_t elements = bp_size_mul(samples, bp_input_elements(input));
    return bp_size_mul(elements, bp_dtype_bytes(input->dtype));
}

/* What the feed says of the lengths in a group, where there are programs to choose from. */
static uint64_t longest_bytes(const bp_spec *spec)
{
    return spec->length_count > 0 ? bp_size_mul(spec->accumulation, sizeof(uint32_t)) : 0;
}

/* Memory besides the tables: staging, the group's columns, one window, the device's context. */
static uint64_t working_bytes(const bp_spec *spec)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    uint64_t bytes = 2 * staging_bytes(spec) + BP_TRANSFER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        bytes = bp_size_add(bytes, column_bytes(spec, &rows[i]));
    }
    bytes = bp_size_add(bytes, logits_bytes(spec));
    bytes = bp_size_add(bytes, BP_FEED_SCRATCH(spec->sequence) * sizeof(int32_t));
    bytes = bp_size_add(bytes, longest_bytes(spec));
    bytes = bp_size_add(bytes, bp_sorted_bytes(spec));
    bytes = bp_size_add(bytes, spec->device->context_bytes);
    return bp_size_add(bytes, ALLOCATES * ALLOCATE_ALIGNMENT);
}

static uint64_t plan_scratch(const bp_spec *spec, const bp_graph_limits *rows)
{
    const bp_graph graph = {.used = *rows};
    const uint64_t keep = spec->offload.room > 0 ? bp_resident_scratch(rows) : 0;
    const uint64_t verify = bp_verify_scratch(&graph);
    const uint64_t report = bp_report_scratch(rows->buffers, spec->plan_nodes);
    const uint64_t more = verify > report ? verify : report;
    return keep > more ? keep : more;
}

uint64_t bp_runtime_scratch(const bp_spec *spec)
{
    if (bp_spec_check(spec, NULL) != BP_OK) {
        return BP_SIZE_INVALID;
    }
    return bp_size_add(bp_compile_scratch(spec), ALLOCATE_ALIGNMENT);
}

uint64_t bp_runtime_bytes(const bp_spec *spec, const bp_graph_limits *rows)
{
    uint64_t tables = bp_size_add(bp_graph_bytes(rows), bp_compile_bytes(spec));
    tables = bp_size_add(tables, (uint64_t)rows->buffers * sizeof(uint32_t));
    tables = bp_size_add(tables, bp_length_bucket_bytes(spec, rows));
    uint64_t linked = bp_link_bytes(rows, spec->device, spec->poison);
    linked = bp_size_mul(linked, 1 + (uint64_t)spec->length_count);
    linked = bp_size_add(linked, working_bytes(spec));
    uint64_t scratch = plan_scratch(spec, rows) + ALLOCATE_ALIGNMENT;
    const uint64_t bucket = bp_length_bucket_scratch(spec, rows);
    scratch = scratch > bucket ? scratch : bucket;
    return bp_size_add(tables, linked > scratch ? linked : scratch);
}

static bp_status allocate(bp_runtime *runtime, uint64_t bytes, void **out)
{
    bp_status status = bp_arena_allocate(&runtime->host, (size_t)bytes, ALLOCATE_ALIGNMENT, out);
    if (status != BP_OK) {
        return bp_error_limit(&runtime->error, status, where, "the plan's memory is too small",
                              NULL, bp_size_signed(runtime->host.size), BP_LIMIT_LEAST,
                              bp_size_signed(runtime->host_bytes));
    }
    return BP_OK;
}

static bp_status count_rows(bp_runtime *runtime, void *memory, uint64_t bytes)
{
    bp_spec *spec = &runtime->spec;
    BP_TRY(bp_spec_check(spec, &runtime->error));
    BP_TRY(bp_runtime_require(runtime, spec->device != NULL, "the spec has no device"));
    if (spec->loss_rows == 0) {
        spec->loss_rows = bp_spec_loss_rows(spec);
    }
    runtime->host_bytes = bp_runtime_scratch(spec);
    if (bytes < runtime->host_bytes) {
        return bp_error_limit(&runtime->error, BP_ERR_FIT, where, "the plan's memory is too small",
                              NULL, bp_size_signed(bytes), BP_LIMIT_LEAST,
                              bp_size_signed(runtime->host_bytes));
    }
    bp_arena_init(&runtime->host, memory, (size_t)bytes);
    BP_TRY(bp_compile_count(spec, &runtime->host, &runtime->rows, NULL, &runtime->error));
    const uint64_t needed = bp_runtime_bytes(spec, &runtime->rows);
    runtime->host_bytes = needed > runtime->host_bytes ? needed : runtime->host_bytes;
    return BP_OK;
}

bp_status bp_runtime_require(bp_runtime *runtime, bool state, const char *text)
{
    return state ? BP_OK : bp_error_set(&runtime->error, BP_ERR_USAGE, where, text, NULL);
}

bp_status bp_runtime_count(bp_runtime *runtime, const bp_spec *spec, void *memory, uint64_t bytes)
{
    BP_TRY(bp_runtime_require(runtime, !runtime->open, "a runtime that is open is closed first"));
    *runtime = (bp_runtime){.spec = *spec};
    bp_status status = count_rows(runtime, memory, bytes);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the plan failed", NULL);
    }
    runtime->counted = true;
    return BP_OK;
}

static bp_status compile(bp_runtime *runtime)
{
    BP_TRY(bp_graph_init(&runtime->graph, &runtime->rows, &runtime->host, &runtime->error));
    return bp_compile_run(&runtime->compile, &runtime->builder, &runtime->graph, &runtime->spec,
                          &runtime->host);
}

/* What is fetched from the offload tier stays where there is room. */
static bp_status keep(bp_runtime *runtime)
{
    const size_t mark = runtime->host.used;
    void *scratch = NULL;
    if (runtime->spec.offload.room == 0) {
        return BP_OK;
    }
    BP_TRY(allocate(runtime, bp_resident_scratch(&runtime->graph.used), &scratch));
    bp_resident_run(&runtime->graph, &runtime->spec, scratch, &runtime->resident);
    return bp_arena_rewind(&runtime->host, mark);
}

/* Plans in scratch memory that is given back at once; what is to run is verified as well. */
static bp_status plan(bp_runtime *runtime, bool runs, bp_report_wish wish)
{
    const bp_spec *spec = &runtime->spec;
    bp_graph *graph = &runtime->graph;
    const bp_report *report = &runtime->report;
    uint64_t bytes = plan_scratch(spec, &graph->used);
    size_t mark = runtime->host.used;
    void *scratch = NULL;
    BP_TRY(allocate(runtime, bytes, &scratch));
    BP_TRY(runs ? bp_verify(graph, spec->device, &spec->device_options, scratch, bytes) : BP_OK);
    bp_graph_lifetimes(graph);
    BP_TRY(bp_report_measure(graph, spec->plan_nodes, wish, scratch, bytes, &runtime->report));
    if (runs) {
        BP_TRY(bp_verify_plan(graph, report->arena_bytes, scratch, bytes));
        BP_TRY(bp_verify_space(graph, BP_SPACE_HOST, report->host.arena_bytes, scratch, bytes));
        BP_TRY(
            bp_verify_space(graph, BP_SPACE_OFFLOAD, report->offload.arena_bytes, scratch, bytes));
    }
    return bp_arena_rewind(&runtime->host, mark);
}

static bool name_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_graph *graph = user;
    return strcmp(bp_graph_name(graph, a), bp_graph_name(graph, b)) < 0;
}

static bp_status order_state(bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->graph;
    void *state = NULL;
    BP_TRY(allocate(runtime, graph->used.buffers * sizeof(uint32_t), &state));
    runtime->state = state;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (graph->buffers[i].scope == BP_SCOPE_PERSISTENT) {
            runtime->state[runtime->state_count++] = i;
        }
    }
    bp_order(runtime->state, runtime->state_count, name_before, graph);
    return BP_OK;
}

/* One column of the group for each declared input. */
static bp_status allocate_columns(bp_runtime *runtime)
{
    const bp_compile *compile = &runtime->compile;
    bp_group *group = &runtime->group;
    group->columns = compile->input_count;
    for (uint32_t i = 0; i < group->columns; i++) {
        const bp_input *input = &compile->input[i];
        bp_column *column = &group->column[i];
        *column = (bp_column){.from = input->from,
                              .dtype = input->dtype,
                              .elements = (uint32_t)bp_input_elements(input),
                              .fill = input->fill};
        BP_TRY(allocate(runtime, column_bytes(&runtime->spec, input), &column->data));
    }
    return BP_OK;
}

static bp_status allocate_working(bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->spec;
    void *piece[7];
    const uint64_t bytes[7] = {
        staging_bytes(spec), staging_bytes(spec), BP_FEED_SCRATCH(spec->sequence) * sizeof(int32_t),
        logits_bytes(spec),  BP_TRANSFER_BYTES,   spec->device->context_bytes,
        longest_bytes(spec)};
    for (int i = 0; i < 7; i++) {
        BP_TRY(allocate(runtime, bytes[i], &piece[i]));
    }
    runtime->group.longest = spec->length_count > 0 ? piece[6] : NULL;
    runtime->staging[0] = piece[0];
    runtime->staging[1] = piece[1];
    runtime->window = piece[2];
    runtime->logits_host = piece[3];
    runtime->transfer = piece[4];
    runtime->device = piece[5];
    memset(runtime->device, 0, spec->device->context_bytes);
    BP_TRY(bp_sorted_allocate(runtime));
    return allocate_columns(runtime);
}

static bp_status make_plan(bp_runtime *runtime, void *memory, uint64_t bytes)
{
    bp_arena_init(&runtime->host, memory, (size_t)bytes);
    BP_TRY(compile(runtime));
    BP_TRY(keep(runtime));
    BP_TRY(plan(runtime, true, (bp_report_wish){.limit = 0}));
    BP_TRY(bp_length_bucket_make(runtime));
    BP_TRY(order_state(runtime));
    BP_TRY(allocate_working(runtime));
    if (bp_link_graph(&runtime->link, &runtime->graph, runtime->spec.device, runtime->spec.poison,
                      &runtime->host) != BP_OK ||
        bp_length_bucket_link(runtime) != BP_OK) {
        return bp_error_limit(&runtime->error, BP_ERR_FIT, where, "the plan's memory is too small",
                              NULL, bp_size_signed(runtime->host.size), BP_LIMIT_LEAST,
                              bp_size_signed(runtime->host_bytes));
    }
    runtime->report.host_bytes = runtime->host.peak;
    runtime->report.parameters = 0;
    for (uint32_t i = 0; i < runtime->builder.parameter_count; i++) {
        runtime->report.parameters += runtime->builder.parameters[i].count;
    }
    return BP_OK;
}

bp_status bp_runtime_plan(bp_runtime *runtime, const bp_spec *spec, void *memory, uint64_t bytes)
{
    BP_TRY(bp_runtime_count(runtime, spec, memory, bytes));
    return bp_runtime_plan_dry(runtime, memory, bytes);
}

bp_status bp_runtime_plan_dry(bp_runtime *runtime, void *memory, uint64_t bytes)
{
    BP_TRY(bp_runtime_require(runtime, runtime->counted, "a plan is made of what was counted"));
    runtime->counted = false;
    bp_status status = make_plan(runtime, memory, bytes);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the plan failed", NULL);
    }
    runtime->planned = true;
    return BP_OK;
}

static bp_status measure_plan(bp_runtime *runtime, bp_report_wish wish, void *memory,
                              uint64_t bytes)
{
    bp_arena_init(&runtime->host, memory, (size_t)bytes);
    BP_TRY(compile(runtime));
    BP_TRY(keep(runtime));
    return plan(runtime, false, wish);
}

bp_status bp_runtime_measure(bp_runtime *runtime, bp_report_wish wish, void *memory, uint64_t bytes)
{
    BP_TRY(bp_runtime_require(runtime, runtime->counted, "a plan is made of what was counted"));
    runtime->counted = false;
    const bp_status status = measure_plan(runtime, wish, memory, bytes);
    return status == BP_OK ? BP_OK
                           : bp_error_set(&runtime->error, status, where, "the plan failed", NULL);
}

bp_status bp_runtime_write_counted(bp_runtime *runtime, void *memory, uint64_t bytes)
{
    bp_arena_init(&runtime->host, memory, (size_t)bytes);
    BP_TRY(compile(runtime));
    return keep(runtime);
}

/* A device call that failed without a word of its own gets one. */
static bp_status device_status(bp_runtime *runtime, bp_status status)
{
    if (status == BP_OK) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, status, where, "the device refused a program",
                        runtime->spec.device->name);
}

static bp_status link_programs(bp_runtime *runtime)
{
    const bp_device *device = runtime->spec.device;
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
static bp_status take_regions(bp_runtime *runtime, const bp_regions *given, bp_regions *regions)
{
    const uint64_t needed[BP_SPACE_COUNT] = {
        [BP_SPACE_DEVICE] = runtime->report.arena_bytes,
        [BP_SPACE_HOST] = runtime->report.host.arena_bytes,
        [BP_SPACE_OFFLOAD] = runtime->report.offload.arena_bytes,
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

bp_status bp_runtime_open(bp_runtime *runtime, void *arena, uint64_t bytes)
{
    const bp_regions regions = bp_regions_device(arena, bytes);
    return bp_runtime_open_regions(runtime, &regions);
}

static bp_status put_class_weights(bp_runtime *runtime)
{
    const bp_ref weights = runtime->builder.class_weights;
    if (!bp_ref_present(weights)) {
        return BP_OK;
    }
    const bp_spec *spec = &runtime->spec;
    return bp_runtime_write(runtime, &runtime->graph.buffers[weights.buffer], 0,
                            spec->class_weights, spec->config.classes * sizeof(float));
}

bp_status bp_runtime_open_regions(bp_runtime *runtime, const bp_regions *given)
{
    const bp_device *device = runtime->spec.device;
    bp_regions regions;
    BP_TRY(bp_runtime_require(runtime, runtime->planned && !runtime->open,
                              "a runtime is opened once, when it is planned"));
    BP_TRY(take_regions(runtime, given, &regions));
    runtime->fabric = regions.fabric;
    runtime->fabric_rank = regions.rank;
    if (regions.fabric != NULL) {
        uint64_t digest = bp_graph_digest(&runtime->graph);
        BP_TRY(regions.fabric->agree(regions.rank, digest, &runtime->error));
    }
    BP_TRY(device->open(runtime->device, &runtime->spec.device_options, &regions, &runtime->error));
    runtime->open = true;
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
    bp_arena_seal(&runtime->host);
    return BP_OK;
}

void bp_runtime_close(bp_runtime *runtime)
{
    if (runtime->open) {
        runtime->spec.device->close(runtime->device);
        runtime->open = false;
    }
}
