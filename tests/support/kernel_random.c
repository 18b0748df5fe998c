/* SPDX-License-Identifier: MIT */
/* Random kernel calls (see kernel_random.h). */
#include "tests/support/kernel_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/number/activation.h"
#include "core/number/master.h"
#include "core/number/quantised.h"
#include "core/number/random.h"
#include "core/compile/spec.h"
#include "core/program/step.h"
#include "tests/support/kernel_random_update.h"

static double some_dropout(dice *d)
{
    return roll(d, 0, 1) == 0 ? 0.0 : 0.05 * (double)roll(d, 1, 15);
}

/* Rows of whole samples: a batch of sequences. */
static int64_t whole_rows(dice *d, int64_t sequence)
{
    return sequence * roll(d, 1, 3);
}

static void draw_matmul(dice *d, bp_matmul_scalars *s)
{
    *s = (bp_matmul_scalars){.m = size(d, 150), .n = size(d, 150), .k = size(d, 600)};
    s->transpose_a = roll(d, 0, 1);
    s->transpose_b = roll(d, 0, 1);
    s->accumulate = roll(d, 0, 2) == 0;
    s->gelu = s->accumulate != 0 ? 0 : roll(d, 0, 1);
    int64_t pad = roll(d, 0, 1);
    s->lda = (s->transpose_a != 0 ? s->m : s->k) + pad * roll(d, 0, 20);
    s->ldb = (s->transpose_b != 0 ? s->k : s->n) + pad * roll(d, 0, 20);
    s->ldc = s->n + pad * roll(d, 0, 20);
}

static void draw_quantised(dice *d, bp_matmul_quantised_scalars *s)
{
    *s = (bp_matmul_quantised_scalars){.m = roll(d, 0, 2) == 0 ? 1 : size(d, 150),
                                       .n = size(d, 200),
                                       .k = size(d, 600),
                                       .transpose_b = roll(d, 0, 1),
                                       .gelu = roll(d, 0, 1),
                                       .form = roll(d, BP_QUANTISED_NF4, BP_QUANTISED_INT8)};
    if (s->m == 1 && s->k % 2 == 0) {
        s->k += 64 - s->k % 64; /* whole blocks */
    }
    s->lda = s->k + roll(d, 0, 1) * roll(d, 0, 20);
    s->ldc = s->n + roll(d, 0, 1) * roll(d, 0, 20);
}

static void draw_embedding(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t sequence = size(d, 20), width = size(d, 150), vocabulary = size(d, 50);
    int64_t rows = whole_rows(d, sequence), positions = sequence + roll(d, 0, 4);
    int64_t site = roll(d, 0, 99), flag = roll(d, 0, 1);
    double dropout = some_dropout(d);
    if (kernel == BP_KERNEL_embedding_forward) {
        bool decode = flag != 0;
        s->embedding_forward =
            (bp_embedding_forward_scalars){.rows = decode ? sequence : rows,
                                           .sequence = sequence,
                                           .width = width,
                                           .vocabulary = vocabulary,
                                           .positions = positions + (decode ? 3 : 0),
                                           .site = site,
                                           .decode = flag,
                                           .dropout = decode ? 0.0 : dropout};
    } else if (kernel == BP_KERNEL_embedding_token_backward) {
        s->embedding_token_backward =
            (bp_embedding_token_backward_scalars){.rows = rows,
                                                  .sequence = sequence,
                                                  .width = width,
                                                  .vocabulary = vocabulary,
                                                  .first = roll(d, 0, 1) * roll(d, 0, 9),
                                                  .site = site,
                                                  .accumulate = flag,
                                                  .dropout = dropout};
    } else {
        s->embedding_position_backward =
            (bp_embedding_position_backward_scalars){.rows = rows,
                                                     .sequence = sequence,
                                                     .width = width,
                                                     .positions = positions,
                                                     .site = site,
                                                     .accumulate = flag,
                                                     .dropout = dropout};
    }
}

static void draw_attention(dice *d, bp_kernel kernel, any_scalars *s)
{
    static const int64_t widths[] = {1, 3, 8, 16, 17, 32, 40, 64, 65, 80, 128};
    int64_t head_width = widths[roll(d, 0, 10)], heads = roll(d, 1, 3);
    int64_t sequence = size(d, 150), batch = roll(d, 1, 2), site = roll(d, 0, 99);
    double dropout = some_dropout(d), scale = 1.0 / sqrt((double)head_width);
    int64_t kv_heads = roll(d, 1, 2), causal = roll(d, 0, 3) > 0;
    heads *= kv_heads;
    if (kernel == BP_KERNEL_attention_forward) {
        s->attention_forward = (bp_attention_forward_scalars){.batch = batch,
                                                              .sequence = sequence,
                                                              .heads = heads,
                                                              .kv_heads = kv_heads,
                                                              .head_width = head_width,
                                                              .causal = causal,
                                                              .site = site,
                                                              .scale = scale,
                                                              .dropout = dropout};
    } else if (kernel == BP_KERNEL_attention_backward) {
        s->attention_backward = (bp_attention_backward_scalars){.batch = batch,
                                                                .sequence = sequence,
                                                                .heads = heads,
                                                                .kv_heads = kv_heads,
                                                                .head_width = head_width,
                                                                .causal = causal,
                                                                .site = site,
                                                                .scale = scale,
                                                                .dropout = dropout};
    } else {
        s->attention_decode = (bp_attention_decode_scalars){.rows = size(d, 40),
                                                            .positions = sequence,
                                                            .heads = heads,
                                                            .kv_heads = kv_heads,
                                                            .head_width = head_width,
                                                            .scale = scale};
    }
}

/* Chunks of logits, with and without smoothing. */
static void draw_cross_entropy(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t rows = size(d, 40), width = size(d, 300), pitch = width + roll(d, 0, 20);
    int64_t flag = roll(d, 0, 1);
    const double smoothing = 0.1 * (double)roll(d, 0, 2);
    if (kernel == BP_KERNEL_cross_entropy) {
        s->cross_entropy =
            (bp_cross_entropy_scalars){rows, width, pitch, flag, rows + 3, smoothing};
    } else if (kernel == BP_KERNEL_cross_entropy_forward) {
        s->cross_entropy_forward =
            (bp_cross_entropy_forward_scalars){rows, width, pitch, smoothing};
    } else {
        const int64_t first = roll(d, 0, 9), vocabulary = first + width + roll(d, 0, 9);
        s->cross_entropy_columns = (bp_cross_entropy_columns_scalars){
            rows, width, pitch, first, flag, rows + 3, vocabulary, smoothing};
    }
}

static void draw_rows(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t rows = size(d, 40), width = size(d, 300), flag = roll(d, 0, 1);
    switch (kernel) {
    case BP_KERNEL_layernorm_forward:
        s->layernorm_forward =
            (bp_layernorm_forward_scalars){.rows = rows, .width = width, .epsilon = 1e-5};
        break;
    case BP_KERNEL_layernorm_backward_input:
        s->layernorm_backward_input =
            (bp_layernorm_backward_input_scalars){.rows = rows, .width = width};
        break;
    case BP_KERNEL_layernorm_backward_parameters:
        s->layernorm_backward_parameters = (bp_layernorm_backward_parameters_scalars){
            .rows = rows, .width = width, .accumulate = flag};
        break;
    case BP_KERNEL_bias_backward:
        s->bias_backward = (bp_bias_backward_scalars){
            .rows = rows, .n = width, .pitch = width, .accumulate = flag};
        break;
    case BP_KERNEL_rmsnorm_forward:
        s->rmsnorm_forward =
            (bp_rmsnorm_forward_scalars){.rows = rows, .width = width, .epsilon = 1e-6};
        s->rmsnorm_forward.heads = 1 + rows % 3;
        s->rmsnorm_forward.pitch = width * s->rmsnorm_forward.heads + rows % 2 * 3;
        break;
    case BP_KERNEL_rmsnorm_backward_input:
        s->rmsnorm_backward_input =
            (bp_rmsnorm_backward_input_scalars){.rows = rows, .width = width};
        s->rmsnorm_backward_input.heads = 1 + rows % 3;
        s->rmsnorm_backward_input.pitch = width * s->rmsnorm_backward_input.heads + rows % 2 * 3;
        break;
    case BP_KERNEL_rmsnorm_backward_weight:
        s->rmsnorm_backward_weight =
            (bp_rmsnorm_backward_weight_scalars){.rows = rows, .width = width, .accumulate = flag};
        s->rmsnorm_backward_weight.heads = 1 + rows % 3;
        s->rmsnorm_backward_weight.pitch = width * s->rmsnorm_backward_weight.heads + rows % 2 * 3;
        break;
    case BP_KERNEL_cross_entropy:
    case BP_KERNEL_cross_entropy_columns:
    case BP_KERNEL_cross_entropy_forward:
        draw_cross_entropy(d, kernel, s);
        break;
    case BP_KERNEL_loss_sum:
        s->loss_sum = (bp_loss_sum_scalars){.rows = rows, .accumulate = flag};
        break;
    default:
        s->pick_row = (bp_pick_row_scalars){.rows = rows, .width = width};
        break;
    }
}

/* Rows of heads, and rows that stand for samples. */
static void draw_samples(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t sequence = size(d, 20), batch = roll(d, 1, 4), width = size(d, 150);
    int64_t half = size(d, 64), heads = roll(d, 1, 3), flag = roll(d, 0, 1);
    switch (kernel) {
    case BP_KERNEL_rotary_table:
        s->rotary_table = (bp_rotary_table_scalars){.rows = sequence,
                                                    .width = 2 * half,
                                                    .decode = flag,
                                                    .theta = 10000.0,
                                                    .factor = 8.0 * (double)roll(d, 0, 1),
                                                    .low = 1.0,
                                                    .high = 4.0,
                                                    .original = 64.0};
        break;
    case BP_KERNEL_rotary:
        s->rotary = (bp_rotary_scalars){.rows = sequence * batch,
                                        .sequence = sequence,
                                        .heads = heads,
                                        .width = 2 * half,
                                        .pitch = 2 * half * heads + size(d, 40),
                                        .inverse = flag};
        break;
    case BP_KERNEL_sample_row:
        s->sample_row =
            (bp_sample_row_scalars){.batch = batch, .sequence = sequence, .width = width};
        break;
    case BP_KERNEL_sample_row_backward:
        s->sample_row_backward =
            (bp_sample_row_backward_scalars){.batch = batch, .sequence = sequence, .width = width};
        break;
    case BP_KERNEL_time_slice:
        s->time_slice = (bp_time_slice_scalars){
            .batch = batch, .sequence = sequence + roll(d, 0, 9), .length = sequence};
        break;
    case BP_KERNEL_gru_forward:
    case BP_KERNEL_gru_backward:
    case BP_KERNEL_lstm_forward:
    case BP_KERNEL_lstm_backward:
        /* the rows of cells have the same scalars */
        s->gru_forward = (bp_gru_forward_scalars){.rows = batch, .width = width};
        break;
    default:
        s->sample_loss = (bp_sample_loss_scalars){.batch = batch,
                                                  .sequence = sequence,
                                                  .classes = roll(d, 1, 40),
                                                  .kind = BP_TASK_CLASSES + roll(d, 0, 2),
                                                  .gradient = flag,
                                                  .scaled = roll(d, 0, 1),
                                                  .smoothing = 0.1 * (double)roll(d, 0, 2)};
        break;
    }
}

static void draw_activation(dice *d, bp_kernel kernel, int64_t count, any_scalars *s)
{
    const int64_t kind = roll(d, 0, BP_ACTIVATION_COUNT - 1);
    if (kernel == BP_KERNEL_swiglu_forward) {
        s->swiglu_forward.count = count;
    } else if (kernel == BP_KERNEL_swiglu_backward) {
        s->swiglu_backward.count = count;
    } else if (kernel == BP_KERNEL_activation_forward) {
        s->activation_forward = (bp_activation_forward_scalars){count, kind};
    } else {
        s->activation_backward = (bp_activation_backward_scalars){count, kind};
    }
}

static void draw_decision(dice *d, bp_step_decide_scalars *s)
{
    *s = (bp_step_decide_scalars){.partials = size(d, 300),
                                  .max_norm = (double)roll(d, 0, 2),
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .scaling = roll(d, 0, 2),
                                  .growth = 2.0,
                                  .backoff = 0.5,
                                  .interval = roll(d, 1, 3),
                                  .hysteresis = roll(d, 1, 2),
                                  .floor = 1.0,
                                  .later = roll(d, 0, 1),
                                  .previous = roll(d, 0, 2)};
}

static void draw_flat(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t count = roll(d, 0, 1) == 0 ? size(d, 300) : roll(d, 4000, 14000);
    switch (kernel) {
    case BP_KERNEL_gelu_forward:
        s->gelu_forward.count = count;
        break;
    case BP_KERNEL_gelu_backward:
        s->gelu_backward.count = count;
        break;
    case BP_KERNEL_swiglu_forward:
    case BP_KERNEL_swiglu_backward:
    case BP_KERNEL_activation_forward:
    case BP_KERNEL_activation_backward:
        draw_activation(d, kernel, count, s);
        break;
    case BP_KERNEL_copy:
        s->copy.count = count;
        break;
    case BP_KERNEL_state_begin:
        s->state_begin = (bp_state_begin_scalars){.count = count, .decode = roll(d, 0, 1)};
        break;
    case BP_KERNEL_scale:
        s->scale.count = count;
        s->scale.factor = 2.0 / (double)roll(d, 1, 9);
        break;
    case BP_KERNEL_random_normal:
        s->random_normal.count = count;
        s->random_normal.stream = roll(d, 0, 99);
        s->random_normal.deviation = 0.02;
        break;
    case BP_KERNEL_poison:
        s->poison.count = 4 * count;
        break;
    case BP_KERNEL_dropout:
        s->dropout.per_sample = count;
        s->dropout.count = count * roll(d, 1, 3);
        s->dropout.site = roll(d, 0, 99);
        s->dropout.dropout = some_dropout(d);
        break;
    case BP_KERNEL_norm_partial:
        s->norm_partial = (bp_norm_partial_scalars){.count = count, .chunk = size(d, 3000)};
        break;
    case BP_KERNEL_step_decide:
        draw_decision(d, &s->step_decide);
        break;
    default:
        s->trust_ratio = (bp_trust_ratio_scalars){
            .pairs = size(d, 300), .coefficient = 0.5, .decay = 0.1 * (double)roll(d, 0, 1)};
        break;
    }
}

static void draw_scalars(dice *d, bp_kernel kernel, any_scalars *s)
{
    memset(s, 0, sizeof(*s));
    switch (kernel) {
    case BP_KERNEL_matmul:
        draw_matmul(d, &s->matmul);
        break;
    case BP_KERNEL_matmul_quantised:
        draw_quantised(d, &s->matmul_quantised);
        break;
    case BP_KERNEL_embedding_forward:
    case BP_KERNEL_embedding_token_backward:
    case BP_KERNEL_embedding_position_backward:
        draw_embedding(d, kernel, s);
        break;
    case BP_KERNEL_attention_forward:
    case BP_KERNEL_attention_backward:
    case BP_KERNEL_attention_decode:
        draw_attention(d, kernel, s);
        break;
    case BP_KERNEL_layernorm_forward:
    case BP_KERNEL_layernorm_backward_input:
    case BP_KERNEL_layernorm_backward_parameters:
    case BP_KERNEL_bias_backward:
    case BP_KERNEL_rmsnorm_forward:
    case BP_KERNEL_rmsnorm_backward_input:
    case BP_KERNEL_rmsnorm_backward_weight:
    case BP_KERNEL_cross_entropy:
    case BP_KERNEL_cross_entropy_columns:
    case BP_KERNEL_cross_entropy_forward:
    case BP_KERNEL_loss_sum:
    case BP_KERNEL_pick_row:
        draw_rows(d, kernel, s);
        break;
    case BP_KERNEL_rotary_table:
    case BP_KERNEL_rotary:
    case BP_KERNEL_sample_row:
    case BP_KERNEL_sample_row_backward:
    case BP_KERNEL_sample_loss:
    case BP_KERNEL_time_slice:
    case BP_KERNEL_gru_forward:
    case BP_KERNEL_gru_backward:
    case BP_KERNEL_lstm_forward:
    case BP_KERNEL_lstm_backward:
        draw_samples(d, kernel, s);
        break;
    default:
        if (is_update(kernel) || is_sum(kernel)) {
            draw_update(d, kernel, s);
        } else if (is_transfer(kernel)) {
            draw_transfer(d, kernel, s);
        } else {
            draw_flat(d, kernel, s);
        }
        break;
    }
}

/* Which optional operands are left out. */
static uint32_t draw_absent(dice *d, bp_kernel kernel, const any_scalars *s)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    uint32_t absent = 0;
    if (is_update(kernel)) {
        return draw_update_absent(d, kernel, s);
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        bool optional = info->operand[i].optional && !info->operand[i].workspace;
        absent |= optional && roll(d, 0, 1) == 0 ? UINT32_C(1) << i : 0;
    }
    if (kernel == BP_KERNEL_matmul && s->matmul.accumulate != 0) {
        absent |= UINT32_C(1) << OPERAND(matmul, bias) | UINT32_C(1) << OPERAND(matmul, residual);
    }
    if (kernel == BP_KERNEL_matmul && s->matmul.gelu == 0) {
        absent |= UINT32_C(1) << OPERAND(matmul, before);
    }
    if (kernel == BP_KERNEL_matmul_quantised) {
        const uint32_t nested = UINT32_C(1) << OPERAND(matmul_quantised, nested);
        bool there = s->matmul_quantised.form == BP_QUANTISED_NF4_DOUBLE;
        absent = there ? absent & ~nested : absent | nested;
        absent |=
            s->matmul_quantised.gelu == 0 ? UINT32_C(1) << OPERAND(matmul_quantised, before) : 0;
    }
    return absent;
}

/* Any codes; scales that are floats are positive. */
static void fill_quantised(dice *d, const any_scalars *s, const char *name, unsigned char *at,
                           uint64_t bytes)
{
    bool floats =
        strcmp(name, "scales") == 0 && s->matmul_quantised.form != BP_QUANTISED_NF4_DOUBLE;
    for (uint64_t i = 0; floats && i < bytes / 4; i++) {
        ((float *)(void *)at)[i] = 0.01f * (float)roll(d, 1, 300);
    }
    for (uint64_t i = 0; !floats && i < bytes; i++) {
        at[i] = (unsigned char)roll(d, 0, 255);
    }
}

static void fill_block(dice *d, const char *name, void *at)
{
    if (strcmp(name, "step") == 0) {
        *(bp_step_block *)at = (bp_step_block){.seed = d->seed,
                                               .step = (uint64_t)roll(d, 0, 1000),
                                               .sample = (uint32_t)roll(d, 0, 9),
                                               .position = (uint32_t)roll(d, 0, 3),
                                               .last_row = (uint32_t)roll(d, 0, 45),
                                               .learning_rate = 1e-3f,
                                               .inverse_valid = 1.0f / 37.0f};
    } else if (strcmp(name, "control") == 0) {
        *(bp_control_block *)at = (bp_control_block){.applied = (uint64_t)roll(d, 0, 1000),
                                                     .clip = 0.37f,
                                                     .skip = roll(d, 0, 5) == 0,
                                                     .correction1 = 0.271,
                                                     .correction2 = 0.002,
                                                     .scale = 1024.0f,
                                                     .good_steps = (uint32_t)roll(d, 0, 1),
                                                     .bad_steps = (uint32_t)roll(d, 0, 1)};
    } else {
        *(bp_result_block *)at = (bp_result_block){.loss_sum = (double)roll(d, 0, 10)};
    }
}

/* Ids below the vocabulary; labels also -1; lengths up to the sequence. */
static void fill_integers(dice *d, const any_scalars *s, bp_kernel kernel, const char *name,
                          int32_t *at, uint64_t count)
{
    int64_t low = 0, high;
    if (strcmp(name, "lengths") == 0) {
        high = s->sample_row.sequence; /* the same place in all rows with lengths */
    } else if (kernel == BP_KERNEL_time_slice) {
        high = 1000;
    } else if (kernel == BP_KERNEL_sample_loss) {
        low = -1;
        high = s->sample_loss.classes - 1;
    } else if (kernel == BP_KERNEL_embedding_forward) {
        high = s->embedding_forward.vocabulary - 1;
    } else if (kernel == BP_KERNEL_embedding_token_backward) {
        high = s->embedding_token_backward.first + s->embedding_token_backward.vocabulary - 1;
    } else {
        low = -1;
        high = s->cross_entropy.vocabulary - 1; /* the same place in both rows */
    }
    for (uint64_t i = 0; i < count; i++) {
        at[i] = (int32_t)roll(d, low, high);
    }
}

/* Sums of squares; in some cases, of a gradient that is not finite. */
static void fill_doubles(dice *d, double *at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        at[i] = i == 0 && count % 7 == 1 ? (double)INFINITY : bp_random_uniform(d->seed, 78, i);
    }
}

/* Floats: normal numbers, made positive or moderate where the kernel needs that. */
static void fill_floats(dice *d, const char *name, void *to, bp_dtype dtype, uint64_t count)
{
    float *at = malloc(count * sizeof(float) + 1);
    fill_normal(at, count, d->seed * 31 + (uint64_t)roll(d, 0, 1 << 20),
                strcmp(name, "logits") == 0 ? 5.0 : 1.0);
    bool statistics = strcmp(name, "statistics") == 0;
    for (uint64_t i = 0; statistics && i < count; i++) {
        at[i] = 12.0f + at[i]; /* above the logits, so that exp stays small */
    }
    bool positive =
        strcmp(name, "norms") == 0 || strcmp(name, "rstd") == 0 || strcmp(name, "lse") == 0;
    for (uint64_t i = 0; positive && i < count; i++) {
        at[i] = strcmp(name, "lse") == 0 ? 3.0f + 0.1f * fabsf(at[i]) : fabsf(at[i]);
    }
    store_elements(to, dtype, at, count);
    free(at);
}

static void fill_case(dice *d, kernel_case *c)
{
    const bp_kernel_info *info = bp_kernel_describe(c->kernel);
    for (uint32_t slot = 0; slot < c->tuples * info->operand_count; slot++) {
        uint32_t tuple = slot / info->operand_count, i = slot % info->operand_count;
        const bp_operand_info *operand = &info->operand[i];
        any_scalars s;
        memset(&s, 0, sizeof(s));
        memcpy(&s, c->scalars + tuple * info->scalar_count, info->scalar_count * sizeof(uint64_t));
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(&s, extents);
        void *at = kernel_case_at(c, tuple, i);
        /* what is only written keeps the pattern, except blocks, whose unused words are kept */
        bool skipped = at == NULL || (extents[i].access & BP_ACCESS_READ) == 0;
        if (skipped) {
            continue;
        }
        bool block = strcmp(operand->name, "step") == 0 || strcmp(operand->name, "control") == 0 ||
                     strcmp(operand->name, "result") == 0;
        bool codes = c->kernel == BP_KERNEL_matmul_quantised || is_transfer(c->kernel);
        if (codes && operand->type == BP_TYPE_BYTE) {
            fill_quantised(d, &s, operand->name, at, c->bytes[slot]);
        } else if (operand->type >= BP_TYPE_BYTE && !block) {
            fill_update_bytes(d, c->kernel, &s, operand->name, at);
        } else if (operand->type >= BP_TYPE_BYTE) {
            fill_block(d, operand->name, at);
        } else if (operand->type == BP_TYPE_I32) {
            fill_integers(d, &s, c->kernel, operand->name, at, c->bytes[slot] / 4);
        } else if (operand->type == BP_TYPE_F64) {
            fill_doubles(d, at, c->bytes[slot] / 8);
        } else {
            bp_dtype dtype = operand->type == BP_TYPE_F32 ? BP_F32 : (bp_dtype)c->dtypes[slot];
            fill_floats(d, operand->name, at, dtype, c->bytes[slot] / bp_dtype_bytes(dtype));
        }
    }
}

/* Element types in 16 bits: see kernel_random.h. A product whose c has followers has c's type as
 * all others'; update rules are drawn in f32. */
static void draw_types(dice *d, bp_kernel kernel, bp_dtype working, any_scalars *s,
                       uint32_t *absent, uint8_t *dtypes)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    uint32_t followers = UINT32_C(1) << OPERAND(matmul, bias) | UINT32_C(1)
                                                                    << OPERAND(matmul, residual);
    bool followed = s->matmul.gelu != 0 || (*absent & followers) != followers;
    for (uint32_t i = 0; i < info->operand_count; i++) {
        bp_operand_type type = info->operand[i].type;
        bool own = type == BP_TYPE_FLOAT && !(kernel == BP_KERNEL_matmul && followed);
        dtypes[i] = own ? (uint8_t)roll(d, BP_F32, BP_F16) : (uint8_t)working;
    }
    if (kernel == BP_KERNEL_norm_partial) {
        dtypes[OPERAND(norm_partial, x)] = (uint8_t)working;
    } else if (bp_kernel_working(info, dtypes) == BP_F32) {
        memset(dtypes, BP_F32, BP_OPERANDS_MAX);
    } else if (kernel == BP_KERNEL_random_normal) {
        s->random_normal.form = working == BP_BF16 ? roll(d, BP_MASTER_FP32, BP_MASTER_STOCHASTIC)
                                                   : (int64_t)BP_MASTER_FP32;
        *absent = s->random_normal.form == BP_MASTER_STOCHASTIC
                      ? UINT32_C(1) << OPERAND(random_normal, master)
                      : 0;
    }
}

void kernel_random_case_typed(kernel_case *c, const bp_device *device, bp_kernel kernel,
                              bp_dtype working, uint64_t seed)
{
    const bp_kernel_info *info = bp_kernel_describe(kernel);
    dice d = {seed * 1000 + (uint64_t)kernel, 0};
    uint32_t tuples = info->list ? (uint32_t)roll(&d, 1, 5) : 1;
    uint64_t scalars[CASE_TUPLES * BP_SCALARS_MAX] = {0};
    uint8_t dtypes[BP_OPERANDS_MAX] = {BP_F32};
    any_scalars s;
    for (uint32_t i = 0; i < tuples; i++) {
        draw_scalars(&d, kernel, &s);
        memcpy(scalars + i * info->scalar_count, &s, info->scalar_count * sizeof(uint64_t));
    }
    uint32_t absent = draw_absent(&d, kernel, &s);
    if (working != BP_F32) {
        draw_types(&d, kernel, working, &s, &absent, dtypes);
        memcpy(scalars + (tuples - 1) * info->scalar_count, &s,
               info->scalar_count * sizeof(uint64_t));
    }
    kernel_case_init_typed(c, device, kernel, scalars, tuples, absent, dtypes);
    fill_case(&d, c);
}

void kernel_random_case(kernel_case *c, const bp_device *device, bp_kernel kernel, uint64_t seed)
{
    kernel_random_case_typed(c, device, kernel, BP_F32, seed);
}

void kernel_shaped_case(kernel_case *c, const bp_device *device, bp_kernel kernel,
                        const void *scalars, uint32_t absent, uint64_t seed)
{
    dice d = {seed * 1000 + (uint64_t)kernel, 0};
    kernel_case_init(c, device, kernel, scalars, 1, absent);
    fill_case(&d, c);
}
