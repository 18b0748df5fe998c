/* SPDX-License-Identifier: MIT */
/* The end of a sublayer: out = stream + dropout(x weight + bias), and its derivatives. */
#ifndef BP_LAYERS_RESIDUAL_H
#define BP_LAYERS_RESIDUAL_H

#include "layers/nodes/dropout.h"
#include "layers/nodes/linear.h"

typedef struct bp_residual {
    bp_linear projection;
    bp_dropout dropout;
} bp_residual;

/* out (rows, width) = stream (rows, width) + dropout(projection of x (rows, in)). Without dropout
 * the addition is part of the product, and out may be the stream itself; with dropout it may not.
 */
void bp_residual_forward(bp_builder *builder, const bp_residual *residual, bp_ref x, bp_ref stream,
                         bp_ref out);

/* Gradients of the projection's parameters, and d_x (rows, in), from d_out (rows, width), which is
 * left as it is: it is also the gradient of the stream. d_x may be absent: only the parameters'. */
void bp_residual_backward(bp_builder *builder, const bp_residual *residual, bp_ref x, bp_ref d_out,
                          bp_ref d_x);

/* Whether dropout is part of the program being written. */
bool bp_residual_drops(const bp_builder *builder, const bp_residual *residual);

#endif
