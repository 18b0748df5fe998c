/* SPDX-License-Identifier: MIT */
/* Launches of what a teacher says, and of the loss against it: a block for each row. */
#include "device/cuda/plan.h"
#include "device/cuda/kernels/parameters.h"

#define ROW_THREADS  256 /* at least BP_DISTILL_MOST: each has one of the teacher's tokens */
#define WIDE_THREADS 1024
#define WIDE_ROW     4096

static uint32_t row_threads(int64_t columns)
{
    return columns <= WIDE_ROW ? ROW_THREADS : WIDE_THREADS;
}

static bool plan_top_logits(bp_cuda_plan *plan)
{
    const bp_top_logits_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_distill, BP_CUDA_FUNCTION_top_logits, (uint64_t)s->rows,
                      1, row_threads(s->vocabulary))) {
        BP_CUDA_OPERAND_OF(plan, top_logits, logits, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, top_logits, tops, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, top_logits, logps, BP_ACCESS_WRITE);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->vocabulary);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word64(plan, (uint64_t)s->k);
        bp_cuda_word32(plan,
                       bp_cuda_width(plan, BP_CUDA_BIT(top_logits, logits), (uint64_t)s->pitch));
    }
    return true;
}

/* What both rows have behind their operands. */
static void plan_numbers(bp_cuda_plan *plan, const bp_distill_columns_scalars *s, bool part)
{
    const bp_distill_parameters p = {
        .stride = (uint64_t)s->stride,
        .rows = (uint64_t)s->rows,
        .columns = (uint64_t)s->columns,
        .pitch = (uint64_t)s->pitch,
        .first = (uint64_t)s->first,
        .k = (uint64_t)s->k,
        .alpha = s->alpha,
        .temperature = s->temperature,
        .part = part,
        .scaled = s->scaled != 0,
        .form = bp_cuda_width(plan, BP_CUDA_BIT(distill, logits), (uint64_t)s->pitch)};
    bp_cuda_value_of(plan, &p, sizeof p, sizeof(uint64_t));
}

static bool plan_distill_columns(bp_cuda_plan *plan)
{
    const bp_distill_columns_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_distill, BP_CUDA_FUNCTION_distill, (uint64_t)s->rows, 1,
                      row_threads(s->columns))) {
        BP_CUDA_OPERAND_OF(plan, distill_columns, logits, BP_ACCESS_READ_WRITE);
        bp_cuda_word64(plan, 0);
        BP_CUDA_OPERAND_OF(plan, distill_columns, labels, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill_columns, tops, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill_columns, logps, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill_columns, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill_columns, control, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill_columns, statistics, BP_ACCESS_READ);
        plan_numbers(plan, s, true);
    }
    return true;
}

static bool plan_distill_whole(bp_cuda_plan *plan)
{
    const bp_distill_scalars *s = plan->op->scalars;
    const bp_distill_columns_scalars all = {.rows = s->rows,
                                            .columns = s->vocabulary,
                                            .pitch = s->pitch,
                                            .scaled = s->scaled,
                                            .stride = s->stride,
                                            .k = s->k,
                                            .alpha = s->alpha,
                                            .temperature = s->temperature};
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_distill, BP_CUDA_FUNCTION_distill, (uint64_t)s->rows, 1,
                      row_threads(s->vocabulary))) {
        BP_CUDA_OPERAND_OF(plan, distill, logits, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, distill, losses, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, distill, labels, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill, tops, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill, logps, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill, control, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, distill, statistics, BP_ACCESS_WRITE);
        plan_numbers(plan, &all, false);
    }
    return true;
}

bool bp_cuda_plan_distill(bp_cuda_plan *plan)
{
    return plan->op->kernel == BP_KERNEL_top_logits        ? plan_top_logits(plan)
           : plan->op->kernel == BP_KERNEL_distill_columns ? plan_distill_columns(plan)
                                                           : plan_distill_whole(plan);
}
