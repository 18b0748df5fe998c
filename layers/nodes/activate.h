/* SPDX-License-Identifier: MIT */
/* Activation functions that no product carries in its epilogue. */
#ifndef BP_LAYERS_ACTIVATE_H
#define BP_LAYERS_ACTIVATE_H

#include "core/ops/activation.h"
#include "core/plan/builder.h"
#include "layers/nodes/node.h"
#include "layers/families/transformer.h"

/* The node that computes a bp_hidden_act (layers/families/transformer.h) from value `in`. */
bp_node bp_hidden_act_node(uint32_t act, uint32_t in, uint32_t out);

/* The same as ops; in place as the next two. */
void bp_hidden_act_forward(bp_builder *builder, uint32_t act, uint64_t count, bp_ref x, bp_ref y);
void bp_hidden_act_backward(bp_builder *builder, uint32_t act, uint64_t count, bp_ref x, bp_ref d_y,
                            bp_ref d_x);

/* y = f(x) over `count` elements; y may be x. */
void bp_activate(bp_builder *builder, bp_activation kind, uint64_t count, bp_ref x, bp_ref y);

/* d_x = d_y f'(x); d_x may be d_y or x. */
void bp_activate_backward(bp_builder *builder, bp_activation kind, uint64_t count, bp_ref x,
                          bp_ref d_y, bp_ref d_x);

#endif
