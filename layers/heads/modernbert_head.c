/* SPDX-License-Identifier: MIT */
/* ModernBERT's heads as ops. */
#include "layers/heads/modernbert_head.h"

#include <math.h>

#include "layers/nodes/activate.h"
#include "layers/heads/classifier.h"
#include "layers/heads/loss.h"
#include "layers/families/modernbert.h"
#include "layers/nodes/norm.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

/* Places of parameters, counted from the stage's first. */
enum { LAST_NORM, DENSE, NORM, SCORE, SCORE_BIAS, HEAD_PARAMETERS };
enum { VOCABULARY_BIAS = SCORE };

uint32_t bp_modernbert_head_parameters(const bp_model_config *config)
{
    return config->task == BP_TASK_EMBEDDING ? 1 + bp_vector_parameters(config)
           : config->task < BP_TASK_CLASSES  ? VOCABULARY_BIAS + 1u
                                             : HEAD_PARAMETERS;
}

void bp_modernbert_head_publish(bp_builder *builder, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    const uint64_t w = own.width;
    const bool guesses = config->task < BP_TASK_CLASSES;
    const double end = own.initializer_range / sqrt(2.0 * own.layers);
    const bp_publish_row vocabulary = {"decoder.bias", {config->vocabulary, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row score = {
        "classifier.weight", {config->classes, w}, BP_INIT_NORMAL, 1.0 / sqrt((double)w)};
    const bp_publish_row rows[HEAD_PARAMETERS] = {
        [LAST_NORM] = {"model.final_norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [DENSE] = {"head.dense.weight", {w, w}, BP_INIT_NORMAL, end},
        [NORM] = {"head.norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [SCORE] = guesses ? vocabulary : score,
        [SCORE_BIAS] = {"classifier.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0}};
    const uint32_t own_rows = bp_modernbert_head_parameters(config) - bp_vector_parameters(config);
    for (uint32_t i = 0; i < own_rows; i++) {
        bp_publish_head(builder, "", &rows[i],
                        i < SCORE ? BP_HEAD_NONE
                        : guesses ? BP_HEAD_OUTPUT
                                  : BP_HEAD_TASK);
    }
    bp_vector_publish(builder, config, w);
}

static bp_norm norm_of(const bp_builder *builder, uint32_t weight)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    return (bp_norm){weight, BP_NORM_NO_BIAS, own.width, own.norm_epsilon, false};
}

static bp_ref head_make(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           width, name);
}

/* A norm's output, and with backward what that reads. */
static bp_ref normalise(bp_builder *builder, const bp_norm *norm, bp_ref x, bool backward,
                        bp_ref *statistics)
{
    const bp_ref y = head_make(builder, norm->width, "norm");
    *statistics = backward ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->rows,
                                             "norm.statistics")
                           : BP_ABSENT;
    bp_norm_forward(builder, norm, builder->rows, x, y, *statistics);
    return y;
}

/* What every judgement is made of: norm(gelu(dense(x))) over builder->rows rows. */
typedef struct prediction {
    bp_linear dense;
    bp_norm norm;
    bp_ref before;     /* (rows, width) what GELU reads; `active` without backward */
    bp_ref active;     /* (rows, width) what the norm reads */
    bp_ref statistics; /* (2, rows); absent without backward */
    bp_ref out;        /* (rows, width) */
} prediction;

static prediction predict(bp_builder *builder, bp_ref x, uint32_t first, bool backward)
{
    const uint64_t width = bp_transformer_of(&builder->spec->config).width;
    prediction p = {.dense = {.weight = first + DENSE,
                              .bias = BP_NO_PARAMETER,
                              .in = width,
                              .out = width,
                              .output_major = true},
                    .norm = norm_of(builder, first + NORM)};
    p.before = head_make(builder, width, "transform");
    p.active = backward ? head_make(builder, width, "gelu") : p.before;
    bp_linear_forward(builder, &p.dense, x, BP_ABSENT, p.before);
    bp_activate(builder, BP_ACTIVATION_GELU_ERF, builder->rows * width, p.before, p.active);
    p.out = normalise(builder, &p.norm, p.active, backward, &p.statistics);
    return p;
}

/* The gradient of x from that of p->out, in whose place it goes on its way. */
static bp_ref predict_backward(bp_builder *builder, const prediction *p, bp_ref x, bp_ref d)
{
    const bp_norm_backward_call norm = {p->active, p->statistics, d, BP_ABSENT, true, false};
    bp_norm_backward(builder, &p->norm, &norm);
    bp_activate_backward(builder, BP_ACTIVATION_GELU_ERF, builder->rows * p->dense.out, p->before,
                         d, d);
    bp_linear_backward_parameters(builder, &p->dense, x, d);
    const bp_ref d_x = head_make(builder, p->dense.in, "d_transform");
    bp_linear_backward_input(builder, &p->dense, d, d_x);
    return d_x;
}

static bp_dropout describe_dropout(const bp_builder *builder)
{
    const bp_modernbert_config own = bp_modernbert_config_of(&builder->spec->config);
    return (bp_dropout){1 + 3 * own.llama.stack.layers, own.classifier_dropout};
}

static bp_classifier describe_classifier(const bp_builder *builder, uint32_t first)
{
    const bp_model_config *config = &builder->spec->config;
    return (bp_classifier){.score = {.weight = first + SCORE,
                                     .bias = first + SCORE_BIAS,
                                     .in = bp_transformer_of(config).width,
                                     .out = config->classes,
                                     .output_major = true},
                           .dropout = describe_dropout(builder)};
}

/* Words are guessed by the vocabulary's table, tokens judged by the classifier's. */
static bp_head describe_head(const bp_builder *builder, uint32_t first)
{
    const bp_model_config *config = &builder->spec->config;
    const bool judges = config->task == BP_TASK_TOKENS;
    return (bp_head){.table = judges ? first + SCORE : 0,
                     .bias = judges ? first + SCORE_BIAS : first + VOCABULARY_BIAS,
                     .vocabulary = judges ? config->classes : config->vocabulary,
                     .width = bp_transformer_of(config).width};
}

static bp_sample_part part_of(const bp_builder *builder)
{
    const bp_modernbert_config own = bp_modernbert_config_of(&builder->spec->config);
    return own.pooling == 0 ? BP_SAMPLE_FIRST : BP_SAMPLE_MEAN;
}

static prediction judge_one(bp_builder *builder, bp_ref picked, uint32_t first, bool backward)
{
    bp_samples_begin(builder);
    const prediction p = predict(builder, picked, first, backward);
    bp_samples_end(builder);
    return p;
}

void bp_modernbert_head_forward(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_norm norm = norm_of(builder, first + LAST_NORM);
    bp_ref statistics;
    const bp_ref y = normalise(builder, &norm, call->input, false, &statistics);
    if (builder->spec->config.task == BP_TASK_EMBEDDING) {
        bp_vector_forward(builder, norm.width, y);
    } else if (bp_task_scores_samples(builder->spec->config.task)) {
        const bp_classifier classifier = describe_classifier(builder, first);
        const bp_ref picked = bp_sample_pick(builder, norm.width, part_of(builder), y);
        const prediction p = judge_one(builder, picked, first, false);
        bp_classifier_forward(builder, &classifier, p.out);
    } else {
        const bp_head head = describe_head(builder, first);
        const prediction p = predict(builder, y, first, false);
        bp_loss_forward(builder, &head, p.out);
    }
    call->output = BP_ABSENT;
}

/* Of the last norm's output y. */
static bp_ref backward_judge(bp_builder *builder, bp_ref y, uint32_t first)
{
    const bp_classifier classifier = describe_classifier(builder, first);
    const uint64_t width = classifier.score.in;
    const bp_ref picked = bp_sample_pick(builder, width, part_of(builder), y);
    const prediction p = judge_one(builder, picked, first, true);
    const bp_ref d = bp_classifier_backward(builder, &classifier, p.out);
    bp_samples_begin(builder);
    const bp_ref d_picked = predict_backward(builder, &p, picked, d);
    bp_samples_end(builder);
    return bp_sample_spread(builder, width, part_of(builder), d_picked);
}

static bp_ref backward_rows(bp_builder *builder, bp_ref y, uint32_t first)
{
    const bp_head head = describe_head(builder, first);
    const bp_dropout dropout = describe_dropout(builder);
    const bool drops = builder->spec->config.task == BP_TASK_TOKENS &&
                       bp_dropout_probability(builder, &dropout) > 0.0;
    const prediction p = predict(builder, y, first, true);
    if (drops) {
        bp_dropout_apply(builder, &dropout, head.width, p.out, BP_ABSENT, p.out);
    }
    bp_loss_backward(builder, &head, p.out, p.out, BP_ABSENT);
    if (drops) {
        bp_dropout_apply(builder, &dropout, head.width, p.out, BP_ABSENT, p.out);
    }
    return predict_backward(builder, &p, y, p.out);
}

void bp_modernbert_head_backward(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_task task = builder->spec->config.task;
    const bp_norm norm = norm_of(builder, first + LAST_NORM);
    bp_ref statistics;
    const bp_ref y = normalise(builder, &norm, call->input, true, &statistics);
    const bp_ref d = task == BP_TASK_EMBEDDING      ? bp_vector_backward(builder, norm.width, y)
                     : bp_task_scores_samples(task) ? backward_judge(builder, y, first)
                                                    : backward_rows(builder, y, first);
    const bp_norm_backward_call last = {call->input, statistics,         d,
                                        BP_ABSENT,   call->input_wanted, false};
    bp_norm_backward(builder, &norm, &last);
    call->d_input = call->input_wanted ? d : BP_ABSENT;
}
