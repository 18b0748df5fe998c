/* SPDX-License-Identifier: MIT */
/* A dense layer whose adapter has magnitudes (core/plan/adapter.h; DoRA, Liu et al., arXiv
 * 2402.09353), as PEFT computes it: with f = m / n, x' = dropout(x) and the low-rank product L,
 *
 *   y = W x + (f - 1) W x' + f L x' + bias,   which without dropout is f (W x + L x) + bias,
 *
 * f by outputs. n is made again by each of these (bp_adapter_norms), and what the magnitude's
 * gradient reads, W x' + L x', in backward: nothing is kept for them. */
#ifndef BP_LAYERS_MAGNITUDE_H
#define BP_LAYERS_MAGNITUDE_H

#include "layers/nodes/linear.h"

/* y (rows, out; pitch) = that + residual, x (rows, in); residual may be absent or y itself. */
void bp_magnitude_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                          bp_ref y);

/* d_m (+)= sum over rows of d_y (W x' + L x') / n, and the gradients of the adapter's matrices and
 * of the weight, where they are trained: not that of the bias. */
void bp_magnitude_backward_parameters(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                      bp_ref d_y);

/* d_x (rows, in) = residual + the derivative; residual may be absent or d_x itself. */
void bp_magnitude_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                 bp_ref residual, bp_ref d_x);

#endif
