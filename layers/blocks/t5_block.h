/* SPDX-License-Identifier: MIT */
/* One block of T5 as a stage: middle = x + attention(norm_1(x)); in a decoder then middle +
 * cross(norm_x(middle)), of the encoder's output; out = middle + mlp(norm_2(middle)). */
#ifndef BP_LAYERS_T5_BLOCK_H
#define BP_LAYERS_T5_BLOCK_H

#include "layers/blocks/block.h"
#include "layers/families/t5.h"

/* The token embedding, and the table of distances that all blocks read. */
enum { BP_T5_TABLE, BP_T5_DISTANCES, BP_T5_EMBEDDINGS };

/* A block's parameters in the order of publication. */
typedef enum bp_t5_parameter {
    BP_T5_Q,
    BP_T5_K,
    BP_T5_V,
    BP_T5_O,
    BP_T5_NORM_1,
    BP_T5_UP, /* of a gated perceptron what is gated, */
    BP_T5_DOWN,
    BP_T5_NORM_2,
    BP_T5_GATE, /* and its gate, which the others lack */
    BP_T5_BLOCK_PARAMETERS
} bp_t5_parameter;

/* What a decoder's block has behind BP_T5_NORM_1. */
typedef enum bp_t5_cross {
    BP_T5_CROSS_Q,
    BP_T5_CROSS_K,
    BP_T5_CROSS_V,
    BP_T5_CROSS_O,
    BP_T5_CROSS_NORM,
    BP_T5_CROSS_PARAMETERS
} bp_t5_cross;

/* How many parameters a block of the encoder has, and the number of the first of block `index`. */
uint32_t bp_t5_block_parameters(const bp_t5_config *own);
uint32_t bp_t5_block_first(const bp_t5_config *own, uint32_t index);

/* Blocks of the decoder; the number of its table of distances, and of the first parameter of its
 * block `index`: the first behind all is its last norm. */
uint32_t bp_t5_decoder_layers(const bp_t5_config *own);
uint32_t bp_t5_decoder_distances(const bp_t5_config *own);
uint32_t bp_t5_decoder_first(const bp_t5_config *own, uint32_t index);

/* Dropout sites: 0 is the embedding's; each block has four, then the last norm's and the
 * classifier's. The decoder's go on: its embedding's, six of each block, the last norm's. */
uint32_t bp_t5_site(uint32_t block);
uint32_t bp_t5_decoder_site(const bp_t5_config *own, uint32_t block);

/* The stage whose output a decoder looks at; the decoder's embedding is the one behind it. */
uint32_t bp_t5_memory_stage(const bp_t5_config *own);

/* The list of nodes of block call->stage - 1, or of the decoder's. */
void bp_t5_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
