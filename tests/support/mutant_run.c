/* SPDX-License-Identifier: MIT */
/* Runs of mutants. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include "tests/support/mutant_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/program/verify.h"

#define PAGE         ((size_t)4096)
#define GROUPS       3
#define LINK_ROOM    ((uint64_t)4 << 20)
#define SCRATCH_ROOM ((uint64_t)2 << 20)

void mutant_room_open(mutant_room *room, const rig *r)
{
    const uint64_t arena = bp_size_align(4 * r->runtime.report.arena_bytes, PAGE);
    unsigned char *pages =
        mmap(NULL, arena + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(pages + PAGE + arena, PAGE, PROT_NONE), 0);
    *room = (mutant_room){.arena_end = pages + PAGE + arena,
                          .arena_bytes = arena,
                          .scratch_bytes = SCRATCH_ROOM,
                          .link_bytes = LINK_ROOM};
    assert_int_equal(posix_memalign(&room->link, 64, LINK_ROOM), 0);
    assert_int_equal(posix_memalign(&room->device, 64, r->runtime.spec.device->context_bytes), 0);
    assert_int_equal(posix_memalign(&room->scratch, 64, SCRATCH_ROOM), 0);
}

void mutant_room_close(mutant_room *room)
{
    munmap(room->arena_end - room->arena_bytes - PAGE, room->arena_bytes + 2 * PAGE);
    free(room->link);
    free(room->device);
    free(room->scratch);
}

bp_status mutant_verify(mutant_room *room, const rig *r, bp_graph *graph, bp_report *report)
{
    const bp_spec *spec = &r->runtime.spec;
    BP_TRY(
        bp_verify(graph, spec->device, &spec->device_options, room->scratch, room->scratch_bytes));
    bp_graph_lifetimes(graph);
    BP_TRY(bp_report_plan(graph, 0, room->scratch, room->scratch_bytes, report));
    return bp_verify_plan(graph, report->arena_bytes, room->scratch, room->scratch_bytes);
}

enum { PARTS = 4096 };

void mutant_trace_free(mutant_trace *trace)
{
    free(trace->values);
    free(trace->part);
    *trace = (mutant_trace){.values = NULL};
}

static void trace_begin(mutant_trace *trace)
{
    if (trace->part == NULL) {
        trace->part = malloc(PARTS * sizeof *trace->part);
        assert_non_null(trace->part);
    }
    trace->count = 0;
    trace->parts = 0;
}

static void trace_value(mutant_trace *trace, double value)
{
    if (trace->count == trace->room) {
        trace->room = trace->room == 0 ? 4096 : 2 * trace->room;
        trace->values = realloc(trace->values, trace->room * sizeof *trace->values);
        assert_non_null(trace->values);
    }
    trace->values[trace->count++] = value;
}

/* The values that follow belong together. */
static void trace_part(mutant_trace *trace, double bound)
{
    assert_true(trace->parts < PARTS);
    trace->part[trace->parts].first = trace->count;
    trace->part[trace->parts++].bound = bound;
}

static void trace_floats(mutant_trace *trace, const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        trace_value(trace, (double)values[i]);
    }
}

bool mutant_trace_same(const mutant_trace *a, const mutant_trace *b)
{
    return a->count == b->count && memcmp(a->values, b->values, a->count * sizeof *a->values) == 0;
}

bool mutant_trace_close(const mutant_trace *a, const mutant_trace *b)
{
    for (uint32_t p = 0; p < a->parts && a->count == b->count; p++) {
        const uint32_t end = p + 1 < a->parts ? a->part[p + 1].first : a->count;
        double largest = 0.0;
        for (uint32_t i = a->part[p].first; i < end; i++) {
            largest = fmax(largest, fabs(a->values[i]));
        }
        for (uint32_t i = a->part[p].first; i < end; i++) {
            if (!(fabs(a->values[i] - b->values[i]) <= a->part[p].bound * largest)) {
                return false;
            }
        }
    }
    return a->count == b->count;
}

static bp_status run_groups(bp_runtime *runtime, const bp_feed *feed, mutant_trace *trace)
{
    for (uint32_t i = 0; i < GROUPS; i++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(runtime, feed, &outcome));
        trace_part(trace, i == 0 ? 1e-6 : 1e-4);
        trace_value(trace, outcome.loss);
        trace_part(trace, i == 0 ? 1e-5 : 1e-4);
        trace_value(trace, outcome.norm);
    }
    return BP_OK;
}

static bp_status run_rest(bp_runtime *runtime, const bp_feed *feed, mutant_trace *trace)
{
    if (runtime->spec.evaluate) {
        double loss = 0.0;
        uint64_t targets = 0;
        bp_feed evaluated = *feed;
        evaluated.batch = bp_spec_eval_batch(&runtime->spec);
        evaluated.group = evaluated.batch;
        BP_TRY(bp_feed_init(&evaluated, feed->error));
        BP_TRY(bp_runtime_evaluate(runtime, &evaluated, 2, &loss, &targets));
        trace_part(trace, 1e-6);
        trace_value(trace, loss);
    }
    for (uint32_t i = 0; runtime->spec.generate_context > 0 && i < 3; i++) {
        const int32_t ids[3] = {5, 1, 30};
        BP_TRY(bp_runtime_accept(runtime, ids + i, i == 0 ? 3 : 1));
        trace_part(trace, 1e-5);
        trace_floats(trace, runtime->logits_host, runtime->spec.config.vocabulary);
    }
    return BP_OK;
}

static bp_status run_all(bp_runtime *runtime, const bp_feed *feed, mutant_trace *trace)
{
    BP_TRY(bp_runtime_initialize(runtime));
    BP_TRY(run_groups(runtime, feed, trace));
    return run_rest(runtime, feed, trace);
}

/* The control block byte by byte, the rest as floats. */
static void trace_state(bp_runtime *runtime, mutant_trace *trace)
{
    for (uint32_t i = 0; i < bp_runtime_state_count(runtime); i++) {
        const bp_buffer *b = bp_runtime_state(runtime, i);
        void *bytes = malloc((size_t)b->bytes);
        assert_non_null(bytes);
        assert_int_equal(bp_runtime_read(runtime, b, 0, bytes, (size_t)b->bytes), BP_OK);
        trace_part(trace, b->dtype == BP_F32 ? 1e-4 : 0.0);
        for (uint64_t k = 0; b->dtype != BP_F32 && k < b->bytes; k++) {
            trace_value(trace, (double)((const uint8_t *)bytes)[k]);
        }
        trace_floats(trace, bytes, b->dtype == BP_F32 ? b->bytes / sizeof(float) : 0);
        free(bytes);
    }
}

bp_status mutant_execute(mutant_room *room, const rig *r, const bp_graph *graph,
                         const bp_report *report, mutant_trace *trace)
{
    bp_runtime runtime = r->runtime;
    bp_arena memory;
    const uint64_t bytes = bp_size_align(report->arena_bytes, BP_ARENA_ALIGNMENT);
    assert_true(bytes <= room->arena_bytes);
    unsigned char *arena = room->arena_end - bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        arena[i] = (unsigned char)(0x7fa00000u >> (8 * (i % 4)));
    }
    runtime.graph = *graph;
    runtime.graph.error = &runtime.error;
    runtime.error = (bp_error){.code = BP_OK};
    runtime.report = *report;
    runtime.emit.graph = &runtime.graph;
    runtime.emit.spec = &runtime.spec;
    runtime.device = room->device;
    runtime.open = false;
    bp_arena_init(&memory, room->link, (size_t)room->link_bytes);
    memset(runtime.device, 0, runtime.spec.device->context_bytes);
    assert_int_equal(
        bp_link_graph(&runtime.link, &runtime.graph, runtime.spec.device, true, &memory), BP_OK);
    bp_arena_init(&runtime.host, NULL, 0);
    BP_TRY(bp_runtime_open(&runtime, arena, report->arena_bytes));
    trace_begin(trace);
    bp_status status = run_all(&runtime, &r->feed, trace);
    trace_state(&runtime, trace);
    bp_runtime_close(&runtime);
    return status;
}
