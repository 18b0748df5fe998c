/* SPDX-License-Identifier: MIT */
/* Multi-head self-attention, causal unless said otherwise, over fused queries, keys and values
 * (Vaswani et al., arXiv 1706.03762), in O(sequence) extra memory: probabilities are formed again
 * in backward from the log- sum-exp of each row (Rabe and Staats, arXiv 2112.05682; Dao et al.,
 * arXiv 2205.14135). */
#ifndef BP_LAYERS_ATTENTION_H
#define BP_LAYERS_ATTENTION_H

#include "layers/nodes/dropout.h"

/* What disentangled attention (He et al., arXiv 2006.03654) adds scores of: rows of a table, a
 * bucket of distances each, normalised, in the place of keys and of queries. */
typedef struct bp_positions {
    uint32_t table; /* parameter number, (2 * buckets, width); its norm's weight and bias follow */
    uint32_t query; /* that of the weight of the layer of queries, whose bias follows */
    uint32_t key;   /* the same of keys */
    uint32_t width; /* 0: no such scores */
    double epsilon; /* of the norm */
    bp_dropout dropout; /* of the normalised rows */
} bp_positions;

typedef struct bp_attention {
    uint32_t heads;
    uint32_t kv_heads; /* divides heads; 0: heads */
    uint64_t head_width;
    bool bidirectional; /* every position looks at all, not at those up to its own */
    bool padded;    /* `lengths` is there: positions from a sample's length on are not looked at */
    bp_ref lengths; /* (B), I32 */
    bp_dropout dropout;     /* of the probabilities */
    uint64_t window;        /* positions less than so many away are looked at; 0: all */
    double scale;           /* of the scores; 0: 1 / sqrt(head_width) */
    double cap;             /* c tanh(score / c) is taken for a score; 0: the score */
    uint64_t buckets;       /* of distances, whose row of a table is added to a score; 0: none */
    uint64_t distance;      /* from which on distances have the last bucket */
    uint32_t bias;          /* parameter number, (buckets, heads) */
    bp_positions positions; /* in place of `bias`, with its buckets and distance */
    bool sunk;              /* each head has a sink beside its scores (gpt-oss): */
    uint32_t sinks;         /* parameter number, (heads) */
} bp_attention;

/* out (B, T, H * D) from qkv (B, T, (H + 2 K) * D), K the key-value heads; lse (H, B * T), F32, may
 * be absent without backward. */
void bp_attention_forward(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                          bp_ref out, bp_ref lse);

typedef struct bp_attention_backward_call {
    bp_ref qkv; /* (B, T, (H + 2 K) * D) */
    bp_ref out; /* (B, T, H * D) of forward */
    bp_ref lse; /* (H, B * T) of forward */
    bp_ref d_out;
    bp_ref d_qkv; /* written; distinct from the others */
} bp_attention_backward_call;

void bp_attention_backward(bp_builder *builder, const bp_attention *attention,
                           const bp_attention_backward_call *call);

/* Backward in parts: of rows first .. first + rows - 1 what it needs of `out`, into deltas (B * T,
 * H), F32; then, of all rows, the gradient of qkv in its place. */
bool bp_attention_may_be_over(const bp_builder *builder, const bp_attention *attention);
void bp_attention_deltas(bp_builder *builder, const bp_attention *attention, uint64_t rows,
                         bp_ref d_out, bp_ref out, bp_ref deltas);
void bp_attention_backward_over(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                                bp_ref d_out, bp_ref deltas, bp_ref lse);

/* Rows first .. first + rows - 1 of one query head, over the keys and values of its key-value head
 * (B * T, 2 D). Forward makes out (rows, D) and lse (rows), which may be absent. Backward, of which
 * `more` is false for the first rows of the group's first query head alone, takes deltas (rows, 1)
 * of d_out, has the gradient of q take its place, and adds to d_kv (B * T, 2 D), F32. Heads of a
 * group come in order, rows of each in order. */
typedef struct bp_attention_strip {
    bp_ref q;
    bp_ref kv;
    bp_ref out;
    bp_ref lse;
    bp_ref d_out;
    bp_ref deltas;
    bp_ref d_kv;
    uint64_t first;
    uint64_t rows;
    bool more;
} bp_attention_strip;

void bp_attention_strip_make(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_strip *strip);
void bp_attention_strip_go_back(bp_builder *builder, const bp_attention *attention,
                                const bp_attention_strip *strip);

/* Whether it has a parameter that is trained. */
bool bp_attention_trains(const bp_builder *builder, const bp_attention *attention);

/* Generation: builder->rows new positions against caches of spec->generate_context positions, which
 * are made here, carried from run to run. */
void bp_attention_decode(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                         bp_ref out);

/* ---- Ranks that share the tokens of a sample (attention_ranks.c, core/plan/passes/token_lanes.h)
 * ---- All-to-alls turn rows of a rank's tokens into those of all tokens with the rank's heads, and
 * back (Jacobs et al., arXiv 2309.14509). A rank has whole key-value heads, and the query heads
 * that look at them, so that each head's sums are those of one rank. */

#define BP_SEQUENCE_GROUP 1 /* the fabric's group of ranks that share the tokens of a sample */

/* This rank's heads. BP_ERR_USAGE in builder->status where they cannot be shared equally. */
bp_attention bp_attention_ranks_own(bp_builder *builder, const bp_attention *attention);

/* A new buffer (T, (H + 2 K) / N * D) from qkv (T / N, (H + 2 K) * D), N the ranks. */
bp_ref bp_attention_ranks_take(bp_builder *builder, const bp_attention *attention, bp_ref qkv);

/* The way back, of gradients. */
void bp_attention_ranks_give(bp_builder *builder, const bp_attention *attention, bp_ref own,
                             bp_ref qkv);

/* The same of out (T / N, H * D), and (T, H / N * D). */
bp_ref bp_attention_ranks_take_out(bp_builder *builder, const bp_attention *attention, bp_ref out);
void bp_attention_ranks_give_out(bp_builder *builder, const bp_attention *attention, bp_ref own,
                                 bp_ref out);

uint32_t bp_attention_kv_heads(const bp_attention *attention);

/* The builder's rows of queries, keys and values or of outputs, with all heads, as pieces that lie
 * one behind the other: the queries or the output of one query head each (rows, D), or a key-value
 * head's keys and values (rows, 2 D). Or, joined, those columns of the rows from the pieces. */
typedef enum bp_attention_piece {
    BP_ATTENTION_QUERIES,
    BP_ATTENTION_KEYS,
    BP_ATTENTION_OUT
} bp_attention_piece;

void bp_attention_pieces(bp_builder *builder, const bp_attention *attention,
                         bp_attention_piece which, bp_ref all, bp_ref pieces, bool join);

/* Losses (T) of all ranks from this one's (T / N). */
bp_ref bp_attention_ranks_losses(bp_builder *builder, bp_ref losses);

#endif
