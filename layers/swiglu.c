/* SPDX-License-Identifier: MIT */
/* The gated feed-forward sublayer as ops. */
#include "layers/swiglu.h"

void bp_swiglu_activate(bp_emit *emit, const bp_swiglu *mlp, bp_ref gate, bp_ref up, bp_ref active)
{
    const bp_swiglu_forward_scalars scalars = {.count = (int64_t)(emit->rows * mlp->up.out)};
    const bp_swiglu_forward_operands operands = {.y = active, .gate = gate, .up = up};
    bp_emit_swiglu_forward(emit, &operands, &scalars);
}

void bp_swiglu_backward_down(bp_emit *emit, const bp_swiglu *mlp, bp_swiglu_backward_call *call)
{
    const bp_dtype dtype = bp_emit_working(emit);
    const uint64_t inner = mlp->up.out;
    call->d_gate = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype, emit->rows, inner, "d_swiglu");
    bp_residual_backward(emit, &mlp->down, call->active, call->d_out, call->d_gate);
    call->d_up = call->up_spare
                     ? call->up
                     : bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype, emit->rows, inner, "d_up");
    const bp_swiglu_backward_scalars scalars = {.count = (int64_t)(emit->rows * inner)};
    const bp_swiglu_backward_operands operands = {.d_gate = call->d_gate,
                                                  .d_up = call->d_up,
                                                  .d_y = call->d_gate,
                                                  .gate = call->gate,
                                                  .up = call->up};
    bp_emit_swiglu_backward(emit, &operands, &scalars);
}

bp_ref bp_swiglu_backward_up(bp_emit *emit, const bp_swiglu *mlp, bp_ref x,
                             const bp_swiglu_backward_call *call)
{
    bp_linear_backward_parameters(emit, &mlp->gate, x, call->d_gate);
    bp_linear_backward_parameters(emit, &mlp->up, x, call->d_up);
    const bp_ref d_x = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                      mlp->up.in, "d_norm");
    bp_linear_backward_input(emit, &mlp->gate, call->d_gate, d_x);
    bp_linear_backward_input_add(emit, &mlp->up, call->d_up, d_x);
    return d_x;
}
