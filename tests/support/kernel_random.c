/* SPDX-License-Identifier: MIT */
/* Random kernel calls (see kernel_random.h). */
#include "tests/support/kernel_random.h"

#include <math.h>
#include <string.h>

#include "core/number/activation.h"
#include "core/number/master.h"
#include "core/number/quantised.h"
#include "core/number/codec.h"
#include "tests/support/kernel_random_rows.h"
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

/* Any form of codes, in 4 bits with any size of blocks. */
static int64_t some_codes(dice *d)
{
    const int64_t kind = roll(d, BP_QUANTISED_NF4, BP_QUANTISED_KINDS - 1), size = roll(d, 0, 11);
    return kind + (bp_quantised_four(kind) && size < 8 ? 8 * size : 0);
}

static void draw_quantised(dice *d, bp_matmul_quantised_scalars *s)
{
    *s = (bp_matmul_quantised_scalars){.m = roll(d, 0, 2) == 0 ? 1 : size(d, 150),
                                       .n = size(d, 200),
                                       .k = size(d, 600),
                                       .transpose_b = roll(d, 0, 1),
                                       .gelu = roll(d, 0, 1),
                                       .form = some_codes(d)};
    if (s->m == 1 && s->k % 2 == 0) {
        s->k += 64 - s->k % 64; /* whole blocks, if they are not larger */
    }
    s->lda = s->k + roll(d, 0, 1) * roll(d, 0, 20);
    s->ldc = s->n + roll(d, 0, 1) * roll(d, 0, 20);
}

static void draw_magnitude(dice *d, bp_kernel kernel, any_scalars *s)
{
    const int64_t rows = size(d, 40), n = size(d, 150), pad = roll(d, 0, 1);
    if (kernel == BP_KERNEL_weight_norms) {
        const int64_t form = roll(d, 0, 1) * some_codes(d);
        s->weight_norms = (bp_weight_norms_scalars){
            .rows = n,
            .columns = size(d, 200),
            .rank = size(d, 20),
            .turned = form == 0 || form == BP_QUANTISED_FP8 ? roll(d, 0, 1) : 0,
            .form = form,
            .factor = 0.125 * (double)roll(d, 1, 16)};
    } else if (kernel == BP_KERNEL_magnitude_apply) {
        s->magnitude_apply = (bp_magnitude_apply_scalars){.rows = rows,
                                                          .n = n,
                                                          .pitch = n + pad * roll(d, 0, 20),
                                                          .x_pitch = n + pad * roll(d, 0, 20),
                                                          .less = (double)roll(d, 0, 1)};
    } else if (kernel == BP_KERNEL_magnitude_backward) {
        s->magnitude_backward =
            (bp_magnitude_backward_scalars){.rows = roll(d, 0, 3) == 0 ? 300 : rows,
                                            .n = n,
                                            .pitch = n + pad * roll(d, 0, 20),
                                            .accumulate = roll(d, 0, 1)};
    } else {
        s->store_values = (bp_store_values_scalars){.count = size(d, 600)};
    }
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
                                           .dropout = decode ? 0.0 : dropout,
                                           .noise = site % 3 == 0 ? 0.5 : 0.0};
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
    int64_t window = roll(d, 0, 1) * size(d, 150);
    double cap = 0.75 * (double)(roll(d, 0, 2) == 0 ? roll(d, 1, 4) : 0);
    heads *= kv_heads;
    if (kernel == BP_KERNEL_attention_packed_forward ||
        kernel == BP_KERNEL_attention_packed_backward) {
        kernel = BP_KERNEL_attention_forward; /* the same scalars */
        causal = 1;
    }
    if (kernel == BP_KERNEL_attention_forward) {
        s->attention_forward = (bp_attention_forward_scalars){.batch = batch,
                                                              .sequence = sequence,
                                                              .heads = heads,
                                                              .kv_heads = kv_heads,
                                                              .head_width = head_width,
                                                              .causal = causal,
                                                              .site = site,
                                                              .scale = scale,
                                                              .dropout = dropout,
                                                              .window = window,
                                                              .cap = cap};
    } else if (kernel == BP_KERNEL_attention_backward) {
        s->attention_backward = (bp_attention_backward_scalars){.batch = batch,
                                                                .sequence = sequence,
                                                                .heads = heads,
                                                                .kv_heads = kv_heads,
                                                                .head_width = head_width,
                                                                .causal = causal,
                                                                .site = site,
                                                                .scale = scale,
                                                                .dropout = dropout,
                                                                .window = window,
                                                                .cap = cap};
    } else {
        const int64_t others = roll(d, 0, 2) * roll(d, 0, 2), apart = roll(d, 0, 1);
        s->attention_decode =
            (bp_attention_decode_scalars){.rows = apart ? others + 1 : size(d, 40),
                                          .positions = sequence,
                                          .heads = heads,
                                          .kv_heads = kv_heads,
                                          .head_width = head_width,
                                          .scale = scale,
                                          .window = window,
                                          .cap = cap,
                                          .others = others,
                                          .apart = apart};
    }
}

static void draw_activation(dice *d, bp_kernel kernel, int64_t count, any_scalars *s)
{
    const int64_t kind = roll(d, 0, BP_ACTIVATION_COUNT - 1);
    if (kernel == BP_KERNEL_swiglu_forward) {
        const int64_t width = roll(d, 1, 40), fused = roll(d, 0, 1);
        s->swiglu_forward = (bp_swiglu_forward_scalars){
            fused ? count / width * width : count, roll(d, 0, BP_GATE_COUNT - 1),
            fused ? width : count, fused ? 2 * width : count};
    } else if (kernel == BP_KERNEL_swiglu_backward) {
        const int64_t width = roll(d, 1, 40), fused = roll(d, 0, 1);
        s->swiglu_backward = (bp_swiglu_backward_scalars){
            fused ? count / width * width : count, roll(d, 0, BP_GATE_COUNT - 1),
            fused ? width : count, fused ? 2 * width : count};
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

/* Rows of the update rules over whole matrices. */
static void draw_matrix(dice *d, bp_kernel kernel, int64_t count, any_scalars *s)
{
    switch (kernel) {
    case BP_KERNEL_rms_scale:
        s->rms_scale = (bp_rms_scale_scalars){.pairs = size(d, 300),
                                              .elements = 1000.0,
                                              .threshold = 0.1 * (double)roll(d, 1, 4),
                                              .floor = 0.1 * (double)roll(d, 0, 3)};
        break;
    case BP_KERNEL_direction:
        s->direction = (bp_direction_scalars){.count = count,
                                              .form = roll(d, 0, BP_CODEC_COUNT - 1),
                                              .beta = 0.95,
                                              .nesterov = roll(d, 0, 1),
                                              .beta2 = 0.999,
                                              .epsilon = 1e-6};
        break;
    case BP_KERNEL_unit:
        s->unit = (bp_unit_scalars){.count = count, .partials = size(d, 30), .epsilon = 1e-7};
        break;
    case BP_KERNEL_square_sums:
        s->square_sums = (bp_square_sums_scalars){.rows = size(d, 90),
                                                  .width = size(d, 300),
                                                  .chunk = roll(d, 1, 40),
                                                  .raw = roll(d, 0, 1)};
        break;
    case BP_KERNEL_limited_factors: /* no sum is infinite */
        s->limited_factors = (bp_limited_factors_scalars){.channels = 7 * size(d, 90),
                                                          .pieces = roll(d, 1, 3),
                                                          .whole = roll(d, 0, 1),
                                                          .root = 11.3,
                                                          .limit = 1.01};
        break;
    case BP_KERNEL_moment_factors:
        s->moment_factors = (bp_moment_factors_scalars){.count = size(d, 600),
                                                        .pieces = roll(d, 1, 3),
                                                        .group = 7, /* no sum is infinite */
                                                        .kind = roll(d, 0, 2),
                                                        .divisor = 5.0,
                                                        .floor = 1e-30,
                                                        .beta2 = 0.999,
                                                        .power = -0.8 * (double)roll(d, 0, 1),
                                                        .epsilon = 1e-8};
        break;
    default:
        s->trust_ratio = (bp_trust_ratio_scalars){
            .pairs = size(d, 300), .coefficient = 0.5, .decay = 0.1 * (double)roll(d, 0, 1)};
        break;
    }
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
        s->state_begin = (bp_state_begin_scalars){.count = count, .decode = roll(d, 0, 3) > 0};
        break;
    case BP_KERNEL_scale:
        s->scale.count = count;
        s->scale.factor = 2.0 / (double)roll(d, 1, 9);
        break;
    case BP_KERNEL_random_normal:
        s->random_normal.count = count;
        s->random_normal.stream = roll(d, 0, 99);
        s->random_normal.deviation = 0.02;
        s->random_normal.interval = 10 * roll(d, 0, 1);
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
    case BP_KERNEL_tree_add:
        s->tree_add = (bp_tree_add_scalars){.count = count, .pad = roll(d, 0, 70)};
        break;
    case BP_KERNEL_tree_sum:
        s->tree_sum = (bp_tree_sum_scalars){.count = count, .pieces = 1 << roll(d, 0, 4)};
        break;
    case BP_KERNEL_loss_tree:
        s->loss_tree = (bp_loss_tree_scalars){.lanes = 1 << roll(d, 0, 6)};
        break;
    case BP_KERNEL_norm_partial:
        s->norm_partial = (bp_norm_partial_scalars){.count = count, .chunk = size(d, 3000)};
        break;
    case BP_KERNEL_step_decide:
        draw_decision(d, &s->step_decide);
        break;
    default:
        draw_matrix(d, kernel, count, s);
        break;
    }
}

static void draw_scalars(dice *d, bp_kernel kernel, any_scalars *s)
{
    memset(s, 0, sizeof(*s));
    switch (kernel) {
    case BP_KERNEL_matmul:
    case BP_KERNEL_matmul_fp8: /* the same scalars */
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
    case BP_KERNEL_attention_packed_forward:
    case BP_KERNEL_attention_packed_backward:
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
    case BP_KERNEL_rotary_angles:
    case BP_KERNEL_rotary:
    case BP_KERNEL_regroup:
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
    case BP_KERNEL_weight_norms:
    case BP_KERNEL_magnitude_apply:
    case BP_KERNEL_magnitude_backward:
    case BP_KERNEL_store_values:
        draw_magnitude(d, kernel, s);
        break;
    case BP_KERNEL_preference_loss:
    case BP_KERNEL_row_scale:
        draw_preference(d, kernel, (int64_t[3]){roll(d, 1, 4), size(d, 20), size(d, 150)}, s);
        break;
    case BP_KERNEL_distill:
    case BP_KERNEL_distill_columns:
    case BP_KERNEL_top_logits:
        draw_distill(d, kernel, s);
        break;
    case BP_KERNEL_average_step:
        s->average_step.power = roll(d, 0, 3);
        break;
    case BP_KERNEL_averaged_weight:
        s->averaged_weight = (bp_averaged_weight_scalars){.count = size(d, 3000),
                                                          .form = roll(d, 0, BP_CODEC_COUNT - 1),
                                                          .master_form = roll(d, 0, 1),
                                                          .factor = 0.25};
        break;
    case BP_KERNEL_tape_pack:
    case BP_KERNEL_tape_unpack:
    case BP_KERNEL_tape_round:
        s->tape_pack = (bp_tape_pack_scalars){size(d, 40), size(d, 600)}; /* all three alike */
        break;
    default:
        if (is_of_vectors(kernel)) {
            draw_vectors(d, kernel, s);
        } else if (is_of_images(kernel)) {
            draw_images(d, kernel, s);
        } else if (is_update(kernel) || is_sum(kernel)) {
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
    if (kernel == BP_KERNEL_averaged_weight) {
        absent = s->averaged_weight.master_form == 0
                     ? UINT32_C(1) << OPERAND(averaged_weight, master)
                     : 0;
    }
    if (kernel == BP_KERNEL_batchnorm_backward) { /* these are there or not as the row says */
        const uint32_t sized = UINT32_C(1) << OPERAND(batchnorm_backward, x) |
                               UINT32_C(1) << OPERAND(batchnorm_backward, d_weight) |
                               UINT32_C(1) << OPERAND(batchnorm_backward, d_bias);
        absent = s->batchnorm_backward.frozen != 0 ? absent | sized : absent & ~sized;
    }
    const bool product = kernel == BP_KERNEL_matmul || kernel == BP_KERNEL_matmul_fp8;
    if (product && s->matmul.accumulate != 0) {
        absent |= UINT32_C(1) << OPERAND(matmul, bias) | UINT32_C(1) << OPERAND(matmul, residual);
    }
    if (product && s->matmul.gelu == 0) {
        absent |= UINT32_C(1) << OPERAND(matmul, before);
    }
    if (kernel == BP_KERNEL_weight_norms) {
        const uint32_t weight = UINT32_C(1) << OPERAND(weight_norms, weight);
        const uint32_t scales = UINT32_C(1) << OPERAND(weight_norms, scales);
        const uint32_t codes = UINT32_C(1) << OPERAND(weight_norms, codes) | scales;
        const uint32_t nested = UINT32_C(1) << OPERAND(weight_norms, nested);
        const int64_t form = s->weight_norms.form;
        return (form == BP_QUANTISED_NONE ? codes : weight) |
               (form == BP_QUANTISED_FP8 ? scales : 0) | (bp_quantised_nests(form) ? 0 : nested);
    }
    if (kernel == BP_KERNEL_matmul_quantised) {
        const uint32_t nested = UINT32_C(1) << OPERAND(matmul_quantised, nested);
        const uint32_t scales = UINT32_C(1) << OPERAND(matmul_quantised, scales);
        bool there = bp_quantised_nests(s->matmul_quantised.form);
        absent = s->matmul_quantised.form == BP_QUANTISED_FP8 ? absent | scales : absent & ~scales;
        absent = there ? absent & ~nested : absent | nested;
        absent |=
            s->matmul_quantised.gelu == 0 ? UINT32_C(1) << OPERAND(matmul_quantised, before) : 0;
    }
    return absent;
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
        bool own = (type == BP_TYPE_FLOAT || type == BP_TYPE_WEIGHT) &&
                   !((kernel == BP_KERNEL_matmul || kernel == BP_KERNEL_matmul_fp8) && followed);
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
    } else if (kernel == BP_KERNEL_store_values) {
        s->store_values.form = working == BP_BF16 ? roll(d, BP_MASTER_FP32, BP_MASTER_STOCHASTIC)
                                                  : (int64_t)BP_MASTER_FP32;
        *absent = s->store_values.form == BP_MASTER_STOCHASTIC
                      ? UINT32_C(1) << OPERAND(store_values, master)
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
    for (uint32_t i = 0; is_update(kernel) && i < info->operand_count; i++) {
        const bool codes =
            info->operand[i].type == BP_TYPE_WEIGHT && s.adamw.master_form == BP_MASTER_FP8;
        dtypes[i] = codes ? BP_U8 : dtypes[i];
    }
    kernel_case_init_typed(c, device, kernel, scalars, tuples, absent, dtypes);
    fill_operands(&d, c);
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
    fill_operands(&d, c);
}
