/* SPDX-License-Identifier: MIT */
/* ViT's first stage: patches of images as tokens, behind a first one of its own. */
#ifndef BP_LAYERS_VIT_EMBED_H
#define BP_LAYERS_VIT_EMBED_H

#include "layers/images/image.h"
#include "layers/families/vit.h"

/* What patches are, as windows over an image. */
bp_image_window bp_vit_window(const bp_vit_config *own);

/* out (batch * tokens, width). builder->spec has as many rows in a sample as it has tokens. */
void bp_vit_embed(bp_builder *builder, bp_ref out);

/* The parameters' gradients from d (batch * tokens, width), on which dropout writes. */
void bp_vit_embed_backward(bp_builder *builder, bp_ref d);

#endif
