/* SPDX-License-Identifier: MIT */
/* Trees of gradients over virtual ranks, and what ranks exchange of them. */
#include "core/plan/passes/virtual_ranks.h"
#include "core/plan/passes/token_lanes.h"
#include "core/plan/parts.h"

#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/ir/step.h"

#define VIRTUAL_RANK_LEVELS                                                                        \
    11 /* of a tree of BP_VIRTUAL_RANKS_MAX virtual ranks, the leaves among them */
#define LANE_ALIGNMENT 16

static uint32_t virtual_ranks_here(const bp_spec *spec)
{
    return bp_spec_leaves(spec) / bp_spec_ranks(spec);
}

bp_status bp_virtual_ranks_allocate(bp_compile *compile, const bp_spec *spec, bp_arena *memory)
{
    void *sums = NULL, *gradients = NULL;
    compile->virtual_ranks = 0;
    if (bp_spec_leaves(spec) == 1 || spec->optimizer == NULL) {
        return BP_OK;
    }
    compile->virtual_ranks = virtual_ranks_here(spec);
    compile->token_lanes = bp_spec_token_lanes(spec) / bp_spec_sequence_ranks(spec);
    compile->virtual_rank_micros =
        compile->micros / (compile->virtual_ranks / compile->token_lanes);
    BP_TRY(bp_arena_rows(memory, (uint64_t)compile->stages + 1,
                         VIRTUAL_RANK_LEVELS * sizeof(bp_ref), LANE_ALIGNMENT, &sums));
    BP_TRY(bp_arena_rows(memory, bp_size_mul(compile->virtual_ranks, bp_adapter_parameters(spec)),
                         sizeof(uint32_t), LANE_ALIGNMENT, &gradients));
    compile->lane_sums = sums;
    compile->virtual_rank_gradients = gradients;
    return BP_OK;
}

void bp_virtual_ranks_forget(bp_compile *compile, const bp_builder *builder)
{
    const size_t gradients = (size_t)compile->virtual_ranks * builder->parameter_count;
    for (size_t i = 0; i < gradients; i++) {
        compile->virtual_rank_gradients[i] = BP_NO_BUFFER;
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        builder->parameters[i].acquired.root = BP_ABSENT;
    }
}

void bp_virtual_ranks_begin(bp_compile *compile, bp_builder *builder)
{
    compile->virtual_ranks_counted = 0;
    compile->losses_joined = false;
    compile_pending_begin(compile);
    if (compile->virtual_ranks > 0) {
        compile->virtual_rank_results =
            bp_build_buffer(builder, BP_CLASS_IO, BP_U8, compile->virtual_ranks,
                            sizeof(bp_result_block), "virtual_rank_results");
        bp_virtual_ranks_forget(compile, builder);
    }
}

static uint32_t *gradients_of(const bp_compile *compile, const bp_builder *builder, uint32_t lane)
{
    return compile->virtual_rank_gradients + (size_t)lane * builder->parameter_count;
}

uint32_t bp_virtual_ranks_lane(const bp_compile *compile, uint32_t micro)
{
    return micro / compile->virtual_rank_micros * compile->token_lanes;
}

void bp_virtual_ranks_enter(bp_compile *compile, bp_builder *builder, uint32_t lane)
{
    const uint32_t *gradients = gradients_of(compile, builder, lane);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        builder->parameters[i].gradient = gradients[i];
        builder->parameters[i].gradient_written = gradients[i] != BP_NO_BUFFER;
    }
    const bp_ref results = compile->virtual_rank_results;
    compile->result_whole = builder->result;
    builder->result = (bp_ref){results.buffer, BP_U8, lane * sizeof(bp_result_block)};
    builder->loss_written = lane < compile->virtual_ranks_counted;
}

void bp_virtual_ranks_leave(bp_compile *compile, bp_builder *builder, uint32_t lane)
{
    uint32_t *gradients = gradients_of(compile, builder, lane);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        gradients[i] = builder->parameters[i].gradient;
    }
    builder->result = compile->result_whole;
    compile->virtual_ranks_counted = builder->loss_written && lane >= compile->virtual_ranks_counted
                                         ? lane + 1
                                         : compile->virtual_ranks_counted;
}

void bp_virtual_ranks_put(bp_compile *compile, const bp_builder *builder, uint32_t lane,
                          uint32_t parameter, uint32_t buffer)
{
    gradients_of(compile, builder, lane)[parameter] = buffer;
}

/* What a window, or a rank's piece of it where ranks have no more of the sums than they own, has
 * room for of a parameter that is ready. */
static uint64_t window_room(const bp_builder *builder, uint32_t index, uint32_t rank)
{
    const uint64_t count = bp_build_sums_shared(builder)
                               ? bp_build_ready_share(builder, index, rank).count
                               : builder->parameters[index].ready_count;
    return bp_size_align(count, BP_WINDOW_ALIGN);
}

/* Elements of a window, or of a rank's piece of it. */
static uint64_t window_elements(const bp_builder *builder, const bp_window *window, uint32_t rank)
{
    const uint64_t unit = bp_build_sums_shared(builder)
                              ? BP_WINDOW_ALIGN
                              : (uint64_t)BP_WINDOW_ALIGN * bp_spec_ranks(builder->spec);
    uint64_t elements = 0;
    for (uint32_t i = window->low; i < window->high; i++) {
        if (builder->parameters[i].ready) {
            elements = bp_size_add(elements, window_room(builder, i, rank));
        }
    }
    return bp_size_align(elements, unit);
}

static bp_ref window_make(bp_builder *builder, uint64_t elements, const char *name)
{
    const uint64_t room = elements > 0 ? elements : 1; /* of a rank that owns nothing of it */
    return bp_build_buffer(builder, BP_CLASS_GRADIENTS, BP_F32, room, 1, name);
}

/* Pieces that a window is made of. */
static uint32_t window_pieces(const bp_builder *builder)
{
    return bp_build_sums_shared(builder) ? bp_spec_ranks(builder->spec) : 1;
}

/* Elements of all pieces, and of the largest. */
static uint64_t window_all(const bp_builder *builder, const bp_window *window, uint64_t *largest)
{
    uint64_t all = 0;
    *largest = 0;
    for (uint32_t rank = 0; rank < window_pieces(builder); rank++) {
        const uint64_t elements = window_elements(builder, window, rank);
        all = bp_size_add(all, elements);
        *largest = elements > *largest ? elements : *largest;
    }
    return all;
}

/* What a bucket has of a piece of so many elements. */
static bp_share bucket_share(const bp_builder *builder, const bp_window *window, uint32_t number,
                             uint64_t elements)
{
    const uint64_t unit = BP_WINDOW_ALIGN * (bp_spec_ranks(builder->spec) / window_pieces(builder));
    const uint64_t each = bp_size_align(bp_size_ceil_div(elements, window->buckets), unit);
    const uint64_t first = number * each < elements ? number * each : elements;
    const uint64_t left = elements - first;
    return (bp_share){first, left < each ? left : each};
}

/* A bucket that leaves are added to: in it the pieces of ranks lie one behind the other. */
typedef struct accumulate_target {
    const uint32_t *gradients; /* of a virtual rank; NULL: the parameters' leaves */
    const bp_window *window;
    uint32_t number; /* of the bucket */
    bp_ref bucket;
    bool adds;  /* to what is there */
    bool begun; /* the op that takes the rest as tuples is there */
} accumulate_target;

/* A rank's piece, and what the bucket has of it. */
typedef struct accumulate_piece {
    uint32_t rank;
    uint64_t elements;
    bp_share share;
    bp_ref at; /* where that begins */
} accumulate_piece;

/* What a parameter has room for in a piece, from span[0] to span[1], as far as the bucket has it.
 */
static void accumulate_parameter(bp_builder *builder, accumulate_target *target,
                                 const accumulate_piece *piece, uint32_t index,
                                 const uint64_t span[2])
{
    const bp_parameter *parameter = &builder->parameters[index];
    const uint64_t end = piece->share.first + piece->share.count;
    const uint64_t low = span[0] > piece->share.first ? span[0] : piece->share.first;
    const uint64_t high = span[1] < end ? span[1] : end;
    if (low >= high) {
        return;
    }
    const bp_share run = bp_build_sums_shared(builder)
                             ? bp_build_ready_share(builder, index, piece->rank)
                             : (bp_share){parameter->ready_first, parameter->ready_count};
    const uint64_t skipped = low - span[0];
    const uint64_t left = run.count > skipped ? run.count - skipped : 0;
    const uint64_t count = left < high - low ? left : high - low;
    const bp_ref leaf = {target->gradients != NULL ? target->gradients[index]
                                                   : parameter->acquired.leaf,
                         builder->spec->gradient, 0};
    const bp_ref y = bp_ref_at(piece->at, low - piece->share.first);
    const bp_tree_add_scalars scalars = {.count = (int64_t)count,
                                         .pad = (int64_t)(high - low - count)};
    const bp_tree_add_operands operands = {
        .y = y,
        .x = bp_ref_at(leaf, count > 0 ? run.first + skipped - parameter->ready_first : 0),
        .z = target->adds ? y : BP_ABSENT};
    if (target->begun) {
        bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
    } else {
        bp_build_tree_add(builder, &operands, &scalars);
    }
    target->begun = true;
}

static void accumulate_piece_leaves(bp_builder *builder, accumulate_target *target,
                                    const accumulate_piece *piece, uint32_t ready)
{
    uint64_t span[2] = {0, 0};
    for (uint32_t i = target->window->low; ready > 0; i++) {
        if (builder->parameters[i].ready) {
            span[0] = span[1];
            span[1] =
                --ready == 0 ? piece->elements : span[1] + window_room(builder, i, piece->rank);
            accumulate_parameter(builder, target, piece, i, span);
        }
    }
}

/* The leaves of all that is ready into a bucket: alone, or added to what it holds. */
static void accumulate_leaves(bp_builder *builder, accumulate_target *target)
{
    uint32_t ready = 0;
    uint64_t at = 0;
    for (uint32_t i = target->window->low; i < target->window->high; i++) {
        ready += builder->parameters[i].ready ? 1 : 0;
    }
    for (uint32_t rank = 0; rank < window_pieces(builder); rank++) {
        accumulate_piece piece = {.rank = rank,
                                  .elements = window_elements(builder, target->window, rank)};
        piece.share = bucket_share(builder, target->window, target->number, piece.elements);
        piece.at = bp_ref_at(target->bucket, at);
        at += piece.share.count;
        accumulate_piece_leaves(builder, target, &piece, ready);
    }
}

/* The parameters of a window lie between two of their numbers. */
static void window_range(const bp_builder *builder, bp_window *window)
{
    window->low = window->high = 0;
    for (uint32_t i = builder->parameter_count; i-- > 0;) {
        const bool ready = builder->parameters[i].ready;
        window->high = ready && window->high == 0 ? i + 1 : window->high;
        window->low = ready ? i : window->low;
    }
}

/* Where a window is cut: into so many buckets, each of about as much of every piece, that none is
 * larger than it may be, and none is empty. */
static void window_cut(const bp_builder *builder, bp_window *window)
{
    const uint32_t ranks = bp_spec_ranks(builder->spec);
    const uint64_t least = BP_BUCKET_PIECE * ranks;
    const uint64_t most = builder->spec->bucket_bytes > 0 ? builder->spec->bucket_bytes
                          : least > BP_BUCKET_BYTES       ? least
                                                          : BP_BUCKET_BYTES;
    uint64_t largest = 0;
    window_range(builder, window);
    window->elements = window_elements(builder, window, builder->spec->rank);
    window->all = window_all(builder, window, &largest);
    window->buckets = ranks > 1 ? (uint32_t)bp_size_ceil_div(window->all * sizeof(float), most) : 1;
    const uint64_t each = bucket_share(builder, window, 0, largest).count;
    window->buckets = (uint32_t)bp_size_ceil_div(largest, each);
}

/* Elements that a bucket has of all pieces. */
static uint64_t bucket_all(const bp_builder *builder, const bp_window *window, uint32_t number)
{
    uint64_t all = 0;
    for (uint32_t rank = 0; rank < window_pieces(builder); rank++) {
        all += bucket_share(builder, window, number, window_elements(builder, window, rank)).count;
    }
    return all;
}

/* The leaves of a virtual rank into all buckets of a window, which lie one behind the other. */
static void accumulate_window(bp_builder *builder, const uint32_t *gradients,
                              const bp_window *window, bp_ref sums, bool adds)
{
    uint64_t at = 0;
    for (uint32_t number = 0; number < window->buckets; number++) {
        accumulate_target target = {gradients, window, number, bp_ref_at(sums, at), adds, false};
        accumulate_leaves(builder, &target);
        at += bucket_all(builder, window, number);
    }
}

/* Whether leaves wait until their bucket is made: the only virtual rank of a rank, one of several,
 * has nothing to be added to. */
static bool leaves_wait(const bp_compile *compile)
{
    return compile->virtual_ranks == 1;
}

/* Adds a virtual rank's leaves, which are then gone, to the finished subtrees of `sums`. */
static void accumulate_tree(bp_builder *builder, const uint32_t *gradients, uint32_t lane,
                            bp_ref *sums)
{
    bp_window window = {.any = true};
    uint32_t level = 0;
    window_cut(builder, &window);
    const uint64_t elements = window.all;
    while ((lane >> level & 1) != 0) {
        level++; /* so many finished subtrees go into one */
    }
    if (level == 0) {
        sums[0] = window_make(builder, elements, "lane_sum");
    }
    accumulate_window(builder, gradients, &window, sums[0], level > 0);
    for (uint32_t i = 1; i < level; i++) {
        bp_build_tree_add(builder,
                          &(bp_tree_add_operands){.y = sums[i], .x = sums[i - 1], .z = sums[i]},
                          &(bp_tree_add_scalars){.count = (int64_t)elements});
    }
    if (level > 0) {
        sums[level] = sums[level - 1];
    }
}

void bp_virtual_ranks_accumulate(bp_compile *compile, bp_builder *builder, uint32_t row,
                                 uint32_t lane)
{
    uint32_t *gradients = gradients_of(compile, builder, lane);
    const bool wait = leaves_wait(compile);
    if (!wait) {
        accumulate_tree(builder, gradients, lane,
                        compile->lane_sums + (size_t)row * VIRTUAL_RANK_LEVELS);
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        parameter->acquired.leaf =
            parameter->ready && wait ? gradients[i] : parameter->acquired.leaf;
        gradients[i] = parameter->ready ? BP_NO_BUFFER : gradients[i];
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

void bp_virtual_ranks_deliver(bp_builder *builder, const bp_window *window)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (parameter->ready) {
            parameter->acquired.root = bp_ref_at(window->root, at);
            parameter->acquired.root_first =
                bp_build_sums_shared(builder)
                    ? bp_build_ready_share(builder, i, builder->spec->rank).first
                    : parameter->ready_first;
            at += window_room(builder, i, builder->spec->rank);
        }
    }
}

void bp_virtual_ranks_root(const bp_compile *compile, bp_builder *builder, uint32_t row)
{
    const bp_window window = {.root = top_sums(compile, row)};
    bp_virtual_ranks_deliver(builder, &window);
}

void bp_virtual_ranks_open(const bp_compile *compile, const bp_builder *builder, uint32_t row,
                           bp_window *window)
{
    window->sums = leaves_wait(compile) ? BP_ABSENT : top_sums(compile, row);
    window->root = BP_ABSENT;
    window_cut(builder, window);
}

static bp_ref as_bytes(bp_ref ref)
{
    return (bp_ref){ref.buffer, BP_U8, ref.offset};
}

/* Begins to gather the pieces of all ranks. */
static void gather_begin(bp_builder *builder, bp_bucket *bucket, uint64_t bytes)
{
    bucket->request = bp_graph_request(builder->graph);
    bp_build_all_gather_begin(
        builder,
        &(bp_all_gather_begin_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_all_gather_begin_scalars){.request = bucket->request,
                                       .ranks = bp_spec_ranks(builder->spec),
                                       .bytes = (int64_t)bytes});
}

static void bucket_wait(bp_builder *builder, const bp_bucket *bucket, uint64_t to, uint64_t from)
{
    bp_build_fabric_wait(
        builder,
        &(bp_fabric_wait_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_fabric_wait_scalars){
            .request = bucket->request, .to_bytes = (int64_t)to, .from_bytes = (int64_t)from});
}

/* Begins to exchange pieces that differ in size. */
static void exchange_pieces(bp_builder *builder, const bp_window *window, const bp_bucket *bucket)
{
    const uint32_t row = builder->graph->used.scalars;
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < bp_spec_ranks(builder->spec); rank++) {
        const uint64_t elements =
            bucket_share(builder, window, bucket->number, window_elements(builder, window, rank))
                .count;
        compile_piece(builder, at * sizeof(float), elements * sizeof(float));
        at += elements;
    }
    bp_build_exchange_pieces_begin(builder,
                                   &(bp_exchange_pieces_begin_operands){
                                       .to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
                                   &(bp_exchange_pieces_begin_scalars){
                                       .request = bucket->request,
                                       .ranks = bp_spec_ranks(builder->spec),
                                       .bytes = (int64_t)(bucket->piece * sizeof(float)),
                                       .whole = (int64_t)(bucket->all * sizeof(float)),
                                       .member = builder->spec->rank,
                                       .pieces = (int64_t)(builder->graph->used.scalars - row)});
}

/* Where a bucket begins in sums of all buckets. */
static uint64_t bucket_place(const bp_builder *builder, const bp_window *window, uint32_t number)
{
    uint64_t at = 0;
    for (uint32_t rank = 0; rank < window_pieces(builder); rank++) {
        at += bucket_share(builder, window, number, window_elements(builder, window, rank)).first;
    }
    return at;
}

void bp_virtual_ranks_send(bp_builder *builder, bp_window *window, bp_bucket *bucket)
{
    const uint32_t ranks = bp_spec_ranks(builder->spec);
    const bool own = bp_build_sums_shared(builder);
    const bp_share share = bucket_share(builder, window, bucket->number, window->elements);
    bucket->first = share.first;
    bucket->all = bucket_all(builder, window, bucket->number);
    bucket->piece = own ? share.count : bucket->all / ranks;
    if (bp_ref_present(window->sums)) {
        bucket->from = bp_ref_at(window->sums, bucket_place(builder, window, bucket->number));
    } else {
        bucket->from = window_make(builder, bucket->all, "lane_sum");
        accumulate_target target = {NULL, window, bucket->number, bucket->from, false, false};
        accumulate_leaves(builder, &target);
    }
    bucket->phase = 1;
    bucket->to = window_make(builder, ranks * bucket->piece, "pieces");
    bucket->request = bp_graph_request(builder->graph);
    if (own) {
        exchange_pieces(builder, window, bucket);
        return;
    }
    bp_build_exchange_begin(
        builder,
        &(bp_exchange_begin_operands){.to = as_bytes(bucket->to), .from = as_bytes(bucket->from)},
        &(bp_exchange_begin_scalars){.request = bucket->request,
                                     .ranks = ranks,
                                     .bytes = (int64_t)(bucket->piece * sizeof(float))});
}

/* The pieces of a bucket are there: their sum. */
static void advance_sum(bp_builder *builder, bp_window *window, bp_bucket *bucket)
{
    const bool own = bp_build_sums_shared(builder);
    const uint32_t ranks = bp_spec_ranks(builder->spec);
    if (own && !bp_ref_present(window->root)) {
        window->root = window_make(builder, window->elements, "piece");
    }
    bucket->from =
        own ? bp_ref_at(window->root, bucket->first) : window_make(builder, bucket->piece, "piece");
    if (bucket->piece > 0) {
        bp_build_tree_sum(builder, &(bp_tree_sum_operands){.y = bucket->from, .x = bucket->to},
                          &(bp_tree_sum_scalars){.count = (int64_t)bucket->piece, .pieces = ranks});
    }
}

void bp_virtual_ranks_advance(bp_builder *builder, bp_window *window, bp_bucket *bucket)
{
    const uint64_t bytes = bucket->all * sizeof(float);
    const uint64_t piece = bucket->piece * sizeof(float);
    const bool own = bp_build_sums_shared(builder);
    if (bucket->phase == 1) {
        bucket_wait(builder, bucket, piece * bp_spec_ranks(builder->spec), bytes);
        advance_sum(builder, window, bucket);
        bucket->phase = own ? 0 : 2;
        if (own) {
            return;
        }
        if (!bp_ref_present(window->root)) {
            window->root = window_make(builder, window->elements, "sum");
        }
        bucket->to = bp_ref_at(window->root, bucket->first);
        gather_begin(builder, bucket, piece);
    } else if (bucket->phase == 2) {
        bucket_wait(builder, bucket, bytes, piece);
        bucket->phase = 0;
    }
}

void bp_virtual_ranks_losses(bp_compile *compile, bp_builder *builder)
{
    const uint32_t ranks = bp_spec_ranks(builder->spec);
    if (compile->virtual_ranks == 0 || compile->losses_joined) {
        return;
    }
    compile->losses_joined = true;
    bp_bucket results = {.from = compile->virtual_rank_results,
                         .to = compile->virtual_rank_results};
    const uint64_t bytes = compile->virtual_ranks * sizeof(bp_result_block);
    if (ranks > 1) {
        results.to = bp_build_buffer(builder, BP_CLASS_IO, BP_U8, bp_spec_leaves(builder->spec),
                                     sizeof(bp_result_block), "all_results");
        gather_begin(builder, &results, bytes);
        bucket_wait(builder, &results, bytes * ranks, bytes);
    }
    bp_build_loss_tree(builder,
                       &(bp_loss_tree_operands){.result = builder->result, .blocks = results.to},
                       &(bp_loss_tree_scalars){.lanes = bp_spec_leaves(builder->spec)});
}

/* ---- Token lanes: several leaves of a virtual rank ---- */

/* Inputs of which each token has one value, which nothing else than its row reads. */
static const bp_input_from by_token[] = {BP_INPUT_IDS, BP_INPUT_LABELS, BP_INPUT_EXTENTS};

#define BY_TOKEN (sizeof by_token / sizeof by_token[0])

static bool lanes_there(const bp_builder *builder)
{
    return bp_spec_token_lanes(builder->spec) > 1;
}

uint32_t bp_token_lanes_count(const bp_builder *builder)
{
    return lanes_there(builder) ? builder->lanes.compile->token_lanes : 1;
}

static void shift_inputs(bp_builder *builder, uint64_t tokens)
{
    for (size_t i = 0; i < BY_TOKEN; i++) {
        bp_ref *input = &builder->input[by_token[i]];
        *input = bp_ref_present(*input) ? bp_ref_at(*input, tokens) : *input;
    }
}

void bp_token_lanes_place(bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    builder->row_first = bp_spec_sequence_rank(spec) * bp_spec_rank_tokens(spec);
    shift_inputs(builder, builder->row_first);
}

void bp_row_window_begin(bp_builder *builder, uint64_t first, uint64_t rows, bp_row_window *all)
{
    *all = (bp_row_window){
        .rows = builder->rows, .first = builder->row_first, .losses = builder->losses};
    for (size_t i = 0; i < BY_TOKEN; i++) {
        all->input[i] = builder->input[by_token[i]];
    }
    builder->rows = rows;
    builder->row_first += first;
    builder->losses = bp_ref_present(all->losses) ? bp_ref_at(all->losses, first) : all->losses;
    shift_inputs(builder, first);
}

void bp_row_window_end(bp_builder *builder, const bp_row_window *all)
{
    builder->rows = all->rows;
    builder->row_first = all->first;
    builder->losses = all->losses;
    for (size_t i = 0; i < BY_TOKEN; i++) {
        builder->input[by_token[i]] = all->input[i];
    }
}

void bp_token_lane_begin(bp_builder *builder, uint32_t lane)
{
    bp_token_lanes *lanes = &builder->lanes;
    if (!lanes_there(builder)) {
        return;
    }
    const uint64_t rows = bp_spec_lane_tokens(builder->spec);
    lanes->outside = false;
    lanes->row = lane * rows;
    bp_row_window_begin(builder, lanes->row, rows, &lanes->all);
    bp_virtual_ranks_enter(lanes->compile, builder, lanes->first + lane);
}

void bp_token_lane_end(bp_builder *builder, uint32_t lane)
{
    bp_token_lanes *lanes = &builder->lanes;
    if (!lanes_there(builder)) {
        return;
    }
    bp_virtual_ranks_leave(lanes->compile, builder, lanes->first + lane);
    lanes->outside = true;
    lanes->row = 0;
    bp_row_window_end(builder, &lanes->all);
}

bp_ref bp_token_lane_at(const bp_builder *builder, bp_ref ref, uint64_t width)
{
    return bp_ref_present(ref) ? bp_ref_at(ref, builder->lanes.row * width) : ref;
}

void bp_token_lanes_enter(bp_compile *compile, bp_builder *builder, uint32_t micro)
{
    builder->lanes = (bp_token_lanes){.compile = compile, .outside = lanes_there(builder)};
    if (compile->virtual_ranks == 0) {
        return;
    }
    builder->lanes.first = bp_virtual_ranks_lane(compile, micro);
    if (!builder->lanes.outside) {
        bp_virtual_ranks_enter(compile, builder, builder->lanes.first);
    }
}

void bp_token_lanes_leave(bp_compile *compile, bp_builder *builder, uint32_t micro)
{
    if (compile->virtual_ranks > 0 && !builder->lanes.outside) {
        bp_virtual_ranks_leave(compile, builder, bp_virtual_ranks_lane(compile, micro));
    }
    builder->lanes.outside = false;
}

void bp_token_lanes_whole(bp_builder *builder, const char *what)
{
    if (builder->status == BP_OK && lanes_there(builder)) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, "token lanes", what,
                                       bp_token_lanes_option(builder->spec));
    }
}
