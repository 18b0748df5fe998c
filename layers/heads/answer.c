/* SPDX-License-Identifier: MIT */
/* Where answers begin and end, as ops. */
#include "layers/heads/answer.h"

#include "layers/heads/loss.h"

enum { ENDS = 2 };

/* Where the parameters' gradients go; absent: they are frozen. */
typedef struct answer_gradients {
    bp_ref weight, bias;
    int64_t weight_accumulates, bias_accumulates;
} answer_gradients;

/* logits (rows) = x (rows, width) . weight[end] + bias[end]: one column, whose samples lie one
 * after the other, so that each is a row of a softmax. */
static void answer_column(bp_builder *builder, const bp_answer *head, uint64_t end, bp_ref x,
                          bp_ref logits)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)builder->rows,
                                       .n = 1,
                                       .k = (int64_t)head->width,
                                       .lda = (int64_t)head->width,
                                       .ldb = (int64_t)head->width,
                                       .ldc = 1,
                                       .transpose_b = 1};
    const bp_ref weight = bp_build_acquire(builder, head->weight, BP_FOR_FORWARD);
    const bp_ref bias = bp_build_acquire(builder, head->bias, BP_FOR_FORWARD);
    const bp_matmul_operands operands = {.c = logits,
                                         .before = BP_ABSENT,
                                         .a = x,
                                         .b = bp_ref_at(weight, end * head->width),
                                         .bias = bp_ref_at(bias, end),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_build_matmul(builder, &operands, &scalars);
    bp_build_release(builder, head->bias);
    bp_build_release(builder, head->weight);
}

/* The loss of each sample, whose classes are its places. */
static void answer_loss(bp_builder *builder, uint64_t end, bp_ref logits, bool gradient)
{
    const bp_sample_loss_scalars scalars = {.batch = builder->spec->batch,
                                            .sequence = builder->spec->sequence,
                                            .classes = builder->spec->sequence,
                                            .kind = BP_TASK_CLASSES,
                                            .gradient = gradient,
                                            .scaled = builder->spec->scaling.kind != BP_SCALING_OFF,
                                            .smoothing = builder->spec->smoothing};
    const bp_sample_loss_operands operands = {
        .logits = logits,
        .losses = builder->losses,
        .labels = builder->input[end == 0 ? BP_INPUT_LABELS : BP_INPUT_ENDS],
        .lengths = builder->input[BP_INPUT_LENGTHS],
        .step = builder->step,
        .control = bp_build_loss_control(builder)};
    bp_build_sample_loss(builder, &operands, &scalars);
    bp_loss_sum(builder);
}

void bp_answer_forward(bp_builder *builder, const bp_answer *head, bp_ref x)
{
    const bool kept = bp_ref_present(builder->logits);
    const bp_ref logits =
        kept ? builder->logits
             : bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), ENDS,
                               builder->rows, "logits");
    for (uint64_t end = 0; end < ENDS; end++) {
        const bp_ref column = bp_ref_at(logits, end * builder->rows);
        answer_column(builder, head, end, x, column);
        answer_loss(builder, end, column, false);
    }
}

/* d_weight[end] (+)= d_logits^T x, d_bias[end] (+)= the sum of d_logits. */
static void answer_parameters(bp_builder *builder, const bp_answer *head, uint64_t end, bp_ref x,
                              bp_ref d_logits, const answer_gradients *to)
{
    const bp_matmul_scalars scalars = {.m = 1,
                                       .n = (int64_t)head->width,
                                       .k = (int64_t)builder->rows,
                                       .lda = 1,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)head->width,
                                       .transpose_a = 1,
                                       .accumulate = to->weight_accumulates};
    const bp_matmul_operands operands = {.c = bp_ref_at(to->weight, end * head->width),
                                         .before = BP_ABSENT,
                                         .a = d_logits,
                                         .b = x,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    const bp_bias_backward_scalars sum = {
        .rows = (int64_t)builder->rows, .n = 1, .pitch = 1, .accumulate = to->bias_accumulates};
    const bp_bias_backward_operands summed = {.d_bias = bp_ref_at(to->bias, end), .d_y = d_logits};
    if (bp_ref_present(to->weight)) {
        bp_build_matmul(builder, &operands, &scalars);
    }
    if (bp_ref_present(to->bias)) {
        bp_build_bias_backward(builder, &summed, &sum);
    }
}

/* d_x (rows, width) (+)= d_logits weight[end]. */
static void answer_input(bp_builder *builder, const bp_answer *head, uint64_t end, bp_ref d_logits,
                         bp_ref d_x)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)builder->rows,
                                       .n = (int64_t)head->width,
                                       .k = 1,
                                       .lda = 1,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)head->width,
                                       .accumulate = end > 0 ? 1 : 0};
    const bp_ref weight = bp_build_acquire(builder, head->weight, BP_FOR_BACKWARD);
    const bp_matmul_operands operands = {.c = d_x,
                                         .before = BP_ABSENT,
                                         .a = d_logits,
                                         .b = bp_ref_at(weight, end * head->width),
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_build_matmul(builder, &operands, &scalars);
    bp_build_release(builder, head->weight);
}

void bp_answer_backward(bp_builder *builder, const bp_answer *head, bp_ref x, bp_ref d_x)
{
    const bp_ref logits = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                          ENDS, builder->rows, "logits");
    answer_gradients to = {.weight = BP_ABSENT, .bias = BP_ABSENT};
    if (bp_build_trainable(builder, head->weight)) {
        to.weight = bp_build_gradient(builder, head->weight, &to.weight_accumulates);
    }
    if (bp_build_trainable(builder, head->bias)) {
        to.bias = bp_build_gradient(builder, head->bias, &to.bias_accumulates);
    }
    for (uint64_t end = 0; end < ENDS; end++) {
        const bp_ref column = bp_ref_at(logits, end * builder->rows);
        answer_column(builder, head, end, x, column);
        answer_loss(builder, end, column, true);
        answer_parameters(builder, head, end, x, column, &to);
        if (bp_ref_present(d_x)) {
            answer_input(builder, head, end, column, d_x);
        }
    }
}
