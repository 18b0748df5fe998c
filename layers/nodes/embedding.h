/* SPDX-License-Identifier: MIT */
/* Token plus learned position and type embeddings, where the model has them, with dropout of their
 * sum. */
#ifndef BP_LAYERS_EMBEDDING_H
#define BP_LAYERS_EMBEDDING_H

#include "layers/nodes/dropout.h"
#include "layers/nodes/linear.h"

typedef struct bp_embedding {
    uint32_t token;    /* parameter number, (vocabulary, width) */
    uint32_t position; /* parameter number, (positions, width); BP_NO_PARAMETER: none */
    uint64_t vocabulary;
    uint64_t positions;
    uint64_t position_first; /* row of the position table that the first one has; rows before it get
                                no gradient */
    uint64_t width;
    bp_dropout dropout;
    double scale;   /* the model multiplies the sum with this; 0: 1 */
    uint64_t types; /* 0: the model has no token types; builder->input[BP_INPUT_TYPES] absent: all
                       have type 0 */
    uint32_t type;  /* parameter number, (types, width) */
    uint64_t still; /* 1 + the id whose row gets no gradient (padding_idx of torch.nn.Embedding); 0:
                       every row does */
} bp_embedding;

/* out (rows, width) of builder->input[BP_INPUT_IDS]; in decode mode positions count from
 * step.position. */
void bp_embedding_forward(bp_builder *builder, const bp_embedding *embedding, bp_ref out);

/* Gradients of both tables from d_out (rows, width); adds to the token table's when a tied head has
 * written it before. */
void bp_embedding_backward(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out);

/* The token table's apart from the others'; the former for its rows first .. first + rows - 1 only,
 * added to `gradient` (rows, width) when accumulate is 1. */
void bp_embedding_backward_position(bp_builder *builder, const bp_embedding *embedding,
                                    bp_ref d_out);
void bp_embedding_backward_slice(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out,
                                 uint64_t first, uint64_t rows, bp_ref gradient,
                                 int64_t accumulate);

#endif
