/* SPDX-License-Identifier: MIT */
/* Trees of gradients over virtual ranks, and what ranks exchange of them. */
#include "core/plan/passes/virtual_ranks.h"

#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/ir/step.h"

#define VIRTUAL_RANK_LEVELS                                                                        \
    11 /* of a tree of BP_VIRTUAL_RANKS_MAX virtual ranks, the leaves among them */
#define LANE_ALIGNMENT 16

static uint32_t virtual_ranks_here(const bp_spec *spec)
{
    return bp_spec_virtual_ranks(spec) / bp_spec_ranks(spec);
}

uint64_t bp_virtual_ranks_bytes(const bp_spec *spec)
{
    if (bp_spec_virtual_ranks(spec) == 1) {
        return 0;
    }
    const uint64_t rows = (uint64_t)spec->model->stages(&spec->config) + 1;
    const uint64_t gradients = bp_size_mul(virtual_ranks_here(spec), bp_adapter_parameters(spec));
    return bp_size_add(rows * VIRTUAL_RANK_LEVELS * sizeof(bp_ref),
                       bp_size_mul(gradients, sizeof(uint32_t)));
}

bp_status bp_virtual_ranks_carve(bp_compile *compile, const bp_spec *spec, bp_arena *memory)
{
    void *sums = NULL, *gradients = NULL;
    compile->virtual_ranks = 0;
    if (bp_spec_virtual_ranks(spec) == 1 || spec->optimizer == NULL) {
        return BP_OK;
    }
    compile->virtual_ranks = virtual_ranks_here(spec);
    compile->virtual_rank_micros = compile->micros / compile->virtual_ranks;
    const size_t rows = (size_t)compile->stages + 1;
    BP_TRY(bp_arena_allocate(memory, rows * VIRTUAL_RANK_LEVELS * sizeof(bp_ref), LANE_ALIGNMENT,
                             &sums));
    BP_TRY(bp_arena_allocate(
        memory, (size_t)compile->virtual_ranks * bp_adapter_parameters(spec) * sizeof(uint32_t),
        LANE_ALIGNMENT, &gradients));
    compile->lane_sums = sums;
    compile->virtual_rank_gradients = gradients;
    return BP_OK;
}

void bp_virtual_ranks_forget(bp_compile *compile, const bp_emit *emit)
{
    const size_t gradients = (size_t)compile->virtual_ranks * emit->parameter_count;
    for (size_t i = 0; i < gradients; i++) {
        compile->virtual_rank_gradients[i] = BP_NO_BUFFER;
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        emit->parameters[i].root = BP_ABSENT;
    }
}

void bp_virtual_ranks_begin(bp_compile *compile, bp_emit *emit)
{
    compile->virtual_ranks_counted = 0;
    compile->losses_joined = false;
    compile_flight_begin(compile);
    if (compile->virtual_ranks > 0) {
        compile->virtual_rank_results =
            bp_emit_buffer(emit, BP_CLASS_IO, BP_U8, compile->virtual_ranks,
                           sizeof(bp_result_block), "virtual_rank_results");
        bp_virtual_ranks_forget(compile, emit);
    }
}

static uint32_t *gradients_of(const bp_compile *compile, const bp_emit *emit, uint32_t lane)
{
    return compile->virtual_rank_gradients + (size_t)lane * emit->parameter_count;
}

void bp_virtual_ranks_enter(bp_compile *compile, bp_emit *emit, uint32_t micro)
{
    if (compile->virtual_ranks == 0) {
        return;
    }
    const uint32_t lane = micro / compile->virtual_rank_micros;
    const uint32_t *gradients = gradients_of(compile, emit, lane);
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        emit->parameters[i].gradient = gradients[i];
        emit->parameters[i].gradient_written = gradients[i] != BP_NO_BUFFER;
    }
    const bp_ref results = compile->virtual_rank_results;
    emit->result_whole = emit->result;
    emit->result = (bp_ref){results.buffer, BP_U8, lane * sizeof(bp_result_block)};
    emit->loss_written = lane < compile->virtual_ranks_counted;
}

void bp_virtual_ranks_leave(bp_compile *compile, bp_emit *emit, uint32_t micro)
{
    if (compile->virtual_ranks == 0) {
        return;
    }
    const uint32_t lane = micro / compile->virtual_rank_micros;
    uint32_t *gradients = gradients_of(compile, emit, lane);
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        gradients[i] = emit->parameters[i].gradient;
    }
    emit->result = emit->result_whole;
    compile->virtual_ranks_counted = emit->loss_written && lane >= compile->virtual_ranks_counted
                                         ? lane + 1
                                         : compile->virtual_ranks_counted;
}

void bp_virtual_ranks_put(bp_compile *compile, const bp_emit *emit, uint32_t lane,
                          uint32_t parameter, uint32_t buffer)
{
    gradients_of(compile, emit, lane)[parameter] = buffer;
}

/* What a window, or a rank's piece of it where ranks have no more of the sums than they own, has
 * room for of a parameter that is due. */
static uint64_t window_room(const bp_emit *emit, uint32_t index, uint32_t rank)
{
    const uint64_t count = bp_emit_sums_shared(emit) ? bp_emit_due_share(emit, index, rank).count
                                                     : emit->parameters[index].due_count;
    return bp_size_align(count, BP_WINDOW_ALIGN);
}

/* Elements of a window, or of a rank's piece of it. */
static uint64_t window_elements(const bp_emit *emit, const bp_window *window, uint32_t rank)
{
    const uint64_t unit = bp_emit_sums_shared(emit)
                              ? BP_WINDOW_ALIGN
                              : (uint64_t)BP_WINDOW_ALIGN * bp_spec_ranks(emit->spec);
    uint64_t elements = 0;
    for (uint32_t i = window->low; i < window->high; i++) {
        if (emit->parameters[i].due) {
            elements = bp_size_add(elements, window_room(emit, i, rank));
        }
    }
    return bp_size_align(elements, unit);
}

static bp_ref window_make(bp_emit *emit, uint64_t elements, const char *name)
{
    const uint64_t room = elements > 0 ? elements : 1; /* of a rank that owns nothing of it */
    return bp_emit_buffer(emit, BP_CLASS_GRADIENTS, BP_F32, room, 1, name);
}

/* Pieces that a window is made of. */
static uint32_t window_pieces(const bp_emit *emit)
{
    return bp_emit_sums_shared(emit) ? bp_spec_ranks(emit->spec) : 1;
}

/* Elements of all pieces, and of the largest. */
static uint64_t window_all(const bp_emit *emit, const bp_window *window, uint64_t *largest)
{
    uint64_t all = 0;
    *largest = 0;
    for (uint32_t rank = 0; rank < window_pieces(emit); rank++) {
        const uint64_t elements = window_elements(emit, window, rank);
        all = bp_size_add(all, elements);
        *largest = elements > *largest ? elements : *largest;
    }
    return all;
}

/* What a bucket has of a piece of so many elements. */
static bp_share bucket_share(const bp_emit *emit, const bp_window *window, uint32_t number,
                             uint64_t elements)
{
    const uint64_t unit = BP_WINDOW_ALIGN * (bp_spec_ranks(emit->spec) / window_pieces(emit));
    const uint64_t each = bp_size_align(bp_size_ceil_div(elements, window->buckets), unit);
    const uint64_t first = number * each < elements ? number * each : elements;
    const uint64_t left = elements - first;
    return (bp_share){first, left < each ? left : each};
}

/* A bucket that leaves are added to: in it the pieces of ranks lie one behind the other. */
typedef struct fold_target {
    const uint32_t *gradients; /* of a virtual rank; NULL: the parameters' leaves */
    const bp_window *window;
    uint32_t number; /* of the bucket */
    bp_ref bucket;
    bool adds;  /* to what is there */
    bool begun; /* the op that takes the rest as tuples is there */
} fold_target;

/* A rank's piece, and what the bucket has of it. */
typedef struct fold_piece {
    uint32_t rank;
    uint64_t elements;
    bp_share share;
    bp_ref at; /* where that begins */
} fold_piece;

/* What a parameter has room for in a piece, from span[0] to span[1], as far as the bucket has it.
 */
static void fold_parameter(bp_emit *emit, fold_target *target, const fold_piece *piece,
                           uint32_t index, const uint64_t span[2])
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t end = piece->share.first + piece->share.count;
    const uint64_t low = span[0] > piece->share.first ? span[0] : piece->share.first;
    const uint64_t high = span[1] < end ? span[1] : end;
    if (low >= high) {
        return;
    }
    const bp_share run = bp_emit_sums_shared(emit)
                             ? bp_emit_due_share(emit, index, piece->rank)
                             : (bp_share){parameter->due_first, parameter->due_count};
    const uint64_t skipped = low - span[0];
    const uint64_t left = run.count > skipped ? run.count - skipped : 0;
    const uint64_t count = left < high - low ? left : high - low;
    const bp_ref leaf = {target->gradients != NULL ? target->gradients[index] : parameter->leaf,
                         emit->spec->gradient, 0};
    const bp_ref y = bp_ref_at(piece->at, low - piece->share.first);
    const bp_tree_add_scalars scalars = {.count = (int64_t)count,
                                         .pad = (int64_t)(high - low - count)};
    const bp_tree_add_operands operands = {
        .y = y,
        .x = bp_ref_at(leaf, count > 0 ? run.first + skipped - parameter->due_first : 0),
        .z = target->adds ? y : BP_ABSENT};
    if (target->begun) {
        bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
    } else {
        bp_emit_tree_add(emit, &operands, &scalars);
    }
    target->begun = true;
}

static void fold_piece_leaves(bp_emit *emit, fold_target *target, const fold_piece *piece,
                              uint32_t due)
{
    uint64_t span[2] = {0, 0};
    for (uint32_t i = target->window->low; due > 0; i++) {
        if (emit->parameters[i].due) {
            span[0] = span[1];
            span[1] = --due == 0 ? piece->elements : span[1] + window_room(emit, i, piece->rank);
            fold_parameter(emit, target, piece, i, span);
        }
    }
}

/* The leaves of all that is due into a bucket: alone, or added to what it holds. */
static void fold_leaves(bp_emit *emit, fold_target *target)
{
    uint32_t due = 0;
    uint64_t at = 0;
    for (uint32_t i = target->window->low; i < target->window->high; i++) {
        due += emit->parameters[i].due ? 1 : 0;
    }
    for (uint32_t rank = 0; rank < window_pieces(emit); rank++) {
        fold_piece piece = {.rank = rank, .elements = window_elements(emit, target->window, rank)};
        piece.share = bucket_share(emit, target->window, target->number, piece.elements);
        piece.at = bp_ref_at(target->bucket, at);
        at += piece.share.count;
        fold_piece_leaves(emit, target, &piece, due);
    }
}

/* The parameters of a window lie between two of their numbers. */
static void window_range(const bp_emit *emit, bp_window *window)
{
    window->low = window->high = 0;
    for (uint32_t i = emit->parameter_count; i-- > 0;) {
        const bool due = emit->parameters[i].due;
        window->high = due && window->high == 0 ? i + 1 : window->high;
        window->low = due ? i : window->low;
    }
}

/* Where a window is cut: into so many buckets, each of about as much of every piece, that none is
 * larger than it may be, and none is empty. */
static void window_cut(const bp_emit *emit, bp_window *window)
{
    const uint32_t ranks = bp_spec_ranks(emit->spec);
    const uint64_t least = BP_BUCKET_PIECE * ranks;
    const uint64_t most = emit->spec->bucket_bytes > 0 ? emit->spec->bucket_bytes
                          : least > BP_BUCKET_BYTES    ? least
                                                       : BP_BUCKET_BYTES;
    uint64_t largest = 0;
    window_range(emit, window);
    window->elements = window_elements(emit, window, emit->spec->rank);
    window->all = window_all(emit, window, &largest);
    window->buckets = ranks > 1 ? (uint32_t)bp_size_ceil_div(window->all * sizeof(float), most) : 1;
    const uint64_t each = bucket_share(emit, window, 0, largest).count;
    window->buckets = (uint32_t)bp_size_ceil_div(largest, each);
}

/* Elements that a bucket has of all pieces. */
static uint64_t bucket_all(const bp_emit *emit, const bp_window *window, uint32_t number)
{
    uint64_t all = 0;
    for (uint32_t rank = 0; rank < window_pieces(emit); rank++) {
        all += bucket_share(emit, window, number, window_elements(emit, window, rank)).count;
    }
    return all;
}

/* The leaves of a virtual rank into all buckets of a window, which lie one behind the other. */
static void fold_window(bp_emit *emit, const uint32_t *gradients, const bp_window *window,
                        bp_ref sums, bool adds)
{
    uint64_t at = 0;
    for (uint32_t number = 0; number < window->buckets; number++) {
        fold_target target = {gradients, window, number, bp_ref_at(sums, at), adds, false};
        fold_leaves(emit, &target);
        at += bucket_all(emit, window, number);
    }
}

/* Whether leaves wait until their bucket is made: the only virtual rank of a rank, one of several,
 * has nothing to be added to. */
static bool leaves_wait(const bp_compile *compile)
{
    return compile->virtual_ranks == 1;
}

/* Adds a virtual rank's leaves, which are then gone, to the finished subtrees of `sums`. */
static void fold_tree(bp_emit *emit, const uint32_t *gradients, uint32_t lane, bp_ref *sums)
{
    bp_window window = {.any = true};
    uint32_t level = 0;
    window_cut(emit, &window);
    const uint64_t elements = window.all;
    while ((lane >> level & 1) != 0) {
        level++; /* so many finished subtrees go into one */
    }
    if (level == 0) {
        sums[0] = window_make(emit, elements, "lane_sum");
    }
    fold_window(emit, gradients, &window, sums[0], level > 0);
    for (uint32_t i = 1; i < level; i++) {
        bp_emit_tree_add(emit,
                         &(bp_tree_add_operands){.y = sums[i], .x = sums[i - 1], .z = sums[i]},
                         &(bp_tree_add_scalars){.count = (int64_t)elements});
    }
    if (level > 0) {
        sums[level] = sums[level - 1];
    }
}

void bp_virtual_ranks_fold(bp_compile *compile, bp_emit *emit, uint32_t row, uint32_t lane)
{
    uint32_t *gradients = gradients_of(compile, emit, lane);
    const bool wait = leaves_wait(compile);
    if (!wait) {
        fold_tree(emit, gradients, lane, compile->lane_sums + (size_t)row * VIRTUAL_RANK_LEVELS);
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        parameter->leaf = parameter->due && wait ? gradients[i] : parameter->leaf;
        gradients[i] = parameter->due ? BP_NO_BUFFER : gradients[i];
    }
}

static bp_ref top_sums(const bp_compile *compile, uint32_t row)
{
    uint32_t top = 0;
    while (compile->virtual_ranks >> top > 1) {
        top++;
    }
    return compile->lane_sums[(size_t)row * VIRTUAL_RANK_LEVELS + top];
}

void bp_virtual_ranks_deliver(bp_emit *emit, const bp_window *window)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        if (parameter->due) {
            parameter->root = bp_ref_at(window->root, at);
            parameter->root_first = bp_emit_sums_shared(emit)
                                        ? bp_emit_due_share(emit, i, emit->spec->rank).first
                                        : parameter->due_first;
            at += window_room(emit, i, emit->spec->rank);
        }
    }
}

void bp_virtual_ranks_root(const bp_compile *compile, bp_emit *emit, uint32_t row)
{
    const bp_window window = {.root = top_sums(compile, row)};
    bp_virtual_ranks_deliver(emit, &window);
}

void bp_virtual_ranks_open(const bp_compile *compile, const bp_emit *emit, uint32_t row,
                           bp_window *window)
{
    window->sums = leaves_wait(compile) ? BP_ABSENT : top_sums(compile, row);
    window->root = BP_ABSENT;
    window_cut(emit, window);
}

static bp_ref as_bytes(bp_ref ref)
{
    return (bp_ref){ref.buffer, BP_U8, ref.offset};
}

/* Begins to gather the pieces of all ranks. */
static void gather_begin(bp_emit *emit, bp_bucket *bucket, uint64_t bytes)
{
    bucket->ticket = bp_graph_ticket(emit->graph);
    bp_emit_all_gather_begin(
        emit,
        &(bp_all_gather_begin_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_all_gather_begin_scalars){
            .ticket = bucket->ticket, .ranks = bp_spec_ranks(emit->spec), .bytes = (int64_t)bytes});
}

static void bucket_wait(bp_emit *emit, const bp_bucket *bucket, uint64_t to, uint64_t from)
{
    bp_emit_fabric_wait(
        emit,
        &(bp_fabric_wait_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_fabric_wait_scalars){
            .ticket = bucket->ticket, .to_bytes = (int64_t)to, .from_bytes = (int64_t)from});
}

/* Begins to exchange pieces that differ in size. */
static void exchange_pieces(bp_emit *emit, const bp_window *window, const bp_bucket *bucket)
{
    const uint32_t row = emit->graph->used.scalars;
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < bp_spec_ranks(emit->spec); rank++) {
        const uint64_t elements =
            bucket_share(emit, window, bucket->number, window_elements(emit, window, rank)).count;
        compile_piece(emit, at * sizeof(float), elements * sizeof(float));
        at += elements;
    }
    bp_emit_exchange_pieces_begin(
        emit,
        &(bp_exchange_pieces_begin_operands){.to = as_bytes(bucket->to),
                                             .from = as_bytes(bucket->from)},
        &(bp_exchange_pieces_begin_scalars){.ticket = bucket->ticket,
                                            .ranks = bp_spec_ranks(emit->spec),
                                            .bytes = (int64_t)(bucket->piece * sizeof(float)),
                                            .whole = (int64_t)(bucket->all * sizeof(float)),
                                            .member = emit->spec->rank,
                                            .pieces = (int64_t)(emit->graph->used.scalars - row)});
}

/* Where a bucket begins in sums of all buckets. */
static uint64_t bucket_place(const bp_emit *emit, const bp_window *window, uint32_t number)
{
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < window_pieces(emit); rank++) {
        at += bucket_share(emit, window, number, window_elements(emit, window, rank)).first;
    }
    return at;
}

void bp_virtual_ranks_send(bp_emit *emit, bp_window *window, bp_bucket *bucket)
{
    const uint32_t ranks = bp_spec_ranks(emit->spec);
    const bool own = bp_emit_sums_shared(emit);
    const bp_share share = bucket_share(emit, window, bucket->number, window->elements);
    bucket->first = share.first;
    bucket->all = bucket_all(emit, window, bucket->number);
    bucket->piece = own ? share.count : bucket->all / ranks;
    if (bp_ref_present(window->sums)) {
        bucket->from = bp_ref_at(window->sums, bucket_place(emit, window, bucket->number));
    } else {
        bucket->from = window_make(emit, bucket->all, "lane_sum");
        fold_target target = {NULL, window, bucket->number, bucket->from, false, false};
        fold_leaves(emit, &target);
    }
    bucket->phase = 1;
    bucket->to = window_make(emit, ranks * bucket->piece, "pieces");
    bucket->ticket = bp_graph_ticket(emit->graph);
    if (own) {
        exchange_pieces(emit, window, bucket);
        return;
    }
    bp_emit_exchange_begin(
        emit,
        &(bp_exchange_begin_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_exchange_begin_scalars){.ticket = bucket->ticket,
                                     .ranks = ranks,
                                     .bytes = (int64_t)(bucket->piece * sizeof(float))});
}

/* The pieces of a bucket are there: their sum. */
static void advance_sum(bp_emit *emit, bp_window *window, bp_bucket *bucket)
{
    const bool own = bp_emit_sums_shared(emit);
    const uint32_t ranks = bp_spec_ranks(emit->spec);
    if (own && !bp_ref_present(window->root)) {
        window->root = window_make(emit, window->elements, "piece");
    }
    bucket->from =
        own ? bp_ref_at(window->root, bucket->first) : window_make(emit, bucket->piece, "piece");
    if (bucket->piece > 0) {
        bp_emit_tree_sum(emit, &(bp_tree_sum_operands){.y = bucket->from, .x = bucket->to},
                         &(bp_tree_sum_scalars){.count = (int64_t)bucket->piece, .pieces = ranks});
    }
}

void bp_virtual_ranks_advance(bp_emit *emit, bp_window *window, bp_bucket *bucket)
{
    const uint64_t bytes = bucket->all * sizeof(float);
    const uint64_t piece = bucket->piece * sizeof(float);
    const bool own = bp_emit_sums_shared(emit);
    if (bucket->phase == 1) {
        bucket_wait(emit, bucket, piece * bp_spec_ranks(emit->spec), bytes);
        advance_sum(emit, window, bucket);
        bucket->phase = own ? 0 : 2;
        if (own) {
            return;
        }
        if (!bp_ref_present(window->root)) {
            window->root = window_make(emit, window->elements, "sum");
        }
        bucket->to = bp_ref_at(window->root, bucket->first);
        gather_begin(emit, bucket, piece);
    } else if (bucket->phase == 2) {
        bucket_wait(emit, bucket, bytes, piece);
        bucket->phase = 0;
    }
}

void bp_virtual_ranks_losses(bp_compile *compile, bp_emit *emit)
{
    const uint32_t ranks = bp_spec_ranks(emit->spec);
    if (compile->virtual_ranks == 0 || compile->losses_joined) {
        return;
    }
    compile->losses_joined = true;
    bp_bucket results = {.from = compile->virtual_rank_results,
                         .to = compile->virtual_rank_results};
    const uint64_t bytes = compile->virtual_ranks * sizeof(bp_result_block);
    if (ranks > 1) {
        results.to = bp_emit_buffer(emit, BP_CLASS_IO, BP_U8, bp_spec_virtual_ranks(emit->spec),
                                    sizeof(bp_result_block), "all_results");
        gather_begin(emit, &results, bytes);
        bucket_wait(emit, &results, bytes * ranks, bytes);
    }
    bp_emit_loss_tree(emit, &(bp_loss_tree_operands){.result = emit->result, .blocks = results.to},
                      &(bp_loss_tree_scalars){.lanes = bp_spec_virtual_ranks(emit->spec)});
}
