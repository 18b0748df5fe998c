/* SPDX-License-Identifier: MIT */
/* Heads that judge samples, as ops. */
#include "layers/heads/classifier.h"

#include "core/plan/input.h"
#include "layers/heads/loss.h"

void bp_samples_begin(bp_builder *builder)
{
    builder->rows = builder->spec->batch;
}

void bp_samples_end(bp_builder *builder)
{
    builder->rows = (uint64_t)builder->spec->batch * builder->spec->sequence;
}

bp_ref bp_sample_pick(bp_builder *builder, uint64_t width, bp_sample_part part, bp_ref x)
{
    const bp_sample_row_scalars scalars = {.batch = builder->spec->batch,
                                           .sequence = builder->spec->sequence,
                                           .width = (int64_t)width,
                                           .mean = part == BP_SAMPLE_MEAN};
    const bp_sample_row_operands operands = {
        .y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                             builder->spec->batch, width, "sample"),
        .x = x,
        .lengths = part != BP_SAMPLE_FIRST ? builder->input[BP_INPUT_LENGTHS] : BP_ABSENT};
    bp_build_sample_row(builder, &operands, &scalars);
    return operands.y;
}

bp_ref bp_sample_spread(bp_builder *builder, uint64_t width, bp_sample_part part, bp_ref d_y)
{
    const bp_sample_row_backward_scalars scalars = {.batch = builder->spec->batch,
                                                    .sequence = builder->spec->sequence,
                                                    .width = (int64_t)width,
                                                    .mean = part == BP_SAMPLE_MEAN};
    const bp_sample_row_backward_operands operands = {
        .d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                               builder->rows, width, "d_sample"),
        .d_y = d_y,
        .lengths = part != BP_SAMPLE_FIRST ? builder->input[BP_INPUT_LENGTHS] : BP_ABSENT};
    bp_build_sample_row_backward(builder, &operands, &scalars);
    return operands.d_x;
}

bp_ref bp_sample_drop(bp_builder *builder, const bp_dropout *dropout, uint64_t width, bp_ref x,
                      bp_ref y)
{
    const double probability = bp_dropout_probability(builder, dropout);
    if (!(probability > 0.0)) {
        return x;
    }
    const bp_dropout_scalars scalars = {.count = (int64_t)(builder->spec->batch * width),
                                        .per_sample = (int64_t)width,
                                        .site = dropout->site,
                                        .dropout = probability};
    const bp_dropout_operands operands = {
        .y = y, .x = x, .residual = BP_ABSENT, .step = builder->step};
    bp_build_dropout(builder, &operands, &scalars);
    return y;
}

static bp_ref drop(bp_builder *builder, const bp_classifier *classifier, bp_ref x, bp_ref y)
{
    return bp_sample_drop(builder, &classifier->dropout, classifier->score.in, x, y);
}

/* A row that is to be given back is its own target. */
static void emit_loss(bp_builder *builder, const bp_classifier *classifier, bp_ref logits,
                      bool gradient)
{
    const bool again = builder->spec->config.task == BP_TASK_RECONSTRUCTION;
    const bp_sample_loss_scalars scalars = {.batch = builder->spec->batch,
                                            .sequence = (int64_t)bp_input_labels(builder->spec),
                                            .classes = (int64_t)classifier->score.out,
                                            .kind = again ? BP_TASK_REGRESSION
                                                          : builder->spec->config.task,
                                            .gradient = gradient,
                                            .scaled = builder->spec->scaling.kind != BP_SCALING_OFF,
                                            .smoothing = builder->spec->smoothing};
    const bp_sample_loss_operands operands = {.logits = logits,
                                              .losses = builder->losses,
                                              .labels = builder->input[BP_INPUT_LABELS],
                                              .lengths = builder->input[BP_INPUT_LENGTHS],
                                              .class_weights = builder->class_weights,
                                              .targets =
                                                  again ? builder->input[BP_INPUT_IDS] : BP_ABSENT,
                                              .step = builder->step,
                                              .control = bp_build_loss_control(builder)};
    bp_build_sample_loss(builder, &operands, &scalars);
}

static bp_ref classifier_make(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                           builder->spec->batch, width, name);
}

/* Logits of samples, their losses and, with gradient, those logits turned into their gradient. */
static bp_ref judge(bp_builder *builder, const bp_classifier *classifier, bp_ref x, bool gradient)
{
    const bool kept = !gradient && bp_ref_present(builder->logits);
    const bp_ref logits =
        kept ? builder->logits : classifier_make(builder, classifier->score.out, "logits");
    bp_linear_forward(builder, &classifier->score, x, BP_ABSENT, logits);
    emit_loss(builder, classifier, logits, gradient);
    return logits;
}

static void classifier_sum(bp_builder *builder)
{
    bp_loss_sum_of(builder, builder->losses,
                   bp_size_mul(builder->spec->batch, bp_input_labels(builder->spec)));
}

void bp_classifier_forward(bp_builder *builder, const bp_classifier *classifier, bp_ref x)
{
    bp_samples_begin(builder);
    (void)judge(builder, classifier, x, false);
    bp_samples_end(builder);
    classifier_sum(builder);
}

bp_ref bp_classifier_backward(bp_builder *builder, const bp_classifier *classifier, bp_ref x)
{
    bp_samples_begin(builder);
    const bool drops = bp_dropout_probability(builder, &classifier->dropout) > 0.0;
    const bp_ref room =
        drops ? classifier_make(builder, classifier->score.in, "dropped") : BP_ABSENT;
    const bp_ref read = drop(builder, classifier, x, room);
    const bp_ref d_logits = judge(builder, classifier, read, true);
    const bp_ref d_x = classifier_make(builder, classifier->score.in, "d_score");
    bp_linear_backward_parameters(builder, &classifier->score, read, d_logits);
    bp_linear_backward_input(builder, &classifier->score, d_logits, d_x);
    (void)drop(builder, classifier, d_x, d_x);
    bp_samples_end(builder);
    classifier_sum(builder);
    return d_x;
}

void bp_classify_last_forward(bp_builder *builder, const bp_classifier *classifier, bp_ref x)
{
    bp_classifier_forward(builder, classifier,
                          bp_sample_pick(builder, classifier->score.in, BP_SAMPLE_LAST, x));
}

bp_ref bp_classify_last_backward(bp_builder *builder, const bp_classifier *classifier, bp_ref x)
{
    const bp_ref picked = bp_sample_pick(builder, classifier->score.in, BP_SAMPLE_LAST, x);
    const bp_ref d_picked = bp_classifier_backward(builder, classifier, picked);
    return bp_sample_spread(builder, classifier->score.in, BP_SAMPLE_LAST, d_picked);
}
