/* SPDX-License-Identifier: MIT */
/* One GPT-2 block as a stage: middle = x + attention(ln_1(x)), out = middle + mlp(ln_2(middle)). */
#ifndef BP_LAYERS_GPT2_BLOCK_H
#define BP_LAYERS_GPT2_BLOCK_H

#include "layers/blocks/block.h"

#define BP_GPT2_BLOCK_PARAMETERS 12

/* Where a block's parameters lie, counted from its first: the order of the file. */
typedef enum bp_gpt2_parameter {
    BP_GPT2_LN_1_WEIGHT,
    BP_GPT2_LN_1_BIAS,
    BP_GPT2_C_ATTN_WEIGHT,
    BP_GPT2_C_ATTN_BIAS,
    BP_GPT2_ATTN_C_PROJ_WEIGHT,
    BP_GPT2_ATTN_C_PROJ_BIAS,
    BP_GPT2_LN_2_WEIGHT,
    BP_GPT2_LN_2_BIAS,
    BP_GPT2_C_FC_WEIGHT,
    BP_GPT2_C_FC_BIAS,
    BP_GPT2_MLP_C_PROJ_WEIGHT,
    BP_GPT2_MLP_C_PROJ_BIAS
} bp_gpt2_parameter;

/* Number of the first parameter of block `index`: after the two embeddings. */
uint32_t bp_gpt2_block_first(uint32_t index);

/* The list of nodes of block `index` = call->stage - 1. */
void bp_gpt2_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
