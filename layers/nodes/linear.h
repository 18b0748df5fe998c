/* SPDX-License-Identifier: MIT */
/* A dense layer: y (rows, out) = x (rows, in) weight (in, out) + bias (out), and its derivatives.
 * The weight is stored input-major, as GPT-2's files have it, or output-major, as all others do. */
#ifndef BP_LAYERS_LINEAR_H
#define BP_LAYERS_LINEAR_H

#include "core/plan/builder.h"

typedef struct bp_linear {
    uint32_t weight; /* parameter number, (in, out) */
    uint32_t bias;   /* parameter number, (out); BP_NO_PARAMETER: none */
    uint64_t in;
    uint64_t out;
    bool output_major; /* the weight is (out, in) */
    uint64_t pitch;    /* elements from row to row of y; 0: out */
} bp_linear;

/* y (rows, out) = x weight + bias + residual over builder->rows rows; residual (rows, out; pitch)
 * may be absent and may be y itself. */
void bp_linear_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                       bp_ref y);

/* y (rows, out) = GELU(x weight + bias); the value before GELU goes to `before` unless absent. */
void bp_linear_forward_gelu(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref before,
                            bp_ref y);

/* d_weight (+)= x^T d_y, d_bias (+)= column sums of d_y. Returns what its adapter's gradients have
 * in common, for bp_linear_backward_input_from of the same d_y; absent where there is none. */
bp_ref bp_linear_backward_parameters(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                     bp_ref d_y);

/* Whether the layer, or its adapter, has a parameter that is trained, and whether its gradient
 * takes x: not that of the bias alone. */
bool bp_linear_trains(const bp_builder *builder, const bp_linear *layer);
bool bp_linear_trains_reading(const bp_builder *builder, const bp_linear *layer);

/* d_x (rows, in) = d_y weight^T. */
void bp_linear_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y, bp_ref d_x);

/* d_x (rows, in) += d_y weight^T: of layers that read the same x, all but the first. */
void bp_linear_backward_input_add(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                  bp_ref d_x);

/* Either of the two. d_u: what bp_linear_backward_parameters returned, if that was called of the
 * same d_y, so that it is not made again; or absent. */
void bp_linear_backward_input_from(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                   bp_ref d_u, bp_ref d_x, bool add);

/* The layer without its adapter: y = x weight + bias + residual, d_x = residual + d_y weight^T,
 * residual may be absent; and the gradient of the weight, where it is trained. */
void bp_linear_plain_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                             bp_ref y);
void bp_linear_plain_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                    bp_ref residual, bp_ref d_x);
void bp_linear_plain_backward_weight(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                     bp_ref d_y);

#endif
