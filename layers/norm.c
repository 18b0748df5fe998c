/* SPDX-License-Identifier: MIT */
/* Layer normalisation as ops. */
#include "layers/norm.h"

static bp_ref second_row(bp_ref statistics, uint64_t rows)
{
    return bp_ref_present(statistics) ? bp_ref_at(statistics, rows) : statistics;
}

void bp_norm_forward(bp_emit *emit, const bp_norm *norm, uint64_t rows, bp_ref x, bp_ref y,
                     bp_ref statistics)
{
    const bp_layernorm_forward_scalars scalars = {
        .rows = (int64_t)rows, .width = (int64_t)norm->width, .epsilon = norm->epsilon};
    const bp_layernorm_forward_operands operands = {.y = y,
                                                    .mean = statistics,
                                                    .rstd = second_row(statistics, rows),
                                                    .x = x,
                                                    .weight = bp_emit_weight(emit, norm->weight),
                                                    .bias = bp_emit_weight(emit, norm->bias)};
    bp_emit_layernorm_forward(emit, &operands, &scalars);
}

/* One op writes both gradients, so a frozen one of the two is formed too and then left alone. */
static void backward_parameters(bp_emit *emit, const bp_norm *norm,
                                const bp_norm_backward_call *call, bp_ref rstd)
{
    bp_layernorm_backward_parameters_scalars scalars = {.rows = (int64_t)emit->rows,
                                                        .width = (int64_t)norm->width};
    /* Both gradients are written by this one op, so one flag holds for both. */
    const bp_layernorm_backward_parameters_operands operands = {
        .d_weight = bp_emit_gradient(emit, norm->weight, &scalars.accumulate),
        .d_bias = bp_emit_gradient(emit, norm->bias, &scalars.accumulate),
        .d_y = call->d_y,
        .x = call->x,
        .mean = call->statistics,
        .rstd = rstd};
    bp_emit_layernorm_backward_parameters(emit, &operands, &scalars);
}

static void backward_input(bp_emit *emit, const bp_norm *norm, const bp_norm_backward_call *call,
                           bp_ref rstd)
{
    const bp_layernorm_backward_input_scalars input = {.rows = (int64_t)emit->rows,
                                                       .width = (int64_t)norm->width};
    const bp_layernorm_backward_input_operands input_operands = {
        .d_x = call->d_y,
        .d_y = call->d_y,
        .x = call->x,
        .weight = bp_emit_weight(emit, norm->weight),
        .mean = call->statistics,
        .rstd = rstd,
        .residual = call->residual};
    bp_emit_layernorm_backward_input(emit, &input_operands, &input);
}

void bp_norm_backward(bp_emit *emit, const bp_norm *norm, const bp_norm_backward_call *call)
{
    const bp_ref rstd = second_row(call->statistics, emit->rows);
    if (bp_emit_trainable(emit, norm->weight) || bp_emit_trainable(emit, norm->bias)) {
        backward_parameters(emit, norm, call, rstd);
    }
    if (call->input_wanted) {
        backward_input(emit, norm, call, rstd);
    }
}
