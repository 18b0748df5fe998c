/* SPDX-License-Identifier: MIT */
/* Shared state as ops: the map is dealt, masters get their parts, and updated weights go round.
 *
 * Weights are gathered in buckets. In a bucket each rank sends one piece, its run of one tensor or
 * of several, one behind the other; pieces are as long as the runs are. Two buckets are under way
 * at a time. */
#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"

#define SHARING_BUCKET (UINT64_C(8) << 20)   /* bytes of all ranks' pieces, at least: */
#define SHARING_PIECE  (UINT64_C(512) << 10) /* this for each rank */
#define SHARING_FLYING 2

static const char where[] = "sharing";

bp_status compile_share_rows(const bp_spec *spec, bp_arena *memory, void **rows, bp_shards *map)
{
    const uint32_t count = bp_adapter_parameters(spec);
    *rows = NULL;
    if (spec->ranks < 2 || spec->sharing == BP_SHARING_NONE || spec->optimizer == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_arena_rows(memory, count, sizeof(bp_shard_tensor), TABLE_ALIGNMENT, rows));
    return bp_shards_take(map, count, spec->ranks, memory);
}

/* What a weight is copied by: its elements; codes as words of four bytes. */
static bp_dtype weight_dtype(const bp_spec *spec, const bp_parameter *parameter)
{
    return parameter->quantised != BP_QUANTISED_NONE ? BP_F32 : bp_build_type(spec, parameter);
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

/* What the owner of so many elements of a parameter that a rule updates has for them, beyond what
 * everybody has. */
static uint64_t owned_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements)
{
    uint64_t bytes = 0;
    if (parameter->trainable) {
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

void compile_piece(bp_builder *builder, uint64_t first, uint64_t bytes)
{
    if (builder->status == BP_OK) {
        builder->status = bp_graph_piece(builder->graph, first, bytes);
    }
}

/* Where the shares of all ranks lie in a weight, if they are not equal. */
static void note_pieces(bp_builder *builder, uint32_t index)
{
    const bp_spec *spec = builder->spec;
    bp_parameter *parameter = &builder->parameters[index];
    const uint64_t count = parameter->count;
    parameter->acquired.pieces = builder->graph->used.scalars;
    if (bp_shards_equal(&builder->shards, count)) {
        return;
    }
    for (uint32_t rank = 0; rank < spec->ranks; rank++) {
        const bp_share share = bp_shards_share(&builder->shards, index, count, rank);
        const uint64_t first = weight_bytes(spec, parameter, share.first);
        const uint64_t end = weight_bytes(spec, parameter, share.first + share.count);
        compile_piece(builder, first, end - first);
    }
}

/* This rank's share of a parameter: its master, and of its weight what is shared out. */
static void take_share(bp_builder *builder, uint32_t index)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_spec *spec = builder->spec;
    const bool weight = bp_build_weight_shared(builder, index);
    if (!parameter->trainable && !weight) {
        return;
    }
    const bp_share share =
        bp_shards_share(&builder->shards, index, parameter->count, builder->spec->rank);
    parameter->share = share;
    if (weight) {
        const bp_buffer_part part = {weight_bytes(spec, parameter, parameter->count),
                                     weight_bytes(spec, parameter, share.first),
                                     weight_bytes(spec, parameter, BP_SHARD_UNIT), index};
        const uint64_t end = weight_bytes(spec, parameter, share.first + share.count);
        bp_graph_part(builder->graph, parameter->weight, &part, end - part.first);
        note_pieces(builder, index);
    }
    if (parameter->quantised == BP_QUANTISED_NONE) {
        bp_build_master(builder, index);
    }
}

bp_status compile_share_out(bp_builder *builder, bp_arena *memory)
{
    const bp_spec *spec = builder->spec;
    void *rows = NULL;
    if (!bp_build_shared(builder)) {
        return BP_OK;
    }
    const uint32_t count = builder->parameter_count;
    if (compile_share_rows(spec, memory, &rows, &builder->shards) != BP_OK) {
        return bp_error_set(builder->graph->error, BP_ERR_FIT, where,
                            "the plan's memory is too small", NULL);
    }
    bp_shard_tensor *tensors = rows;
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = sharing_tensor(spec, &builder->parameters[i]);
    }
    bp_shards_deal(&builder->shards, tensors, count);
    for (uint32_t i = 0; i < count && builder->status == BP_OK; i++) {
        take_share(builder, i);
    }
    return builder->status;
}

/* Whether the updated weight of a parameter goes to all. */
static bool bucket_takes(const bp_builder *builder, uint32_t index)
{
    return builder->parameters[index].ready && !bp_build_weight_shared(builder, index);
}

/* One bucket: elements [from, from + most) of every rank's run of the ready part of parameters
 * `first` to `last`, where they have so many. */
typedef struct sharing_bucket {
    uint32_t first;
    uint32_t last;
    uint64_t from;     /* 0 but in a parameter that fills several buckets */
    uint64_t most;     /* as many as there are, but in such a one */
    uint64_t elements; /* of the largest piece, at most */
    uint64_t given;    /* of this rank's */
    uint64_t whole;    /* of all ranks' */
    bp_ref own;
    bp_ref all;
    int64_t request;
} sharing_bucket;

bp_ref bp_build_ready_gradient(const bp_builder *builder, uint32_t index, uint64_t first)
{
    const bp_parameter *parameter = &builder->parameters[index];
    if (bp_ref_present(parameter->acquired.root)) {
        return bp_ref_at(parameter->acquired.root, first - parameter->acquired.root_first);
    }
    return bp_ref_at((bp_ref){parameter->gradient, builder->spec->gradient, 0},
                     first - parameter->ready_first);
}

bp_share bp_build_ready_share(const bp_builder *builder, uint32_t index, uint32_t rank)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t ready_end = parameter->ready_first + parameter->ready_count;
    if (builder->shards.ranks == 0) {
        return (bp_share){parameter->ready_first, parameter->ready_count};
    }
    const bp_share share = bp_shards_share(&builder->shards, index, parameter->count, rank);
    const uint64_t end = share.first + share.count;
    const uint64_t last = end < ready_end ? end : ready_end;
    const uint64_t first =
        share.first > parameter->ready_first ? share.first : parameter->ready_first;
    return (bp_share){first, first < last ? last - first : 0};
}

/* Elements of the largest run that a rank owns of the ready part of a parameter. */
static uint64_t compile_largest_run(const bp_builder *builder, uint32_t index)
{
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < builder->spec->ranks; rank++) {
        const uint64_t count = bp_build_ready_share(builder, index, rank).count;
        most = count > most ? count : most;
    }
    return most;
}

/* Of a run of so many elements, those that a bucket has. */
static uint64_t bucket_run(const sharing_bucket *bucket, uint64_t run)
{
    const uint64_t left = run > bucket->from ? run - bucket->from : 0;
    return left < bucket->most ? left : bucket->most;
}

static uint64_t bucket_limit(const bp_builder *builder)
{
    const uint64_t fair = SHARING_BUCKET / builder->spec->ranks;
    const uint64_t bytes = fair > SHARING_PIECE ? fair : SHARING_PIECE;
    return bytes / bp_dtype_bytes(builder->spec->working);
}

/* The bucket behind one that ends at (bucket->last, bucket->from + bucket->most); false: none. */
static bool next_bucket(const bp_builder *builder, sharing_bucket *bucket)
{
    const uint64_t limit = bucket_limit(builder);
    const uint64_t done = bucket->from + bucket->most;
    const bool more = bucket->most > 0 && done < compile_largest_run(builder, bucket->last);
    uint32_t i = more ? bucket->last : bucket->most > 0 ? bucket->last + 1 : 0;
    *bucket = (sharing_bucket){.from = more ? done : 0, .most = limit};
    while (i < builder->parameter_count && !bucket_takes(builder, i)) {
        i++;
    }
    bucket->first = i;
    for (; i < builder->parameter_count; i++) {
        if (!bucket_takes(builder, i)) {
            continue; /* the next bucket goes on behind the last one that is */
        }
        const uint64_t largest = compile_largest_run(builder, i);
        const uint64_t run = bucket_run(bucket, largest);
        const bool longer = largest > bucket->from + bucket->most;
        const bool alone = bucket->from > 0 || longer;
        if (bucket->elements > 0 && bucket->elements + run > limit) {
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

static void sharing_copy(bp_builder *builder, bp_ref to, bp_ref from, uint64_t count)
{
    if (count > 0) {
        bp_build_copy(builder, &(bp_copy_operands){.y = to, .x = from},
                      &(bp_copy_scalars){.count = (int64_t)count});
    }
}

static bp_ref sharing_bytes(bp_ref ref)
{
    return (bp_ref){ref.buffer, BP_U8, ref.offset};
}

/* Elements of a rank's piece of a bucket. */
static uint64_t bucket_piece(const bp_builder *builder, const sharing_bucket *bucket, uint32_t rank)
{
    uint64_t elements = 0;
    for (uint32_t i = bucket->first; i <= bucket->last; i++) {
        elements += bucket_takes(builder, i)
                        ? bucket_run(bucket, bp_build_ready_share(builder, i, rank).count)
                        : 0;
    }
    return elements;
}

/* A rank's runs into its piece, which begins at `at` in a buffer, or from there. */
static void bucket_copy(bp_builder *builder, const sharing_bucket *bucket, uint32_t rank,
                        bp_ref piece, bool back)
{
    uint64_t at = 0;
    for (uint32_t i = bucket->first; i <= bucket->last && builder->status == BP_OK; i++) {
        if (!bucket_takes(builder, i)) {
            continue;
        }
        const bp_share share = bp_build_ready_share(builder, i, rank);
        const uint64_t run = bucket_run(bucket, share.count);
        const bp_ref weight =
            bp_ref_at(bp_build_acquire_update(builder, i), share.first + bucket->from);
        const bp_ref there = bp_ref_at(piece, at);
        sharing_copy(builder, back ? weight : there, back ? there : weight, run);
        bp_build_release(builder, i);
        at += run;
    }
}

/* Begins to gather pieces that differ in size; the request to wait for. */
static int64_t compile_gather_pieces(bp_builder *builder, bp_ref to, bp_ref from,
                                     const compile_pieces *pieces)
{
    const int64_t request = (int64_t)bp_graph_request(builder->graph);
    const bp_gather_pieces_begin_scalars scalars = {
        .request = request,
        .ranks = (int64_t)builder->spec->ranks,
        .bytes = (int64_t)pieces->bytes,
        .whole = (int64_t)pieces->whole,
        .member = (int64_t)builder->spec->rank,
        .pieces = (int64_t)(builder->graph->used.scalars - pieces->row)};
    bp_build_gather_pieces_begin(
        builder, &(bp_gather_pieces_begin_operands){sharing_bytes(to), sharing_bytes(from)},
        &scalars);
    return request;
}

static void begin_bucket(bp_builder *builder, sharing_bucket *bucket)
{
    const bp_dtype dtype = builder->spec->working;
    const uint64_t width = bp_dtype_bytes(dtype);
    compile_pieces pieces = {.row = builder->graph->used.scalars};
    for (uint32_t rank = 0; rank < builder->spec->ranks; rank++) {
        const uint64_t elements = bucket_piece(builder, bucket, rank);
        compile_piece(builder, bucket->whole * width, elements * width);
        bucket->given = rank == builder->spec->rank ? elements : bucket->given;
        bucket->whole += elements;
    }
    const uint64_t room = bucket->given > 0 ? bucket->given : 1;
    bucket->own = bp_build_buffer(builder, BP_CLASS_WORKSPACE, dtype, room, 1, "own_piece");
    bucket->all =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, dtype, bucket->whole, 1, "all_pieces");
    bucket_copy(builder, bucket, builder->spec->rank, bucket->own, false);
    pieces.bytes = bucket->given * width;
    pieces.whole = bucket->whole * width;
    bucket->request = compile_gather_pieces(builder, bucket->all, bucket->own, &pieces);
}

static void gather_wait(bp_builder *builder, int64_t request, bp_ref to, bp_ref from,
                        const uint64_t bytes[2])
{
    const bp_fabric_wait_scalars wait = {
        .request = request, .to_bytes = (int64_t)bytes[0], .from_bytes = (int64_t)bytes[1]};
    bp_build_fabric_wait(builder,
                         &(bp_fabric_wait_operands){sharing_bytes(to), sharing_bytes(from)}, &wait);
}

/* The runs that others own go to their places. */
static void end_bucket(bp_builder *builder, const sharing_bucket *bucket)
{
    const uint64_t width = bp_dtype_bytes(builder->spec->working);
    const uint64_t bytes[2] = {bucket->whole * width, bucket->given * width};
    uint64_t at = 0;
    gather_wait(builder, bucket->request, bucket->all, bucket->own, bytes);
    for (uint32_t rank = 0; rank < builder->spec->ranks && builder->status == BP_OK; rank++) {
        if (rank != builder->spec->rank) {
            bucket_copy(builder, bucket, rank, bp_ref_at(bucket->all, at), true);
        }
        at += bucket_piece(builder, bucket, rank);
    }
}

void bp_build_gather(bp_builder *builder, bp_ref to, bp_ref from, uint64_t bytes)
{
    const bp_all_gather_begin_scalars begin = {.request = (int64_t)bp_graph_request(builder->graph),
                                               .ranks = (int64_t)builder->spec->ranks,
                                               .bytes = (int64_t)bytes};
    const bp_all_gather_begin_operands operands = {sharing_bytes(to), sharing_bytes(from)};
    bp_build_all_gather_begin(builder, &operands, &begin);
    gather_wait(builder, begin.request, to, from,
                (uint64_t[2]){bytes * builder->spec->ranks, bytes});
}

static void gather_weights(bp_builder *builder)
{
    sharing_bucket flying[SHARING_FLYING];
    sharing_bucket bucket = {0};
    uint32_t begun = 0;
    uint32_t ended = 0;
    while (builder->status == BP_OK && next_bucket(builder, &bucket)) {
        if (begun - ended == SHARING_FLYING) {
            end_bucket(builder, &flying[ended++ % SHARING_FLYING]);
        }
        begin_bucket(builder, &bucket);
        flying[begun++ % SHARING_FLYING] = bucket;
    }
    while (builder->status == BP_OK && ended < begun) {
        end_bucket(builder, &flying[ended++ % SHARING_FLYING]);
    }
}

/* The ops written last gather a weight. */
static void gather_mark(bp_builder *builder, uint32_t weight)
{
    if (builder->status == BP_OK && !bp_graph_counts(builder->graph)) {
        builder->graph->ops[builder->graph->used.ops - 2].brings = weight;
    }
}

/* Where a weight is whole while it is held. */
static bp_ref whole_weight(bp_builder *builder, const bp_parameter *parameter)
{
    const bp_dtype dtype = weight_dtype(builder->spec, parameter);
    return parameter->quantised != BP_QUANTISED_NONE
               ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, dtype,
                                 weight_cells(parameter, parameter->count), 1, "whole_weight")
               : bp_build_tensor(builder, BP_CLASS_WORKSPACE, dtype, parameter->rank,
                                 parameter->shape, "whole_weight");
}

void compile_gather(bp_builder *builder, uint32_t index)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_spec *spec = builder->spec;
    const bp_share *share = &parameter->share;
    if (parameter->acquired.held > 1 || !bp_build_weight_shared(builder, index)) {
        return;
    }
    const bp_ref own = {parameter->weight, weight_dtype(spec, parameter), 0};
    const bp_ref whole = whole_weight(builder, parameter);
    const uint64_t end = weight_bytes(spec, parameter, share->first + share->count);
    const compile_pieces pieces = {parameter->acquired.pieces,
                                   end - weight_bytes(spec, parameter, share->first),
                                   weight_bytes(spec, parameter, parameter->count)};
    if (bp_shards_equal(&builder->shards, parameter->count)) {
        bp_build_gather(builder, whole, own, pieces.bytes);
    } else {
        const int64_t request = compile_gather_pieces(builder, whole, own, &pieces);
        gather_wait(builder, request, whole, own, (uint64_t[2]){pieces.whole, pieces.bytes});
    }
    if (parameter->acquired.updated != builder->graph->program + 1) {
        gather_mark(builder, parameter->weight);
    }
    parameter->acquired.weight = whole.buffer;
}

void compile_apply(bp_builder *builder)
{
    builder->spec->optimizer->apply(builder);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (parameter->ready) {
            parameter->acquired.updated = builder->graph->program + 1;
        }
    }
    if (bp_build_shared(builder) && builder->fold != BP_ACCUMULATE_FIRST &&
        builder->fold != BP_ACCUMULATE_NEXT) {
        gather_weights(builder);
    }
    bp_build_resolved(builder);
}
