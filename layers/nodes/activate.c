/* SPDX-License-Identifier: MIT */
/* Activations as ops. */
#include "layers/nodes/activate.h"

void bp_activate(bp_builder *builder, bp_activation kind, uint64_t count, bp_ref x, bp_ref y)
{
    const bp_activation_forward_scalars scalars = {.count = (int64_t)count, .kind = kind};
    const bp_activation_forward_operands operands = {.y = y, .x = x};
    bp_build_activation_forward(builder, &operands, &scalars);
}

void bp_activate_backward(bp_builder *builder, bp_activation kind, uint64_t count, bp_ref x,
                          bp_ref d_y, bp_ref d_x)
{
    const bp_activation_backward_scalars scalars = {.count = (int64_t)count, .kind = kind};
    const bp_activation_backward_operands operands = {.d_x = d_x, .d_y = d_y, .x = x};
    bp_build_activation_backward(builder, &operands, &scalars);
}

static bool is_tanh(uint32_t act)
{
    return act != BP_HIDDEN_GELU && act < BP_HIDDEN_RELU;
}

static bp_activation plain_of(uint32_t act)
{
    return act == BP_HIDDEN_RELU           ? BP_ACTIVATION_RELU
           : act == BP_HIDDEN_GELU_QUICK   ? BP_ACTIVATION_GELU_QUICK
           : act == BP_HIDDEN_RELU_SQUARED ? BP_ACTIVATION_RELU_SQUARED
                                           : BP_ACTIVATION_GELU_ERF;
}

bp_node bp_hidden_act_node(uint32_t act, uint32_t in, uint32_t out)
{
    return (bp_node){.kind = is_tanh(act) ? BP_NODE_GELU : BP_NODE_ACTIVATION,
                     .in = {in},
                     .out = {out},
                     .class_of = BP_RECOMPUTE_ACTIVATION,
                     .activation = plain_of(act)};
}

void bp_hidden_act_forward(bp_builder *builder, uint32_t act, uint64_t count, bp_ref x, bp_ref y)
{
    if (!is_tanh(act)) {
        bp_activate(builder, plain_of(act), count, x, y);
        return;
    }
    const bp_gelu_forward_scalars scalars = {.count = (int64_t)count};
    const bp_gelu_forward_operands operands = {.y = y, .x = x};
    bp_build_gelu_forward(builder, &operands, &scalars);
}

void bp_hidden_act_backward(bp_builder *builder, uint32_t act, uint64_t count, bp_ref x, bp_ref d_y,
                            bp_ref d_x)
{
    if (!is_tanh(act)) {
        bp_activate_backward(builder, plain_of(act), count, x, d_y, d_x);
        return;
    }
    const bp_gelu_backward_scalars scalars = {.count = (int64_t)count};
    const bp_gelu_backward_operands operands = {.d_x = d_x, .d_y = d_y, .x = x};
    bp_build_gelu_backward(builder, &operands, &scalars);
}
