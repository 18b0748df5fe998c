/* SPDX-License-Identifier: MIT */
/* Dense layers as matrix products; bias, GELU and the residual ride in the product's epilogue. */
#include "layers/linear.h"

static void emit_forward(bp_emit *emit, const bp_linear *layer, const bp_matmul_operands *operands,
                         int64_t gelu)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)emit->rows,
                                       .n = (int64_t)layer->out,
                                       .k = (int64_t)layer->in,
                                       .lda = (int64_t)layer->in,
                                       .ldb = (int64_t)layer->out,
                                       .ldc = (int64_t)layer->out,
                                       .gelu = gelu};
    bp_emit_matmul(emit, operands, &scalars);
}

void bp_linear_forward(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref residual, bp_ref y)
{
    const bp_matmul_operands operands = {.c = y,
                                         .before = BP_ABSENT,
                                         .a = x,
                                         .b = bp_emit_weight(emit, layer->weight),
                                         .bias = bp_emit_weight(emit, layer->bias),
                                         .residual = residual,
                                         .work = BP_ABSENT};
    emit_forward(emit, layer, &operands, 0);
}

void bp_linear_forward_gelu(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref before,
                            bp_ref y)
{
    const bp_matmul_operands operands = {.c = y,
                                         .before = before,
                                         .a = x,
                                         .b = bp_emit_weight(emit, layer->weight),
                                         .bias = bp_emit_weight(emit, layer->bias),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_forward(emit, layer, &operands, 1);
}

static void backward_bias(bp_emit *emit, const bp_linear *layer, bp_ref d_y)
{
    bp_bias_backward_scalars bias = {
        .rows = (int64_t)emit->rows, .n = (int64_t)layer->out, .pitch = (int64_t)layer->out};
    const bp_bias_backward_operands bias_operands = {
        .d_bias = bp_emit_gradient(emit, layer->bias, &bias.accumulate), .d_y = d_y};
    bp_emit_bias_backward(emit, &bias_operands, &bias);
}

static void backward_weight(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    bp_matmul_scalars scalars = {.m = (int64_t)layer->in,
                                 .n = (int64_t)layer->out,
                                 .k = (int64_t)emit->rows,
                                 .lda = (int64_t)layer->in,
                                 .ldb = (int64_t)layer->out,
                                 .ldc = (int64_t)layer->out,
                                 .transpose_a = 1};
    const bp_matmul_operands operands = {
        .c = bp_emit_gradient(emit, layer->weight, &scalars.accumulate),
        .before = BP_ABSENT,
        .a = x,
        .b = d_y,
        .bias = BP_ABSENT,
        .residual = BP_ABSENT,
        .work = BP_ABSENT};
    bp_emit_matmul(emit, &operands, &scalars);
}

void bp_linear_backward_parameters(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    if (bp_emit_trainable(emit, layer->weight)) {
        backward_weight(emit, layer, x, d_y);
    }
    if (bp_emit_trainable(emit, layer->bias)) {
        backward_bias(emit, layer, d_y);
    }
}

void bp_linear_backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref d_x)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)emit->rows,
                                       .n = (int64_t)layer->in,
                                       .k = (int64_t)layer->out,
                                       .lda = (int64_t)layer->out,
                                       .ldb = (int64_t)layer->out,
                                       .ldc = (int64_t)layer->in,
                                       .transpose_b = 1};
    const bp_matmul_operands operands = {.c = d_x,
                                         .before = BP_ABSENT,
                                         .a = d_y,
                                         .b = bp_emit_weight(emit, layer->weight),
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_emit_matmul(emit, &operands, &scalars);
}
