/* SPDX-License-Identifier: MIT */
/* A block whose rows live in storage. */
#include "layers/blocks/block_streams.h"

#include "layers/blocks/chunk_run.h"

/* Rows of a head's queries that attention has at a time: eight chunks, whose bytes are fewer than
 * those of a chunk of the block; of long sequences a 32nd, which is 48 bytes a token for heads of
 * 128 in bf16, where keys, values and their sums have 1,536. Strips are few, for each is ops of its
 * own. */
#define STREAM_CHUNKS 8
#define STREAM_STRIPS 32
#define STREAM_ROWS   16 /* at least */

/* A block's attention, and what it reads and makes, in storage: of each head, or key-value head,
 * the rows of all. */
typedef struct stream_heads {
    const bp_attention *of;
    uint32_t in; /* values of the block */
    uint32_t out_value;
    uint64_t rows;
    uint64_t strip; /* rows */
    bp_ref q;       /* (H, rows, D) */
    bp_ref kv;      /* (K, rows, 2 D) */
    bp_ref out;     /* as q, as its gradient */
    bp_ref d_out;
    bp_ref lse;    /* (H, rows); absent without backward */
    bp_ref deltas; /* as these, in backward */
} stream_heads;

static void streams_refuse(bp_builder *builder, const char *what)
{
    if (builder->status == BP_OK) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, "offload", what, "--offload-what");
    }
}

/* Heads by themselves have other numbers, by which dropout counts. */
static void streams_check(const block_run *run)
{
    const bp_node *node = &run->block->node[run->block->chunk_until];
    if (run->block->chunk_until == 0) {
        streams_refuse(run->builder, "streams are offloaded of models whose blocks run in chunks "
                                     "before and behind attention");
    } else if (!bp_attention_may_be_over(run->builder, &node->attention)) {
        streams_refuse(run->builder, "streams are offloaded where the device forms attention's "
                                     "gradients in place");
    } else if (bp_dropout_probability(run->builder, &node->attention.dropout) > 0.0) {
        streams_refuse(run->builder, "streams are offloaded without dropout in attention, which "
                                     "counts all heads");
    }
}

static void heads_make(const block_run *run, stream_heads *h)
{
    const bp_node *node = &run->block->node[run->block->chunk_until];
    const uint64_t rows = run->builder->rows;
    *h = (stream_heads){.of = &node->attention,
                        .in = node->in[0],
                        .out_value = node->out[0],
                        .rows = rows,
                        .q = BP_ABSENT,
                        .kv = BP_ABSENT,
                        .out = BP_ABSENT,
                        .d_out = BP_ABSENT,
                        .lse = BP_ABSENT,
                        .deltas = BP_ABSENT};
    const uint64_t chunk = run->block->chunk_rows, parts = bp_size_ceil_div(rows, STREAM_STRIPS);
    h->strip = chunk * STREAM_CHUNKS > STREAM_ROWS ? chunk * STREAM_CHUNKS : STREAM_ROWS;
    h->strip = h->strip > parts ? h->strip : parts;
}

static bp_ref stream_buffer(const block_run *run, bp_dtype dtype, uint64_t rows, uint64_t width,
                            const char *name)
{
    return bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, dtype, rows, width, name);
}

static bp_ref working_buffer(const block_run *run, uint64_t rows, uint64_t width, const char *name)
{
    return stream_buffer(run, bp_build_working(run->builder), rows, width, name);
}

/* The builder's rows of all pieces of a kind. */
static bp_away_rows pieces_rows(const block_run *run, const stream_heads *h,
                                bp_attention_piece which, uint64_t first)
{
    const bool keys = which == BP_ATTENTION_KEYS;
    return (bp_away_rows){.all = h->rows,
                          .width = (keys ? 2 : 1) * h->of->head_width,
                          .count = keys ? bp_attention_kv_heads(h->of) : h->of->heads,
                          .first = first,
                          .rows = run->builder->rows};
}

/* A chunk's rows of all heads go to storage, piece by piece. Returns the pieces. */
static bp_ref put_pieces(const block_run *run, const stream_heads *h, bp_attention_piece which,
                         bp_ref all, bp_ref away, uint64_t first)
{
    const bp_away_rows rows = pieces_rows(run, h, which, first);
    const bp_ref pieces = working_buffer(run, rows.count * rows.rows, rows.width, "pieces");
    bp_attention_pieces(run->builder, h->of, which, all, pieces, false);
    bp_build_put_away(run->builder, pieces, away, &rows);
    return pieces;
}

/* And come from there. */
static bp_ref take_pieces(const block_run *run, const stream_heads *h, bp_attention_piece which,
                          bp_ref all, bp_ref away, uint64_t first)
{
    const bp_away_rows rows = pieces_rows(run, h, which, first);
    const bp_ref pieces = bp_build_bring_away(run->builder, away, &rows, false, "brought_pieces");
    bp_attention_pieces(run->builder, h->of, which, all, pieces, true);
    return pieces;
}

/* The gradient of a chunk's out goes there, and what attention needs of both. */
static void leave_out(const block_run *run, const stream_heads *h, bp_ref d_out, bp_ref out_pieces,
                      uint64_t first)
{
    bp_attention one = *h->of;
    bp_away_rows rows = pieces_rows(run, h, BP_ATTENTION_OUT, first);
    const bp_ref pieces = put_pieces(run, h, BP_ATTENTION_OUT, d_out, h->d_out, first);
    const bp_ref deltas = stream_buffer(run, BP_F32, rows.count * rows.rows, 1, "deltas");
    one.heads = 1; /* each row of a piece is one head's */
    rows.width = 1;
    bp_attention_deltas(run->builder, &one, rows.count * rows.rows, pieces, out_pieces, deltas);
    bp_build_put_away(run->builder, deltas, h->deltas, &rows);
}

/* Room in storage for `count` heads' rows. */
static bp_ref away_of(const block_run *run, const stream_heads *h, uint64_t count, uint64_t width,
                      const char *name)
{
    return bp_build_away(run->builder, bp_build_working(run->builder), count * h->rows, width,
                         name);
}

/* Queries, keys and values of all rows. */
static void make_qkv(block_run *run, stream_heads *h)
{
    block_run part;
    const uint32_t range[2] = {0, run->block->chunk_until};
    const uint64_t width = h->of->head_width;
    const bp_purpose purpose = run->back ? BP_FOR_BACKWARD : BP_FOR_FORWARD;
    h->q = away_of(run, h, h->of->heads, width, "q_offload");
    h->kv = away_of(run, h, bp_attention_kv_heads(h->of), 2 * width, "kv_offload");
    chunk_hold(run, range, true, purpose);
    for (uint64_t first = 0; first < h->rows; first += run->block->chunk_rows) {
        chunk_begin(run, &part, value_bit(0), first, block_chunk_rows(run->block, first, h->rows));
        block_make(&part, value_bit(h->in));
        (void)put_pieces(run, h, BP_ATTENTION_QUERIES, part.ref[h->in], h->q, first);
        (void)put_pieces(run, h, BP_ATTENTION_KEYS, part.ref[h->in], h->kv, first);
    }
    chunk_rows_set(run, 0, h->rows);
    chunk_hold(run, range, false, purpose);
}

/* Keys and values of a key-value head, which alone have all rows at hand. */
static bp_ref bring_keys(const block_run *run, const stream_heads *h, uint32_t kv_head)
{
    const bp_away_rows rows = {
        .all = h->rows, .width = 2 * h->of->head_width, .count = 1, .at = kv_head, .rows = h->rows};
    return bp_build_bring_away(run->builder, h->kv, &rows, true, "brought_head");
}

/* Rows of a query head, `width` of each. */
static bp_away_rows strip_rows(const stream_heads *h, uint32_t head, uint64_t first, uint64_t width)
{
    return (bp_away_rows){.all = h->rows,
                          .width = width,
                          .count = 1,
                          .at = head,
                          .first = first,
                          .rows = h->rows - first < h->strip ? h->rows - first : h->strip};
}

static void make_strip(const block_run *run, const stream_heads *h, uint32_t head, bp_ref kv,
                       uint64_t first)
{
    const bp_away_rows rows = strip_rows(h, head, first, h->of->head_width);
    const bp_away_rows one = strip_rows(h, head, first, 1);
    const bool back = bp_ref_present(h->lse);
    const bp_attention_strip strip = {
        .q = bp_build_bring_away(run->builder, h->q, &rows, false, "brought_strip"),
        .kv = kv,
        .out = working_buffer(run, rows.rows, rows.width, "attention"),
        .lse = back ? stream_buffer(run, BP_F32, rows.rows, 1, "lse") : BP_ABSENT,
        .first = first,
        .rows = rows.rows};
    bp_attention_strip_make(run->builder, h->of, &strip);
    bp_build_put_away(run->builder, strip.out, h->out, &rows);
    if (back) {
        bp_build_put_away(run->builder, strip.lse, h->lse, &one);
    }
}

/* Attention's output of all heads. */
static void make_out(const block_run *run, stream_heads *h)
{
    const uint32_t heads = h->of->heads, kv_heads = bp_attention_kv_heads(h->of);
    const uint32_t group = heads / kv_heads;
    h->out = away_of(run, h, heads, h->of->head_width, "attention_offload");
    h->lse = run->back ? bp_build_away(run->builder, BP_F32, heads * h->rows, 1, "lse_offload")
                       : BP_ABSENT;
    for (uint32_t i = 0; i < kv_heads; i++) {
        const bp_ref kv = bring_keys(run, h, i);
        for (uint32_t n = i * group; n < (i + 1) * group; n++) {
            for (uint64_t first = 0; first < h->rows; first += h->strip) {
                make_strip(run, h, n, kv, first);
            }
        }
    }
}

static void strip_goes_back(const block_run *run, const stream_heads *h, uint32_t head, bp_ref kv,
                            bp_ref d_kv, uint64_t first)
{
    bp_builder *builder = run->builder;
    const bp_away_rows rows = strip_rows(h, head, first, h->of->head_width);
    const bp_away_rows one = strip_rows(h, head, first, 1);
    const uint32_t group = h->of->heads / bp_attention_kv_heads(h->of);
    const bp_attention_strip strip = {
        .q = bp_build_bring_away(builder, h->q, &rows, false, "brought_strip"),
        .kv = kv,
        .d_out = bp_build_bring_away(builder, h->d_out, &rows, false, "brought_strip"),
        .lse = bp_build_bring_away(builder, h->lse, &one, false, "brought_lse"),
        .deltas = bp_build_bring_away(builder, h->deltas, &one, false, "brought_deltas"),
        .d_kv = d_kv,
        .first = first,
        .rows = rows.rows,
        .more = first > 0 || head % group > 0};
    bp_attention_strip_go_back(builder, h->of, &strip);
    bp_build_put_away(builder, strip.q, h->q, &rows);
}

/* The gradients of queries, keys and values, in their place. */
static void heads_go_back(const block_run *run, const stream_heads *h)
{
    const uint32_t kv_heads = bp_attention_kv_heads(h->of), group = h->of->heads / kv_heads;
    const uint64_t width = 2 * h->of->head_width;
    for (uint32_t i = 0; i < kv_heads; i++) {
        const bp_ref kv = bring_keys(run, h, i);
        const bp_ref d_kv = stream_buffer(run, BP_F32, h->rows, width, "d_kv_sums");
        for (uint32_t n = 0; n < group; n++) {
            for (uint64_t first = 0; first < h->rows; first += h->strip) {
                strip_goes_back(run, h, i * group + n, kv, d_kv, first);
            }
        }
        const bp_store_values_operands rounded = {.y = kv, .master = BP_ABSENT, .x = d_kv};
        const bp_store_values_scalars count = {
            .count = (int64_t)(h->rows * width), .form = BP_MASTER_WEIGHT, .even = 1};
        bp_build_store_values(run->builder, &rounded, &count);
        bp_build_put_rows(run->builder, kv, h->kv, i * h->rows, h->rows, width);
    }
}

void block_streams_forward(block_run *run, bp_stage_call *call)
{
    block_run part;
    bp_builder *builder = run->builder;
    const bp_block *block = run->block;
    const uint32_t range[2] = {block->chunk_first, block->nodes}, target = block->values - 1;
    streams_check(run);
    if (builder->status != BP_OK) {
        return;
    }
    stream_heads h;
    heads_make(run, &h);
    const uint64_t width = value_width(&block->value[target]);
    const uint64_t out_width = value_width(&block->value[h.out_value]);
    const bp_class class_of = builder->output_class;
    run->away = true;
    make_qkv(run, &h);
    make_out(run, &h);
    builder->output_class = BP_CLASS_WORKSPACE;
    call->output = away_of(run, &h, 1, width, "stream_offload");
    chunk_hold(run, range, true, BP_FOR_FORWARD);
    for (uint64_t first = 0; first < h.rows; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, h.rows);
        chunk_begin(run, &part, block_chunks_inputs(&run->masks, block), first, rows);
        part.ref[h.out_value] = working_buffer(run, rows, out_width, "attention");
        (void)take_pieces(run, &h, BP_ATTENTION_OUT, part.ref[h.out_value], h.out, first);
        block_make(&part, value_bit(target));
        bp_build_put_rows(builder, part.ref[target], call->output, first, rows, width);
    }
    chunk_rows_set(run, 0, h.rows);
    chunk_hold(run, range, false, BP_FOR_FORWARD);
    builder->output_class = class_of;
}

/* What a chunk goes back from: through the last nodes, whose `pieces` of attention's output are
 * left here, from the gradient of the block's output; through the first from that of queries, keys
 * and values, and what the last ones left of the input's. */
static bp_ref chunk_takes(block_run *part, const stream_heads *h, bp_ref stream, uint64_t first,
                          bool last)
{
    const bp_block *block = part->block;
    const uint64_t rows = part->builder->rows, width = value_width(&block->value[0]);
    const uint32_t at = last ? h->out_value : h->in;
    const bp_ref all =
        working_buffer(part, rows, value_width(&block->value[at]), last ? "attention" : "d_qkv");
    bp_ref pieces = BP_ABSENT;
    if (last) {
        part->ref[at] = all;
        pieces = take_pieces(part, h, BP_ATTENTION_OUT, all, h->out, first);
    } else {
        part->grad[at] = all;
        (void)take_pieces(part, h, BP_ATTENTION_QUERIES, all, h->q, first);
        (void)take_pieces(part, h, BP_ATTENTION_KEYS, all, h->kv, first);
    }
    if (bp_ref_present(stream)) {
        part->grad[last ? block->values - 1 : 0] =
            bp_build_bring_rows_of(part->builder, stream, first, rows, width);
    }
    return pieces;
}

/* The last nodes, or those before attention. The gradient of the input takes the place of the
 * output's. */
static void part_goes_back(block_run *run, const stream_heads *h, bp_ref stream,
                           const uint32_t reads[BP_BLOCK_NODES], bool last)
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t range[2] = {last ? block->chunk_first : 0,
                               last ? block->nodes : block->chunk_until};
    const uint32_t inputs = last ? block_chunks_inputs(&run->masks, block) : value_bit(0);
    const bp_ref from = last || bp_ref_present(run->grad[0]) ? stream : BP_ABSENT;
    const uint64_t width = value_width(&block->value[0]);
    chunk_hold(run, range, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < h->rows; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, h->rows);
        chunk_begin(run, &part, inputs, first, rows);
        const bp_ref pieces = chunk_takes(&part, h, from, first, last);
        chunk_go_back(&part, range, inputs | chunk_made_by(run, range), reads);
        if (last && bp_ref_present(part.grad[h->out_value])) {
            leave_out(&part, h, part.grad[h->out_value], pieces, first);
        }
        if (bp_ref_present(part.grad[0])) {
            bp_build_put_rows(run->builder, part.grad[0], stream, first, rows, width);
            run->grad[0] = stream;
        }
    }
    chunk_rows_set(run, 0, h->rows);
    bp_build_chunks_end(run->builder);
    chunk_hold(run, range, false, BP_FOR_BACKWARD);
}

void block_streams_backward(block_run *run, bp_stage_call *call,
                            const uint32_t reads[BP_BLOCK_NODES])
{
    streams_check(run);
    if (run->builder->status != BP_OK) {
        return;
    }
    stream_heads h;
    heads_make(run, &h);
    const bool works = block_node_works(run, run->block->chunk_until);
    make_qkv(run, &h);
    make_out(run, &h);
    h.d_out = away_of(run, &h, h.of->heads, h.of->head_width, "d_attention_offload");
    h.deltas = bp_build_away(run->builder, BP_F32, h.of->heads * h.rows, 1, "deltas_offload");
    part_goes_back(run, &h, call->d_output, reads, true);
    if (works) {
        heads_go_back(run, &h);
        part_goes_back(run, &h, call->d_output, reads, false);
    }
    call->d_input = call->input_wanted ? run->grad[0] : BP_ABSENT;
}
