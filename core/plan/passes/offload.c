/* SPDX-License-Identifier: MIT */
/* Parameters that live in storage, or in the host's memory beside a GPU.
 *
 * A parameter that is acquired is copied from there into buffers that live while it is held; the
 * copies are begun and waited for at once, where it is asked for. Once a program is written each
 * begin moves towards the program's start, to behind the wait of an earlier copy, as far as leaves
 * no more bytes under way than the spec says: what is on its way then is what is used next,
 * whatever the sizes. Buffers in flight are planned like all others, for their lifetimes begin with
 * the copy. Masters and optimizer states are brought part by part when they are updated, and
 * written back: there the waits move towards the program's end in the same way. */
#include <string.h>

#include "core/plan/compile_private.h"
#include "core/plan/rows.h"
#include "core/ir/address.h"
#include "core/ir/tier.h"

#define OFFLOAD_LEAST 4096 /* elements of a parameter that is worth a call of storage */

static bool table_of(const bp_builder *builder, uint32_t index)
{
    const bp_spec *spec = builder->spec;
    uint32_t tables[2] = {UINT32_MAX, UINT32_MAX};
    if (spec->model->sliced_tables != NULL) {
        spec->model->sliced_tables(spec, tables);
    }
    return index == tables[0] || index == tables[1];
}

bp_space compile_offload_space(const bp_builder *builder)
{
    return builder->spec->offload.host ? BP_SPACE_HOST : BP_SPACE_OFFLOAD;
}

/* Tables go where their rows are all that the first stage makes of them; a GPU reads no rows by
 * numbers of its own from the host's memory. */
static bool base_may(const bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bool table = table_of(builder, index);
    if (bp_rows_table(builder, index)) {
        return false;
    }
    return table ? builder->spec->model->plain_rows && !builder->spec->offload.host
                 : !parameter->embedding && parameter->rank > 1;
}

/* Whether the next one of a kind is among those that are offloaded. */
static bool offload_takes(bp_builder *builder, bp_offload_kind kind, uint64_t elements,
                          uint64_t share)
{
    const bp_offload *offload = &builder->spec->offload;
    uint32_t *seen = &builder->passes.offload_seen[kind];
    uint64_t of = BP_OFFLOAD_ALL;
    if (offload->part_count > 0 && kind == offload->part_kind) {
        uint32_t i = 0;
        while (i < offload->part_count && offload->part[i].elements != elements) {
            i++;
        }
        if (i == offload->part_count || offload->part[i].of == 0) {
            return false;
        }
        seen = &builder->passes.part_seen[i];
        share = offload->part[i].chosen;
        of = offload->part[i].of;
    }
    const uint64_t before = (*seen)++;
    return (before + 1) * share / of > before * share / of;
}

bool compile_is_offloaded(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t share = builder->spec->offload.bases;
    const bool frozen =
        !parameter->statistic && (builder->spec->lora.rank > 0 || builder->spec->optimizer == NULL);
    if (share == 0 || !frozen || parameter->count < OFFLOAD_LEAST || !base_may(builder, index)) {
        return false;
    }
    return offload_takes(builder, BP_OFFLOAD_BASES, parameter->count, share);
}

/* A weight that is updated in parts, as its state is, and that no op reads but those that hold it.
 */
bool compile_goes_along(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t share = builder->spec->offload.weights;
    if (share == 0 || !parameter->aside || parameter->embedding || parameter->rank < 2 ||
        table_of(builder, index) || compile_goes_fp8(builder, index)) {
        return false;
    }
    return offload_takes(builder, BP_OFFLOAD_WEIGHTS, parameter->count, share);
}

bool compile_goes_aside(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t share = builder->spec->offload.states;
    if (share == 0 || builder->spec->optimizer == NULL || !parameter->trainable ||
        parameter->count < OFFLOAD_LEAST || parameter->init == BP_INIT_NORMS ||
        parameter->init == BP_INIT_ROWS) {
        return false;
    }
    return offload_takes(builder, BP_OFFLOAD_STATES, parameter->count, share);
}

/* Whole gradients are brought by the stages that add to them, so those of tables stay; sums in 8
 * bits come in the slices in which they are made. Virtual ranks and released gradients have nothing
 * that waits for an update. */
bool compile_gradient_goes(bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t share = builder->spec->offload.gradients;
    const bool whole = !builder->spec->gradient_int8;
    if (share == 0 || !parameter->aside || bp_spec_whole_group(builder->spec) ||
        (whole && (parameter->embedding || parameter->rank < 2 || table_of(builder, index)))) {
        return false;
    }
    return offload_takes(builder, BP_OFFLOAD_GRADIENTS, parameter->count, share);
}

/* A copy of runs of bytes. Begun, it is marked as one that may move. */
static int64_t offload_begin(bp_builder *builder, bp_ref to, bp_ref from, bp_copy_begin_scalars run,
                             uint32_t marks)
{
    const bp_ref target = {to.buffer, BP_U8, to.offset}, source = {from.buffer, BP_U8, from.offset};
    run.request = (int64_t)bp_graph_request(builder->graph);
    bp_build_copy_begin(builder, &(bp_copy_begin_operands){target, source}, &run);
    if (builder->status == BP_OK && !bp_graph_counts(builder->graph)) {
        builder->graph->ops[builder->graph->used.ops - 1].brings = marks;
    }
    return run.request;
}

static void offload_wait(bp_builder *builder, bp_ref to, bp_ref from, bp_copy_begin_scalars run,
                         int64_t request)
{
    const bp_copy_wait_scalars wait = {request, run.rows, run.width, run.to_pitch, run.from_pitch};
    const bp_ref target = {to.buffer, BP_U8, to.offset}, source = {from.buffer, BP_U8, from.offset};
    bp_build_copy_wait(builder, &(bp_copy_wait_operands){target, source}, &wait);
}

static bp_copy_begin_scalars flat_run(uint64_t bytes)
{
    const int64_t width = (int64_t)bytes;
    return (bp_copy_begin_scalars){0, 1, width, width, width};
}

static void offload_copy(bp_builder *builder, bp_ref to, bp_ref from, uint64_t bytes,
                         uint32_t marks)
{
    const bp_copy_begin_scalars run = flat_run(bytes);
    offload_wait(builder, to, from, run, offload_begin(builder, to, from, run, marks));
}

/* The same of the experts that have rows. */
static void offload_copy_experts(bp_builder *builder, bp_ref to, bp_ref from, uint64_t bytes,
                                 const bp_routed *routed)
{
    const bp_experts_begin_scalars begin = {.request = (int64_t)bp_graph_request(builder->graph),
                                            .experts = (int64_t)routed->experts,
                                            .width = (int64_t)(bytes / routed->experts),
                                            .tokens = (int64_t)routed->tokens,
                                            .top = (int64_t)routed->top};
    const bp_experts_wait_scalars wait = {begin.request, begin.experts, begin.width, begin.tokens,
                                          begin.top};
    const bp_ref target = {to.buffer, BP_U8, to.offset}, source = {from.buffer, BP_U8, from.offset};
    bp_build_experts_begin(builder, &(bp_experts_begin_operands){target, source, routed->runs},
                           &begin);
    if (builder->status == BP_OK && !bp_graph_counts(builder->graph)) {
        builder->graph->ops[builder->graph->used.ops - 1].brings = from.buffer;
    }
    bp_build_experts_wait(builder, &(bp_experts_wait_operands){target, source, routed->runs},
                          &wait);
}

/* Brings a buffer of a parameter, all of it or the experts that are read. */
static void offload_fetch(bp_builder *builder, bp_ref to, uint32_t buffer, uint64_t bytes)
{
    const bp_routed *routed = builder->passes.routed;
    const bp_ref from = {buffer, BP_U8, 0};
    if (routed != NULL && bytes % routed->experts == 0) {
        offload_copy_experts(builder, to, from, bytes, routed);
    } else {
        offload_copy(builder, to, from, bytes, buffer);
    }
}

/* Brings a buffer of `bytes` bytes of codes. */
static uint32_t offload_bring(bp_builder *builder, uint32_t buffer, bp_dtype dtype, uint64_t bytes,
                              const char *name)
{
    const bp_ref to =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, dtype, bytes / bp_dtype_bytes(dtype), 1, name);
    offload_fetch(builder, to, buffer, bytes);
    return to.buffer;
}

static void fetch_codes(bp_builder *builder, bp_parameter *parameter)
{
    const bp_quantised form = parameter->quantised;
    const uint64_t nested = bp_build_nested_floats(builder->spec, parameter);
    bp_acquired brought = parameter->acquired;
    brought.weight = offload_bring(builder, parameter->weight, BP_U8,
                                   bp_quantised_codes(parameter->count, form), "brought_codes");
    if (bp_quantised_scaled(form)) {
        brought.scales =
            offload_bring(builder, parameter->scales, BP_U8,
                          bp_build_scale_bytes(builder->spec, parameter), "brought_scales");
    }
    if (nested > 0) {
        brought.nested = offload_bring(builder, parameter->nested, BP_F32, nested * sizeof(float),
                                       "brought_nested");
    }
    parameter->acquired = brought;
}

void compile_fetch(bp_builder *builder, uint32_t index)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_dtype dtype = bp_build_type(builder->spec, parameter);
    if (parameter->acquired.held > 1 || !parameter->offloaded) {
        return;
    }
    if (parameter->quantised != BP_QUANTISED_NONE) {
        fetch_codes(builder, parameter);
    } else {
        const bp_ref to = bp_build_tensor(builder, BP_CLASS_WORKSPACE, dtype, parameter->rank,
                                          parameter->shape, "brought_weight");
        offload_fetch(builder, to, parameter->weight, parameter->count * bp_dtype_bytes(dtype));
        parameter->acquired.weight = to.buffer;
    }
}

bool bp_build_table_offloaded(const bp_builder *builder, uint32_t index)
{
    return builder->status == BP_OK && builder->parameters[index].offloaded;
}

void bp_build_bring_rows(bp_builder *builder, uint32_t index, bp_ref to, bp_ref ids, uint64_t rows,
                         uint64_t width)
{
    const bp_parameter *table = &builder->parameters[index];
    const int64_t bytes = (int64_t)(width * bp_dtype_bytes(to.dtype));
    const bp_rows_begin_scalars begin = {.request = (int64_t)bp_graph_request(builder->graph),
                                         .rows = (int64_t)rows,
                                         .width = bytes,
                                         .vocabulary = (int64_t)table->shape[0]};
    const bp_rows_wait_scalars wait = {begin.request, begin.rows, begin.width, begin.vocabulary};
    const bp_ref target = {to.buffer, BP_U8, to.offset}, from = {table->weight, BP_U8, 0};
    bp_build_rows_begin(builder, &(bp_rows_begin_operands){target, from, ids}, &begin);
    bp_build_rows_wait(builder, &(bp_rows_wait_operands){target, from, ids}, &wait);
}

bp_ref bp_build_bring(bp_builder *builder, uint32_t buffer, uint64_t first, uint64_t bytes,
                      const char *name)
{
    const bp_ref to = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_U8, bytes, 1, name);
    compile_bring_into(builder, to, buffer, first, bytes);
    return to;
}

void compile_bring_into(bp_builder *builder, bp_ref to, uint32_t buffer, uint64_t first,
                        uint64_t bytes)
{
    offload_copy(builder, to, (bp_ref){buffer, BP_U8, first}, bytes, buffer);
}

void bp_build_put_back(bp_builder *builder, bp_ref from, uint32_t buffer, uint64_t first,
                       uint64_t bytes)
{
    offload_copy(builder, (bp_ref){buffer, BP_U8, first}, from, bytes, BP_NO_BUFFER);
}

/* What is added up of gradients over a group may wait there. Then a backward stage adds to a buffer
 * that it has for itself, which begins with what is there, and goes there at the stage's end; the
 * norm and the update bring it part by part. */

/* And not its sum in 8 bits. */
bool bp_build_gradient_offloaded(const bp_builder *builder, uint32_t index)
{
    return builder->parameters[index].gradient_offloaded && !builder->spec->gradient_int8;
}

bp_ref bp_build_bring_gradient(bp_builder *builder, uint32_t index, uint64_t first, uint64_t count)
{
    const bp_dtype dtype = builder->spec->gradient;
    const uint64_t width = bp_dtype_bytes(dtype);
    bp_ref part = bp_build_bring(builder, builder->parameters[index].gradient, first * width,
                                 count * width, "brought_gradient");
    part.dtype = dtype;
    return part;
}

bp_ref compile_gradient_here(bp_builder *builder, uint32_t index, bool written)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_dtype dtype = builder->spec->gradient;
    if (parameter->acquired.gradient == BP_NO_BUFFER) {
        const bp_ref here = written ? bp_build_bring_gradient(builder, index, 0, parameter->count)
                                    : bp_build_buffer(builder, BP_CLASS_WORKSPACE, dtype,
                                                      parameter->count, 1, "gradient_here");
        parameter->acquired.gradient = here.buffer;
    }
    return (bp_ref){parameter->acquired.gradient, dtype, 0};
}

void compile_offload_gradients(bp_builder *builder)
{
    for (uint32_t i = 0; i < builder->parameter_count && builder->spec->offload.gradients > 0;
         i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (builder->status == BP_OK && parameter->acquired.gradient != BP_NO_BUFFER) {
            bp_build_put_back(builder, (bp_ref){parameter->acquired.gradient, BP_U8, 0},
                              parameter->gradient, 0,
                              parameter->count * bp_dtype_bytes(builder->spec->gradient));
        }
        parameter->acquired.gradient = BP_NO_BUFFER;
    }
}

static uint64_t offload_bytes(const bp_builder *builder, uint32_t buffer)
{
    return bp_graph_counts(builder->graph) ? 1 : builder->graph->buffers[buffer].bytes;
}

bp_ref compile_checkpoint_begin(bp_builder *builder, bp_ref checkpoint, int64_t *request)
{
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    const uint64_t bytes = offload_bytes(builder, checkpoint.buffer);
    const bp_buffer prototype = {.class_of = BP_CLASS_CHECKPOINT,
                                 .scope = BP_SCOPE_PROGRAM,
                                 .space = compile_offload_space(builder),
                                 .dtype = BP_U8,
                                 .rank = 1,
                                 .shape = {bytes}};
    uint32_t slot = BP_NO_BUFFER;
    builder->status = bp_graph_buffer(builder->graph, &prototype, "checkpoint_offload", &slot);
    *request = offload_begin(builder, (bp_ref){slot, BP_U8, 0},
                             (bp_ref){checkpoint.buffer, BP_U8, 0}, flat_run(bytes), BP_NO_BUFFER);
    return (bp_ref){slot, checkpoint.dtype, checkpoint.offset};
}

void compile_checkpoint_wait(bp_builder *builder, bp_ref slot, bp_ref checkpoint, int64_t request)
{
    if (builder->status == BP_OK) {
        offload_wait(builder, (bp_ref){slot.buffer, BP_U8, 0},
                     (bp_ref){checkpoint.buffer, BP_U8, 0},
                     flat_run(offload_bytes(builder, slot.buffer)), request);
    }
}

bp_ref bp_build_bring_input(bp_builder *builder, bp_ref slot)
{
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    const bp_ref to = bp_build_bring(builder, slot.buffer, 0, offload_bytes(builder, slot.buffer),
                                     "brought_checkpoint");
    return (bp_ref){to.buffer, slot.dtype, slot.offset};
}

bp_ref bp_build_bring_rows_of(bp_builder *builder, bp_ref slot, uint64_t first, uint64_t rows,
                              uint64_t width)
{
    const uint64_t row = bp_size_mul(width, bp_dtype_bytes(slot.dtype));
    bp_ref to = bp_build_bring(builder, slot.buffer, bp_size_add(slot.offset, first * row),
                               bp_size_mul(rows, row), "brought_rows");
    to.dtype = slot.dtype;
    return to;
}

bool bp_build_streams(const bp_builder *builder)
{
    return builder->spec->offload.checkpoints == BP_OFFLOAD_STREAMS &&
           builder->mode == BP_MODE_TRAIN;
}

bp_ref bp_build_away(bp_builder *builder, bp_dtype dtype, uint64_t rows, uint64_t width,
                     const char *name)
{
    const bp_buffer prototype = {.class_of = BP_CLASS_CHECKPOINT,
                                 .scope = BP_SCOPE_PROGRAM,
                                 .space = compile_offload_space(builder),
                                 .dtype = dtype,
                                 .rank = 2,
                                 .shape = {rows, width}};
    uint32_t slot = BP_NO_BUFFER;
    if (builder->status != BP_OK) {
        return BP_ABSENT;
    }
    builder->status = bp_graph_buffer(builder->graph, &prototype, name, &slot);
    return (bp_ref){slot, dtype, 0};
}

void bp_build_put_rows(bp_builder *builder, bp_ref from, bp_ref slot, uint64_t first, uint64_t rows,
                       uint64_t width)
{
    const uint64_t row = bp_size_mul(width, bp_dtype_bytes(slot.dtype));
    bp_build_put_back(builder, from, slot.buffer, bp_size_add(slot.offset, bp_size_mul(first, row)),
                      bp_size_mul(rows, row));
}

/* Where rows of matrices begin there, and their runs: one where they lie without a gap. */
static bp_ref away_at(bp_ref slot, const bp_away_rows *rows, bp_copy_begin_scalars *run,
                      int64_t *pitch)
{
    const uint64_t row = bp_size_mul(rows->width, bp_dtype_bytes(slot.dtype));
    const uint64_t before = bp_size_add(bp_size_mul(rows->at, rows->all), rows->first);
    const uint64_t here = bp_size_mul(rows->rows, row);
    *run = flat_run(here);
    if (rows->rows == rows->all) {
        *run = flat_run(bp_size_mul(rows->count, here));
    } else if (rows->count > 1) {
        run->rows = (int64_t)rows->count;
        *pitch = (int64_t)bp_size_mul(rows->all, row);
    }
    return (bp_ref){slot.buffer, BP_U8, bp_size_add(slot.offset, bp_size_mul(before, row))};
}

bp_ref bp_build_bring_away(bp_builder *builder, bp_ref slot, const bp_away_rows *rows, bool still,
                           const char *name)
{
    bp_copy_begin_scalars run;
    int64_t pitch = 0;
    const bp_ref to = bp_build_buffer(builder, BP_CLASS_WORKSPACE, slot.dtype,
                                      bp_size_mul(rows->count, rows->rows), rows->width, name);
    const bp_ref from = away_at(slot, rows, &run, &pitch);
    run.from_pitch = pitch != 0 ? pitch : run.from_pitch;
    offload_wait(builder, to, from, run,
                 offload_begin(builder, to, from, run, still ? BP_NO_BUFFER : slot.buffer));
    return to;
}

void bp_build_put_away(bp_builder *builder, bp_ref from, bp_ref slot, const bp_away_rows *rows)
{
    bp_copy_begin_scalars run;
    int64_t pitch = 0;
    const bp_ref to = away_at(slot, rows, &run, &pitch);
    run.to_pitch = pitch != 0 ? pitch : run.to_pitch;
    offload_wait(builder, to, from, run, offload_begin(builder, to, from, run, BP_NO_BUFFER));
}

static const bp_copy_begin_scalars *copy_of(const bp_graph *graph, const bp_op *op)
{
    return (const void *)(graph->scalars + op->scalar);
}

static bool offload_begins(bp_kernel kernel)
{
    return kernel == BP_KERNEL_copy_begin || kernel == BP_KERNEL_experts_begin;
}

/* Bytes of a copy, of experts those of all. */
static uint64_t tier_bytes(const bp_graph *graph, const bp_op *op)
{
    /* experts_begin has their number and the bytes of one in the places of rows and width */
    const bp_copy_begin_scalars *s = copy_of(graph, op);
    return (uint64_t)s->rows * (uint64_t)s->width;
}

/* Bytes that an op fetches from the offload tier; 0: it is none that may move. */
static uint64_t fetch_bytes(const bp_graph *graph, const bp_op *op)
{
    return offload_begins(op->kernel) && op->brings != BP_NO_BUFFER ? tier_bytes(graph, op) : 0;
}

/* What an op copies to (operand 0) or from (operand 1) the offload tier: of storage whole pages,
 * which the thread that reads and the one that writes never have at one time (core/ir/tier.h). Of
 * several runs what is between them as well. */
static bp_span tier_span(const bp_graph *graph, const bp_op *op, uint32_t operand)
{
    const bp_ref ref = graph->refs[op->operand + operand];
    const bp_copy_begin_scalars *s = copy_of(graph, op);
    const bool experts =
        op->kernel == BP_KERNEL_experts_begin || op->kernel == BP_KERNEL_experts_wait;
    const int64_t apart = operand == 0 ? s->to_pitch : s->from_pitch;
    const uint64_t pitch = (uint64_t)(experts ? s->width : apart);
    const uint64_t last = ref.offset + (uint64_t)(s->rows - 1) * pitch;
    const bp_span bytes = {ref.offset, last + (uint64_t)s->width};
    return graph->buffers[ref.buffer].space == BP_SPACE_OFFLOAD ? bp_address_pages(bytes) : bytes;
}

/* Whether two ops, of which one copies from the offload tier and one to it, are about the same
 * bytes there, or pages. */
static bool offload_meet(const bp_graph *graph, const bp_op *from, const bp_op *to)
{
    const bp_span source = tier_span(graph, from, 1), target = tier_span(graph, to, 0);
    return graph->refs[from->operand + 1].buffer == graph->refs[to->operand].buffer &&
           source.first < target.end && target.first < source.end;
}

static bool goes_down(const bp_graph *graph, const bp_op *op, bp_kernel kernel)
{
    return op->kernel == kernel &&
           graph->buffers[graph->refs[op->operand].buffer].space != BP_SPACE_DEVICE;
}

/* Whether an op begins to copy from there, also one that does not move. */
static bool comes_up(const bp_graph *graph, const bp_op *op)
{
    return offload_begins(op->kernel) &&
           graph->buffers[graph->refs[op->operand + 1].buffer].space != BP_SPACE_DEVICE;
}

/* Bytes of the offload tier that ops were about that a pass has gone by, so that few of them are
 * looked at again: for each of the buffers that were met last, the bytes from the first to the
 * last. Places count in the direction of the pass; they are kept less the ops that had moved
 * against it by then. */
#define SEEN_ROWS 24

typedef struct seen_row {
    uint32_t buffer;
    uint64_t first; /* bytes of it */
    uint64_t end;
    int64_t last; /* place of the last op */
} seen_row;

typedef struct seen {
    seen_row row[SEEN_ROWS];
    int64_t lost; /* place of the last op of a buffer that has no row any more */
    int64_t moved;
} seen;

static void seen_begin(seen *s)
{
    s->lost = INT32_MIN;
    s->moved = 0;
    for (uint32_t i = 0; i < SEEN_ROWS; i++) {
        s->row[i] = (seen_row){.buffer = BP_NO_BUFFER, .last = INT32_MIN};
    }
}

/* What an op copies to (operand 0) or from (operand 1) the offload tier. */
static seen_row seen_bytes(const bp_graph *graph, const bp_op *op, uint32_t operand)
{
    const bp_span span = tier_span(graph, op, operand);
    return (seen_row){
        .buffer = graph->refs[op->operand + operand].buffer, .first = span.first, .end = span.end};
}

/* The row of a buffer; else the one that was met longest ago. */
static uint32_t seen_find(const seen *s, uint32_t buffer)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < SEEN_ROWS; i++) {
        if (s->row[i].buffer == buffer) {
            return i;
        }
        oldest = s->row[i].last < s->row[oldest].last ? i : oldest;
    }
    return oldest;
}

static void seen_add(seen *s, seen_row bytes, uint32_t place)
{
    seen_row *row = &s->row[seen_find(s, bytes.buffer)];
    bytes.last = place - s->moved;
    if (row->buffer == bytes.buffer) {
        bytes.first = row->first < bytes.first ? row->first : bytes.first;
        bytes.end = row->end > bytes.end ? row->end : bytes.end;
    } else {
        s->lost = row->last > s->lost ? row->last : s->lost;
    }
    *row = bytes;
}

/* Whether one of the ops from `oldest` on may be about some of the bytes. */
static bool seen_may(const seen *s, seen_row bytes, uint32_t oldest)
{
    const seen_row *row = &s->row[seen_find(s, bytes.buffer)];
    return row->buffer == bytes.buffer
               ? row->last + s->moved >= oldest && row->first < bytes.end && bytes.first < row->end
               : s->lost + s->moved >= oldest;
}

/* Ops of which the copies in one direction have `flying` bytes together, beside an op that is to
 * move past them: [edge, at) before it, or (at, edge) behind it. */
typedef struct window {
    uint32_t edge;
    uint32_t limit; /* the edge goes no further: the decision on a step, at which steps are cut */
    uint64_t flying;
    uint64_t room;
} window;

/* Bytes that an op waits for that were fetched. Rows come where they are asked for, before anything
 * else. */
static uint64_t fetched_bytes(const bp_graph *graph, const bp_op *op)
{
    const bool waits = op->kernel == BP_KERNEL_copy_wait || op->kernel == BP_KERNEL_experts_wait;
    return waits && !goes_down(graph, op, BP_KERNEL_copy_wait) ? tier_bytes(graph, op) : 0;
}

static bool writes_to(const bp_graph *graph, const bp_op *op, uint32_t buffer)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const uint32_t refs = op->tuples * info->operand_count;
    for (uint32_t i = 0; i < refs; i++) {
        bp_extent extents[BP_OPERANDS_MAX];
        if (graph->refs[op->operand + i].buffer != buffer) {
            continue;
        }
        info->extents(graph->scalars + op->scalar +
                          (size_t)(i / info->operand_count) * info->scalar_count,
                      extents);
        if (extents[i % info->operand_count].access != BP_ACCESS_READ) {
            return true;
        }
    }
    return false;
}

/* Which experts are read is known once their runs of rows are: behind the op that writes these. */
static uint32_t fetch_routed(const bp_graph *graph, uint32_t place, uint32_t at)
{
    const bp_op *begin = &graph->ops[at];
    uint32_t i = at;
    if (begin->kernel != BP_KERNEL_experts_begin) {
        return place;
    }
    while (i > place &&
           !writes_to(graph, &graph->ops[i - 1], graph->refs[begin->operand + 2].buffer)) {
        i--;
    }
    return i;
}

/* Where the begin at `at` goes: as far towards the program's start as the waits that it passes are
 * of no more than the room together with its own. Copies are waited for in the order in which they
 * are begun, so these are the bytes under way once it is. What is written stays before it. */
static uint32_t fetch_place(const bp_graph *graph, window *w, const seen *written, uint32_t at)
{
    const bp_op *begin = &graph->ops[at];
    const uint64_t own = fetch_bytes(graph, begin);
    while (w->edge < at && w->flying + own > w->room) {
        w->flying -= fetched_bytes(graph, &graph->ops[w->edge++]);
    }
    while (w->edge > w->limit) {
        const uint64_t more = fetched_bytes(graph, &graph->ops[w->edge - 1]);
        if (w->flying + own + more > w->room) {
            break;
        }
        w->flying += more;
        w->edge--;
    }
    uint32_t place = w->edge;
    if (seen_may(written, seen_bytes(graph, begin, 1), place)) {
        uint32_t i = at;
        while (i > place && !(goes_down(graph, &graph->ops[i - 1], BP_KERNEL_copy_wait) &&
                              offload_meet(graph, begin, &graph->ops[i - 1]))) {
            i--;
        }
        place = i;
    }
    place = fetch_routed(graph, place, at);
    while (place < at && fetch_bytes(graph, &graph->ops[place]) > 0) {
        place++; /* behind what is asked for before it */
    }
    return place;
}

static void fetch_ahead_program(bp_graph *graph, uint32_t first, uint32_t end, uint64_t room)
{
    window w = {.edge = first, .limit = first, .room = room};
    seen written;
    seen_begin(&written);
    for (uint32_t i = first; i < end; i++) {
        const bp_op op = graph->ops[i];
        if (op.kernel == BP_KERNEL_step_decide) {
            w = (window){.edge = i + 1, .limit = i + 1, .room = room};
        } else if (fetch_bytes(graph, &op) > 0) {
            const uint32_t place = fetch_place(graph, &w, &written, i);
            memmove(&graph->ops[place + 1], &graph->ops[place], (i - place) * sizeof op);
            graph->ops[place] = op;
            written.moved++;
        } else if (goes_down(graph, &op, BP_KERNEL_copy_wait)) {
            seen_add(&written, seen_bytes(graph, &op, 0), i);
        } else {
            w.flying += fetched_bytes(graph, &op);
        }
    }
    compile_ahead_number(graph, first, end);
}

/* Bytes that an op begins to write. */
static uint64_t written_bytes(const bp_graph *graph, const bp_op *op)
{
    return goes_down(graph, op, BP_KERNEL_copy_begin) ? tier_bytes(graph, op) : 0;
}

/* The wait at `at` for what goes down goes as far towards the end of the program as leaves no more
 * bytes of it under way than there is room for. */
static uint32_t write_place(const bp_graph *graph, window *w, const seen *fetched, uint32_t at,
                            uint32_t end)
{
    const bp_op *wait = &graph->ops[at];
    const uint64_t own = tier_bytes(graph, wait);
    while (w->edge > at + 1 && w->flying + own > w->room) {
        w->flying -= written_bytes(graph, &graph->ops[--w->edge]);
    }
    while (w->edge < w->limit && w->flying + own <= w->room) {
        const uint64_t more = written_bytes(graph, &graph->ops[w->edge]);
        if (w->flying + own + more > w->room) {
            break;
        }
        w->flying += more;
        w->edge++;
    }
    uint32_t stop = w->edge;
    if (seen_may(fetched, seen_bytes(graph, wait, 0), end - stop + 1)) {
        uint32_t i = at + 1;
        while (i < stop &&
               !(comes_up(graph, &graph->ops[i]) && offload_meet(graph, &graph->ops[i], wait))) {
            i++;
        }
        stop = i;
    }
    while (stop - 1 > at && goes_down(graph, &graph->ops[stop - 1], BP_KERNEL_copy_wait)) {
        stop--; /* before what was begun after it */
    }
    return stop - 1;
}

/* From the last to the first, so that waits stay in order. */
static void write_behind_program(bp_graph *graph, uint32_t first, uint32_t end, uint64_t room)
{
    window w = {.edge = end, .limit = end, .room = room};
    seen fetched;
    seen_begin(&fetched);
    for (uint32_t i = end; i-- > first;) {
        const bp_op op = graph->ops[i];
        if (op.kernel == BP_KERNEL_step_decide) {
            w = (window){.edge = i, .limit = i, .room = room};
        } else if (goes_down(graph, &op, BP_KERNEL_copy_wait)) {
            const uint32_t place = write_place(graph, &w, &fetched, i, end);
            memmove(&graph->ops[i], &graph->ops[i + 1], (place - i) * sizeof op);
            graph->ops[place] = op;
            fetched.moved++;
        } else if (comes_up(graph, &op)) {
            seen_add(&fetched, seen_bytes(graph, &op, 1), end - i);
        } else {
            w.flying += written_bytes(graph, &op);
        }
    }
}

void compile_fetch_ahead(bp_graph *graph, const bp_spec *spec)
{
    uint64_t largest = 0;
    if (spec->offload.ahead == 0) {
        return;
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        const uint64_t bytes = fetch_bytes(graph, &graph->ops[i]);
        largest = bytes > largest ? bytes : largest;
    }
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT && largest > 0; p++) {
        const uint32_t first = graph->program_first[p];
        write_behind_program(graph, first, first + graph->program_count[p],
                             largest * (1 + (uint64_t)spec->offload.ahead));
        fetch_ahead_program(graph, first, first + graph->program_count[p],
                            largest * (1 + (uint64_t)spec->offload.ahead));
    }
}
