/* SPDX-License-Identifier: MIT */
/* From an op to its launches: the dispatch. */
#include "device/cuda/launch.h"

#include <string.h>

#include "device/cuda/plan.h"
#include "device/cuda/target.h"

bool bp_cuda_plan_nothing(bp_cuda_plan *plan)
{
    (void)plan;
    return true;
}

/* Which planner a kernel has. */
static bp_cuda_planner *const planners[BP_KERNEL_COUNT] = {
#define LAUNCH(name, plan) [BP_KERNEL_##name] = bp_cuda_plan_##plan,
#include "core/ops/kernels.def"
};

/* Whether every present operand of a float type has one, in every tuple, and those of the working
 * type share it. */
static bool types_fit(const bp_linked_op *op, bp_dtype working)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    for (uint32_t slot = 0; slot < op->tuples * info->operand_count; slot++) {
        const bp_operand_info *operand = &info->operand[slot % info->operand_count];
        if (operand->type > BP_TYPE_WEIGHT || operand->workspace ||
            op->offsets[slot] == BP_OFFSET_ABSENT) {
            continue;
        }
        const bool codes = operand->type == BP_TYPE_WEIGHT && op->dtypes[slot] == BP_U8;
        bool fits = operand->type != BP_TYPE_ANY ? op->dtypes[slot] <= BP_F16 || codes
                                                 : op->dtypes[slot] == working;
        if (!fits) {
            return false;
        }
    }
    return working <= BP_F16;
}

bool bp_cuda_lacks(bp_kernel kernel)
{
    return bp_kernel_describe(kernel)->engine == BP_ENGINE_COMPUTE &&
           bp_kernel_describe(kernel)->pending == BP_PENDING_NONE && planners[kernel] == NULL;
}

uint32_t bp_cuda_plan_launches(const bp_cuda_target *target, const bp_linked_op *op,
                               bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX])
{
    bool both;
    return bp_cuda_plan_pair(target, op, NULL, launches, &both);
}

uint32_t bp_cuda_plan_pair(const bp_cuda_target *target, const bp_linked_op *op,
                           const bp_linked_op *next, bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX],
                           bool *both)
{
    bp_dtype working = bp_kernel_working(bp_kernel_describe(op->kernel), op->dtypes);
    bp_cuda_plan plan = {target, op, working, launches, 0, false, next, false};
    *both = false;
    if (planners[op->kernel] == NULL || !types_fit(op, working)) {
        return BP_CUDA_UNSUPPORTED;
    }
    bool planned = planners[op->kernel](&plan) && !plan.unsupported;
    *both = planned && plan.both;
    return planned ? plan.count : BP_CUDA_UNSUPPORTED;
}

const char *bp_cuda_plan_misses(const bp_cuda_target *target, const bp_linked_op *op)
{
    const bp_dtype working = bp_kernel_working(bp_kernel_describe(op->kernel), op->dtypes);
    const bp_cuda_plan plan = {target, op, working, NULL, 0, false, NULL, false};
    if (!target->hopper || working == BP_F32) {
        return NULL;
    }
    switch (op->kernel) {
    case BP_KERNEL_matmul:
        return bp_cuda_matmul_misses(&plan);
    case BP_KERNEL_matmul_quantised:
        return bp_cuda_quantised_misses(&plan);
    case BP_KERNEL_attention_forward:
    case BP_KERNEL_attention_backward:
    case BP_KERNEL_attention_packed_forward:
    case BP_KERNEL_attention_packed_backward:
        return bp_cuda_attention_misses(&plan);
    default:
        return NULL;
    }
}

uint64_t bp_cuda_workspace(const bp_cuda_target *target, bp_kernel kernel, const void *scalars)
{
    if (kernel == BP_KERNEL_matmul) {
        return bp_cuda_matmul_workspace(target, scalars);
    }
    if (kernel == BP_KERNEL_matmul_quantised) {
        return bp_cuda_quantised_workspace(target, scalars);
    }
    if (kernel == BP_KERNEL_matmul_fp8) {
        return bp_cuda_fp8_workspace(target, scalars);
    }
    const bool packed = kernel == BP_KERNEL_attention_packed_backward; /* lse beside delta */
    if (kernel == BP_KERNEL_attention_backward || packed) {
        const bp_attention_backward_scalars *s = scalars; /* both rows have the same */
        uint64_t rows = bp_size_mul((uint64_t)s->batch, (uint64_t)s->sequence);
        return bp_size_mul(bp_size_mul(rows, (uint64_t)s->heads), (packed ? 2 : 1) * sizeof(float));
    }
    return 0;
}
