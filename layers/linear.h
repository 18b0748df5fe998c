/* SPDX-License-Identifier: MIT */
/* A dense layer: y (rows, out) = x (rows, in) weight (in, out) + bias (out), and its derivatives.
 * The weight is stored input-major, as GPT-2's files have it. */
#ifndef BP_LAYERS_LINEAR_H
#define BP_LAYERS_LINEAR_H

#include "core/emit.h"

typedef struct bp_linear {
    uint32_t weight; /* parameter number, (in, out) */
    uint32_t bias;   /* parameter number, (out) */
    uint64_t in;
    uint64_t out;
} bp_linear;

/* y (rows, out) = x weight + bias + residual over emit->rows rows; residual (rows, out) may be
 * absent and may be y itself. */
void bp_linear_forward(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref residual, bp_ref y);

/* y (rows, out) = GELU(x weight + bias); the value before GELU goes to `before` unless absent. */
void bp_linear_forward_gelu(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref before,
                            bp_ref y);

/* d_weight (+)= x^T d_y, d_bias (+)= column sums of d_y. */
void bp_linear_backward_parameters(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y);

/* d_x (rows, in) = d_y weight^T. */
void bp_linear_backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref d_x);

#endif
