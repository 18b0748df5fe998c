/* SPDX-License-Identifier: MIT */
/* Launches of recurrent cells, and of what goes on from one piece of time to the next. */
#include "device/cuda/plan.h"

#define RUN_THREADS 256 /* of a block, an element each */

/* Every operand in the row's order, used as the row says. */
static void add_operands(bp_cuda_plan *plan)
{
    const bp_kernel_info *info = bp_kernel_describe(plan->op->kernel);
    bp_extent extents[BP_OPERANDS_MAX];
    info->extents(plan->op->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        bp_cuda_operand(plan, i, extents[i].access);
    }
}

static void plan_begin(bp_cuda_plan *plan)
{
    const bp_state_begin_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_cells, BP_CUDA_FUNCTION_state_begin,
                      bp_cuda_cut(s->count, RUN_THREADS), 1, RUN_THREADS)) {
        add_operands(plan);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, s->decode != 0);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
}

static void plan_slice(bp_cuda_plan *plan)
{
    const bp_time_slice_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_cells, BP_CUDA_FUNCTION_time_slice,
                      bp_cuda_cut(s->batch * s->length, RUN_THREADS), 1, RUN_THREADS)) {
        add_operands(plan);
        bp_cuda_word64(plan, (uint64_t)s->batch);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->length);
    }
}

/* The four rows of cells have the same scalars. */
static void plan_step(bp_cuda_plan *plan, uint32_t function)
{
    const bp_gru_forward_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_cells, function,
                      bp_cuda_cut(s->rows * s->width, RUN_THREADS), 1, RUN_THREADS)) {
        add_operands(plan);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
}

bool bp_cuda_plan_cells(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_state_begin:
        plan_begin(plan);
        break;
    case BP_KERNEL_time_slice:
        plan_slice(plan);
        break;
    case BP_KERNEL_gru_forward:
        plan_step(plan, BP_CUDA_FUNCTION_gru_forward);
        break;
    case BP_KERNEL_gru_backward:
        plan_step(plan, BP_CUDA_FUNCTION_gru_backward);
        break;
    case BP_KERNEL_lstm_forward:
        plan_step(plan, BP_CUDA_FUNCTION_lstm_forward);
        break;
    default:
        plan_step(plan, BP_CUDA_FUNCTION_lstm_backward);
        break;
    }
    return true;
}
