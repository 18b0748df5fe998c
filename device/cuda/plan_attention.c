/* SPDX-License-Identifier: MIT */
/* Launches of attention: tiles for heads up to 128 wide, a row per block beyond and when
 * generating. */
#include <math.h>

#include "device/cuda/plan.h"

#define ROW_THREADS 128

/* The forms of attention in tiles. */
typedef struct attention_form {
    int64_t width_most;
    uint32_t forward;
    uint32_t queries;
    uint32_t keys;
    uint32_t forward_rows; /* of a tile */
    uint32_t backward_rows;
    uint32_t forward_shared;
    uint32_t backward_shared;
} attention_form;

static const attention_form forms[] = {
    {64, BP_CUDA_FUNCTION_attention_forward_64, BP_CUDA_FUNCTION_attention_backward_queries_64,
     BP_CUDA_FUNCTION_attention_backward_keys_64, 64, 64, 52224, 87040},
    {128, BP_CUDA_FUNCTION_attention_forward_128, BP_CUDA_FUNCTION_attention_backward_queries_128,
     BP_CUDA_FUNCTION_attention_backward_keys_128, 64, 32, 84992, 72192},
};

/* The first form that is wide enough, if tiles can be read in groups of four elements (`floats`:
 * the operands they are read from); NULL: a row per block. */
static const attention_form *form_of(const bp_cuda_plan *plan, int64_t width, uint32_t floats)
{
    bool wide = bp_cuda_wide(plan, floats, (uint64_t)width, 4);
    for (uint32_t i = 0; wide && i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (width <= forms[i].width_most) {
            return &forms[i];
        }
    }
    return NULL;
}

/* The parameters that end every attention kernel; step is an operand of both rows. Both rows have
 * the same scalars. */
static void add_shape(bp_cuda_plan *plan, uint32_t step)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    bp_cuda_operand(plan, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->sequence);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    bp_cuda_single(plan, 1.0f / sqrtf((float)s->head_width));
    bp_cuda_dropout(plan, s->site, s->dropout);
}

/* Begins a kernel in tiles of `rows` rows, or of one row per block. */
static bool begin_rows(bp_cuda_plan *plan, uint32_t function, uint32_t rows, uint64_t shared)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    bool tiles = rows > 1;
    uint64_t blocks = (uint64_t)s->batch * (uint64_t)s->heads * bp_cuda_cut(s->sequence, rows);
    if (!bp_cuda_begin(plan, tiles ? BP_CUDA_FAMILY_attention : BP_CUDA_FAMILY_attention_row,
                       function, blocks, 1, tiles ? 256 : ROW_THREADS)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes = (uint32_t)shared;
    return true;
}

/* Shared memory of a row's form: `rows` rows of the head and `weights` weights. */
static uint64_t row_shared(int64_t width, uint64_t rows, uint64_t weights)
{
    return ((uint64_t)width * rows + weights) * sizeof(float);
}

/* Leaves room for what a kernel declares itself. */
static bool row_fits(uint64_t shared)
{
    return shared <= BP_CUDA_SHARED_LEAST - 1024;
}

static bool plan_forward(bp_cuda_plan *plan)
{
    const bp_attention_forward_scalars *s = plan->op->scalars;
    const attention_form *form = form_of(plan, s->head_width, BP_CUDA_BIT(attention_forward, qkv));
    uint64_t shared =
        form != NULL ? form->forward_shared : row_shared(s->head_width, 2, ROW_THREADS);
    uint32_t function =
        form != NULL ? form->forward : (uint32_t)BP_CUDA_FUNCTION_attention_forward_any;
    if (!row_fits(shared)) {
        return false;
    }
    if (begin_rows(plan, function, form != NULL ? form->forward_rows : 1, shared)) {
        BP_CUDA_OPERAND_OF(plan, attention_forward, out, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, attention_forward, lse, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, attention_forward, qkv, BP_ACCESS_READ);
        add_shape(plan, BP_CUDA_POSITION(attention_forward, step));
    }
    return true;
}

static void add_backward(bp_cuda_plan *plan)
{
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_qkv, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_out, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, lse, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, work, BP_ACCESS_READ);
    add_shape(plan, BP_CUDA_POSITION(attention_backward, step));
}

static bool begin_delta(bp_cuda_plan *plan)
{
    const bp_attention_backward_scalars *s = plan->op->scalars;
    int64_t rows = s->batch * s->sequence;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention, BP_CUDA_FUNCTION_attention_delta,
                       bp_cuda_cut(rows * s->heads, 256), 1, 256)) {
        return false;
    }
    BP_CUDA_OPERAND_OF(plan, attention_backward, work, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_backward, d_out, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_backward, out, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)rows);
    bp_cuda_word64(plan, (uint64_t)s->sequence);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    return true;
}

static bool plan_backward(bp_cuda_plan *plan)
{
    const bp_attention_backward_scalars *s = plan->op->scalars;
    const attention_form *form =
        form_of(plan, s->head_width,
                BP_CUDA_BIT(attention_backward, qkv) | BP_CUDA_BIT(attention_backward, d_out));
    attention_form row = {0,
                          0,
                          BP_CUDA_FUNCTION_attention_backward_queries_any,
                          BP_CUDA_FUNCTION_attention_backward_keys_any,
                          1,
                          1,
                          0,
                          0};
    uint64_t queries_shared = row_shared(s->head_width, 3, ROW_THREADS);
    uint64_t keys_shared = row_shared(s->head_width, 4, 2 * ROW_THREADS);
    if (form != NULL) {
        row = *form;
        queries_shared = form->backward_shared;
        keys_shared = form->backward_shared;
    }
    if (!row_fits(keys_shared)) {
        return false;
    }
    if (begin_delta(plan)) {
        (void)begin_rows(plan, row.queries, row.backward_rows, queries_shared);
        add_backward(plan);
        (void)begin_rows(plan, row.keys, row.backward_rows, keys_shared);
        add_backward(plan);
    }
    return true;
}

bool bp_cuda_plan_attention(bp_cuda_plan *plan)
{
    return plan->op->kernel == BP_KERNEL_attention_forward ? plan_forward(plan)
                                                           : plan_backward(plan);
}

bool bp_cuda_plan_decode(bp_cuda_plan *plan)
{
    const bp_attention_decode_scalars *s = plan->op->scalars;
    int64_t across = s->heads * s->head_width;
    uint64_t shared = row_shared(s->head_width, 2, ROW_THREADS);
    if (!row_fits(shared)) {
        return false;
    }
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_row, BP_CUDA_FUNCTION_attention_cache,
                       bp_cuda_cut(s->rows * across, 256), 1, 256)) {
        return true;
    }
    BP_CUDA_OPERAND_OF(plan, attention_decode, k_cache, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, v_cache, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->rows);
    bp_cuda_word64(plan, (uint64_t)s->positions);
    bp_cuda_word64(plan, (uint64_t)across);
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_attention_row, BP_CUDA_FUNCTION_attention_decode,
                        (uint64_t)(s->rows * s->heads), 1, ROW_THREADS);
    plan->launch[plan->count - 1].shared_bytes = (uint32_t)shared;
    BP_CUDA_OPERAND_OF(plan, attention_decode, out, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, attention_decode, k_cache, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, v_cache, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, qkv, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, attention_decode, step, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->rows);
    bp_cuda_word64(plan, (uint64_t)s->positions);
    bp_cuda_word64(plan, (uint64_t)s->heads);
    bp_cuda_word64(plan, (uint64_t)s->head_width);
    bp_cuda_single(plan, 1.0f / sqrtf((float)s->head_width));
    return true;
}
