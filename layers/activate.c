/* SPDX-License-Identifier: MIT */
/* Activations as ops. */
#include "layers/activate.h"

void bp_activate(bp_emit *emit, bp_activation kind, uint64_t count, bp_ref x, bp_ref y)
{
    const bp_activation_forward_scalars scalars = {.count = (int64_t)count, .kind = kind};
    const bp_activation_forward_operands operands = {.y = y, .x = x};
    bp_emit_activation_forward(emit, &operands, &scalars);
}

void bp_activate_backward(bp_emit *emit, bp_activation kind, uint64_t count, bp_ref x, bp_ref d_y,
                          bp_ref d_x)
{
    const bp_activation_backward_scalars scalars = {.count = (int64_t)count, .kind = kind};
    const bp_activation_backward_operands operands = {.d_x = d_x, .d_y = d_y, .x = x};
    bp_emit_activation_backward(emit, &operands, &scalars);
}
