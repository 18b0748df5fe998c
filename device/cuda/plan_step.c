/* SPDX-License-Identifier: MIT */
/* Launches of a step's end and their tables: the loss, the norm, the decision, updates. */
#include <string.h>

#include "core/ops/update.h"
#include "device/cuda/plan.h"
#include "device/cuda/kernels/parameters.h"

#define RUN_THREADS  256
#define RUN_ELEMENTS 1024
#define BP_NO_RULE   UINT32_MAX

static void plan_loss_sum(bp_cuda_plan *plan)
{
    const bp_loss_sum_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_words, BP_CUDA_FUNCTION_loss_sum, 1, 1, RUN_THREADS);
    BP_CUDA_OPERAND_OF(plan, loss_sum, result,
                       s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, loss_sum, losses, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->rows);
    bp_cuda_word32(plan, s->accumulate != 0);
}

static void plan_step_decide(bp_cuda_plan *plan)
{
    const bp_step_decide_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_words, BP_CUDA_FUNCTION_step_decide, 1, 1,
                        RUN_THREADS);
    BP_CUDA_OPERAND_OF(plan, step_decide, control, BP_ACCESS_READ_WRITE);
    BP_CUDA_OPERAND_OF(plan, step_decide, result, BP_ACCESS_READ_WRITE);
    BP_CUDA_OPERAND_OF(plan, step_decide, norms, BP_ACCESS_READ_WRITE);
    BP_CUDA_OPERAND_OF(plan, step_decide, sums, BP_ACCESS_READ);
    const bp_step_decide_parameters p = {.partials = (uint64_t)s->partials,
                                         .max_norm = s->max_norm,
                                         .beta1 = s->beta1,
                                         .beta2 = s->beta2,
                                         .scaling = (uint32_t)s->scaling,
                                         .growth = (float)s->growth,
                                         .backoff = (float)s->backoff,
                                         .floor = (float)s->floor,
                                         .interval = (uint32_t)s->interval,
                                         .hysteresis = (uint32_t)s->hysteresis,
                                         .later = s->later != 0,
                                         .percentile = (uint32_t)s->percentile,
                                         .previous = (uint32_t)s->previous};
    bp_cuda_value_of(plan, &p, sizeof p, sizeof(double));
}

static void plan_average_step(bp_cuda_plan *plan)
{
    const bp_average_step_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_words, BP_CUDA_FUNCTION_average_step, 1, 1, 1);
    BP_CUDA_OPERAND_OF(plan, average_step, control, BP_ACCESS_READ_WRITE);
    BP_CUDA_OPERAND_OF(plan, average_step, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->power);
}

static void plan_loss_tree(bp_cuda_plan *plan)
{
    const bp_loss_tree_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_words, BP_CUDA_FUNCTION_loss_tree, 1, 1, 1);
    BP_CUDA_OPERAND_OF(plan, loss_tree, result, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, loss_tree, blocks, BP_ACCESS_READ);
    bp_cuda_word32(plan, (uint32_t)s->lanes);
}

static void plan_tree_sum(bp_cuda_plan *plan)
{
    const bp_tree_sum_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_tree_sum,
                      bp_cuda_cut(s->count, RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, tree_sum, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, tree_sum, x, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, (uint32_t)s->pieces);
    }
}

bool bp_cuda_plan_words(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_loss_sum:
        plan_loss_sum(plan);
        break;
    case BP_KERNEL_loss_tree:
        plan_loss_tree(plan);
        break;
    case BP_KERNEL_average_step:
        plan_average_step(plan);
        break;
    case BP_KERNEL_tree_sum:
        plan_tree_sum(plan);
        break;
    default:
        plan_step_decide(plan);
        break;
    }
    return true;
}

/* The chunk of a row of norms; its last scalar. */
static uint64_t chunk_of(const bp_linked_op *op, const uint64_t *scalars)
{
    switch (op->kernel) {
    case BP_KERNEL_norm_partial:
        return (uint64_t)((const bp_norm_partial_scalars *)(const void *)scalars)->chunk;
    case BP_KERNEL_lamb_norms:
        return (uint64_t)((const bp_lamb_norms_scalars *)(const void *)scalars)->chunk;
    case BP_KERNEL_lars_norms:
        return (uint64_t)((const bp_lars_norms_scalars *)(const void *)scalars)->chunk;
    case BP_KERNEL_scaled_norms:
        return (uint64_t)((const bp_scaled_norms_scalars *)(const void *)scalars)->chunk;
    default:
        return RUN_ELEMENTS;
    }
}

static const uint64_t *scalars_of(const bp_linked_op *op, uint32_t tuple)
{
    return (const uint64_t *)op->scalars +
           (size_t)tuple * bp_kernel_describe(op->kernel)->scalar_count;
}

/* Blocks of one tuple; rows begin with their count. */
static uint64_t tuple_blocks(const bp_linked_op *op, uint32_t tuple)
{
    const uint64_t *scalars = scalars_of(op, tuple);
    if (op->kernel == BP_KERNEL_trust_ratio) {
        return 1;
    }
    if (op->kernel == BP_KERNEL_tree_add) { /* the padding is written too */
        return bp_cuda_cut((int64_t)(scalars[0] + scalars[1]), RUN_THREADS);
    }
    return bp_cuda_cut((int64_t)scalars[0], chunk_of(op, scalars));
}

/* What a list op runs, and its rule (core/ops/update.h numbers rules in the order of their
 * rows). */
static uint32_t list_function(bp_kernel kernel, uint32_t *rule)
{
    *rule = BP_NO_RULE;
    switch (kernel) {
    case BP_KERNEL_norm_partial:
        return BP_CUDA_FUNCTION_norm_partial;
    case BP_KERNEL_tree_add:
        return BP_CUDA_FUNCTION_tree_add;
    case BP_KERNEL_trust_ratio:
        return BP_CUDA_FUNCTION_trust_ratio;
    case BP_KERNEL_lamb_norms:
        *rule = BP_UPDATE_lamb;
        return BP_CUDA_FUNCTION_update_norms;
    case BP_KERNEL_lars_norms:
        *rule = BP_UPDATE_lars;
        return BP_CUDA_FUNCTION_update_norms;
    case BP_KERNEL_scaled_norms:
        *rule = BP_UPDATE_scaled;
        return BP_CUDA_FUNCTION_update_norms;
    case BP_KERNEL_accumulate_codes:
    case BP_KERNEL_expand_codes: /* the word says which */
        *rule = kernel == BP_KERNEL_expand_codes;
        return BP_CUDA_FUNCTION_sums;
    default:
        *rule = (uint32_t)kernel - BP_KERNEL_sgd;
        return BP_CUDA_FUNCTION_update;
    }
}

bool bp_cuda_plan_list(bp_cuda_plan *plan)
{
    uint32_t rule, function = list_function(plan->op->kernel, &rule);
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < plan->op->tuples; i++) {
        blocks += tuple_blocks(plan->op, i);
    }
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, function, blocks, 1, RUN_THREADS)) {
        bp_cuda_place(plan, BP_CUDA_BASE, BP_ACCESS_READ_WRITE);
        bp_cuda_place(plan, BP_CUDA_TABLE, BP_ACCESS_READ);
        bp_cuda_word32(plan, plan->op->tuples);
        if (rule != BP_NO_RULE) {
            bp_cuda_word32(plan, rule);
        }
    }
    return true;
}

uint64_t bp_cuda_table_bytes(bp_kernel kernel, uint32_t tuples)
{
    if (!bp_kernel_describe(kernel)->list) {
        return 0;
    }
    return (uint64_t)tuples * BP_CUDA_RECORD_WORDS * sizeof(uint64_t);
}

void bp_cuda_write_table(const bp_linked_op *op, uint64_t *table)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    uint64_t blocks = 0;
    memset(table, 0, (size_t)bp_cuda_table_bytes(op->kernel, op->tuples));
    for (uint32_t i = 0; i < op->tuples; i++) {
        uint64_t *record = table + (size_t)i * BP_CUDA_RECORD_WORDS;
        size_t first = (size_t)i * info->operand_count;
        blocks += tuple_blocks(op, i);
        record[0] = blocks;
        for (uint32_t k = 0; k < info->operand_count; k++) {
            record[BP_CUDA_RECORD_OFFSETS + k] = op->offsets[first + k];
            uint64_t type = k < 8 ? op->dtypes[first + k] : 0;
            record[BP_CUDA_RECORD_TYPES] |= type << (8 * (k & 7));
        }
        memcpy(&record[BP_CUDA_RECORD_SCALARS], scalars_of(op, i),
               info->scalar_count * sizeof(uint64_t));
    }
}

/* A record holds what any list op has. */
typedef char record_holds_operands[BP_CUDA_RECORD_TYPES - BP_CUDA_RECORD_OFFSETS >= 9 ? 1 : -1];
typedef char record_holds_scalars[BP_CUDA_RECORD_WORDS - BP_CUDA_RECORD_SCALARS >=
                                          (int)(sizeof(bp_update_scalars) / 8) + BP_UPDATE_OWN
                                      ? 1
                                      : -1];
typedef char rules_are_in_order[BP_KERNEL_scaled - BP_KERNEL_sgd == BP_UPDATE_scaled ? 1 : -1];
