/* SPDX-License-Identifier: MIT */
/* Making the length buckets, and giving them places. */
#include "core/run/length_bucket.h"

#include <string.h>

#include "core/plan/buckets.h"
#include "core/base/sort.h"
#include "core/ir/verify/verify.h"
#include "core/run/runtime.h"

#define ALLOCATE_ALIGNMENT 64

/* What a length runs: the first and the later micro-batches of a group, or its only program, and
 * evaluation. */
enum { PROGRAM_FIRST, PROGRAM_NEXT, PROGRAM_EVALUATES, PROGRAMS };

typedef char
    programs_fit[BP_PROGRAM_COUNT + BP_LENGTH_BUCKETS_MAX * PROGRAMS <= BP_PROGRAMS_MAX ? 1 : -1];

static bool is_run(bp_program_kind program)
{
    return program == BP_PROGRAM_STEP || program == BP_PROGRAM_MICRO_FIRST ||
           program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_EVAL;
}

uint32_t bp_length_bucket_program(const bp_runtime *runtime, const bp_length_bucket *bucket,
                                  bp_program_kind program)
{
    const uint32_t which = (uint32_t)(bucket - runtime->buckets);
    const uint32_t part = program == BP_PROGRAM_EVAL         ? PROGRAM_EVALUATES
                          : program == BP_PROGRAM_MICRO_NEXT ? PROGRAM_NEXT
                                                             : PROGRAM_FIRST;
    return BP_PROGRAM_COUNT + which * PROGRAMS + part;
}

uint64_t bp_length_bucket_bytes(const bp_spec *spec, const bp_graph_limits *rows)
{
    uint64_t each = bp_size_add(bp_graph_bytes(rows), sizeof(bp_length_bucket));
    each = bp_size_add(each, 4 * ALLOCATE_ALIGNMENT);
    return bp_size_mul(each, spec->length_count);
}

uint64_t bp_length_bucket_scratch(const bp_spec *spec, const bp_graph_limits *rows)
{
    const bp_graph graph = {.used = {.buffers = rows->buffers}};
    const uint64_t verify = bp_size_add(bp_verify_scratch(&graph), 2 * ALLOCATE_ALIGNMENT);
    const uint64_t keep =
        spec->offload.room > 0 ? bp_size_add(bp_resident_scratch(rows), ALLOCATE_ALIGNMENT) : 0;
    const uint64_t bytes = bp_size_add(bp_compile_bytes(spec), bp_size_add(verify, keep));
    return spec->length_count > 0 ? bytes : 0;
}

/* What stays from one use to the next is the same as in the padded programs. */
static bp_status keep_same(bp_runtime *runtime, bp_graph *graph)
{
    const size_t mark = runtime->host.used;
    void *scratch = NULL;
    if (runtime->spec.offload.room == 0) {
        return BP_OK;
    }
    BP_TRY(bp_arena_allocate(&runtime->host, (size_t)bp_resident_scratch(&graph->used),
                             ALLOCATE_ALIGNMENT, &scratch));
    bp_resident_like(graph, &runtime->graph, scratch);
    return bp_arena_rewind(&runtime->host, mark);
}

/* Whether a buffer of the shorter programs is the same one, or a smaller one, in the padded ones.
 * What lives from program to program is the same to the byte. */
static bool corresponds(const bp_graph *padded, const bp_graph *graph, uint32_t i)
{
    const bp_buffer *a = &padded->buffers[i], *b = &graph->buffers[i];
    const bool lasts = a->scope == BP_SCOPE_CONSTANT || a->scope == BP_SCOPE_PERSISTENT ||
                       a->scope == BP_SCOPE_GROUP;
    return a->scope == b->scope && a->space == b->space && a->dtype == b->dtype &&
           (!lasts || a->bytes == b->bytes) &&
           strcmp(bp_graph_name(padded, i), bp_graph_name(graph, i)) == 0;
}

static bool meet(const bp_buffer *a, const bp_buffer *b)
{
    return a->space == b->space && a->lower < b->upper && b->lower < a->upper;
}

/* The first place where nothing lies that lives with buffer i and has a place. */
static uint64_t free_place(const bp_graph *graph, uint32_t i)
{
    const bp_buffer *buffer = &graph->buffers[i];
    const uint64_t bytes = bp_report_rounded(graph, buffer);
    uint64_t from = 0;
    for (uint32_t k = 1; k < graph->used.buffers;) {
        const bp_buffer *other = &graph->buffers[k++];
        if (other == buffer || other->offset == BP_OFFSET_ABSENT || !meet(buffer, other)) {
            continue;
        }
        const uint64_t end = other->offset + bp_report_rounded(graph, other);
        if (other->offset < from + bytes && from < end) {
            from = end;
            k = 1;
        }
    }
    return from;
}

static bool moves(const bp_buffer *buffer)
{
    return buffer->scope == BP_SCOPE_PROGRAM && buffer->space == BP_SPACE_DEVICE;
}

static bool place_one(const bp_runtime *runtime, bp_graph *graph, uint32_t i)
{
    bp_buffer *buffer = &graph->buffers[i];
    if (!moves(buffer)) {
        return false;
    }
    buffer->offset = free_place(graph, i);
    return buffer->offset + bp_report_rounded(graph, buffer) <= runtime->report.arena_bytes;
}

/* Every buffer lies where it lies in the padded programs. A workspace may be larger in spite of
 * fewer rows (products are cut into even pieces): it goes where it finds room. */
static bool take_regions(const bp_runtime *runtime, bp_graph *graph)
{
    const bp_graph *padded = &runtime->graph;
    bool placed = true;
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        graph->buffers[i].offset = padded->buffers[i].offset;
    }
    for (uint32_t i = 1; i < graph->used.buffers && placed; i++) {
        placed = bp_report_rounded(graph, &graph->buffers[i]) <=
                     bp_report_rounded(padded, &padded->buffers[i]) ||
                 place_one(runtime, graph, i);
    }
    return placed;
}

static bool is_larger(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
}

/* Where that does not do: what lives in one program alone is placed anew, the largest first, beside
 * what has to stay. */
static bool place_anew(const bp_runtime *runtime, bp_graph *graph, uint32_t *order)
{
    uint32_t count = 0;
    bool placed = true;
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        bp_buffer *buffer = &graph->buffers[i];
        if (moves(buffer)) {
            buffer->offset = BP_OFFSET_ABSENT;
            order[count++] = i;
        } else {
            buffer->offset = runtime->graph.buffers[i].offset;
            placed = placed && bp_report_rounded(graph, buffer) <=
                                   bp_report_rounded(&runtime->graph, &runtime->graph.buffers[i]);
        }
    }
    bp_order(order, count, is_larger, graph->buffers);
    for (uint32_t k = 0; k < count && placed; k++) {
        placed = place_one(runtime, graph, order[k]);
    }
    return placed;
}

static bool find_places(const bp_runtime *runtime, bp_graph *graph, void *scratch)
{
    bool same = graph->used.buffers == runtime->graph.used.buffers;
    for (uint32_t i = 1; same && i < graph->used.buffers; i++) {
        same = corresponds(&runtime->graph, graph, i);
    }
    return same && (take_regions(runtime, graph) || place_anew(runtime, graph, scratch));
}

/* The places as the verifier sees them: nothing overlaps, all is inside the padded plan's arenas.
 */
static bp_status verify_places(bp_runtime *runtime, bp_graph *graph, void *scratch, uint64_t bytes)
{
    const bp_report *report = &runtime->report;
    BP_TRY(bp_verify_plan(graph, report->arena_bytes, scratch, bytes));
    BP_TRY(bp_verify_space(graph, BP_SPACE_HOST, report->host.arena_bytes, scratch, bytes));
    return bp_verify_space(graph, BP_SPACE_OFFLOAD, report->offload.arena_bytes, scratch, bytes);
}

/* Where the host puts the inputs of a micro-batch. */
static void note_inputs(bp_length_bucket *to, const bp_compile *compile, const bp_builder *builder)
{
    to->micro_bytes = bp_compile_micro_bytes(builder->spec);
    for (uint32_t i = 0; i < compile->input_count; i++) {
        to->offset[i] = builder->declared[i].offset - builder->step.offset;
        to->elements[i] = (uint32_t)bp_input_elements(&compile->input[i]);
    }
}

/* Writes, verifies and places the programs of a length in memory that is given back, but for the
 * graph's tables. *there becomes false when they find no room. */
static bp_status make_programs(bp_runtime *runtime, bp_length_bucket *to, bp_error *error,
                               bool *there)
{
    const bp_spec spec = bp_length_buckets_spec(&runtime->spec, to->sequence);
    const bp_graph_limits *rows = &runtime->rows;
    const bp_graph limits = {.used = {.buffers = rows->buffers}};
    const uint64_t bytes = bp_verify_scratch(&limits);
    bp_compile compile = {0};
    bp_builder builder;
    void *scratch = NULL;
    BP_TRY(bp_graph_init(&to->graph, rows, &runtime->host, error));
    const size_t mark = runtime->host.used;
    BP_TRY(bp_compile_run(&compile, &builder, &to->graph, &spec, &runtime->host));
    note_inputs(to, &compile, &builder);
    BP_TRY(keep_same(runtime, &to->graph));
    BP_TRY(bp_arena_allocate(&runtime->host, (size_t)bytes, ALLOCATE_ALIGNMENT, &scratch));
    BP_TRY(bp_verify(&to->graph, spec.device, &spec.device_options, scratch, bytes));
    bp_graph_lifetimes(&to->graph);
    *there = find_places(runtime, &to->graph, scratch);
    if (*there) {
        BP_TRY(verify_places(runtime, &to->graph, scratch, bytes));
    }
    return bp_arena_rewind(&runtime->host, mark);
}

static bp_status make_length(bp_runtime *runtime, uint32_t sequence)
{
    bp_length_bucket *to = &runtime->buckets[runtime->bucket_count];
    const size_t mark = runtime->host.used;
    bool there = false;
    bp_error error = {.code = BP_OK};
    *to = (bp_length_bucket){.sequence = sequence};
    const bp_status status = make_programs(runtime, to, &error, &there);
    if (status != BP_OK && status != BP_ERR_FIT) {
        runtime->error = error;
        return status;
    }
    if (!there) {
        runtime->left_out = "a length's programs do not fit into the padded run's places";
        return bp_arena_rewind(&runtime->host, mark);
    }
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (!is_run((bp_program_kind)program)) {
            to->graph.program_count[program] = 0; /* the padded run's are used */
        }
    }
    runtime->bucket_count++;
    return BP_OK;
}

bp_status bp_length_bucket_make(bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->spec;
    void *rows = NULL;
    runtime->left_out = spec->length_count > 0 ? bp_length_buckets_refused(spec) : NULL;
    if (spec->length_count == 0 || runtime->left_out != NULL) {
        return BP_OK;
    }
    BP_TRY(bp_arena_allocate(&runtime->host, spec->length_count * sizeof(bp_length_bucket),
                             ALLOCATE_ALIGNMENT, &rows));
    runtime->buckets = rows;
    for (uint32_t i = 0; i < spec->length_count; i++) {
        BP_TRY(make_length(runtime, spec->lengths[i]));
    }
    return BP_OK;
}

bp_status bp_length_bucket_link(bp_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->bucket_count; i++) {
        bp_length_bucket *bucket = &runtime->buckets[i];
        BP_TRY(bp_link_graph(&bucket->link, &bucket->graph, runtime->spec.device,
                             runtime->spec.poison, &runtime->host));
    }
    return BP_OK;
}

bp_status bp_length_bucket_open(bp_runtime *runtime)
{
    const bp_device *device = runtime->spec.device;
    for (uint32_t i = 0; i < runtime->bucket_count; i++) {
        const bp_length_bucket *bucket = &runtime->buckets[i];
        const bp_link *link = &bucket->link;
        for (uint32_t kind = 0; kind < BP_PROGRAM_COUNT; kind++) {
            if (link->programs[kind].count == 0) {
                continue;
            }
            const uint32_t program =
                bp_length_bucket_program(runtime, bucket, (bp_program_kind)kind);
            BP_TRY(device->link(runtime->device, program, &link->programs[kind],
                                link->device_memory[kind], link->device_bytes[kind]));
        }
    }
    return BP_OK;
}
