/* SPDX-License-Identifier: MIT */
/* ViT (Dosovitskiy et al., arXiv 2010.11929) as the Hugging Face class ViTForImageClassification
 * computes it: the same names, layouts and numerics. The vision towers of CLIP (Radford et al.,
 * arXiv 2103.00020) and SigLIP (Zhai et al., arXiv 2303.15343) are the same blocks with other ends,
 * as CLIPForImageClassification and SiglipForImageClassification have them. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_VIT_H
#define BP_LAYERS_VIT_H

#include "layers/families/transformer.h"

#define BP_VIT_SIZE_MOST (1 << 14) /* most of an image's side */

typedef enum bp_vit_kind {
    BP_VIT_PLAIN, /* the classifier reads the last norm of the first token, which is no patch */
    BP_VIT_CLIP,  /* patches have no bias, a norm stands before the blocks; the classifier reads the
                     mean of the patches' tokens, without a norm */
    BP_VIT_SIGLIP,      /* patches alone; the classifier reads the mean of their last norm */
    BP_VIT_CLIP_TEXT,   /* not of bp_model_vit: tokens of a text, which see those before them */
    BP_VIT_SIGLIP_TEXT, /* the same, which see all others */
    BP_VIT_KINDS
} bp_vit_kind;

/* config.positions is image * image * channels: a row has an image's numbers, the bits of its
 * (height, width, channels) as float32. */
typedef struct bp_vit_config {
    bp_transformer stack;
    uint32_t image; /* image_size: height and width */
    uint32_t channels;
    uint32_t patch; /* patch_size: places on each side of what becomes a token */
    bool unbiased;  /* not qkv_bias: queries, keys and values have none; of BP_VIT_PLAIN */
    uint32_t kind;  /* bp_vit_kind */
    uint32_t first; /* parameters of another tower before its own */
    uint32_t site;  /* dropout sites of that one, less its embedding's */
} bp_vit_config;

bp_vit_config bp_vit_config_of(const bp_model_config *config);

/* Tokens of an image: its patches and, but for BP_VIT_SIGLIP, the one before them. */
uint32_t bp_vit_tokens(const bp_vit_config *own);

/* Stages: 0 the patches with their positions, 1 .. num_hidden_layers the blocks, then what a
 * classifier reads of their output, and the loss. */
extern const bp_model bp_model_vit;

#endif
