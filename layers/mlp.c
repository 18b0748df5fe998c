/* SPDX-License-Identifier: MIT */
/* The feed-forward sublayer as ops; its forward is bp_linear_forward_gelu and bp_residual_forward.
 */
#include "layers/mlp.h"

void bp_mlp_activate(bp_emit *emit, const bp_mlp *mlp, bp_ref before, bp_ref active)
{
    const bp_gelu_forward_scalars scalars = {.count = (int64_t)(emit->rows * mlp->up.out)};
    const bp_gelu_forward_operands operands = {.y = active, .x = before};
    bp_emit_gelu_forward(emit, &operands, &scalars);
}

bp_ref bp_mlp_backward_down(bp_emit *emit, const bp_mlp *mlp, bp_ref before, bp_ref active,
                            bp_ref d_out)
{
    bp_ref d_active = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                     mlp->up.out, "d_gelu");
    bp_residual_backward(emit, &mlp->down, active, d_out, d_active);
    const bp_gelu_backward_scalars scalars = {.count = (int64_t)(emit->rows * mlp->up.out)};
    const bp_gelu_backward_operands operands = {.d_x = d_active, .d_y = d_active, .x = before};
    bp_emit_gelu_backward(emit, &operands, &scalars);
    return d_active;
}

bp_ref bp_mlp_backward_up(bp_emit *emit, const bp_mlp *mlp, bp_ref x, bp_ref d_before)
{
    bp_linear_backward_parameters(emit, &mlp->up, x, d_before);
    bp_ref d_x = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                mlp->up.in, "d_ln_2");
    bp_linear_backward_input(emit, &mlp->up, d_before, d_x);
    return d_x;
}
