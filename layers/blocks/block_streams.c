/* SPDX-License-Identifier: MIT */
/* A block whose rows live in storage. */
#include "layers/blocks/block_streams.h"

#include "layers/blocks/chunk_run.h"

#define STREAM_HEADS 128 /* key-value heads, of which each has tensors of its own */

/* A block's attention, and what it reads and makes: in storage, of each key-value head, (all rows,
 * width). */
typedef struct stream_heads {
    const bp_node *node;
    const bp_attention *of; /* all heads */
    bp_attention own;       /* one key-value head */
    uint32_t count;
    uint64_t rows;
    uint64_t qkv_width; /* of one head, */
    uint64_t out_width;
    bp_ref qkv[STREAM_HEADS];
    bp_ref out[STREAM_HEADS];
    bp_ref lse[STREAM_HEADS];    /* (query heads, all rows); absent without backward */
    bp_ref deltas[STREAM_HEADS]; /* (all rows, query heads), in backward */
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
    } else if (bp_attention_kv_heads(&node->attention) > STREAM_HEADS) {
        streams_refuse(run->builder, "streams are offloaded of at most 128 key-value heads");
    } else if (bp_dropout_probability(run->builder, &node->attention.dropout) > 0.0) {
        streams_refuse(run->builder, "streams are offloaded without dropout in attention, which "
                                     "counts all heads");
    }
}

static void heads_make(const block_run *run, stream_heads *h)
{
    const bp_node *node = &run->block->node[run->block->chunk_until];
    const bp_attention *of = &node->attention;
    const uint32_t count = bp_attention_kv_heads(of);
    h->node = node;
    h->of = of;
    h->own = bp_attention_head_of(of);
    h->count = count;
    h->rows = run->builder->rows;
    h->qkv_width = bp_attention_qkv_width(of) / count;
    h->out_width = bp_attention_out_width(of) / count;
}

static bp_ref chunk_buffer(const block_run *run, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, bp_build_working(run->builder), rows,
                           width, name);
}

/* A chunk's rows of all heads, from storage, or to it. */
static void pieces_move(const block_run *run, const stream_heads *h, bp_ref pieces,
                        const bp_ref away[STREAM_HEADS], uint64_t width, uint64_t first, bool put)
{
    const uint64_t rows = run->builder->rows;
    for (uint32_t i = 0; i < h->count; i++) {
        const bp_ref piece = bp_ref_at(pieces, i * rows * width);
        if (put) {
            bp_build_put_rows(run->builder, piece, away[i], first, rows, width);
        } else {
            bp_build_bring_rows_to(run->builder, piece, away[i], first, rows, width);
        }
    }
}

static void put_qkv(const block_run *run, const stream_heads *h, bp_ref qkv, uint64_t first)
{
    const bp_ref pieces = chunk_buffer(run, h->count * run->builder->rows, h->qkv_width, "pieces");
    bp_attention_pieces_qkv(run->builder, h->of, qkv, pieces, false);
    pieces_move(run, h, pieces, h->qkv, h->qkv_width, first, true);
}

static bp_ref take_qkv(const block_run *run, const stream_heads *h, uint64_t first)
{
    const uint64_t rows = run->builder->rows;
    const bp_ref pieces = chunk_buffer(run, h->count * rows, h->qkv_width, "pieces");
    const bp_ref qkv = chunk_buffer(run, rows, h->count * h->qkv_width, "d_qkv");
    pieces_move(run, h, pieces, h->qkv, h->qkv_width, first, false);
    bp_attention_pieces_qkv(run->builder, h->of, qkv, pieces, true);
    return qkv;
}

/* The same of out; its pieces are needed by themselves too. */
static bp_ref take_out(const block_run *run, const stream_heads *h, uint64_t first, bp_ref *out)
{
    const uint64_t rows = run->builder->rows;
    const bp_ref pieces = chunk_buffer(run, h->count * rows, h->out_width, "pieces");
    *out = chunk_buffer(run, rows, h->count * h->out_width, "attention");
    pieces_move(run, h, pieces, h->out, h->out_width, first, false);
    bp_attention_pieces_out(run->builder, h->of, *out, pieces, true);
    return pieces;
}

/* The gradient of a chunk's out goes to the place of out, and what attention needs of both is left.
 */
static void leave_out(const block_run *run, const stream_heads *h, bp_ref d_out, bp_ref out_pieces,
                      uint64_t first)
{
    const uint64_t rows = run->builder->rows, heads = h->own.heads;
    const bp_ref pieces = chunk_buffer(run, h->count * rows, h->out_width, "pieces");
    bp_attention_pieces_out(run->builder, h->of, d_out, pieces, false);
    for (uint32_t i = 0; i < h->count; i++) {
        const uint64_t at = i * rows * h->out_width;
        bp_attention_deltas(run->builder, &h->own, rows, bp_ref_at(pieces, at),
                            bp_ref_at(out_pieces, at), bp_ref_at(h->deltas[i], first * heads));
    }
    pieces_move(run, h, pieces, h->out, h->out_width, first, true);
}

/* Queries, keys and values of all rows. */
static void make_qkv(block_run *run, stream_heads *h)
{
    block_run part;
    const uint32_t range[2] = {0, run->block->chunk_until}, target = h->node->in[0];
    const bp_purpose purpose = run->back ? BP_FOR_BACKWARD : BP_FOR_FORWARD;
    for (uint32_t i = 0; i < h->count; i++) {
        h->qkv[i] = bp_build_away(run->builder, h->rows, h->qkv_width, "qkv_offload");
    }
    chunk_hold(run, range, true, purpose);
    for (uint64_t first = 0; first < h->rows; first += run->block->chunk_rows) {
        chunk_begin(run, &part, value_bit(0), first, block_chunk_rows(run->block, first, h->rows));
        block_make(&part, value_bit(target));
        put_qkv(&part, h, part.ref[target], first);
    }
    chunk_rows_set(run, 0, h->rows);
    chunk_hold(run, range, false, purpose);
}

/* Attention's output of all heads. */
static void make_out(const block_run *run, stream_heads *h)
{
    bp_builder *builder = run->builder;
    for (uint32_t i = 0; i < h->count; i++) {
        const bp_ref qkv = bp_build_bring_still(builder, h->qkv[i], 0, h->rows, h->qkv_width);
        const bp_ref out = chunk_buffer(run, h->rows, h->out_width, "attention");
        h->lse[i] = run->back ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, h->own.heads,
                                                h->rows, "lse")
                              : BP_ABSENT;
        h->out[i] = bp_build_away(builder, h->rows, h->out_width, "attention_offload");
        bp_attention_forward(builder, &h->own, qkv, out, h->lse[i]);
        bp_build_put_rows(builder, out, h->out[i], 0, h->rows, h->out_width);
    }
}

/* Its gradient, in the place of queries, keys and values. */
static void heads_go_back(const block_run *run, const stream_heads *h)
{
    bp_builder *builder = run->builder;
    for (uint32_t i = 0; i < h->count; i++) {
        const bp_ref qkv = bp_build_bring_still(builder, h->qkv[i], 0, h->rows, h->qkv_width);
        const bp_ref d_out = bp_build_bring_still(builder, h->out[i], 0, h->rows, h->out_width);
        bp_attention_backward_over(builder, &h->own, qkv, d_out, h->deltas[i], h->lse[i]);
        bp_build_put_rows(builder, qkv, h->qkv[i], 0, h->rows, h->qkv_width);
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
    const bp_class class_of = builder->output_class;
    run->away = true;
    make_qkv(run, &h);
    make_out(run, &h);
    builder->output_class = BP_CLASS_WORKSPACE;
    call->output = bp_build_away(builder, h.rows, width, "stream_offload");
    chunk_hold(run, range, true, BP_FOR_FORWARD);
    for (uint64_t first = 0; first < h.rows; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, h.rows);
        chunk_begin(run, &part, block_chunks_inputs(&run->masks, block), first, rows);
        (void)take_out(&part, &h, first, &part.ref[h.node->out[0]]);
        block_make(&part, value_bit(target));
        bp_build_put_rows(builder, part.ref[target], call->output, first, rows, width);
    }
    chunk_rows_set(run, 0, h.rows);
    chunk_hold(run, range, false, BP_FOR_FORWARD);
    builder->output_class = class_of;
}

/* The last nodes. Their part of the input's gradient takes the place of the output's. */
static void last_go_back(block_run *run, const stream_heads *h, bp_ref stream,
                         const uint32_t reads[BP_BLOCK_NODES])
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t range[2] = {block->chunk_first, block->nodes}, z = block->values - 1;
    const uint32_t o = h->node->out[0], inputs = block_chunks_inputs(&run->masks, block);
    const uint64_t width = value_width(&block->value[z]);
    chunk_hold(run, range, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < h->rows; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, h->rows);
        chunk_begin(run, &part, inputs, first, rows);
        const bp_ref pieces = take_out(&part, h, first, &part.ref[o]);
        part.grad[z] = bp_build_bring_rows_of(run->builder, stream, first, rows, width);
        chunk_go_back(&part, range, inputs | chunk_made_by(run, range), reads);
        if (bp_ref_present(part.grad[o])) {
            leave_out(&part, h, part.grad[o], pieces, first);
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

/* The nodes before attention, likewise. */
static void first_go_back(block_run *run, const stream_heads *h, bp_ref stream,
                          const uint32_t reads[BP_BLOCK_NODES])
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t range[2] = {0, block->chunk_until}, x = h->node->in[0];
    const uint64_t width = value_width(&block->value[0]);
    const bool before = bp_ref_present(run->grad[0]);
    chunk_hold(run, range, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < h->rows; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, h->rows);
        chunk_begin(run, &part, value_bit(0), first, rows);
        part.grad[x] = take_qkv(&part, h, first);
        if (before) {
            part.grad[0] = bp_build_bring_rows_of(run->builder, stream, first, rows, width);
        }
        chunk_go_back(&part, range, value_bit(0) | chunk_made_by(run, range), reads);
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
    for (uint32_t i = 0; i < h.count; i++) {
        h.deltas[i] = bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, BP_F32, h.rows, h.own.heads,
                                      "deltas");
    }
    last_go_back(run, &h, call->d_output, reads);
    if (works) {
        heads_go_back(run, &h);
        first_go_back(run, &h, call->d_output, reads);
    }
    call->d_input = call->input_wanted ? run->grad[0] : BP_ABSENT;
}
