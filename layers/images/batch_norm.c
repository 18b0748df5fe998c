/* SPDX-License-Identifier: MIT */
/* Batch normalisation as ops. */
#include "layers/images/batch_norm.h"

#include "layers/nodes/publish.h"

enum { WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VARIANCE };

void bp_batch_norm_publish(bp_builder *builder, const char *prefix, uint64_t width, bool frozen)
{
    const bp_batch_norm norm = {.first = builder->parameter_count, .frozen = frozen};
    const bp_publish_row weight = {"weight", {width, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row bias = {"bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row mean = {"running_mean", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row variance = {"running_var", {width, 0}, BP_INIT_ONES, 0.0};
    bp_publish(builder, prefix, &weight);
    bp_publish(builder, prefix, &bias);
    const bool still = builder->status == BP_OK && (frozen || builder->spec->lora.rank > 0 ||
                                                    !bp_batch_norm_trains(builder, &norm));
    bp_publish_statistic(builder, prefix, &mean, still);
    bp_publish_statistic(builder, prefix, &variance, still);
}

/* How many norms there are among the parameters before number `end`. */
static uint32_t batch_norms(const bp_builder *builder, uint32_t end)
{
    uint32_t statistics = 0;
    for (uint32_t i = 0; i < end; i++) {
        statistics += builder->parameters[i].statistic ? 1 : 0;
    }
    return statistics / (BP_BATCH_NORM_PARAMETERS - RUNNING_MEAN);
}

void bp_batch_norm_count(bp_builder *builder)
{
    const uint32_t norms = batch_norms(builder, builder->parameter_count);
    if (norms > 0 && builder->spec->optimizer != NULL && builder->spec->lora.rank == 0) {
        builder->batches = bp_build_persistent(builder, BP_I32, norms, "num_batches_tracked");
    }
}

bool bp_batch_norm_trains(const bp_builder *builder, const bp_batch_norm *norm)
{
    return bp_build_trainable(builder, norm->first + WEIGHT) ||
           bp_build_trainable(builder, norm->first + BIAS);
}

/* Beside adapters they are: an adapter's file has no statistics. */
bool bp_batch_norm_runs(const bp_builder *builder, const bp_batch_norm *norm)
{
    return builder->spec->lora.rank > 0 || builder->mode != BP_MODE_TRAIN || norm->frozen ||
           !bp_batch_norm_trains(builder, norm);
}

bool bp_batch_norm_reads(const bp_builder *builder, const bp_batch_norm *norm)
{
    return !bp_batch_norm_runs(builder, norm) || bp_build_trainable(builder, norm->first + WEIGHT);
}

static bp_ref variance_of(const bp_batch_norm *norm, bp_ref statistics)
{
    return bp_ref_at(statistics, norm->width);
}

static bp_ref make_statistics(bp_builder *builder, const bp_batch_norm *norm, bp_ref x,
                              bp_ref statistics)
{
    if (!bp_ref_present(statistics)) {
        statistics =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, norm->width, "statistics");
    }
    const bp_batchnorm_statistics_scalars scalars = {.batch = (int64_t)builder->rows,
                                                     .sequence = (int64_t)norm->places,
                                                     .width = (int64_t)norm->width};
    const bp_batchnorm_statistics_operands operands = {.mean = statistics,
                                                       .variance = variance_of(norm, statistics),
                                                       .x = x,
                                                       .lengths = builder->input[BP_INPUT_LENGTHS]};
    bp_build_batchnorm_statistics(builder, &operands, &scalars);
    return statistics;
}

/* The mean and the variance that are taken, to be given back by batch_norm_leave. */
static void batch_norm_take(bp_builder *builder, const bp_batch_norm *norm, bp_ref statistics,
                            bp_ref taken[2])
{
    if (bp_batch_norm_runs(builder, norm)) {
        taken[0] = bp_build_acquire(builder, norm->first + RUNNING_MEAN, BP_FOR_FORWARD);
        taken[1] = bp_build_acquire(builder, norm->first + RUNNING_VARIANCE, BP_FOR_FORWARD);
    } else {
        taken[0] = statistics;
        taken[1] = variance_of(norm, statistics);
    }
}

static void batch_norm_leave(bp_builder *builder, const bp_batch_norm *norm)
{
    if (bp_batch_norm_runs(builder, norm)) {
        bp_build_release(builder, norm->first + RUNNING_VARIANCE);
        bp_build_release(builder, norm->first + RUNNING_MEAN);
    }
}

void bp_batch_norm_forward(bp_builder *builder, const bp_batch_norm *norm, bp_ref x, bp_ref y,
                           bp_ref statistics, bool made)
{
    bp_ref taken[2];
    /* what the tape keeps of a norm is defined, whoever reads it */
    const bool kept = bp_ref_present(statistics) && !made;
    if (!bp_batch_norm_runs(builder, norm) ? !made : kept) {
        statistics = make_statistics(builder, norm, x, statistics);
    }
    batch_norm_take(builder, norm, statistics, taken);
    const bp_batchnorm_forward_scalars scalars = {.rows = (int64_t)(builder->rows * norm->places),
                                                  .width = (int64_t)norm->width,
                                                  .epsilon = norm->epsilon};
    const bp_batchnorm_forward_operands operands = {
        .y = y,
        .x = x,
        .mean = taken[0],
        .variance = taken[1],
        .weight = bp_build_acquire(builder, norm->first + WEIGHT, BP_FOR_FORWARD),
        .bias = bp_build_acquire(builder, norm->first + BIAS, BP_FOR_FORWARD)};
    bp_build_batchnorm_forward(builder, &operands, &scalars);
    bp_build_release(builder, norm->first + BIAS);
    bp_build_release(builder, norm->first + WEIGHT);
    batch_norm_leave(builder, norm);
}

/* The sums over places that both gradients are made of. Where x is not read that of the weight,
 * which nobody takes, is of d_y itself: the bias's has the bits that it has beside any other. */
static void batch_norm_sums(bp_builder *builder, const bp_batch_norm *norm, bp_ref x, bp_ref d_y,
                            const bp_ref taken[2], bp_ref sums)
{
    const bool reads = bp_batch_norm_reads(builder, norm);
    const bp_batchnorm_sums_scalars scalars = {.batch = (int64_t)builder->rows,
                                               .sequence = (int64_t)norm->places,
                                               .width = (int64_t)norm->width,
                                               .epsilon = norm->epsilon};
    const bp_batchnorm_sums_operands operands = {.d_weight = sums,
                                                 .d_bias = bp_ref_at(sums, norm->width),
                                                 .d_y = d_y,
                                                 .x = reads ? x : d_y,
                                                 .mean = taken[0],
                                                 .variance = taken[1],
                                                 .lengths = builder->input[BP_INPUT_LENGTHS]};
    bp_build_batchnorm_sums(builder, &operands, &scalars);
}

/* A parameter's gradient (+)= its sum: that of one row. */
static void batch_norm_add(bp_builder *builder, uint32_t parameter, uint64_t width, bp_ref sum)
{
    if (bp_build_trainable(builder, parameter)) {
        bp_bias_backward_scalars scalars = {
            .rows = 1, .n = (int64_t)width, .pitch = (int64_t)width};
        const bp_bias_backward_operands operands = {
            .d_bias = bp_build_gradient(builder, parameter, &scalars.accumulate), .d_y = sum};
        bp_build_bias_backward(builder, &operands, &scalars);
    }
}

static void batch_norm_input(bp_builder *builder, const bp_batch_norm *norm, bp_ref x, bp_ref d_y,
                             const bp_ref taken[2], bp_ref sums)
{
    const bool runs = bp_batch_norm_runs(builder, norm);
    const bp_batchnorm_backward_scalars scalars = {.batch = (int64_t)builder->rows,
                                                   .sequence = (int64_t)norm->places,
                                                   .width = (int64_t)norm->width,
                                                   .frozen = runs ? 1 : 0,
                                                   .epsilon = norm->epsilon};
    const bp_batchnorm_backward_operands operands = {
        .d_x = d_y,
        .d_y = d_y,
        .x = runs ? BP_ABSENT : x,
        .mean = taken[0],
        .variance = taken[1],
        .weight = bp_build_acquire(builder, norm->first + WEIGHT, BP_FOR_BACKWARD),
        .d_weight = runs ? BP_ABSENT : sums,
        .d_bias = runs ? BP_ABSENT : bp_ref_at(sums, norm->width),
        .lengths = builder->input[BP_INPUT_LENGTHS]};
    bp_build_batchnorm_backward(builder, &operands, &scalars);
    bp_build_release(builder, norm->first + WEIGHT);
}

/* Once for each micro-batch: a second backward over the same one leaves them. */
static void batch_norm_move(bp_builder *builder, const bp_batch_norm *norm, bp_ref statistics)
{
    if (bp_batch_norm_runs(builder, norm) || builder->loss_counted) {
        return;
    }
    const bp_batchnorm_running_scalars scalars = {.batch = (int64_t)builder->rows,
                                                  .sequence = (int64_t)norm->places,
                                                  .width = (int64_t)norm->width,
                                                  .momentum = norm->momentum};
    const bp_batchnorm_running_operands operands = {
        .running_mean = bp_build_acquire_update(builder, norm->first + RUNNING_MEAN),
        .running_variance = bp_build_acquire_update(builder, norm->first + RUNNING_VARIANCE),
        .batches = bp_ref_at(builder->batches, batch_norms(builder, norm->first)),
        .mean = statistics,
        .variance = variance_of(norm, statistics),
        .lengths = builder->input[BP_INPUT_LENGTHS]};
    builder->moves = true;
    bp_build_batchnorm_running(builder, &operands, &scalars);
    bp_build_release(builder, norm->first + RUNNING_VARIANCE);
    bp_build_release(builder, norm->first + RUNNING_MEAN);
}

void bp_batch_norm_backward(bp_builder *builder, const bp_batch_norm *norm, bp_ref x,
                            bp_ref statistics, bp_ref d_y, bool wanted)
{
    bp_ref taken[2];
    const bp_ref sums =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, norm->width, "d_statistics");
    batch_norm_take(builder, norm, statistics, taken);
    if (!bp_batch_norm_runs(builder, norm) || bp_batch_norm_trains(builder, norm)) {
        batch_norm_sums(builder, norm, x, d_y, taken, sums);
    }
    batch_norm_add(builder, norm->first + WEIGHT, norm->width, sums);
    batch_norm_add(builder, norm->first + BIAS, norm->width, bp_ref_at(sums, norm->width));
    if (wanted) {
        batch_norm_input(builder, norm, x, d_y, taken, sums);
    }
    batch_norm_leave(builder, norm);
    batch_norm_move(builder, norm, statistics);
}
