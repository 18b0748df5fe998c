/* SPDX-License-Identifier: MIT */
/* SigLIP's pooling head (Lee et al., arXiv 1810.00825): one learned row looks at all tokens of an
 * image, and a norm and an mlp follow. */
#ifndef BP_LAYERS_POOLER_H
#define BP_LAYERS_POOLER_H

#include "layers/families/vit.h"
#include "core/plan/builder.h"

/* Its parameters, one behind the other from number `first` on. */
enum {
    BP_POOLER_PROBE,
    BP_POOLER_IN, /* queries, keys and values, and their biases */
    BP_POOLER_IN_BIAS,
    BP_POOLER_OUT, /* weight and bias, as the next three */
    BP_POOLER_NORM = BP_POOLER_OUT + 2,
    BP_POOLER_UP = BP_POOLER_NORM + 2,
    BP_POOLER_DOWN = BP_POOLER_UP + 2,
    BP_POOLER_PARAMETERS = BP_POOLER_DOWN + 2
};

void bp_pooler_publish(bp_builder *builder, const bp_vit_config *own);

/* y (batch, width) of x (batch, tokens, width), F32, between bp_vit_rows_begin and _end. */
void bp_pooler_forward(bp_builder *builder, const bp_vit_config *own, uint32_t first, bp_ref x,
                       bp_ref y);

/* The gradient of x from that of y, and those of the parameters. */
bp_ref bp_pooler_backward(bp_builder *builder, const bp_vit_config *own, uint32_t first, bp_ref x,
                          bp_ref d_y);

#endif
