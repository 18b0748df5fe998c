/* SPDX-License-Identifier: MIT */
/* Launches of a step's end and their tables: the loss, the norm, the decision, AdamW, poison. */
#include <string.h>

#include "core/codec.h"
#include "device/cuda/plan.h"

#define RUN_THREADS  256
#define RUN_ELEMENTS 1024

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
    bp_cuda_word64(plan, (uint64_t)s->partials);
    bp_cuda_double(plan, s->max_norm);
    bp_cuda_double(plan, s->beta1);
    bp_cuda_double(plan, s->beta2);
    bp_cuda_word32(plan, (uint32_t)s->scaling);
    bp_cuda_single(plan, (float)s->growth);
    bp_cuda_single(plan, (float)s->backoff);
    bp_cuda_single(plan, (float)s->floor);
    bp_cuda_word32(plan, (uint32_t)s->interval);
    bp_cuda_word32(plan, (uint32_t)s->hysteresis);
    bp_cuda_word32(plan, s->later != 0);
    bp_cuda_word32(plan, (uint32_t)s->percentile);
}

static void plan_poison(bp_cuda_plan *plan)
{
    const bp_poison_scalars *s = plan->op->scalars;
    int64_t words = s->count / 4;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_words, BP_CUDA_FUNCTION_poison,
                      bp_cuda_cut(words, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, poison, y, BP_ACCESS_WRITE);
        bp_cuda_word64(plan, (uint64_t)words);
    }
}

bool bp_cuda_plan_words(bp_cuda_plan *plan)
{
    if (plan->op->kernel == BP_KERNEL_loss_sum) {
        plan_loss_sum(plan);
    } else if (plan->op->kernel == BP_KERNEL_step_decide) {
        plan_step_decide(plan);
    } else {
        plan_poison(plan);
    }
    return true;
}

/* Blocks of one tuple. */
static uint64_t tuple_blocks(const bp_linked_op *op, uint32_t tuple)
{
    if (op->kernel == BP_KERNEL_norm_partial) {
        const bp_norm_partial_scalars *s = (const bp_norm_partial_scalars *)op->scalars + tuple;
        return bp_cuda_cut(s->count, (uint64_t)s->chunk);
    }
    const bp_adamw_scalars *s = (const bp_adamw_scalars *)op->scalars + tuple;
    return bp_cuda_cut(s->count, RUN_ELEMENTS);
}

bool bp_cuda_plan_list(bp_cuda_plan *plan)
{
    bool adamw = plan->op->kernel == BP_KERNEL_adamw;
    uint32_t function = adamw ? BP_CUDA_FUNCTION_adamw : BP_CUDA_FUNCTION_norm_partial;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < plan->op->tuples; i++) {
        const bp_adamw_scalars *s = (const bp_adamw_scalars *)plan->op->scalars + i;
        bool other = adamw && s->form != BP_CODEC_F32;
        plan->unsupported = plan->unsupported || other;
        blocks += tuple_blocks(plan->op, i);
    }
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, function, blocks, 1, RUN_THREADS)) {
        bp_cuda_place(plan, BP_CUDA_BASE, BP_ACCESS_READ_WRITE);
        bp_cuda_place(plan, BP_CUDA_TABLE, BP_ACCESS_READ);
        bp_cuda_word32(plan, plan->op->tuples);
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

static const uint8_t *dtypes_of(const bp_linked_op *op, uint32_t tuple)
{
    return op->dtypes + (size_t)tuple * bp_kernel_describe(op->kernel)->operand_count;
}

static void write_norm_partial(const bp_linked_op *op, uint32_t tuple, uint64_t *record)
{
    const bp_norm_partial_scalars *s = (const bp_norm_partial_scalars *)op->scalars + tuple;
    const uint64_t *offsets =
        op->offsets + (size_t)tuple * bp_kernel_describe(op->kernel)->operand_count;
    record[1] = (uint64_t)s->count;
    record[2] = (uint64_t)s->chunk;
    record[3] = offsets[BP_CUDA_POSITION(norm_partial, partials)];
    record[4] = offsets[BP_CUDA_POSITION(norm_partial, x)];
    record[5] = dtypes_of(op, tuple)[BP_CUDA_POSITION(norm_partial, x)];
}

static void write_adamw(const bp_linked_op *op, uint32_t tuple, uint64_t *record)
{
    const bp_adamw_scalars *s = (const bp_adamw_scalars *)op->scalars + tuple;
    const uint64_t *offsets =
        op->offsets + (size_t)tuple * bp_kernel_describe(op->kernel)->operand_count;
    record[1] = (uint64_t)s->count;
    record[2] = offsets[BP_CUDA_POSITION(adamw, weight)];
    record[3] = offsets[BP_CUDA_POSITION(adamw, state1)];
    record[4] = offsets[BP_CUDA_POSITION(adamw, state2)];
    record[5] = offsets[BP_CUDA_POSITION(adamw, gradient)];
    record[6] = offsets[BP_CUDA_POSITION(adamw, control)];
    record[7] = offsets[BP_CUDA_POSITION(adamw, step)];
    const double reals[] = {s->beta1, s->beta2, s->epsilon, s->decay, s->rate_scale};
    memcpy(&record[8], reals, sizeof reals);
    record[13] = dtypes_of(op, tuple)[BP_CUDA_POSITION(adamw, weight)];
    record[14] = dtypes_of(op, tuple)[BP_CUDA_POSITION(adamw, gradient)];
    record[15] = offsets[BP_CUDA_POSITION(adamw, master)];
    record[16] = (uint64_t)s->master_form;
    record[17] = (uint64_t)s->first;
    record[18] = (uint64_t)s->stream;
    record[19] = offsets[BP_CUDA_POSITION(adamw, trust)];
}

void bp_cuda_write_table(const bp_linked_op *op, uint64_t *table)
{
    uint64_t blocks = 0;
    memset(table, 0, (size_t)bp_cuda_table_bytes(op->kernel, op->tuples));
    for (uint32_t i = 0; i < op->tuples; i++) {
        uint64_t *record = table + (size_t)i * BP_CUDA_RECORD_WORDS;
        blocks += tuple_blocks(op, i);
        record[0] = blocks;
        if (op->kernel == BP_KERNEL_adamw) {
            write_adamw(op, i, record);
        } else {
            write_norm_partial(op, i, record);
        }
    }
}
