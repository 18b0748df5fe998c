/* SPDX-License-Identifier: MIT */
/* The feed-forward sublayer: out = stream + dropout(GELU(x w1 + b1) w2 + b2). */
#ifndef BP_LAYERS_MLP_H
#define BP_LAYERS_MLP_H

#include "layers/residual.h"

typedef struct bp_mlp {
    bp_linear up;     /* (width, inner) */
    bp_residual down; /* (inner, width) */
} bp_mlp;

/* active (rows, inner) = GELU(before), the very values that forward's fused product made. */
void bp_mlp_activate(bp_emit *emit, const bp_mlp *mlp, bp_ref before, bp_ref active);

/* Gradients of w2 and b2, and the gradient (rows, inner) of `before`, from d_out (rows, width). */
bp_ref bp_mlp_backward_down(bp_emit *emit, const bp_mlp *mlp, bp_ref before, bp_ref active,
                            bp_ref d_out);

/* Gradients of w1 and b1, and the gradient (rows, width) of x, from d_before (rows, inner). */
bp_ref bp_mlp_backward_up(bp_emit *emit, const bp_mlp *mlp, bp_ref x, bp_ref d_before);

#endif
