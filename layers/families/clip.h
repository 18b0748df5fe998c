/* SPDX-License-Identifier: MIT */
/* CLIP (Radford et al., arXiv 2103.00020) and SigLIP (Zhai et al., arXiv 2303.15343): a tower for
 * images and one for texts. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_CLIP_H
#define BP_LAYERS_CLIP_H

#include "layers/families/vit.h"

/* The first member is what bp_model_vit reads: a classifier of images needs nothing else. Its kind
 * is that of both towers. */
typedef struct bp_clip_config {
    bp_vit_config vision;
    bp_transformer text;
    uint32_t text_vocabulary;
    uint32_t text_positions; /* most tokens of a text */
    uint32_t projection;     /* numbers of a vector; of SigLIP 0: the width of texts */
    bool headless;           /* SigLIP: not vision_use_head */
    bool paired;             /* both towers are one model: bp_model_clip, bp_model_siglip */
    int64_t text_bos;
    int64_t text_eos;
    int64_t text_pad;
    double logit_scale; /* what the logarithm of the scale begins with */
} bp_clip_config;

bp_clip_config bp_clip_config_of(const bp_model_config *config);

/* The tower of texts, with config.vocabulary and config.positions as the towers' own, and as many
 * classes as a vector has numbers. Stages: 0 the embeddings of tokens and positions, 1 .. the
 * blocks, then the last norm of a text's end, its projection, and what is done with vectors. CLIP's
 * reads from left to right; SigLIP's sees padding too, so that each text has `positions` tokens. */
extern const bp_model bp_model_clip_text;
extern const bp_model bp_model_siglip_text;

/* Both towers, whose vectors are compared: with the cross entropy of images among texts and of
 * texts among images, or pair by pair (SigLIP), over a micro-batch. config.vocabulary and
 * config.positions are those of texts, and config.classes is twice the width of a vector: kept
 * logits have a text's, then its image's. spec.source is bp_vit_tokens of the tower of images, and
 * BP_INPUT_SOURCE has an image's numbers, F32 (height, width, channels). Stages: those of the tower
 * of images, whose last makes its vector (bp_model.memory), then those of the tower of texts, then
 * the loss. */
extern const bp_model bp_model_clip;

#endif
