/* SPDX-License-Identifier: MIT */
/* AdamW as ops: one list op over all parameters. */
#include "optim/adamw.h"

#include <math.h>

#include "core/list.h"
#include "optim/clip.h"

enum { FIRST_MOMENT = 0, SECOND_MOMENT = 1, STATE_COUNT = 2 };

#define STATE_NAME_BYTES 96 /* a parameter's name and ".exp_avg_sq" */

/* The range [least, below) of a real option, its bounds finite or not. */
typedef struct rule {
    const char *name;
    double found;
    double least;
    double below;
    const char *text;
} rule;

static bp_status check(const bp_optimizer_options *options, bp_error *error)
{
    static const char at_least_0[] = "has to be a number of at least 0";
    static const char fraction[] = "has to be at least 0 and below 1";
    const double infinity = (double)INFINITY;
    const rule rules[] = {{"learning-rate", options->learning_rate, 0.0, infinity, at_least_0},
                          {"adam-beta1", options->beta1, 0.0, 1.0, fraction},
                          {"adam-beta2", options->beta2, 0.0, 1.0, fraction},
                          {"adam-epsilon", options->epsilon, 0.0, infinity, at_least_0},
                          {"weight-decay", options->weight_decay, 0.0, infinity, at_least_0},
                          {"max-grad-norm", options->max_grad_norm, 0.0, infinity, at_least_0}};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const rule *r = &rules[i];
        const bool inside = r->found >= r->least && r->found < r->below;
        if (!inside) {
            return bp_error_set(error, BP_ERR_USAGE, "adamw", r->text, r->name);
        }
    }
    return BP_OK;
}

static void declare(bp_emit *emit)
{
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        if (!parameter->trainable) {
            continue;
        }
        parameter->state[FIRST_MOMENT] = bp_emit_state(emit, i, BP_F32, "exp_avg");
        parameter->state[SECOND_MOMENT] = bp_emit_state(emit, i, BP_F32, "exp_avg_sq");
    }
}

static void update_parameter(bp_emit *emit, uint32_t index, bool first)
{
    const bp_optimizer_options *options = &emit->spec->optimizer_options;
    const bp_parameter *parameter = &emit->parameters[index];
    const bp_adamw_scalars scalars = {.count = (int64_t)parameter->count,
                                      .beta1 = options->beta1,
                                      .beta2 = options->beta2,
                                      .epsilon = options->epsilon,
                                      .decay = parameter->weight_decay,
                                      .rate_scale = parameter->rate_scale};
    const bp_adamw_operands operands = {.weight = bp_emit_weight(emit, index),
                                        .m = {parameter->state[FIRST_MOMENT], BP_F32, 0},
                                        .v = {parameter->state[SECOND_MOMENT], BP_F32, 0},
                                        .gradient = {parameter->gradient, emit->spec->gradient, 0},
                                        .control = emit->control,
                                        .step = emit->step};
    if (first) {
        bp_emit_adamw(emit, &operands, &scalars);
    } else {
        bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
    }
}

static void apply(bp_emit *emit)
{
    bool first = true;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        if (parameter->due) {
            update_parameter(emit, i, first);
            first = false;
        }
    }
}

static bp_graph_limits limits(const bp_spec *spec, uint32_t parameters)
{
    (void)spec;
    const bp_graph_limits clip = bp_clip_limits(parameters);
    const uint32_t states = STATE_COUNT * parameters;
    return (bp_graph_limits){.buffers = clip.buffers + states,
                             .ops = clip.ops + 1,
                             .refs = clip.refs + 6 * parameters,
                             .scalars = clip.scalars + 6 * parameters,
                             .name_bytes = clip.name_bytes + STATE_NAME_BYTES * states};
}

const bp_optimizer bp_optimizer_adamw = {.name = "adamw",
                                         .state_count = STATE_COUNT,
                                         .check = check,
                                         .declare = declare,
                                         .norms = bp_clip_norms,
                                         .decide = bp_clip_decide,
                                         .apply = apply,
                                         .limits = limits};
