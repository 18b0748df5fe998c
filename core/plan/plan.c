/* SPDX-License-Identifier: MIT */
/* Plans: counted, compiled, verified, laid out. */
#include "core/plan/plan_file.h"

#include <string.h>

#include "core/ir/link.h"
#include "core/ir/verify/verify.h"
#include "core/plan/working.h"

#define ALLOCATE_ALIGNMENT 64

typedef char plan_room_fits[sizeof(bp_plan) <= sizeof(bp_plan_room) ? 1 : -1];

static const char where[] = "plan";

bp_plan *bp_plan_begin(bp_plan_room *room)
{
    memset(room, 0, sizeof *room);
    return (bp_plan *)(void *)room;
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

uint64_t bp_plan_scratch(const bp_spec *spec)
{
    if (bp_spec_check(spec, NULL) != BP_OK) {
        return BP_SIZE_INVALID;
    }
    return bp_size_add(bp_compile_scratch(spec), ALLOCATE_ALIGNMENT);
}

/* What a runtime links and works in. */
static uint64_t plan_run_bytes(const bp_spec *spec, const bp_graph_limits *rows)
{
    const uint64_t linked = bp_link_bytes(rows, spec->device, spec->poison);
    return bp_size_add(bp_size_mul(linked, 1 + (uint64_t)spec->length_count),
                       bp_working_bytes(spec, rows->buffers));
}

uint64_t bp_plan_bytes(const bp_spec *spec, const bp_graph_limits *rows)
{
    uint64_t tables = bp_size_add(bp_graph_bytes(rows), bp_compile_bytes(spec));
    tables = bp_size_add(tables, bp_length_buckets_bytes(spec, rows));
    const uint64_t linked = plan_run_bytes(spec, rows);
    uint64_t scratch = plan_scratch(spec, rows) + ALLOCATE_ALIGNMENT;
    const uint64_t bucket = bp_length_buckets_scratch(spec, rows);
    scratch = scratch > bucket ? scratch : bucket;
    return bp_size_add(tables, linked > scratch ? linked : scratch);
}

static bp_status plan_small(bp_plan *plan)
{
    return bp_error_limit(&plan->error, BP_ERR_FIT, where, "the plan's memory is too small", NULL,
                          bp_size_signed(plan->memory.size), BP_LIMIT_LEAST,
                          bp_size_signed(plan->host_bytes));
}

static bp_status plan_allocate(bp_plan *plan, uint64_t bytes, void **out)
{
    const bp_status status =
        bp_arena_allocate(&plan->memory, (size_t)bytes, ALLOCATE_ALIGNMENT, out);
    return status == BP_OK ? BP_OK : plan_small(plan);
}

static bp_status plan_require(bp_plan *plan, bool state, const char *text)
{
    return state ? BP_OK : bp_error_set(&plan->error, BP_ERR_USAGE, where, text, NULL);
}

static bp_status plan_count_rows(bp_plan *plan, void *memory, uint64_t bytes)
{
    bp_spec *spec = &plan->spec;
    BP_TRY(bp_spec_check(spec, &plan->error));
    BP_TRY(plan_require(plan, spec->device != NULL, "the spec has no device"));
    if (spec->loss_rows == 0) {
        spec->loss_rows = bp_spec_loss_rows(spec);
    }
    plan->host_bytes = bp_plan_scratch(spec);
    if (bytes < plan->host_bytes) {
        return bp_error_limit(&plan->error, BP_ERR_FIT, where, "the plan's memory is too small",
                              NULL, bp_size_signed(bytes), BP_LIMIT_LEAST,
                              bp_size_signed(plan->host_bytes));
    }
    bp_arena_init(&plan->memory, memory, (size_t)bytes);
    BP_TRY(bp_compile_count(spec, &plan->memory, &plan->rows, NULL, &plan->error));
    const uint64_t needed = bp_plan_bytes(spec, &plan->rows);
    plan->host_bytes = needed > plan->host_bytes ? needed : plan->host_bytes;
    return BP_OK;
}

bp_status bp_plan_count(bp_plan *plan, const bp_spec *spec, void *memory, uint64_t bytes)
{
    BP_TRY(plan_require(plan, !plan->open, "a runtime that is open is closed first"));
    *plan = (bp_plan){.spec = *spec};
    bp_status status = plan_count_rows(plan, memory, bytes);
    if (status != BP_OK) {
        return bp_error_set(&plan->error, status, where, "the plan failed", NULL);
    }
    plan->counted = true;
    return BP_OK;
}

static bp_status plan_compile(bp_plan *plan)
{
    BP_TRY(bp_graph_init(&plan->graph, &plan->rows, &plan->memory, &plan->error));
    return bp_compile_run(&plan->compile, &plan->builder, &plan->graph, &plan->spec, &plan->memory);
}

/* What is fetched from the offload tier stays where there is room. */
static bp_status plan_keep(bp_plan *plan)
{
    const size_t mark = plan->memory.used;
    void *scratch = NULL;
    if (plan->spec.offload.room == 0) {
        return BP_OK;
    }
    BP_TRY(plan_allocate(plan, bp_resident_scratch(&plan->graph.used), &scratch));
    bp_resident_run(&plan->graph, &plan->spec, scratch, &plan->resident);
    return bp_arena_rewind(&plan->memory, mark);
}

/* Plans in scratch memory that is given back at once; what is to run is verified as well. `file`:
 * not NULL where a plan was written before, whose places are taken: no layout is searched for. */
static bp_status plan_lay_out(bp_plan *plan, bool runs, bp_report_wish wish,
                              const bp_plan_file *file)
{
    const bp_spec *spec = &plan->spec;
    bp_graph *graph = &plan->graph;
    const bp_report *report = &plan->report;
    uint64_t bytes = plan_scratch(spec, &graph->used);
    size_t mark = plan->memory.used;
    void *scratch = NULL;
    wish.shares = spec->shares_base;
    wish.below = spec->beside_below;
    wish.above = spec->beside_above;
    BP_TRY(plan_allocate(plan, bytes, &scratch));
    BP_TRY(runs ? bp_verify(graph, spec->device, &spec->device_options, scratch, bytes) : BP_OK);
    bp_graph_lifetimes(graph);
    BP_TRY(file != NULL ? bp_plan_file_programs(file, graph, &plan->error) : BP_OK);
    BP_TRY(bp_report_measure(graph, spec->plan_nodes, wish, scratch, bytes, &plan->report));
    if (file != NULL) {
        bp_plan_file_place(file, graph, &plan->report);
    }
    if (runs) {
        BP_TRY(bp_verify_plan(graph, report->arena_bytes, scratch, bytes));
        BP_TRY(bp_verify_space(graph, BP_SPACE_HOST, report->host.arena_bytes, scratch, bytes));
        BP_TRY(
            bp_verify_space(graph, BP_SPACE_OFFLOAD, report->offload.arena_bytes, scratch, bytes));
    }
    return bp_arena_rewind(&plan->memory, mark);
}

/* What a runtime takes is there as well. */
static bp_status plan_leave_room(bp_plan *plan)
{
    const uint64_t used = plan->memory.used;
    const uint64_t all = bp_size_add(used, plan_run_bytes(&plan->spec, &plan->graph.used));
    plan->used = plan->memory.used;
    plan->report.host_bytes = all > plan->memory.peak ? all : plan->memory.peak;
    return all <= plan->memory.size ? BP_OK : plan_small(plan);
}

static bp_status plan_write(bp_plan *plan, const bp_plan_file *file, void *memory, uint64_t bytes)
{
    const bp_report_wish wish = {.limit = file != NULL ? 1 : 0};
    bp_arena_init(&plan->memory, memory, (size_t)bytes);
    BP_TRY(plan_compile(plan));
    BP_TRY(plan_keep(plan));
    BP_TRY(plan_lay_out(plan, true, wish, file));
    BP_TRY(bp_length_buckets_make(plan));
    BP_TRY(plan_leave_room(plan));
    plan->report.parameters = 0;
    for (uint32_t i = 0; i < plan->builder.parameter_count; i++) {
        plan->report.parameters += plan->builder.parameters[i].count;
    }
    return BP_OK;
}

bp_status bp_plan_make_placed(bp_plan *plan, const bp_plan_file *file, void *memory, uint64_t bytes)
{
    BP_TRY(plan_require(plan, plan->counted, "a plan is made of what was counted"));
    plan->counted = false;
    bp_status status = plan_write(plan, file, memory, bytes);
    if (status != BP_OK) {
        return bp_error_set(&plan->error, status, where, "the plan failed", NULL);
    }
    plan->made = true;
    return BP_OK;
}

bp_status bp_plan_make_counted(bp_plan *plan, void *memory, uint64_t bytes)
{
    return bp_plan_make_placed(plan, NULL, memory, bytes);
}

bp_status bp_plan_make(bp_plan *plan, const bp_spec *spec, void *memory, uint64_t bytes)
{
    BP_TRY(bp_plan_count(plan, spec, memory, bytes));
    return bp_plan_make_counted(plan, memory, bytes);
}

static bp_status plan_measure(bp_plan *plan, bp_report_wish wish, void *memory, uint64_t bytes)
{
    bp_arena_init(&plan->memory, memory, (size_t)bytes);
    BP_TRY(plan_compile(plan));
    BP_TRY(plan_keep(plan));
    return plan_lay_out(plan, false, wish, NULL);
}

bp_status bp_plan_measure(bp_plan *plan, bp_report_wish wish, void *memory, uint64_t bytes)
{
    BP_TRY(plan_require(plan, plan->counted, "a plan is made of what was counted"));
    plan->counted = false;
    const bp_status status = plan_measure(plan, wish, memory, bytes);
    return status == BP_OK ? BP_OK
                           : bp_error_set(&plan->error, status, where, "the plan failed", NULL);
}

bp_status bp_plan_measure_again(bp_plan *plan, bp_report_wish wish)
{
    return plan_lay_out(plan, false, wish, NULL);
}

bp_status bp_plan_write_counted(bp_plan *plan, void *memory, uint64_t bytes)
{
    bp_arena_init(&plan->memory, memory, (size_t)bytes);
    BP_TRY(plan_compile(plan));
    return plan_keep(plan);
}

bp_footprint bp_plan_footprint(const bp_plan *plan)
{
    const bp_report *report = &plan->report;
    if (!plan->made) {
        return (bp_footprint){.host_bytes = plan->host_bytes};
    }
    return (bp_footprint){.arena_bytes = report->arena_bytes,
                          .lower_bound_bytes = report->lower_bound_bytes,
                          .host_bytes = report->host_bytes,
                          .parameters = report->parameters,
                          .state_bytes = report->state_bytes};
}

const bp_error *bp_plan_error(const bp_plan *plan)
{
    return &plan->error;
}
