/* SPDX-License-Identifier: MIT */
/* Launches of kernels that take elements or rows one by one. */
#include "device/cuda/plan.h"

#define RUN_THREADS       256 /* of an elementwise block, four elements each */
#define RUN_ELEMENTS      1024
#define EMBEDDING_THREADS 128 /* of an embedding block, four columns each */
#define EMBEDDING_COLUMNS 512
#define ROWS_PER_BLOCK    16 /* of layer normalisation along rows, in 256 threads */
#define COLUMNS           8  /* of a reduction over rows */
#define FEW_ROWS          1024
#define WIDE_VOCABULARY   4096

static bool plan_gelu(bp_cuda_plan *plan)
{
    bool forward = plan->op->kernel == BP_KERNEL_gelu_forward;
    int64_t count = *(const int64_t *)plan->op->scalars;
    uint32_t function = forward ? BP_CUDA_FUNCTION_gelu_forward : BP_CUDA_FUNCTION_gelu_backward;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, function, bp_cuda_cut(count, RUN_ELEMENTS),
                      1, RUN_THREADS)) {
        bp_cuda_operand(plan, 0, BP_ACCESS_WRITE);
        bp_cuda_operand(plan, 1, BP_ACCESS_READ);
        if (!forward) {
            bp_cuda_operand(plan, 2, BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)count);
        bp_cuda_word32(plan, bp_cuda_width(plan, 7, 0));
    }
    return true;
}

static bool plan_scale(bp_cuda_plan *plan)
{
    const bp_scale_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_scale,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, scale, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, scale, x, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_single(plan, (float)s->factor);
        bp_cuda_word32(plan, bp_cuda_width(plan, 3, 0));
    }
    return true;
}

static bool plan_copy(bp_cuda_plan *plan)
{
    const bp_copy_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_copy,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, copy, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, copy, x, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, bp_cuda_width(plan, 3, 0));
    }
    return true;
}

static bool plan_pick_row(bp_cuda_plan *plan)
{
    const bp_pick_row_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_pick_row,
                      bp_cuda_cut(s->width, RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, pick_row, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, pick_row, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, pick_row, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

static bool plan_dropout(bp_cuda_plan *plan)
{
    const bp_dropout_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_dropout,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, dropout, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, dropout, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, dropout, residual, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, dropout, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word64(plan, (uint64_t)s->per_sample);
        bp_cuda_dropout(plan, s->site, s->dropout);
        bp_cuda_word64(plan, (uint64_t)s->first);
        bp_cuda_word32(plan, bp_cuda_width(plan, 7, 0));
    }
    return true;
}

static bool plan_normal(bp_cuda_plan *plan)
{
    const bp_random_normal_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_random, BP_CUDA_FUNCTION_random_normal,
                      bp_cuda_cut(s->count, 2 * RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, random_normal, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, random_normal, master, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, random_normal, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, random_normal, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, (uint32_t)s->stream);
        bp_cuda_double(plan, s->deviation);
        bp_cuda_word64(plan, (uint64_t)s->interval);
        bp_cuda_word32(plan, (uint32_t)s->form);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

bool bp_cuda_plan_elementwise(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_copy:
        return plan_copy(plan);
    case BP_KERNEL_scale:
        return plan_scale(plan);
    case BP_KERNEL_pick_row:
        return plan_pick_row(plan);
    case BP_KERNEL_dropout:
        return plan_dropout(plan);
    case BP_KERNEL_random_normal:
        return plan_normal(plan);
    default:
        return plan_gelu(plan);
    }
}

static bool plan_token_backward(bp_cuda_plan *plan)
{
    const bp_embedding_token_backward_scalars *s = plan->op->scalars;
    uint64_t count = (uint64_t)s->vocabulary * (uint64_t)s->width;
    uint32_t sum = BP_CUDA_POSITION(embedding_token_backward, d_wte);
    uint32_t d_wte = BP_CUDA_BIT(embedding_token_backward, d_wte);
    uint32_t d_out = BP_CUDA_BIT(embedding_token_backward, d_out);
    if (s->accumulate == 0 &&
        bp_cuda_begin(plan, BP_CUDA_FAMILY_embedding, BP_CUDA_FUNCTION_embedding_clear,
                      bp_cuda_cut((int64_t)count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, embedding_token_backward, d_wte, BP_ACCESS_WRITE);
        bp_cuda_word64(plan, count);
        bp_cuda_word32(plan, bp_cuda_width_of(plan, sum, d_wte, 0));
    }
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_embedding, BP_CUDA_FUNCTION_embedding_token_backward,
                      (uint64_t)s->rows, bp_cuda_cut(s->width, EMBEDDING_COLUMNS),
                      EMBEDDING_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, embedding_token_backward, d_wte, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, embedding_token_backward, ids, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_token_backward, d_out, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_token_backward, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->first);
        bp_cuda_word64(plan, (uint64_t)s->vocabulary);
        bp_cuda_dropout(plan, s->site, s->dropout);
        bp_cuda_word32(plan, bp_cuda_width(plan, d_out, (uint64_t)s->width));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, sum, d_wte, (uint64_t)s->width));
    }
    return true;
}

static bool plan_position_backward(bp_cuda_plan *plan)
{
    const bp_embedding_position_backward_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_embedding, BP_CUDA_FUNCTION_embedding_position_backward,
                      (uint64_t)s->positions, bp_cuda_cut(s->width, EMBEDDING_COLUMNS),
                      EMBEDDING_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, embedding_position_backward, d_wpe,
                           s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, embedding_position_backward, d_out, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_position_backward, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->positions);
        bp_cuda_word32(plan, (uint32_t)s->site);
        bp_cuda_word32(plan, s->accumulate != 0);
        bp_cuda_word32(plan, bp_dropout_threshold(s->dropout));
        bp_cuda_single(plan, (float)(1.0 / (1.0 - s->dropout)));
        bp_cuda_word32(plan, bp_cuda_width(plan, 2, (uint64_t)s->width));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, 0, 1, (uint64_t)s->width));
    }
    return true;
}

static bool plan_embedding_forward(bp_cuda_plan *plan)
{
    const bp_embedding_forward_scalars *s = plan->op->scalars;
    uint32_t floats = BP_CUDA_BIT(embedding_forward, out) | BP_CUDA_BIT(embedding_forward, wte) |
                      BP_CUDA_BIT(embedding_forward, wpe) |
                      BP_CUDA_BIT(embedding_forward, type_row);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_embedding, BP_CUDA_FUNCTION_embedding_forward,
                      (uint64_t)s->rows, bp_cuda_cut(s->width, EMBEDDING_COLUMNS),
                      EMBEDDING_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, embedding_forward, out, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, embedding_forward, ids, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_forward, wte, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_forward, wpe, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_forward, type_row, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, embedding_forward, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->positions);
        bp_cuda_word32(plan, (uint32_t)s->site);
        bp_cuda_word32(plan, s->decode != 0);
        bp_cuda_word32(plan, bp_dropout_threshold(s->dropout));
        bp_cuda_single(plan, (float)(1.0 / (1.0 - s->dropout)));
        bp_cuda_single(plan, (float)(s->noise * 0x1p-31));
        bp_cuda_word32(plan, bp_cuda_width(plan, floats, (uint64_t)s->width));
    }
    return true;
}

bool bp_cuda_plan_embedding(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_embedding_forward:
        return plan_embedding_forward(plan);
    case BP_KERNEL_embedding_token_backward:
        return plan_token_backward(plan);
    default:
        return plan_position_backward(plan);
    }
}

static bool plan_layernorm_forward(bp_cuda_plan *plan)
{
    const bp_layernorm_forward_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_layernorm, BP_CUDA_FUNCTION_layernorm_forward,
                      bp_cuda_cut(s->rows, ROWS_PER_BLOCK), 1, RUN_THREADS)) {
        for (uint32_t i = 0; i < 6; i++) {
            bp_cuda_operand(plan, i, i < 3 ? BP_ACCESS_WRITE : BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_single(plan, (float)s->epsilon);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

static bool plan_layernorm_input(bp_cuda_plan *plan)
{
    const bp_layernorm_backward_input_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_layernorm, BP_CUDA_FUNCTION_layernorm_backward_input,
                      bp_cuda_cut(s->rows, ROWS_PER_BLOCK), 1, RUN_THREADS)) {
        for (uint32_t i = 0; i < 7; i++) {
            bp_cuda_operand(plan, i, i < 1 ? BP_ACCESS_WRITE : BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

/* Begins a reduction over `rows` rows: 8 columns per block, and more groups of rows for many rows.
 */
static bool begin_columns(bp_cuda_plan *plan, uint32_t function, int64_t rows, int64_t width)
{
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_layernorm, function, bp_cuda_cut(width, COLUMNS), 1,
                       COLUMNS)) {
        return false;
    }
    plan->launch[plan->count - 1].block[1] = rows <= FEW_ROWS ? 32 : 128;
    return true;
}

static bool plan_layernorm_parameters(bp_cuda_plan *plan)
{
    const bp_layernorm_backward_parameters_scalars *s = plan->op->scalars;
    bp_access access = s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE;
    if (begin_columns(plan, BP_CUDA_FUNCTION_layernorm_backward_parameters, s->rows, s->width)) {
        for (uint32_t i = 0; i < 6; i++) {
            bp_cuda_operand(plan, i, i < 2 ? access : BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, s->accumulate != 0);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, 0, 0, 0));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, 1, 0, 0));
    }
    return true;
}

static bool plan_bias(bp_cuda_plan *plan)
{
    const bp_bias_backward_scalars *s = plan->op->scalars;
    if (begin_columns(plan, BP_CUDA_FUNCTION_bias_backward, s->rows, s->n)) {
        BP_CUDA_OPERAND_OF(plan, bias_backward, d_bias,
                           s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, bias_backward, d_y, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->n);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word32(plan, s->accumulate != 0);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, 0, 0, 0));
    }
    return true;
}

bool bp_cuda_plan_layernorm(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_layernorm_forward:
        return plan_layernorm_forward(plan);
    case BP_KERNEL_layernorm_backward_input:
        return plan_layernorm_input(plan);
    case BP_KERNEL_layernorm_backward_parameters:
        return plan_layernorm_parameters(plan);
    default:
        return plan_bias(plan);
    }
}

static uint32_t loss_threads(int64_t columns)
{
    return columns <= WIDE_VOCABULARY ? 256 : 1024;
}

bool bp_cuda_plan_loss_columns(bp_cuda_plan *plan)
{
    const bp_cross_entropy_columns_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_loss, BP_CUDA_FUNCTION_cross_entropy_columns,
                      (uint64_t)s->rows, 1, loss_threads(s->columns))) {
        BP_CUDA_OPERAND_OF(plan, cross_entropy_columns, logits, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, cross_entropy_columns, labels, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, cross_entropy_columns, statistics, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, cross_entropy_columns, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, cross_entropy_columns, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->stride);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->columns);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word64(plan, (uint64_t)s->first);
        bp_cuda_word64(plan, (uint64_t)s->vocabulary);
        bp_cuda_word32(plan, s->scaled != 0);
        bp_cuda_double(plan, s->smoothing);
        uint32_t logits = BP_CUDA_BIT(cross_entropy_columns, logits);
        bp_cuda_word32(plan, bp_cuda_width(plan, logits, (uint64_t)s->pitch));
    }
    return true;
}

bool bp_cuda_plan_loss(bp_cuda_plan *plan)
{
    /* both rows begin with the same scalars */
    const bp_cross_entropy_scalars *s = plan->op->scalars;
    const bp_cross_entropy_forward_scalars *forward = plan->op->scalars;
    bool gradient = plan->op->kernel == BP_KERNEL_cross_entropy;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_loss, BP_CUDA_FUNCTION_cross_entropy, (uint64_t)s->rows,
                      1, loss_threads(s->vocabulary))) {
        BP_CUDA_OPERAND_OF(plan, cross_entropy, logits,
                           gradient ? BP_ACCESS_READ_WRITE : BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, cross_entropy, losses, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, cross_entropy, labels, BP_ACCESS_READ);
        if (gradient) {
            BP_CUDA_OPERAND_OF(plan, cross_entropy, step, BP_ACCESS_READ);
            BP_CUDA_OPERAND_OF(plan, cross_entropy, control, BP_ACCESS_READ);
            BP_CUDA_OPERAND_OF(plan, cross_entropy, statistics, BP_ACCESS_WRITE);
            bp_cuda_word64(plan, (uint64_t)s->stride);
        } else {
            bp_cuda_word64(plan, 0);
            bp_cuda_word64(plan, 0);
            bp_cuda_word64(plan, 0);
            bp_cuda_word64(plan, 0);
        }
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->vocabulary);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word32(plan, gradient);
        bp_cuda_word32(plan, gradient && s->scaled != 0);
        bp_cuda_double(plan, gradient ? s->smoothing : forward->smoothing);
        uint32_t logits = BP_CUDA_BIT(cross_entropy, logits);
        bp_cuda_word32(plan, bp_cuda_width(plan, logits, (uint64_t)s->pitch));
    }
    return true;
}
