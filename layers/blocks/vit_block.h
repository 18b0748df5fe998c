/* SPDX-License-Identifier: MIT */
/* One ViT block as a stage: h = x + attention(norm(x)), out = h + mlp(norm(h)). */
#ifndef BP_LAYERS_VIT_BLOCK_H
#define BP_LAYERS_VIT_BLOCK_H

#include "layers/nodes/node.h"
#include "layers/families/vit.h"

/* Parameters of a model before its blocks. */
enum {
    BP_VIT_FIRST,     /* (1, 1, width): the token before the patches */
    BP_VIT_POSITIONS, /* (1, tokens, width) */
    BP_VIT_PATCH_WEIGHT,
    BP_VIT_PATCH_BIAS,
    BP_VIT_EMBEDDINGS
};

/* Layers of a block, each a weight and, but for queries, keys and values without, a bias. */
typedef enum bp_vit_layer {
    BP_VIT_NORM_1,
    BP_VIT_QUERY,
    BP_VIT_KEY,
    BP_VIT_VALUE,
    BP_VIT_OUT,
    BP_VIT_NORM_2,
    BP_VIT_UP,
    BP_VIT_DOWN,
    BP_VIT_BLOCK_LAYERS
} bp_vit_layer;

/* Whether a layer has a bias, and the number of a layer's weight, which its bias follows; of block
 * `layers`, BP_VIT_NORM_1 it is the last norm's. */
bool bp_vit_biased(const bp_vit_config *own, bp_vit_layer layer);
uint32_t bp_vit_number(const bp_vit_config *own, uint32_t block, bp_vit_layer layer);

/* The list of nodes of block `index` = call->stage - 1, over rows of tokens. */
void bp_vit_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
