/* SPDX-License-Identifier: MIT */
/* Launches of magnitude.cu. */
#include "device/cuda/plan.h"

#define NORM_THREADS 256 /* a warp has a row */
#define ROW_THREADS  256
#define COLUMNS      8
#define GROUPS       128 /* of rows, where there are many */
#define FEW_GROUPS   32
#define FEW_ROWS     256
#define RUN_THREADS  256

static bool plan_norms(bp_cuda_plan *plan)
{
    const bp_weight_norms_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_magnitude, BP_CUDA_FUNCTION_weight_norms,
                      bp_cuda_cut(s->rows, NORM_THREADS / 32), 1, NORM_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, weight_norms, norms, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, weight_norms, weight, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, weight_norms, codes, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, weight_norms, scales, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, weight_norms, nested, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, weight_norms, a, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, weight_norms, b, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->columns);
        bp_cuda_word64(plan, (uint64_t)s->rank);
        bp_cuda_single(plan, (float)s->factor);
        bp_cuda_word32(plan, s->transposed != 0);
        bp_cuda_word32(plan, (uint32_t)s->form);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

static bool plan_apply(bp_cuda_plan *plan)
{
    const bp_magnitude_apply_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_magnitude, BP_CUDA_FUNCTION_magnitude_apply,
                      (uint64_t)s->rows, 1, ROW_THREADS)) {
        const uint32_t y = BP_CUDA_BIT(magnitude_apply, y) | BP_CUDA_BIT(magnitude_apply, residual);
        const uint32_t n =
            BP_CUDA_BIT(magnitude_apply, magnitude) | BP_CUDA_BIT(magnitude_apply, bias);
        const uint32_t x = BP_CUDA_BIT(magnitude_apply, x);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, magnitude, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, norms, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, bias, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_apply, residual, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->n);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word64(plan, (uint64_t)s->x_pitch);
        bp_cuda_single(plan, (float)s->less);
        bp_cuda_word32(plan, bp_cuda_width(plan, y, (uint64_t)s->pitch));
        bp_cuda_word32(plan, bp_cuda_width(plan, x, (uint64_t)s->x_pitch));
        bp_cuda_word32(plan, bp_cuda_width(plan, n, 0));
    }
    return true;
}

static bool plan_magnitude_backward(bp_cuda_plan *plan)
{
    const bp_magnitude_backward_scalars *s = plan->op->scalars;
    const uint32_t sum = BP_CUDA_POSITION(magnitude_backward, d_magnitude);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_magnitude, BP_CUDA_FUNCTION_magnitude_backward,
                      bp_cuda_cut(s->n, COLUMNS), 1, COLUMNS)) {
        plan->launch[plan->count - 1].block[1] = s->rows <= FEW_ROWS ? FEW_GROUPS : GROUPS;
        BP_CUDA_OPERAND_OF(plan, magnitude_backward, d_magnitude,
                           s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, magnitude_backward, d_y, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_backward, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, magnitude_backward, norms, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->n);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word32(plan, s->accumulate != 0);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word32(plan, bp_cuda_width_of(plan, sum, 0, 0));
    }
    return true;
}

static bool plan_store(bp_cuda_plan *plan)
{
    const bp_store_values_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_magnitude, BP_CUDA_FUNCTION_store_values,
                      bp_cuda_cut(s->count, RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, store_values, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, store_values, master, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, store_values, x, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, (uint32_t)s->form);
        bp_cuda_word32(plan, (uint32_t)s->even);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

bool bp_cuda_plan_magnitude(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_weight_norms:
        return plan_norms(plan);
    case BP_KERNEL_magnitude_apply:
        return plan_apply(plan);
    case BP_KERNEL_magnitude_backward:
        return plan_magnitude_backward(plan);
    default:
        return plan_store(plan);
    }
}
