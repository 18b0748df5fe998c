/* SPDX-License-Identifier: MIT */
/* How planners put launches together: modules, parameters, widths of accesses. */
#include <string.h>

#include "device/cuda/plan.h"
#include "device/cuda/target.h"

uint16_t bp_cuda_module_choose(const bp_cuda_target *target, uint32_t family, bp_dtype dtype)
{
    bp_cuda_types wanted = dtype == BP_F32 ? BP_CUDA_TYPES_SINGLE : BP_CUDA_TYPES_SIXTEEN;
    uint16_t chosen = BP_CUDA_NO_MODULE;
    int best = -1;
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        const bp_cuda_module *module = &bp_cuda_modules[i];
        int rank = bp_cuda_target_rank(target, module->target);
        bool serves = module->types == BP_CUDA_TYPES_ANY || module->types == wanted;
        if (module->family == family && serves && (target->refused >> i & 1) == 0 && rank > best) {
            best = rank;
            chosen = (uint16_t)i;
        }
    }
    return chosen;
}

uint32_t bp_cuda_family_instead(uint32_t family)
{
    switch (family) {
    case BP_CUDA_FAMILY_matmul_hopper:
        return BP_CUDA_FAMILY_matmul;
    case BP_CUDA_FAMILY_quantised_hopper:
        return BP_CUDA_FAMILY_quantised;
    case BP_CUDA_FAMILY_attention_hopper:
        return BP_CUDA_FAMILY_attention_16;
    default:
        return family;
    }
}

bool bp_cuda_begin(bp_cuda_plan *plan, bp_cuda_family family, uint32_t function, uint64_t blocks_x,
                   uint64_t blocks_y, uint32_t threads)
{
    uint16_t module = bp_cuda_module_choose(plan->target, family, plan->dtype);
    plan->unsupported = plan->unsupported || module == BP_CUDA_NO_MODULE ||
                        blocks_x > BP_CUDA_BLOCKS_X_MOST || blocks_y > BP_CUDA_BLOCKS_Y_MOST;
    if (plan->unsupported || blocks_x == 0 || blocks_y == 0) {
        return false;
    }
    plan->launch[plan->count++] =
        (bp_cuda_launch){.module = module,
                         .function = (uint16_t)function,
                         .grid = {(uint32_t)blocks_x, (uint32_t)blocks_y, 1},
                         .block = {threads, 1, 1},
                         .cluster = {1, 1, 1}};
    return true;
}

static void parameter_add(bp_cuda_plan *plan, bp_cuda_parameter parameter)
{
    if (plan->unsupported) { /* there may be no launch of its own */
        return;
    }
    bp_cuda_launch *launch = &plan->launch[plan->count - 1];
    launch->parameter[launch->parameter_count++] = parameter;
}

void bp_cuda_operand(bp_cuda_plan *plan, uint32_t operand, bp_access access)
{
    if (plan->op->offsets[operand] == BP_OFFSET_ABSENT) {
        bp_cuda_word64(plan, 0);
    } else {
        parameter_add(plan,
                      (bp_cuda_parameter){BP_CUDA_OPERAND, (uint8_t)operand, (uint8_t)access, 0});
    }
}

void bp_cuda_place(bp_cuda_plan *plan, bp_cuda_parameter_kind kind, bp_access access)
{
    parameter_add(plan, (bp_cuda_parameter){(uint8_t)kind, 0, (uint8_t)access, 0});
}

void bp_cuda_word64(bp_cuda_plan *plan, uint64_t value)
{
    parameter_add(plan, (bp_cuda_parameter){BP_CUDA_WORD64, 0, 0, value});
}

void bp_cuda_word32(bp_cuda_plan *plan, uint32_t value)
{
    parameter_add(plan, (bp_cuda_parameter){BP_CUDA_WORD32, 0, 0, value});
}

void bp_cuda_value_of(bp_cuda_plan *plan, const void *content, size_t bytes, size_t alignment)
{
    if (plan->unsupported) {
        return;
    }
    bp_cuda_launch *launch = &plan->launch[plan->count - 1];
    uint32_t number = launch->value_count++;
    launch->value[number].bytes = (uint16_t)bytes;
    launch->value[number].alignment = (uint16_t)alignment;
    memcpy(launch->value[number].content, content, bytes);
    parameter_add(plan, (bp_cuda_parameter){BP_CUDA_VALUE, 0, 0, number});
}

void bp_cuda_map_of(bp_cuda_plan *plan, uint32_t operand, const bp_cuda_map *map)
{
    bp_cuda_value_of(plan, map, sizeof *map, sizeof(uint64_t));
    if (!plan->unsupported) {
        bp_cuda_launch *launch = &plan->launch[plan->count - 1];
        bp_cuda_parameter *made = &launch->parameter[launch->parameter_count - 1];
        made->kind = BP_CUDA_MAP;
        made->operand = (uint8_t)operand;
        made->access = BP_ACCESS_READ;
    }
}

void bp_cuda_single(bp_cuda_plan *plan, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bp_cuda_word32(plan, bits);
}

void bp_cuda_double(bp_cuda_plan *plan, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bp_cuda_word64(plan, bits);
}

void bp_cuda_dropout(bp_cuda_plan *plan, int64_t site, double p)
{
    bp_cuda_word32(plan, (uint32_t)site);
    bp_cuda_word32(plan, bp_dropout_threshold(p));
    bp_cuda_single(plan, (float)(1.0 / (1.0 - p)));
}

bool bp_cuda_wide(const bp_cuda_plan *plan, uint32_t mask, uint64_t pitch, uint64_t elements)
{
    const bp_kernel_info *info = bp_kernel_describe(plan->op->kernel);
    bool wide = pitch % elements == 0;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        uint64_t offset = plan->op->offsets[i];
        bool counts = (mask >> i & 1) != 0 && offset != BP_OFFSET_ABSENT;
        wide = wide && (!counts || offset % 16 == 0);
    }
    return wide;
}

uint32_t bp_cuda_width(const bp_cuda_plan *plan, uint32_t mask, uint64_t pitch)
{
    return (uint32_t)plan->dtype | (bp_cuda_wide(plan, mask, pitch, 4) ? BP_CUDA_WIDTH_WIDE : 0);
}

uint32_t bp_cuda_width_of(const bp_cuda_plan *plan, uint32_t operand, uint32_t mask, uint64_t pitch)
{
    uint32_t dtype = plan->op->dtypes[operand];
    return dtype | (bp_cuda_wide(plan, mask, pitch, 4) ? BP_CUDA_WIDTH_WIDE : 0);
}
