/* SPDX-License-Identifier: MIT */
/* When shorter sequences give the same bits, their specs, their programs in the places of the
 * padded ones. */
#include "core/plan/buckets.h"

#include <string.h>

#include "core/base/sort.h"
#include "core/ir/verify/verify.h"
#include "core/plan/planned.h"
#include "core/plan/parts.h"

#define BUCKETS_ALIGNMENT 64

/* Whether a gradient of 16 bits is added up chunk by chunk: it is rounded after each. */
static bool rounds_chunks(const bp_spec *spec)
{
    const uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    return spec->optimizer != NULL && spec->gradient != BP_F32 &&
           !bp_task_scores_samples(spec->config.task) && spec->loss_rows < rows;
}

const char *bp_length_buckets_refused(const bp_spec *spec)
{
    if (!spec->model->pads) {
        return "this model reads its samples by pieces of time, or as numbers";
    }
    if (spec->source > 0) {
        return "this model reads a text beside that of the sequence, which stays as long";
    }
    if (spec->config.task == BP_TASK_ANSWERS) {
        return "answers are looked for in all of a row, padding included";
    }
    if (!spec->device->sums_by_row) {
        return "this device adds up rows in groups, which padding is part of";
    }
    if (bp_spec_token_lanes(spec) > 1) {
        return "parts of a shorter sample's tokens are other sums (see --sequence-ranks)";
    }
    if (spec->optimizer != NULL && spec->products == BP_PRODUCT_FP8) {
        return "products in fp8 add up rows in groups, which padding is part of";
    }
    if (rounds_chunks(spec) && spec->loss_rows % spec->sequence != 0) {
        return "chunks of the loss do not end where samples do, and 16-bit gradients are rounded "
               "after each (see --loss-chunk-rows)";
    }
    return NULL;
}

bp_spec bp_length_buckets_spec(const bp_spec *spec, uint32_t sequence)
{
    bp_spec shorter = *spec;
    const uint64_t rows = (uint64_t)spec->batch * sequence;
    const uint64_t padded = (uint64_t)spec->batch * spec->sequence;
    shorter.sequence = sequence;
    shorter.length_count = 0;
    if (spec->loss_rows >= padded) {
        shorter.loss_rows = (uint32_t)rows;
    } else if (spec->loss_rows % spec->sequence == 0) {
        shorter.loss_rows = spec->loss_rows / spec->sequence * sequence;
    } else {
        const uint64_t chunks = bp_size_ceil_div(padded, spec->loss_rows);
        shorter.loss_rows = (uint32_t)bp_size_ceil_div(rows, chunks);
    }
    return shorter;
}

static bool buckets_runs(bp_program_kind program)
{
    return program == BP_PROGRAM_STEP || program == BP_PROGRAM_MICRO_FIRST ||
           program == BP_PROGRAM_MICRO_NEXT || program == BP_PROGRAM_EVAL;
}

uint64_t bp_length_buckets_bytes(const bp_spec *spec, const bp_graph_limits *rows)
{
    uint64_t each = bp_size_add(bp_graph_bytes(rows), sizeof(bp_length_bucket));
    each = bp_size_add(each, 4 * BUCKETS_ALIGNMENT);
    return bp_size_mul(each, spec->length_count);
}

uint64_t bp_length_buckets_scratch(const bp_spec *spec, const bp_graph_limits *rows)
{
    const bp_graph graph = {.used = *rows};
    const uint64_t verify = bp_size_add(bp_verify_scratch(&graph), 2 * BUCKETS_ALIGNMENT);
    const uint64_t keep =
        spec->offload.room > 0 ? bp_size_add(bp_resident_scratch(rows), BUCKETS_ALIGNMENT) : 0;
    const uint64_t bytes = bp_size_add(bp_compile_bytes(spec), bp_size_add(verify, keep));
    return spec->length_count > 0 ? bytes : 0;
}

/* What stays from one use to the next is the same as in the padded programs. */
static bp_status buckets_keep(bp_plan *plan, bp_graph *graph)
{
    const size_t mark = plan->memory.used;
    void *scratch = NULL;
    if (plan->spec.offload.room == 0) {
        return BP_OK;
    }
    BP_TRY(bp_arena_allocate(&plan->memory, (size_t)bp_resident_scratch(&graph->used),
                             BUCKETS_ALIGNMENT, &scratch));
    bp_resident_like(graph, &plan->graph, scratch);
    return bp_arena_rewind(&plan->memory, mark);
}

/* Whether a buffer of the shorter programs is the same one, or a smaller one, in the padded ones.
 * What lives from program to program is the same to the byte. */
static bool buckets_correspond(const bp_graph *padded, const bp_graph *graph, uint32_t i)
{
    const bp_buffer *a = &padded->buffers[i], *b = &graph->buffers[i];
    const bool lasts = a->scope == BP_SCOPE_CONSTANT || a->scope == BP_SCOPE_PERSISTENT ||
                       a->scope == BP_SCOPE_GROUP;
    return a->scope == b->scope && a->space == b->space && a->dtype == b->dtype &&
           (!lasts || a->bytes == b->bytes) &&
           strcmp(bp_graph_name(padded, i), bp_graph_name(graph, i)) == 0;
}

static bool buckets_meet(const bp_buffer *a, const bp_buffer *b)
{
    return a->space == b->space && a->lower < b->upper && b->lower < a->upper;
}

/* The first place where nothing lies that lives with buffer i and has a place. */
static uint64_t buckets_free_place(const bp_graph *graph, uint32_t i)
{
    const bp_buffer *buffer = &graph->buffers[i];
    const uint64_t bytes = bp_report_rounded(graph, buffer);
    uint64_t from = 0;
    for (uint32_t k = 1; k < graph->used.buffers;) {
        const bp_buffer *other = &graph->buffers[k++];
        if (other == buffer || other->offset == BP_OFFSET_ABSENT || !buckets_meet(buffer, other)) {
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

static bool buckets_moves(const bp_buffer *buffer)
{
    return buffer->scope == BP_SCOPE_PROGRAM && buffer->space == BP_SPACE_DEVICE;
}

static bool buckets_place(const bp_plan *plan, bp_graph *graph, uint32_t i)
{
    bp_buffer *buffer = &graph->buffers[i];
    if (!buckets_moves(buffer)) {
        return false;
    }
    buffer->offset = buckets_free_place(graph, i);
    return buffer->offset + bp_report_rounded(graph, buffer) <= plan->report.arena_bytes;
}

/* Every buffer lies where it lies in the padded programs. A workspace may be larger in spite of
 * fewer rows (products are cut into even pieces): it goes where it finds room. */
static bool buckets_take_places(const bp_plan *plan, bp_graph *graph)
{
    const bp_graph *padded = &plan->graph;
    bool placed = true;
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        graph->buffers[i].offset = padded->buffers[i].offset;
    }
    for (uint32_t i = 1; i < graph->used.buffers && placed; i++) {
        placed = bp_report_rounded(graph, &graph->buffers[i]) <=
                     bp_report_rounded(padded, &padded->buffers[i]) ||
                 buckets_place(plan, graph, i);
    }
    return placed;
}

static bool buckets_larger(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
}

/* Where that does not do: what lives in one program alone is placed anew, the largest first, beside
 * what has to stay. */
static bool buckets_place_anew(const bp_plan *plan, bp_graph *graph, uint32_t *order)
{
    uint32_t count = 0;
    bool placed = true;
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        bp_buffer *buffer = &graph->buffers[i];
        if (buckets_moves(buffer)) {
            buffer->offset = BP_OFFSET_ABSENT;
            order[count++] = i;
        } else {
            buffer->offset = plan->graph.buffers[i].offset;
            placed = placed && bp_report_rounded(graph, buffer) <=
                                   bp_report_rounded(&plan->graph, &plan->graph.buffers[i]);
        }
    }
    bp_order(order, count, buckets_larger, graph->buffers);
    for (uint32_t k = 0; k < count && placed; k++) {
        placed = buckets_place(plan, graph, order[k]);
    }
    return placed;
}

static bool buckets_find_places(const bp_plan *plan, bp_graph *graph, void *scratch)
{
    bool same = graph->used.buffers == plan->graph.used.buffers;
    for (uint32_t i = 1; same && i < graph->used.buffers; i++) {
        same = buckets_correspond(&plan->graph, graph, i);
    }
    return same && (buckets_take_places(plan, graph) || buckets_place_anew(plan, graph, scratch));
}

/* The places as the verifier sees them: nothing overlaps, all is inside the padded plan's arenas.
 */
static bp_status buckets_verify(bp_plan *plan, bp_graph *graph, void *scratch, uint64_t bytes)
{
    const bp_report *report = &plan->report;
    BP_TRY(bp_verify_plan(graph, report->arena_bytes, scratch, bytes));
    BP_TRY(bp_verify_space(graph, BP_SPACE_HOST, report->host.arena_bytes, scratch, bytes));
    return bp_verify_space(graph, BP_SPACE_OFFLOAD, report->offload.arena_bytes, scratch, bytes);
}

/* Where the host puts the inputs of a micro-batch. */
static void buckets_note_inputs(bp_length_bucket *to, const bp_compile *compile,
                                const bp_builder *builder)
{
    to->micro_bytes = bp_compile_micro_bytes(builder->spec);
    for (uint32_t i = 0; i < compile->input_count; i++) {
        to->offset[i] = builder->declared[i].offset - builder->step.offset;
        to->elements[i] = (uint32_t)bp_input_elements(&compile->input[i]);
    }
}

/* Writes, verifies and places the programs of a length in memory that is given back, but for the
 * graph's tables. *there becomes false when they find no room. */
static bp_status buckets_write(bp_plan *plan, bp_length_bucket *to, bp_error *error, bool *there)
{
    const bp_spec spec = bp_length_buckets_spec(&plan->spec, to->sequence);
    const bp_graph_limits *rows = &plan->rows;
    const bp_graph limits = {.used = *rows};
    const uint64_t bytes = bp_verify_scratch(&limits);
    bp_compile compile = {0};
    bp_builder builder;
    void *scratch = NULL;
    BP_TRY(bp_graph_init(&to->graph, rows, &plan->memory, error));
    const size_t mark = plan->memory.used;
    BP_TRY(bp_compile_run(&compile, &builder, &to->graph, &spec, &plan->memory));
    buckets_note_inputs(to, &compile, &builder);
    BP_TRY(buckets_keep(plan, &to->graph));
    BP_TRY(bp_arena_allocate(&plan->memory, (size_t)bytes, BUCKETS_ALIGNMENT, &scratch));
    BP_TRY(bp_verify(&to->graph, spec.device, &spec.device_options, scratch, bytes));
    bp_graph_lifetimes(&to->graph);
    *there = buckets_find_places(plan, &to->graph, scratch);
    if (*there) {
        BP_TRY(buckets_verify(plan, &to->graph, scratch, bytes));
    }
    return bp_arena_rewind(&plan->memory, mark);
}

static bp_status buckets_make_one(bp_plan *plan, uint32_t sequence)
{
    bp_length_bucket *to = &plan->buckets[plan->bucket_count];
    const size_t mark = plan->memory.used;
    bool there = false;
    bp_error error = {.code = BP_OK};
    *to = (bp_length_bucket){.sequence = sequence};
    const bp_status status = buckets_write(plan, to, &error, &there);
    if (status != BP_OK && status != BP_ERR_FIT) {
        plan->error = error;
        return status;
    }
    if (!there) {
        plan->left_out = "a length's programs do not fit into the padded run's places";
        return bp_arena_rewind(&plan->memory, mark);
    }
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        if (!buckets_runs((bp_program_kind)program)) {
            to->graph.program_count[program] = 0; /* the padded run's are used */
        }
    }
    plan->bucket_count++;
    return BP_OK;
}

bp_status bp_length_buckets_make(bp_plan *plan)
{
    const bp_spec *spec = &plan->spec;
    void *rows = NULL;
    plan->left_out = spec->length_count > 0 ? bp_length_buckets_refused(spec) : NULL;
    if (spec->length_count == 0 || plan->left_out != NULL) {
        return BP_OK;
    }
    BP_TRY(bp_arena_allocate(&plan->memory, spec->length_count * sizeof(bp_length_bucket),
                             BUCKETS_ALIGNMENT, &rows));
    plan->buckets = rows;
    for (uint32_t i = 0; i < spec->length_count; i++) {
        BP_TRY(buckets_make_one(plan, spec->lengths[i]));
    }
    return BP_OK;
}
