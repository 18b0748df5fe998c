/* SPDX-License-Identifier: MIT */
/* All-to-alls around attention. */
#include "layers/nodes/attention.h"

#define PARTS 4 /* of a row that one op moves, at most */

/* Columns of rows of all heads: `each` of them for every rank, one rank's behind the other's. */
typedef struct ranks_span {
    uint64_t first;
    uint64_t each;
} ranks_span;

/* Rows of a rank's tokens with all heads, and the pieces of all ranks, one behind the other, each
 * of as many rows with one rank's heads. */
typedef struct ranks_rows {
    uint32_t ranks;
    bp_ref all;
    uint64_t pitch; /* elements of a row of it */
    bp_ref pieces;
    uint64_t piece_pitch;
} ranks_rows;

static uint32_t ranks_of(const bp_builder *builder)
{
    return bp_spec_sequence_ranks(builder->spec);
}

static uint64_t ranks_kv_heads(const bp_attention *attention)
{
    return attention->kv_heads != 0 ? attention->kv_heads : attention->heads;
}

bp_attention bp_attention_ranks_own(bp_builder *builder, const bp_attention *attention)
{
    bp_attention own = *attention;
    const uint32_t ranks = ranks_of(builder);
    const uint64_t keys = ranks_kv_heads(attention);
    if (keys % ranks != 0 && builder->status == BP_OK) {
        builder->status =
            bp_error_limit(builder->graph->error, BP_ERR_USAGE, "attention",
                           "ranks that share a sample's tokens take whole key-value heads each",
                           "sequence-ranks", ranks, BP_LIMIT_DIVISOR,
                           (int64_t)(keys & (~keys + 1))); /* the powers of two that divide them */
    }
    own.heads = attention->heads / ranks;
    own.kv_heads = (uint32_t)(keys / ranks);
    return own;
}

static void move_parts(bp_builder *builder, const bp_parts_split_scalars *scalars, bp_ref x,
                       const bp_ref y[PARTS], bool join)
{
    if (join) {
        const bp_parts_join_operands operands = {
            .x = x, .y0 = y[0], .y1 = y[1], .y2 = y[2], .y3 = y[3]};
        bp_build_op(builder, BP_KERNEL_parts_join, 1, (const bp_ref *)&operands, scalars);
    } else {
        const bp_parts_split_operands operands = {
            .y0 = y[0], .y1 = y[1], .y2 = y[2], .y3 = y[3], .x = x};
        bp_build_parts_split(builder, &operands, scalars);
    }
}

/* Between columns of the rows and the pieces, where they begin with column `to`. */
static void move_span(bp_builder *builder, const ranks_rows *rows, ranks_span span, uint64_t to,
                      bool join)
{
    const uint32_t ranks = rows->ranks;
    const int64_t each = (int64_t)span.each, pitch = (int64_t)rows->piece_pitch;
    for (uint32_t first = 0; first < ranks; first += PARTS) {
        bp_ref y[PARTS] = {BP_ABSENT, BP_ABSENT, BP_ABSENT, BP_ABSENT};
        const uint32_t count = ranks - first < PARTS ? ranks - first : PARTS;
        for (uint32_t i = 0; i < count; i++) {
            y[i] = bp_ref_at(rows->pieces, (first + i) * builder->rows * rows->piece_pitch + to);
        }
        const bp_parts_split_scalars scalars = {.rows = (int64_t)builder->rows,
                                                .groups = 1,
                                                .pitch = (int64_t)rows->pitch,
                                                .width0 = each,
                                                .width1 = count > 1 ? each : 0,
                                                .width2 = count > 2 ? each : 0,
                                                .width3 = count > 3 ? each : 0,
                                                .pitch0 = pitch,
                                                .pitch1 = count > 1 ? pitch : 0,
                                                .pitch2 = count > 2 ? pitch : 0,
                                                .pitch3 = count > 3 ? pitch : 0};
        move_parts(builder, &scalars, bp_ref_at(rows->all, span.first + first * span.each), y,
                   join);
    }
}

static void move_qkv(bp_builder *builder, const bp_attention *attention, const ranks_rows *rows,
                     bool join)
{
    const uint64_t q = attention->heads * attention->head_width;
    const uint64_t k = ranks_kv_heads(attention) * attention->head_width;
    const uint32_t ranks = rows->ranks;
    move_span(builder, rows, (ranks_span){0, q / ranks}, 0, join);
    move_span(builder, rows, (ranks_span){q, k / ranks}, q / ranks, join);
    move_span(builder, rows, (ranks_span){q + k, k / ranks}, (q + k) / ranks, join);
}

/* (T, width of a rank's heads), which are the pieces of all ranks as well. */
static bp_ref make_own(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                           builder->spec->sequence, width, name);
}

static bp_ref ranks_bytes(bp_ref ref)
{
    return (bp_ref){ref.buffer, BP_U8, ref.offset};
}

/* Piece i of every rank goes to rank i. */
static void heads_exchange(bp_builder *builder, bp_ref to, bp_ref from, uint64_t width)
{
    const int64_t request = bp_graph_request(builder->graph);
    const uint32_t ranks = ranks_of(builder);
    const uint64_t bytes = builder->rows * width * bp_dtype_bytes(from.dtype);
    bp_build_exchange_begin(
        builder, &(bp_exchange_begin_operands){.to = ranks_bytes(to), .from = ranks_bytes(from)},
        &(bp_exchange_begin_scalars){.request = request,
                                     .group = BP_SEQUENCE_GROUP,
                                     .ranks = ranks,
                                     .bytes = (int64_t)bytes});
    bp_build_fabric_wait(
        builder, &(bp_fabric_wait_operands){.to = ranks_bytes(to), .from = ranks_bytes(from)},
        &(bp_fabric_wait_scalars){.request = request,
                                  .to_bytes = (int64_t)(ranks * bytes),
                                  .from_bytes = (int64_t)(ranks * bytes)});
}

static uint64_t out_width(const bp_attention *attention)
{
    return attention->heads * attention->head_width;
}

static uint64_t qkv_width(const bp_attention *attention)
{
    return (attention->heads + 2 * ranks_kv_heads(attention)) * attention->head_width;
}

bp_ref bp_attention_ranks_take(bp_builder *builder, const bp_attention *attention, bp_ref qkv)
{
    const uint64_t width = qkv_width(attention), own = width / ranks_of(builder);
    const ranks_rows rows = {ranks_of(builder), qkv, width, make_own(builder, own, "qkv_for_ranks"),
                             own};
    const bp_ref to = make_own(builder, own, "qkv_of_heads");
    move_qkv(builder, attention, &rows, false);
    heads_exchange(builder, to, rows.pieces, own);
    return to;
}

void bp_attention_ranks_give(bp_builder *builder, const bp_attention *attention, bp_ref own,
                             bp_ref qkv)
{
    const uint64_t width = qkv_width(attention), part = width / ranks_of(builder);
    const ranks_rows rows = {ranks_of(builder), qkv, width,
                             make_own(builder, part, "d_qkv_of_ranks"), part};
    heads_exchange(builder, rows.pieces, own, part);
    move_qkv(builder, attention, &rows, true);
}

bp_ref bp_attention_ranks_take_out(bp_builder *builder, const bp_attention *attention, bp_ref out)
{
    const uint64_t width = out_width(attention), own = width / ranks_of(builder);
    const ranks_rows rows = {ranks_of(builder), out, width, make_own(builder, own, "out_for_ranks"),
                             own};
    const bp_ref to = make_own(builder, own, "out_of_heads");
    move_span(builder, &rows, (ranks_span){0, own}, 0, false);
    heads_exchange(builder, to, rows.pieces, own);
    return to;
}

void bp_attention_ranks_give_out(bp_builder *builder, const bp_attention *attention, bp_ref own,
                                 bp_ref out)
{
    const uint64_t width = out_width(attention), part = width / ranks_of(builder);
    const ranks_rows rows = {ranks_of(builder), out, width, make_own(builder, part, "out_of_ranks"),
                             part};
    heads_exchange(builder, rows.pieces, own, part);
    move_span(builder, &rows, (ranks_span){0, part}, 0, true);
}

uint32_t bp_attention_kv_heads(const bp_attention *attention)
{
    return (uint32_t)ranks_kv_heads(attention);
}

void bp_attention_pieces(bp_builder *builder, const bp_attention *attention,
                         bp_attention_piece which, bp_ref all, bp_ref pieces, bool join)
{
    const uint64_t width = attention->head_width, queries = attention->heads * width;
    const bool out = which == BP_ATTENTION_OUT;
    ranks_rows rows = {attention->heads, all, out ? out_width(attention) : qkv_width(attention),
                       pieces, width};
    if (which != BP_ATTENTION_KEYS) {
        move_span(builder, &rows, (ranks_span){0, width}, 0, join);
        return;
    }
    rows.ranks = bp_attention_kv_heads(attention);
    rows.piece_pitch = 2 * width;
    move_span(builder, &rows, (ranks_span){queries, width}, 0, join);
    move_span(builder, &rows, (ranks_span){queries + rows.ranks * width, width}, width, join);
}

bp_ref bp_attention_ranks_losses(bp_builder *builder, bp_ref losses)
{
    const int64_t request = bp_graph_request(builder->graph);
    const uint32_t ranks = ranks_of(builder);
    const uint64_t bytes = builder->rows * sizeof(float);
    const bp_ref all = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->spec->sequence,
                                       1, "losses_of_ranks");
    bp_build_all_gather_begin(
        builder,
        &(bp_all_gather_begin_operands){.to = ranks_bytes(all), .from = ranks_bytes(losses)},
        &(bp_all_gather_begin_scalars){.request = request,
                                       .group = BP_SEQUENCE_GROUP,
                                       .ranks = ranks,
                                       .bytes = (int64_t)bytes});
    bp_build_fabric_wait(
        builder, &(bp_fabric_wait_operands){.to = ranks_bytes(all), .from = ranks_bytes(losses)},
        &(bp_fabric_wait_scalars){.request = request,
                                  .to_bytes = (int64_t)(ranks * bytes),
                                  .from_bytes = (int64_t)bytes});
    return all;
}
