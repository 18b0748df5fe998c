/* SPDX-License-Identifier: MIT */
/* ViT (Dosovitskiy et al., arXiv 2010.11929) as the Hugging Face class ViTForImageClassification
 * computes it: the same names, layouts and numerics. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_VIT_H
#define BP_LAYERS_VIT_H

#include "layers/families/transformer.h"

#define BP_VIT_SIZE_MOST (1 << 14) /* most of an image's side */

/* config.positions is image * image * channels: a row has an image's numbers, the bits of its
 * (height, width, channels) as float32. */
typedef struct bp_vit_config {
    bp_transformer stack;
    uint32_t image; /* image_size: height and width */
    uint32_t channels;
    uint32_t patch; /* patch_size: places on each side of what becomes a token */
    bool unbiased;  /* not qkv_bias: queries, keys and values have none */
} bp_vit_config;

bp_vit_config bp_vit_config_of(const bp_model_config *config);

/* Tokens of an image: its patches, and the one before them. */
uint32_t bp_vit_tokens(const bp_vit_config *own);

/* Stages: 0 the patches with their positions, 1 .. num_hidden_layers the blocks, then the last norm
 * of the first token, which a classifier reads, and the loss. */
extern const bp_model bp_model_vit;

#endif
