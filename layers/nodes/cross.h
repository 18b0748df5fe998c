/* SPDX-License-Identifier: MIT */
/* Attention of a decoder's queries to an encoder's output (Vaswani et al., arXiv 1706.03762):
 * builder->memory (B, S, width), whose rows from a sample's length on are not looked at, S =
 * spec.source. Keys and values are made here, of two dense layers. */
#ifndef BP_LAYERS_CROSS_H
#define BP_LAYERS_CROSS_H

#include "layers/nodes/dropout.h"
#include "layers/nodes/linear.h"

typedef struct bp_cross {
    uint32_t heads;
    uint64_t head_width;
    bp_linear key; /* of the encoder's output; their pitch is left to cross.c */
    bp_linear value;
    bp_ref lengths;     /* (B), I32, of the encoder's texts */
    double scale;       /* of the scores; 0: 1 / sqrt(head_width) */
    bp_dropout dropout; /* of the probabilities */
} bp_cross;

/* Rows of the encoder's texts in a micro-batch; elements of a row of keys and values. */
uint64_t bp_cross_rows(const bp_builder *builder);
uint64_t bp_cross_width(const bp_cross *cross);

/* out (B, T, H D) from q of the same shape; kv (B S, 2 H D), the keys of all heads in each row,
 * then their values, and lse (H, B T), F32, may be absent without backward. Decoding, kv is
 * carried: made where builder->memory is there. */
void bp_cross_forward(bp_builder *builder, const bp_cross *cross, bp_ref q, bp_ref out, bp_ref lse,
                      bp_ref kv);

typedef struct bp_cross_backward_call {
    bp_ref q;
    bp_ref out; /* of forward, as lse and kv */
    bp_ref lse;
    bp_ref kv;
    bp_ref d_out;
    bp_ref d_q; /* written; distinct from the others */
} bp_cross_backward_call;

/* Also the gradients of the two layers, and builder->d_memory where it is wanted. */
void bp_cross_backward(bp_builder *builder, const bp_cross *cross,
                       const bp_cross_backward_call *call);

bool bp_cross_trains(const bp_builder *builder, const bp_cross *cross);

/* What a stage changes of the builder while it emits ops over rows of the encoder's texts. */
typedef struct bp_source_rows {
    bp_spec spec; /* whose sequence is the source */
    const bp_spec *whole;
    uint64_t rows;
} bp_source_rows;

void bp_source_rows_begin(bp_builder *builder, bp_source_rows *rows);
void bp_source_rows_end(bp_builder *builder, const bp_source_rows *rows);

#endif
