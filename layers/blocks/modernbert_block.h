/* SPDX-License-Identifier: MIT */
/* One ModernBERT block as a stage: middle = x + attention(norm(x)), out = middle +
 * mlp(norm(middle)); the first block's attention reads x itself. */
#ifndef BP_LAYERS_MODERNBERT_BLOCK_H
#define BP_LAYERS_MODERNBERT_BLOCK_H

#include "layers/blocks/block.h"

/* A block's parameters in the order of publication, counted from its first. */
typedef enum bp_modernbert_parameter {
    BP_MODERNBERT_NORM_1, /* not of the first block */
    BP_MODERNBERT_QKV,
    BP_MODERNBERT_O,
    BP_MODERNBERT_NORM_2,
    BP_MODERNBERT_GATE_UP,
    BP_MODERNBERT_DOWN,
    BP_MODERNBERT_BLOCK_PARAMETERS
} bp_modernbert_parameter;

#define BP_MODERNBERT_EMBEDDINGS 2 /* parameters before the blocks: the table and its norm */

/* Number of the parameter of block `index`, where it has it; of one block behind the last that of
 * the first parameter behind all blocks is BP_MODERNBERT_NORM_1's. */
uint32_t bp_modernbert_number(uint32_t index, bp_modernbert_parameter parameter);

/* The list of nodes of block `index` = call->stage - 1. */
void bp_modernbert_block_describe(const bp_builder *builder, const bp_stage_call *call,
                                  bp_block *block);

#endif
