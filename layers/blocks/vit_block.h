/* SPDX-License-Identifier: MIT */
/* One ViT block as a stage: h = x + attention(norm(x)), out = h + mlp(norm(h)). */
#ifndef BP_LAYERS_VIT_BLOCK_H
#define BP_LAYERS_VIT_BLOCK_H

#include "layers/nodes/node.h"
#include "layers/families/vit.h"

/* Parameters of a tower of texts before its blocks: the embeddings of tokens and of positions. */
enum { BP_CLIP_TEXT_TOKENS, BP_CLIP_TEXT_POSITIONS, BP_CLIP_TEXT_EMBEDDINGS };

/* Numbers of the parameters of a model before its blocks, BP_NO_PARAMETER where its kind has none;
 * how many there are. */
typedef struct bp_vit_embeddings {
    uint32_t first;     /* the token before the patches */
    uint32_t positions; /* a row for each token */
    uint32_t weight;    /* of the patches' convolution */
    uint32_t bias;
    uint32_t norm; /* the weight of the norm before the blocks, which its bias follows */
    uint32_t count;
} bp_vit_embeddings;

bp_vit_embeddings bp_vit_embeddings_of(const bp_vit_config *own);

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

/* Publishes the parameters of a block. */
void bp_vit_publish_block(bp_builder *builder, const bp_vit_config *own, uint32_t index);

/* Publishes what stands before the blocks of a tower of images; a norm's weight and bias, or a bias
 * alone, named behind the tower. */
void bp_vit_publish_embeddings(bp_builder *builder, const bp_vit_config *own);
void bp_vit_publish_vector(bp_builder *builder, const bp_vit_config *own, const char *name,
                           bool norm);

/* A sample of the spec is an image; between these two it is as many rows as it has tokens. */
typedef struct bp_vit_rows {
    bp_spec spec; /* with that sequence */
    const bp_spec *whole;
} bp_vit_rows;

void bp_vit_rows_begin(bp_builder *builder, bp_vit_rows *rows);
void bp_vit_rows_end(bp_builder *builder, const bp_vit_rows *rows);

/* A norm of a block; of block `layers`, BP_VIT_NORM_1 the last one. */
bp_norm bp_vit_norm(const bp_vit_config *own, uint32_t block, bp_vit_layer layer);

/* The list of nodes of a block of `own`, over rows of tokens; and of block call->stage - 1 of a
 * bp_model_vit. */
void bp_vit_block_list(const bp_builder *builder, const bp_vit_config *own, uint32_t index,
                       bp_block *block);
void bp_vit_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
