/* SPDX-License-Identifier: MIT */
/* Launches of what Llama and BERT have beside GPT-2: RMS norms, rotary positions, gated and other
 * activations, whole samples. */
#include "core/ops/tape.h"
#include "device/cuda/plan.h"

#define RUN_THREADS    256 /* of an elementwise block, four elements each */
#define RUN_ELEMENTS   1024
#define ROWS_PER_BLOCK 16 /* of a norm along rows, in 256 threads */
#define COLUMNS        8  /* of a reduction over rows */
#define FEW_ROWS       1024
#define PAIR_THREADS   64 /* of preference_loss, a pair each */
#define SAMPLE_THREADS 128

/* A gate over `count` elements: writes its first `outputs` operands, reads the others. */
static bool plan_gate(bp_cuda_plan *plan, uint32_t function, int64_t count, uint32_t outputs)
{
    const bp_swiglu_forward_scalars *s = plan->op->scalars; /* both rows have the same */
    uint32_t operands = bp_kernel_describe(plan->op->kernel)->operand_count;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, function, bp_cuda_cut(count, RUN_ELEMENTS),
                      1, RUN_THREADS)) {
        for (uint32_t i = 0; i < operands; i++) {
            bp_cuda_operand(plan, i, i < outputs ? BP_ACCESS_WRITE : BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)count);
        bp_cuda_word32(plan, bp_cuda_width(plan, (UINT32_C(1) << operands) - 1, 0));
        bp_cuda_word32(plan, (uint32_t)s->kind);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
    }
    return true;
}

/* Both rows begin with the same scalars. */
static bool plan_activation(bp_cuda_plan *plan)
{
    const bp_activation_forward_scalars *s = plan->op->scalars;
    bool backward = plan->op->kernel == BP_KERNEL_activation_backward;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_activation,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        bp_cuda_operand(plan, 0, BP_ACCESS_WRITE);
        if (backward) {
            BP_CUDA_OPERAND_OF(plan, activation_backward, d_y, BP_ACCESS_READ);
            BP_CUDA_OPERAND_OF(plan, activation_backward, x, BP_ACCESS_READ);
        } else {
            bp_cuda_word64(plan, 0);
            BP_CUDA_OPERAND_OF(plan, activation_forward, x, BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word32(plan, (uint32_t)s->kind);
        bp_cuda_word32(plan, bp_cuda_width(plan, backward ? 7 : 3, 0));
    }
    return true;
}

bool bp_cuda_plan_gated(bp_cuda_plan *plan)
{
    int64_t count = *(const int64_t *)plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_swiglu_forward) {
        return plan_gate(plan, BP_CUDA_FUNCTION_swiglu_forward, count, 1);
    }
    if (plan->op->kernel == BP_KERNEL_swiglu_backward) {
        return plan_gate(plan, BP_CUDA_FUNCTION_swiglu_backward, count, 2);
    }
    return plan_activation(plan);
}

/* Heads of `width` elements, `heads` of them to a row at a pitch. */
static void put_heads(bp_cuda_plan *plan, int64_t count, int64_t width, int64_t heads,
                      int64_t pitch)
{
    bp_cuda_word64(plan, (uint64_t)count);
    bp_cuda_word64(plan, (uint64_t)width);
    bp_cuda_word64(plan, (uint64_t)heads);
    bp_cuda_word64(plan, (uint64_t)pitch);
}

static void plan_rms_weight(bp_cuda_plan *plan)
{
    const bp_rmsnorm_backward_weight_scalars *s = plan->op->scalars;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_layernorm, BP_CUDA_FUNCTION_rmsnorm_backward_weight,
                       bp_cuda_cut(s->width, COLUMNS), 1, COLUMNS)) {
        return;
    }
    plan->launch[plan->count - 1].block[1] = s->rows * s->heads <= FEW_ROWS ? 32 : 128;
    BP_CUDA_OPERAND_OF(plan, rmsnorm_backward_weight, d_weight,
                       s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, rmsnorm_backward_weight, d_y, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, rmsnorm_backward_weight, x, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, rmsnorm_backward_weight, rstd, BP_ACCESS_READ);
    put_heads(plan, s->rows * s->heads, s->width, s->heads, s->pitch);
    bp_cuda_word32(plan, s->accumulate != 0);
    bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    bp_cuda_word32(plan, bp_cuda_width_of(plan, 0, 0, 0));
}

bool bp_cuda_plan_rmsnorm(bp_cuda_plan *plan)
{
    const bool forward = plan->op->kernel == BP_KERNEL_rmsnorm_forward;
    const bp_rmsnorm_forward_scalars *f = plan->op->scalars;
    const bp_rmsnorm_backward_input_scalars *b = plan->op->scalars;
    const int64_t heads = forward ? f->heads : b->heads, pitch = forward ? f->pitch : b->pitch;
    const int64_t count = f->rows * heads; /* all three rows begin with rows and width */
    const uint32_t function =
        forward ? BP_CUDA_FUNCTION_rmsnorm_forward : BP_CUDA_FUNCTION_rmsnorm_backward_input;
    if (plan->op->kernel == BP_KERNEL_rmsnorm_backward_weight) {
        plan_rms_weight(plan);
    } else if (bp_cuda_begin(plan, BP_CUDA_FAMILY_layernorm, function,
                             bp_cuda_cut(count, ROWS_PER_BLOCK), 1, RUN_THREADS)) {
        uint32_t operands = bp_kernel_describe(plan->op->kernel)->operand_count;
        for (uint32_t i = 0; i < operands; i++) {
            bp_cuda_operand(plan, i, i < (forward ? 2u : 1u) ? BP_ACCESS_WRITE : BP_ACCESS_READ);
        }
        put_heads(plan, count, f->width, heads, pitch);
        if (forward) {
            bp_cuda_single(plan, (float)f->epsilon);
        }
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word32(plan, (forward ? f->offset : b->offset) != 0);
    }
    return true;
}

static void plan_rotary_table(bp_cuda_plan *plan)
{
    const bp_rotary_table_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_rotary, BP_CUDA_FUNCTION_rotary_table,
                      bp_cuda_cut(s->rows * (s->width / 2), RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, rotary_table, table, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, rotary_table, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, s->decode != 0);
        bp_cuda_double(plan, s->theta);
        bp_cuda_double(plan, s->factor);
        bp_cuda_double(plan, s->low);
        bp_cuda_double(plan, s->high);
        bp_cuda_double(plan, s->original);
    }
}

static void plan_rotary_angles(bp_cuda_plan *plan)
{
    const bp_rotary_angles_scalars *s = plan->op->scalars;
    const double frequencies[] = {s->f0, s->f1, s->f2, s->f3, s->f4, s->f5, s->f6, s->f7};
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_rotary, BP_CUDA_FUNCTION_rotary_angles,
                      bp_cuda_cut(s->rows * s->count, RUN_THREADS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, rotary_angles, cosines, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, rotary_angles, sines, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, rotary_angles, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, (uint32_t)s->count);
        bp_cuda_word32(plan, s->decode != 0);
        bp_cuda_single(plan, (float)s->magnitude);
        for (uint32_t i = 0; i < 8; i++) {
            bp_cuda_single(plan, (float)frequencies[i]);
        }
    }
}

static void plan_regroup(bp_cuda_plan *plan)
{
    const bp_regroup_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_rotary, BP_CUDA_FUNCTION_regroup,
                      bp_cuda_cut(s->rows * s->groups * s->parts * s->width, RUN_THREADS), 1,
                      RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, regroup, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, regroup, x, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->groups);
        bp_cuda_word64(plan, (uint64_t)s->parts);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
}

bool bp_cuda_plan_rotary(bp_cuda_plan *plan)
{
    const bp_rotary_scalars *s = plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_regroup) {
        plan_regroup(plan);
    } else if (plan->op->kernel == BP_KERNEL_rotary_table) {
        plan_rotary_table(plan);
    } else if (plan->op->kernel == BP_KERNEL_rotary_angles) {
        plan_rotary_angles(plan);
    } else if (bp_cuda_begin(plan, BP_CUDA_FAMILY_rotary, BP_CUDA_FUNCTION_rotary,
                             bp_cuda_cut(s->rows * s->heads * (s->width / 2), RUN_THREADS), 1,
                             RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, rotary, x, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, rotary, table, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->heads);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_single(plan, s->inverse != 0 ? -1.0f : 1.0f);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word64(plan, (uint64_t)s->apart);
        BP_CUDA_OPERAND_OF(plan, rotary, extents, BP_ACCESS_READ);
        /* of one table none is above it */
        bp_cuda_word64(plan, s->second != 0 ? (uint64_t)s->original : (uint64_t)INT64_MAX);
        bp_cuda_word32(plan, (uint32_t)s->neighbours);
    }
    return true;
}

static void plan_sample_loss(bp_cuda_plan *plan)
{
    const bp_sample_loss_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_samples, BP_CUDA_FUNCTION_sample_loss,
                      (uint64_t)s->batch, 1, SAMPLE_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, sample_loss, logits, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, sample_loss, losses, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, sample_loss, labels, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_loss, lengths, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_loss, class_weights, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_loss, targets, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_loss, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_loss, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->batch);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->classes);
        bp_cuda_word32(plan, (uint32_t)s->kind);
        bp_cuda_word32(plan, s->gradient != 0);
        bp_cuda_word32(plan, s->scaled != 0);
        bp_cuda_double(plan, s->smoothing);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
}

/* Vectors of samples, and back: the two rows begin with the same scalars and have the same kinds of
 * operands. */
bool bp_cuda_plan_pool(bp_cuda_plan *plan)
{
    const bp_pool_rows_scalars *s = plan->op->scalars;
    const bool forward = plan->op->kernel == BP_KERNEL_pool_rows;
    const int64_t blocks = !forward ? s->batch * s->sequence : s->later != 0 ? s->batch : s->total;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_samples,
                      forward ? BP_CUDA_FUNCTION_pool_rows : BP_CUDA_FUNCTION_pool_rows_backward,
                      (uint64_t)blocks, 1, SAMPLE_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, pool_rows, y,
                           forward && s->later != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, pool_rows, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, pool_rows, lengths, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, pool_rows, step, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->batch);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->total);
        bp_cuda_word32(plan, (uint32_t)s->mode);
        if (forward) {
            bp_cuda_word32(plan, s->later != 0);
        }
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
    }
    return true;
}

static void plan_contrast_loss(bp_cuda_plan *plan)
{
    const bp_contrast_loss_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_samples, BP_CUDA_FUNCTION_contrast_loss,
                      bp_cuda_cut(s->rows, SAMPLE_THREADS), 1, SAMPLE_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, contrast_loss, scores, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, contrast_loss, losses, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, contrast_loss, step, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, contrast_loss, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->first);
        bp_cuda_word64(plan, (uint64_t)s->pairs);
        bp_cuda_word64(plan, (uint64_t)s->kinds);
        bp_cuda_word32(plan, s->scaled != 0);
        bp_cuda_single(plan, (float)s->scale);
    }
}

/* A thread has a sample, or an anchor. Both rows about vectors have the same scalars. */
bool bp_cuda_plan_contrast(bp_cuda_plan *plan)
{
    const bp_unit_rows_scalars *s = plan->op->scalars;
    const bool forward = plan->op->kernel == BP_KERNEL_unit_rows;
    if (plan->op->kernel == BP_KERNEL_contrast_loss) {
        plan_contrast_loss(plan);
    } else if (bp_cuda_begin(plan, BP_CUDA_FAMILY_samples,
                             forward ? BP_CUDA_FUNCTION_unit_rows
                                     : BP_CUDA_FUNCTION_unit_rows_backward,
                             bp_cuda_cut(s->pairs * s->texts, SAMPLE_THREADS), 1, SAMPLE_THREADS)) {
        const uint32_t operands = bp_kernel_describe(plan->op->kernel)->operand_count;
        for (uint32_t i = 0; i < operands; i++) {
            bp_cuda_operand(plan, i, i < (forward ? 2u : 1u) ? BP_ACCESS_WRITE : BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->pairs);
        bp_cuda_word64(plan, (uint64_t)s->texts);
        bp_cuda_word64(plan, (uint64_t)s->width);
    }
    return true;
}

bool bp_cuda_plan_samples(bp_cuda_plan *plan)
{
    /* the rows of rows have the same scalars */
    const bp_sample_row_scalars *s = plan->op->scalars;
    bool forward = plan->op->kernel == BP_KERNEL_sample_row;
    if (plan->op->kernel == BP_KERNEL_sample_loss) {
        plan_sample_loss(plan);
    } else if (bp_cuda_begin(
                   plan, BP_CUDA_FAMILY_samples,
                   forward ? BP_CUDA_FUNCTION_sample_row : BP_CUDA_FUNCTION_sample_row_backward,
                   (uint64_t)(forward ? s->batch : s->batch * s->sequence), 1, SAMPLE_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, sample_row, y, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, sample_row, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, sample_row, lengths, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->batch);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, 0, 0));
        bp_cuda_word32(plan, s->mean != 0);
    }
    return true;
}

static void plan_row_scale(bp_cuda_plan *plan)
{
    const bp_row_scale_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_preference, BP_CUDA_FUNCTION_row_scale,
                      (uint64_t)s->rows, 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, row_scale, x, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, row_scale, weights, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->pitch);
        bp_cuda_word32(plan, bp_cuda_width(plan, BP_CUDA_BIT(row_scale, x), (uint64_t)s->pitch));
    }
}

/* A warp has a block of a row: all three rows have the same scalars. */
bool bp_cuda_plan_tape(bp_cuda_plan *plan)
{
    const bp_tape_pack_scalars *s = plan->op->scalars;
    const bool packs = plan->op->kernel == BP_KERNEL_tape_pack;
    const bool rounds = plan->op->kernel == BP_KERNEL_tape_round;
    const uint32_t function = packs    ? BP_CUDA_FUNCTION_tape_pack
                              : rounds ? BP_CUDA_FUNCTION_tape_round
                                       : BP_CUDA_FUNCTION_tape_unpack;
    const uint64_t blocks = bp_size_mul((uint64_t)s->rows, bp_cuda_cut(s->width, BP_TAPE_BLOCK));
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_tape, function,
                      bp_size_ceil_div(blocks, RUN_THREADS / 32), 1, RUN_THREADS)) {
        bp_cuda_operand(plan, 0, rounds ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        if (!rounds) {
            bp_cuda_operand(plan, 1, BP_ACCESS_READ);
        }
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, bp_cuda_width(plan, rounds ? 1 : 3, (uint64_t)s->width));
    }
    return true;
}

bool bp_cuda_plan_preference(bp_cuda_plan *plan)
{
    const bp_preference_loss_scalars *s = plan->op->scalars;
    if (plan->op->kernel == BP_KERNEL_row_scale) {
        plan_row_scale(plan);
    } else if (bp_cuda_begin(plan, BP_CUDA_FAMILY_preference, BP_CUDA_FUNCTION_preference_loss, 1,
                             1, PAIR_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, preference_loss, result,
                           s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, preference_loss, weights, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, preference_loss, logps, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, preference_loss, losses, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, preference_loss, labels, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, preference_loss, sides, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->batch);
        bp_cuda_word64(plan, (uint64_t)s->sequence);
        bp_cuda_word32(plan, (uint32_t)s->kind);
        bp_cuda_word32(plan, s->accumulate != 0);
        bp_cuda_double(plan, s->beta);
        bp_cuda_double(plan, s->smoothing);
        bp_cuda_double(plan, s->gamma);
        bp_cuda_double(plan, s->nll);
        bp_cuda_double(plan, s->desirable);
        bp_cuda_double(plan, s->undesirable);
    }
    return true;
}
