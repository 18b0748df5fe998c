/* SPDX-License-Identifier: MIT */
/* Root-mean-square normalisation as ops. */
#include "layers/rmsnorm.h"

void bp_rmsnorm_forward(bp_emit *emit, const bp_rmsnorm *norm, uint64_t rows, bp_ref x, bp_ref y,
                        bp_ref rstd)
{
    const bp_rmsnorm_forward_scalars scalars = {
        .rows = (int64_t)rows, .width = (int64_t)norm->width, .epsilon = norm->epsilon};
    const bp_rmsnorm_forward_operands operands = {
        .y = y, .rstd = rstd, .x = x, .weight = bp_emit_weight(emit, norm->weight)};
    bp_emit_rmsnorm_forward(emit, &operands, &scalars);
}

static void backward_weight(bp_emit *emit, const bp_rmsnorm *norm,
                            const bp_rmsnorm_backward_call *call)
{
    bp_rmsnorm_backward_weight_scalars scalars = {.rows = (int64_t)emit->rows,
                                                  .width = (int64_t)norm->width};
    const bp_rmsnorm_backward_weight_operands operands = {
        .d_weight = bp_emit_gradient(emit, norm->weight, &scalars.accumulate),
        .d_y = call->d_y,
        .x = call->x,
        .rstd = call->rstd};
    bp_emit_rmsnorm_backward_weight(emit, &operands, &scalars);
}

void bp_rmsnorm_backward(bp_emit *emit, const bp_rmsnorm *norm,
                         const bp_rmsnorm_backward_call *call)
{
    if (bp_emit_trainable(emit, norm->weight)) {
        backward_weight(emit, norm, call);
    }
    if (!call->input_wanted) {
        return;
    }
    const bp_rmsnorm_backward_input_scalars scalars = {.rows = (int64_t)emit->rows,
                                                       .width = (int64_t)norm->width};
    const bp_rmsnorm_backward_input_operands operands = {.d_x = call->d_y,
                                                         .d_y = call->d_y,
                                                         .x = call->x,
                                                         .weight =
                                                             bp_emit_weight(emit, norm->weight),
                                                         .rstd = call->rstd,
                                                         .residual = call->residual};
    bp_emit_rmsnorm_backward_input(emit, &operands, &scalars);
}
