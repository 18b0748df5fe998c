/* SPDX-License-Identifier: MIT */
/* Heads that judge samples, as ops. */
#include "layers/heads/classifier.h"

#include "layers/heads/loss.h"

void bp_samples_begin(bp_emit *emit)
{
    emit->rows = emit->spec->batch;
}

void bp_samples_end(bp_emit *emit)
{
    emit->rows = (uint64_t)emit->spec->batch * emit->spec->sequence;
}

bp_ref bp_sample_pick(bp_emit *emit, uint64_t width, bp_sample_part part, bp_ref x)
{
    const bp_sample_row_scalars scalars = {.batch = emit->spec->batch,
                                           .sequence = emit->spec->sequence,
                                           .width = (int64_t)width,
                                           .mean = part == BP_SAMPLE_MEAN};
    const bp_sample_row_operands operands = {
        .y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->spec->batch,
                            width, "sample"),
        .x = x,
        .lengths = part != BP_SAMPLE_FIRST ? emit->input[BP_INPUT_LENGTHS] : BP_ABSENT};
    bp_emit_sample_row(emit, &operands, &scalars);
    return operands.y;
}

bp_ref bp_sample_spread(bp_emit *emit, uint64_t width, bp_sample_part part, bp_ref d_y)
{
    const bp_sample_row_backward_scalars scalars = {.batch = emit->spec->batch,
                                                    .sequence = emit->spec->sequence,
                                                    .width = (int64_t)width,
                                                    .mean = part == BP_SAMPLE_MEAN};
    const bp_sample_row_backward_operands operands = {
        .d_x = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows, width,
                              "d_sample"),
        .d_y = d_y,
        .lengths = part != BP_SAMPLE_FIRST ? emit->input[BP_INPUT_LENGTHS] : BP_ABSENT};
    bp_emit_sample_row_backward(emit, &operands, &scalars);
    return operands.d_x;
}

bp_ref bp_sample_drop(bp_emit *emit, const bp_dropout *dropout, uint64_t width, bp_ref x, bp_ref y)
{
    const double probability = bp_dropout_probability(emit, dropout);
    if (!(probability > 0.0)) {
        return x;
    }
    const bp_dropout_scalars scalars = {.count = (int64_t)(emit->spec->batch * width),
                                        .per_sample = (int64_t)width,
                                        .site = dropout->site,
                                        .dropout = probability};
    const bp_dropout_operands operands = {
        .y = y, .x = x, .residual = BP_ABSENT, .step = emit->step};
    bp_emit_dropout(emit, &operands, &scalars);
    return y;
}

static bp_ref drop(bp_emit *emit, const bp_classifier *classifier, bp_ref x, bp_ref y)
{
    return bp_sample_drop(emit, &classifier->dropout, classifier->score.in, x, y);
}

/* A row that is to be given back is its own target. */
static void emit_loss(bp_emit *emit, const bp_classifier *classifier, bp_ref logits, bool gradient)
{
    const bool again = emit->spec->config.task == BP_TASK_RECONSTRUCTION;
    const bp_sample_loss_scalars scalars = {.batch = emit->spec->batch,
                                            .sequence = emit->spec->sequence,
                                            .classes = (int64_t)classifier->score.out,
                                            .kind = again ? BP_TASK_REGRESSION
                                                          : emit->spec->config.task,
                                            .gradient = gradient,
                                            .scaled = emit->spec->scaling.kind != BP_SCALING_OFF,
                                            .smoothing = emit->spec->smoothing};
    const bp_sample_loss_operands operands = {.logits = logits,
                                              .losses = emit->losses,
                                              .labels = emit->input[BP_INPUT_LABELS],
                                              .lengths = emit->input[BP_INPUT_LENGTHS],
                                              .class_weights = emit->class_weights,
                                              .targets =
                                                  again ? emit->input[BP_INPUT_IDS] : BP_ABSENT,
                                              .step = emit->step,
                                              .control = bp_emit_loss_control(emit)};
    bp_emit_sample_loss(emit, &operands, &scalars);
}

static bp_ref classifier_make(bp_emit *emit, uint64_t width, const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->spec->batch, width,
                          name);
}

/* Logits of samples, their losses and, with gradient, those logits turned into their gradient. */
static bp_ref judge(bp_emit *emit, const bp_classifier *classifier, bp_ref x, bool gradient)
{
    const bool kept = !gradient && bp_ref_present(emit->logits);
    const bp_ref logits =
        kept ? emit->logits : classifier_make(emit, classifier->score.out, "logits");
    bp_linear_forward(emit, &classifier->score, x, BP_ABSENT, logits);
    emit_loss(emit, classifier, logits, gradient);
    return logits;
}

void bp_classifier_forward(bp_emit *emit, const bp_classifier *classifier, bp_ref x)
{
    bp_samples_begin(emit);
    (void)judge(emit, classifier, x, false);
    bp_samples_end(emit);
    bp_loss_sum(emit);
}

bp_ref bp_classifier_backward(bp_emit *emit, const bp_classifier *classifier, bp_ref x)
{
    bp_samples_begin(emit);
    const bool drops = bp_dropout_probability(emit, &classifier->dropout) > 0.0;
    const bp_ref room = drops ? classifier_make(emit, classifier->score.in, "dropped") : BP_ABSENT;
    const bp_ref read = drop(emit, classifier, x, room);
    const bp_ref d_logits = judge(emit, classifier, read, true);
    const bp_ref d_x = classifier_make(emit, classifier->score.in, "d_score");
    bp_linear_backward_parameters(emit, &classifier->score, read, d_logits);
    bp_linear_backward_input(emit, &classifier->score, d_logits, d_x);
    (void)drop(emit, classifier, d_x, d_x);
    bp_samples_end(emit);
    bp_loss_sum(emit);
    return d_x;
}

void bp_classify_last_forward(bp_emit *emit, const bp_classifier *classifier, bp_ref x)
{
    bp_classifier_forward(emit, classifier,
                          bp_sample_pick(emit, classifier->score.in, BP_SAMPLE_LAST, x));
}

bp_ref bp_classify_last_backward(bp_emit *emit, const bp_classifier *classifier, bp_ref x)
{
    const bp_ref picked = bp_sample_pick(emit, classifier->score.in, BP_SAMPLE_LAST, x);
    const bp_ref d_picked = bp_classifier_backward(emit, classifier, picked);
    return bp_sample_spread(emit, classifier->score.in, BP_SAMPLE_LAST, d_picked);
}
