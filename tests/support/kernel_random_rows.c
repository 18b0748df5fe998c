/* SPDX-License-Identifier: MIT */
/* Random scalars of rows of samples, losses, vectors and images (see kernel_random_rows.h). */
#include "tests/support/kernel_random_rows.h"

#include "core/compile/spec.h"

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

/* What a teacher says, and the loss against it. */
void draw_distill(dice *d, bp_kernel kernel, any_scalars *s)
{
    const int64_t rows = size(d, 40), width = size(d, 300), pitch = width + roll(d, 0, 20);
    const int64_t flag = roll(d, 0, 1), k = roll(d, 1, width < 20 ? width : 20);
    const double alpha = 0.25 * (double)roll(d, 0, 4), heat = 0.5 * (double)roll(d, 1, 5);
    if (kernel == BP_KERNEL_top_logits) {
        s->top_logits = (bp_top_logits_scalars){rows, width, pitch, k};
    } else if (kernel == BP_KERNEL_distill) {
        s->distill = (bp_distill_scalars){rows, width, pitch, flag, rows + 3, k, alpha, heat};
    } else {
        s->distill_columns = (bp_distill_columns_scalars){
            rows, width, pitch, roll(d, 0, 9), flag, rows + 3, k, alpha, heat};
    }
}

void draw_rows(dice *d, bp_kernel kernel, any_scalars *s)
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
        s->rmsnorm_forward.offset = flag;
        break;
    case BP_KERNEL_rmsnorm_backward_input:
        s->rmsnorm_backward_input =
            (bp_rmsnorm_backward_input_scalars){.rows = rows, .width = width};
        s->rmsnorm_backward_input.heads = 1 + rows % 3;
        s->rmsnorm_backward_input.pitch = width * s->rmsnorm_backward_input.heads + rows % 2 * 3;
        s->rmsnorm_backward_input.offset = flag;
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

/* sizes: pairs, tokens of a row, width. */
void draw_preference(dice *d, bp_kernel kernel, const int64_t sizes[3], any_scalars *s)
{
    if (kernel == BP_KERNEL_row_scale) {
        s->row_scale = (bp_row_scale_scalars){sizes[1], sizes[2], sizes[2] + roll(d, 0, 5)};
        return;
    }
    s->preference_loss = (bp_preference_loss_scalars){
        .batch = 2 * sizes[0],
        .sequence = sizes[1],
        .kind = roll(d, 0, 2) == 0 ? BP_PREFERENCE_ORPO : roll(d, 1, BP_PREFERENCES - 1),
        .accumulate = roll(d, 0, 1),
        .beta = 0.1 * (double)roll(d, 1, 20),
        .smoothing = 0.1 * (double)roll(d, 0, 3),
        .gamma = 0.5 * (double)roll(d, 0, 2),
        .nll = (double)roll(d, 0, 2),
        .desirable = 1.0,
        .undesirable = 1.5};
}

/* Rows of heads, and rows that stand for samples. */
void draw_samples(dice *d, bp_kernel kernel, any_scalars *s)
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
    case BP_KERNEL_rotary_angles:
        s->rotary_angles =
            (bp_rotary_angles_scalars){sequence, 2 * half + 8, roll(d, 1, 8), flag, 1.25, 1.0,  0.7,
                                       0.51,     0.3,          0.2,           0.1,  0.01, 0.002};
        break;
    case BP_KERNEL_rotary:
        s->rotary = (bp_rotary_scalars){.rows = sequence * batch,
                                        .sequence = sequence,
                                        .heads = heads,
                                        .width = 2 * half,
                                        .pitch = (2 * half + flag * 6) * heads + size(d, 40),
                                        .inverse = flag,
                                        .apart = 2 * half + flag * 6};
        break;
    case BP_KERNEL_regroup:
        s->regroup = (bp_regroup_scalars){sequence, heads, roll(d, 1, 4), half};
        break;
    case BP_KERNEL_sample_row:
        s->sample_row = (bp_sample_row_scalars){batch, sequence, width, flag};
        break;
    case BP_KERNEL_sample_row_backward:
        s->sample_row_backward = (bp_sample_row_backward_scalars){batch, sequence, width, flag};
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

bool is_of_vectors(bp_kernel kernel)
{
    return kernel == BP_KERNEL_pool_rows || kernel == BP_KERNEL_pool_rows_backward ||
           kernel == BP_KERNEL_unit_rows || kernel == BP_KERNEL_unit_rows_backward ||
           kernel == BP_KERNEL_contrast_loss;
}

/* Vectors of samples, and the loss that compares them. */
void draw_vectors(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t sequence = size(d, 20), batch = roll(d, 1, 4), width = size(d, 150);
    int64_t flag = roll(d, 0, 1);
    switch (kernel) {
    case BP_KERNEL_pool_rows:
    case BP_KERNEL_pool_rows_backward: /* begins with the same scalars */
        s->pool_rows = (bp_pool_rows_scalars){.batch = batch,
                                              .sequence = sequence,
                                              .width = width,
                                              .total = batch + roll(d, 0, 12),
                                              .mode = roll(d, 0, BP_POOLINGS - 1),
                                              .later = flag};
        break;
    case BP_KERNEL_unit_rows:
    case BP_KERNEL_unit_rows_backward: /* has the same scalars */
        s->unit_rows =
            (bp_unit_rows_scalars){.pairs = batch, .texts = roll(d, 1, 3), .width = width};
        break;
    case BP_KERNEL_contrast_loss:
        s->contrast_loss = (bp_contrast_loss_scalars){.rows = batch,
                                                      .first = roll(d, 0, 2),
                                                      .kinds = roll(d, 1, 3),
                                                      .scaled = flag,
                                                      .scale = 20.0};
        s->contrast_loss.pairs = batch + s->contrast_loss.first + roll(d, 0, 5);
        break;
    default:
        break;
    }
}

bool is_of_images(bp_kernel kernel)
{
    return kernel >= BP_KERNEL_patches && kernel <= BP_KERNEL_batchnorm_running;
}

/* Windows over images: the rows' own flag stands behind what they share. */
static void draw_window(dice *d, bp_kernel kernel, any_scalars *s)
{
    bp_window_mean_scalars w = {.batch = roll(d, 1, 3),
                                .height = roll(d, 1, 9),
                                .width = roll(d, 1, 9),
                                .channels = size(d, 70),
                                .out_height = roll(d, 1, 6),
                                .out_width = roll(d, 1, 6),
                                .kernel_height = roll(d, 1, 4),
                                .kernel_width = roll(d, 1, 4),
                                .stride_height = roll(d, 1, 3),
                                .stride_width = roll(d, 1, 3),
                                .top = roll(d, 0, 2),
                                .left = roll(d, 0, 2),
                                .dilation = roll(d, 1, 3)};
    const bool flag = kernel == BP_KERNEL_patches_backward || kernel == BP_KERNEL_window_mean ||
                      kernel == BP_KERNEL_depthwise_backward_weight ||
                      kernel == BP_KERNEL_window_mean_backward;
    w.pitch = w.channels + roll(d, 0, 1) * roll(d, 1, 9);
    w.inside = flag ? roll(d, 0, 1) : 0;
    s->window_mean = w;
}

static void draw_batchnorm(dice *d, bp_kernel kernel, any_scalars *s)
{
    const int64_t batch = roll(d, 1, 4), sequence = size(d, 40), width = size(d, 90);
    switch (kernel) {
    case BP_KERNEL_batchnorm_statistics:
        s->batchnorm_statistics = (bp_batchnorm_statistics_scalars){batch, sequence, width};
        break;
    case BP_KERNEL_batchnorm_forward:
        s->batchnorm_forward =
            (bp_batchnorm_forward_scalars){.rows = batch * sequence, .width = width};
        s->batchnorm_forward.epsilon = 1e-5;
        break;
    case BP_KERNEL_batchnorm_sums:
        s->batchnorm_sums = (bp_batchnorm_sums_scalars){batch, sequence, width, 1e-5};
        break;
    case BP_KERNEL_batchnorm_backward:
        s->batchnorm_backward =
            (bp_batchnorm_backward_scalars){batch, sequence, width, roll(d, 0, 1), 1e-5};
        break;
    default:
        s->batchnorm_running = (bp_batchnorm_running_scalars){batch, sequence, width, 0.1};
        break;
    }
}

void draw_images(dice *d, bp_kernel kernel, any_scalars *s)
{
    if (kernel < BP_KERNEL_batchnorm_statistics) {
        draw_window(d, kernel, s);
    } else {
        draw_batchnorm(d, kernel, s);
    }
}
