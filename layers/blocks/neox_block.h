/* SPDX-License-Identifier: MIT */
/* One GPT-NeoX block as a stage: out = x + attention(norm_1(x)) + mlp(norm_2(x)), or, not parallel,
 * middle = x + attention(norm_1(x)), out = middle + mlp(norm_2(middle)). */
#ifndef BP_LAYERS_NEOX_BLOCK_H
#define BP_LAYERS_NEOX_BLOCK_H

#include "layers/blocks/block.h"

/* A block's parameters in the order of publication. */
typedef enum bp_neox_parameter {
    BP_NEOX_NORM_1_WEIGHT,
    BP_NEOX_NORM_1_BIAS,
    BP_NEOX_NORM_2_WEIGHT,
    BP_NEOX_NORM_2_BIAS,
    BP_NEOX_QKV_WEIGHT,
    BP_NEOX_QKV_BIAS, /* only with biases of attention, */
    BP_NEOX_O_WEIGHT,
    BP_NEOX_O_BIAS, /* which this is too */
    BP_NEOX_UP_WEIGHT,
    BP_NEOX_UP_BIAS,
    BP_NEOX_DOWN_WEIGHT,
    BP_NEOX_DOWN_BIAS,
    BP_NEOX_BLOCK_PARAMETERS
} bp_neox_parameter;

/* Whether the model has this parameter in each block; parameters of one block; the number of the
 * first of block `index`: after the embedding. */
bool bp_neox_has(const bp_model_config *config, bp_neox_parameter parameter);
uint32_t bp_neox_block_parameters(const bp_model_config *config);
uint32_t bp_neox_block_first(const bp_model_config *config, uint32_t index);

/* The list of nodes of block `index` = call->stage - 1. */
void bp_neox_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
