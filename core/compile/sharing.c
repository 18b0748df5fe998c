/* SPDX-License-Identifier: MIT */
/* Shared state as ops: the map is dealt, masters get their parts, and updated weights go round.
 *
 * Weights are gathered in buckets. In a bucket each rank sends one piece of equal size, its part of
 * several tensors or of one: of each tensor as many elements as the largest run has, from where the
 * rank's own run begins, or so far before it that they end with the tensor. Two buckets are under
 * way at a time. */
#include "core/compile/compile_private.h"

#define SHARING_BUCKET (UINT64_C(8) << 20)   /* bytes of all ranks' pieces, at least: */
#define SHARING_PIECE  (UINT64_C(512) << 10) /* this for each rank */
#define SHARING_FLYING 2

static const char where[] = "sharing";

uint64_t compile_sharing_bytes(const bp_spec *spec, uint32_t parameters)
{
    if (spec->ranks < 2 || spec->sharing == BP_SHARING_NONE) {
        return 0;
    }
    const uint64_t rows = bp_size_mul(parameters, sizeof(bp_shard_tensor));
    const uint64_t map = bp_shards_bytes(parameters, spec->ranks);
    return bp_size_add(bp_size_add(rows, map), 2 * TABLE_ALIGNMENT);
}

/* What a weight is copied by: its elements; codes as words of four bytes. */
static bp_dtype weight_dtype(const bp_spec *spec, const bp_parameter *parameter)
{
    return parameter->quantised != BP_QUANTISED_NONE ? BP_F32 : spec->working;
}

/* So many elements of it in those. */
static uint64_t weight_cells(const bp_parameter *parameter, uint64_t elements)
{
    return parameter->quantised != BP_QUANTISED_NONE
               ? bp_quantised_codes(elements, parameter->quantised) / sizeof(float)
               : elements;
}

static uint64_t weight_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements)
{
    return weight_cells(parameter, elements) * bp_dtype_bytes(weight_dtype(spec, parameter));
}

/* What the owner of so many elements of a parameter has for them, beyond what everybody has. */
static uint64_t owned_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements)
{
    uint64_t bytes = 0;
    if (parameter->trainable && spec->optimizer != NULL) {
        bytes = bp_size_mul(elements, bp_master_bytes(parameter->master_form));
        bytes = bp_size_add(bytes, spec->optimizer->state_bytes(spec, parameter, elements));
        bytes += spec->sharing >= BP_SHARING_GRADIENTS ? elements * sizeof(float) : 0;
    }
    if (spec->sharing == BP_SHARING_PARAMETERS && bp_parameter_divides(parameter)) {
        bytes += weight_bytes(spec, parameter, elements);
    }
    return bytes;
}

static bp_shard_tensor sharing_tensor(const bp_spec *spec, const bp_parameter *parameter)
{
    const uint64_t units = bp_shards_units(parameter->count);
    const uint64_t last = units > 0 ? parameter->count - (units - 1) * BP_SHARD_UNIT : 0;
    return (bp_shard_tensor){parameter->count, owned_bytes(spec, parameter, BP_SHARD_UNIT),
                             owned_bytes(spec, parameter, last)};
}

/* This rank's share of a parameter: its master, and of its weight what is shared out. */
static void take_share(bp_emit *emit, uint32_t index)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bp_spec *spec = emit->spec;
    const bool weight = bp_emit_weight_shared(emit, index);
    if (!parameter->trainable && !weight) {
        return;
    }
    const bp_share share =
        bp_shards_share(&emit->shards, index, parameter->count, emit->spec->rank);
    parameter->share = share;
    if (weight) {
        const bp_buffer_part part = {weight_bytes(spec, parameter, parameter->count),
                                     weight_bytes(spec, parameter, share.first),
                                     weight_bytes(spec, parameter, BP_SHARD_UNIT), index};
        const uint64_t end = weight_bytes(spec, parameter, share.first + share.count);
        bp_graph_part(emit->graph, parameter->weight, &part, end - part.first);
    }
    if (parameter->quantised == BP_QUANTISED_NONE) {
        bp_emit_master(emit, index);
    }
}

bp_status compile_share_out(bp_emit *emit, bp_arena *memory)
{
    const bp_spec *spec = emit->spec;
    void *rows = NULL;
    void *map = NULL;
    if (!bp_emit_shared(emit)) {
        return BP_OK;
    }
    const uint32_t count = emit->parameter_count;
    const uint64_t bytes = bp_shards_bytes(count, spec->ranks);
    if (bp_arena_carve(memory, (size_t)count * sizeof(bp_shard_tensor), TABLE_ALIGNMENT, &rows) !=
            BP_OK ||
        bp_arena_carve(memory, (size_t)bytes, TABLE_ALIGNMENT, &map) != BP_OK) {
        return bp_error_set(emit->graph->error, BP_ERR_FIT, where, "the plan's memory is too small",
                            NULL);
    }
    bp_shard_tensor *tensors = rows;
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = sharing_tensor(spec, &emit->parameters[i]);
    }
    bp_shards_deal(&emit->shards, tensors, count, spec->ranks, map);
    for (uint32_t i = 0; i < count && emit->status == BP_OK; i++) {
        take_share(emit, i);
    }
    return emit->status;
}

bool compile_keeps_sums(const bp_spec *spec)
{
    const bool exact = spec->gradient_release == BP_RELEASE_EXACT && bp_spec_needs_norm(spec);
    return spec->ranks > 1 && spec->sharing >= BP_SHARING_GRADIENTS &&
           (spec->gradient_release == BP_RELEASE_NONE || exact);
}

bool compile_orders_stages(const bp_spec *spec)
{
    return compile_keeps_sums(spec) && spec->accumulation > bp_spec_lanes(spec) &&
           spec->gradient_release == BP_RELEASE_NONE;
}

/* Whether the updated weight of a parameter goes to all. */
static bool bucket_takes(const bp_emit *emit, uint32_t index)
{
    return emit->parameters[index].due && !bp_emit_weight_shared(emit, index);
}

/* One bucket: elements [from, from + most) of every rank's run of the due part of parameters
 * `first` to `last`, where they have so many. */
typedef struct sharing_bucket {
    uint32_t first;
    uint32_t last;
    uint64_t from;     /* 0 but in a parameter that fills several buckets */
    uint64_t most;     /* as many as there are, but in such a one */
    uint64_t elements; /* of a rank's piece */
    bp_ref own;
    bp_ref all;
    int64_t ticket;
} sharing_bucket;

bp_ref bp_emit_due_gradient(const bp_emit *emit, uint32_t index, uint64_t first)
{
    const bp_parameter *parameter = &emit->parameters[index];
    if (bp_ref_present(parameter->root)) {
        return bp_ref_at(parameter->root, first - parameter->root_first);
    }
    return bp_ref_at((bp_ref){parameter->gradient, emit->spec->gradient, 0},
                     first - parameter->due_first);
}

bp_share bp_emit_due_share(const bp_emit *emit, uint32_t index, uint32_t rank)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t due_end = parameter->due_first + parameter->due_count;
    if (emit->shards.ranks == 0) {
        return (bp_share){parameter->due_first, parameter->due_count};
    }
    const bp_share share = bp_shards_share(&emit->shards, index, parameter->count, rank);
    const uint64_t end = share.first + share.count;
    const uint64_t last = end < due_end ? end : due_end;
    const uint64_t first = share.first > parameter->due_first ? share.first : parameter->due_first;
    return (bp_share){first, first < last ? last - first : 0};
}

uint64_t compile_largest_run(const bp_emit *emit, uint32_t index)
{
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < emit->spec->ranks; rank++) {
        const uint64_t count = bp_emit_due_share(emit, index, rank).count;
        most = count > most ? count : most;
    }
    return most;
}

/* Elements that a parameter has in a bucket. */
static uint64_t bucket_run(const bp_emit *emit, const sharing_bucket *bucket, uint32_t index)
{
    const uint64_t run = compile_largest_run(emit, index);
    const uint64_t left = run > bucket->from ? run - bucket->from : 0;
    return left < bucket->most ? left : bucket->most;
}

static uint64_t bucket_limit(const bp_emit *emit)
{
    const uint64_t fair = SHARING_BUCKET / emit->spec->ranks;
    const uint64_t bytes = fair > SHARING_PIECE ? fair : SHARING_PIECE;
    return bytes / bp_dtype_bytes(emit->spec->working);
}

/* The bucket behind one that ends at (bucket->last, bucket->from + bucket->most); false: none. */
static bool next_bucket(const bp_emit *emit, sharing_bucket *bucket)
{
    const uint64_t limit = bucket_limit(emit);
    const uint64_t done = bucket->from + bucket->most;
    const bool more = bucket->most > 0 && done < compile_largest_run(emit, bucket->last);
    uint32_t i = more ? bucket->last : bucket->most > 0 ? bucket->last + 1 : 0;
    *bucket = (sharing_bucket){.from = more ? done : 0, .most = limit};
    while (i < emit->parameter_count && !bucket_takes(emit, i)) {
        i++;
    }
    bucket->first = i;
    for (; i < emit->parameter_count; i++) {
        if (!bucket_takes(emit, i)) {
            continue; /* the next bucket goes on behind the last one that is */
        }
        const uint64_t run = bucket_run(emit, bucket, i);
        const bool longer = compile_largest_run(emit, i) > bucket->from + bucket->most;
        const bool alone = bucket->from > 0 || longer;
        if (bucket->elements > 0 && (alone || bucket->elements + run > limit)) {
            break;
        }
        bucket->elements += run;
        bucket->last = i;
        if (alone) {
            break;
        }
    }
    return bucket->elements > 0;
}

/* Where a rank's piece of a parameter begins in a bucket, and where of that its own run does. */
static uint64_t piece_first(const bp_emit *emit, const sharing_bucket *bucket, uint32_t index,
                            bp_share own)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t run = bucket_run(emit, bucket, index);
    const uint64_t first = own.first + bucket->from;
    return first + run <= parameter->count ? first : parameter->count - run;
}

static void sharing_copy(bp_emit *emit, bp_ref to, bp_ref from, uint64_t count)
{
    if (count > 0) {
        bp_emit_copy(emit, &(bp_copy_operands){.y = to, .x = from},
                     &(bp_copy_scalars){.count = (int64_t)count});
    }
}

static bp_ref sharing_bytes(bp_ref ref)
{
    return (bp_ref){ref.buffer, BP_U8, ref.offset};
}

static void begin_bucket(bp_emit *emit, sharing_bucket *bucket)
{
    const bp_dtype dtype = emit->spec->working;
    const uint32_t ranks = emit->spec->ranks;
    bucket->own = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype, bucket->elements, 1, "own_piece");
    bucket->all =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype, ranks, bucket->elements, "all_pieces");
    uint64_t at = 0;
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        if (!bucket_takes(emit, i)) {
            continue;
        }
        const bp_share own = bp_emit_due_share(emit, i, emit->spec->rank);
        const uint64_t run = bucket_run(emit, bucket, i);
        const bp_ref weight = bp_emit_acquire_update(emit, i);
        sharing_copy(emit, bp_ref_at(bucket->own, at),
                     bp_ref_at(weight, piece_first(emit, bucket, i, own)), run);
        bp_emit_release(emit, i);
        at += run;
    }
    bucket->ticket = (int64_t)bp_graph_ticket(emit->graph);
    const bp_all_gather_begin_scalars scalars = {
        .ticket = bucket->ticket,
        .ranks = (int64_t)ranks,
        .bytes = (int64_t)(bucket->elements * bp_dtype_bytes(dtype))};
    const bp_all_gather_begin_operands operands = {sharing_bytes(bucket->all),
                                                   sharing_bytes(bucket->own)};
    bp_emit_all_gather_begin(emit, &operands, &scalars);
}

/* The runs of a parameter that others own, from their pieces. */
static void take_runs(bp_emit *emit, const sharing_bucket *bucket, uint32_t index, uint64_t at)
{
    const uint64_t run = bucket_run(emit, bucket, index);
    const bp_ref weight = bp_emit_acquire_update(emit, index);
    for (uint32_t rank = 0; rank < emit->spec->ranks && emit->status == BP_OK; rank++) {
        const bp_share share = bp_emit_due_share(emit, index, rank);
        const uint64_t left = share.count > bucket->from ? share.count - bucket->from : 0;
        const uint64_t first = share.first + bucket->from;
        const uint64_t skipped = first - piece_first(emit, bucket, index, share);
        if (rank != emit->spec->rank) {
            sharing_copy(emit, bp_ref_at(weight, first),
                         bp_ref_at(bucket->all, rank * bucket->elements + at + skipped),
                         left < run ? left : run);
        }
    }
    bp_emit_release(emit, index);
}

static void end_bucket(bp_emit *emit, const sharing_bucket *bucket)
{
    const uint64_t bytes = bucket->elements * bp_dtype_bytes(emit->spec->working);
    const bp_fabric_wait_scalars scalars = {.ticket = bucket->ticket,
                                            .to_bytes = (int64_t)(bytes * emit->spec->ranks),
                                            .from_bytes = (int64_t)bytes};
    const bp_fabric_wait_operands operands = {sharing_bytes(bucket->all),
                                              sharing_bytes(bucket->own)};
    uint64_t at = 0;
    bp_emit_fabric_wait(emit, &operands, &scalars);
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        if (bucket_takes(emit, i)) {
            take_runs(emit, bucket, i, at);
            at += bucket_run(emit, bucket, i);
        }
    }
}

void bp_emit_gather(bp_emit *emit, bp_ref to, bp_ref from, uint64_t bytes)
{
    const bp_all_gather_begin_scalars begin = {.ticket = (int64_t)bp_graph_ticket(emit->graph),
                                               .ranks = (int64_t)emit->spec->ranks,
                                               .bytes = (int64_t)bytes};
    const bp_fabric_wait_scalars wait = {
        .ticket = begin.ticket, .to_bytes = begin.bytes * begin.ranks, .from_bytes = begin.bytes};
    const bp_all_gather_begin_operands operands = {sharing_bytes(to), sharing_bytes(from)};
    bp_emit_all_gather_begin(emit, &operands, &begin);
    bp_emit_fabric_wait(emit, &(bp_fabric_wait_operands){operands.to, operands.from}, &wait);
}

static void gather_weights(bp_emit *emit)
{
    sharing_bucket flying[SHARING_FLYING];
    sharing_bucket bucket = {0};
    uint32_t begun = 0;
    uint32_t ended = 0;
    while (emit->status == BP_OK && next_bucket(emit, &bucket)) {
        if (begun - ended == SHARING_FLYING) {
            end_bucket(emit, &flying[ended++ % SHARING_FLYING]);
        }
        begin_bucket(emit, &bucket);
        flying[begun++ % SHARING_FLYING] = bucket;
    }
    while (emit->status == BP_OK && ended < begun) {
        end_bucket(emit, &flying[ended++ % SHARING_FLYING]);
    }
}

/* Elements of the largest share of a parameter, at most. */
static uint64_t largest_share(const bp_emit *emit, uint32_t index)
{
    const uint64_t count = emit->parameters[index].count;
    const uint64_t units = bp_size_ceil_div(bp_shards_units(count), emit->spec->ranks);
    return units * BP_SHARD_UNIT < count ? units * BP_SHARD_UNIT : count;
}

void compile_gather_begin(bp_emit *emit)
{
    const uint64_t width = bp_dtype_bytes(emit->spec->working);
    const uint32_t ahead = emit->spec->gather_ahead;
    uint64_t most = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const uint64_t share = bp_emit_weight_shared(emit, i) ? largest_share(emit, i) : 0;
        const uint64_t bytes = weight_bytes(emit->spec, &emit->parameters[i], share);
        most = bytes > most ? bytes : most;
        emit->parameters[i].applied = false;
    }
    const uint32_t late = emit->spec->gradient_release != BP_RELEASE_NONE ? 1 : 0;
    emit->piece = BP_ABSENT;
    emit->piece_count = bp_size_ceil_div(most, width);
    emit->gathers = 0;
    const bool reads = emit->graph->program != BP_PROGRAM_INITIALIZE;
    if (most > 0 && (reads || emit->spec->lora.magnitudes)) { /* norms are of whole weights */
        emit->piece =
            bp_emit_carried(emit, BP_CLASS_WORKSPACE, emit->spec->working, emit->piece_count,
                            ahead == 0 ? 1 : ahead + late, "own_weights");
    }
}

/* All shares of a weight from the ranks' pieces to their places, from the first to the last. */
static void join_shares(bp_emit *emit, uint32_t index, bp_ref to, bp_ref pieces, uint64_t piece)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t count = parameter->count;
    for (uint64_t next = 0; next < count && emit->status == BP_OK;) {
        const uint32_t rank = bp_shards_owner(&emit->shards, index, count, next);
        const bp_share share = bp_shards_share(&emit->shards, index, count, rank);
        const uint64_t cell = weight_cells(parameter, next);
        next += share.count;
        sharing_copy(emit, bp_ref_at(to, cell), bp_ref_at(pieces, rank * piece),
                     weight_cells(parameter, next) - cell);
    }
}

/* The ops written last gather a weight. */
static void gather_mark(bp_emit *emit, uint32_t weight)
{
    if (emit->status == BP_OK && !bp_graph_counts(emit->graph)) {
        emit->graph->ops[emit->graph->used.ops - 2].gathers = weight;
    }
}

/* Where a weight is whole while it is held. */
static bp_ref whole_weight(bp_emit *emit, const bp_parameter *parameter)
{
    const bp_dtype dtype = weight_dtype(emit->spec, parameter);
    return parameter->quantised != BP_QUANTISED_NONE
               ? bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype,
                                weight_cells(parameter, parameter->count), 1, "whole_weight")
               : bp_emit_tensor(emit, BP_CLASS_WORKSPACE, dtype, parameter->rank, parameter->shape,
                                "whole_weight");
}

void compile_gather(bp_emit *emit, uint32_t index)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bp_dtype dtype = weight_dtype(emit->spec, parameter);
    const uint64_t largest = largest_share(emit, index);
    const uint64_t piece = weight_cells(parameter, largest);
    const bp_ref own = {parameter->weight, dtype, 0};
    const bp_ref whole = whole_weight(emit, parameter);
    /* Equal shares come to lie where they belong; others are moved from the ranks' pieces. */
    const bool equal = bp_shards_equal(&emit->shards, index, parameter->count);
    const bp_ref pieces = equal ? whole
                                : bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype, emit->spec->ranks,
                                                 piece, "weight_pieces");
    const uint32_t ahead = emit->spec->gather_ahead;
    const uint64_t turn = ahead == 0 || parameter->applied ? ahead : emit->gathers++ % ahead;
    const bp_ref room = bp_ref_at(emit->piece, turn * emit->piece_count);
    const bp_ref copy = {room.buffer, dtype, room.offset};
    const bool shorter = parameter->share.count < largest;
    parameter->held++; /* its share is read */
    if (shorter) {
        sharing_copy(emit, copy, own, weight_cells(parameter, parameter->share.count));
    }
    bp_emit_gather(emit, pieces, shorter ? copy : own, piece * bp_dtype_bytes(dtype));
    if (!parameter->applied) {
        gather_mark(emit, parameter->weight);
    }
    parameter->held--;
    if (!equal) {
        join_shares(emit, index, whole, pieces, piece);
    }
    parameter->whole = whole.buffer;
}

void compile_apply(bp_emit *emit)
{
    emit->spec->optimizer->apply(emit);
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        emit->parameters[i].applied = emit->parameters[i].applied || emit->parameters[i].due;
    }
    if (bp_emit_shared(emit) && emit->fold != BP_FOLD_FIRST && emit->fold != BP_FOLD_NEXT) {
        gather_weights(emit);
    }
    bp_emit_settled(emit);
}
