/* SPDX-License-Identifier: MIT */
/* AdEMAMix. */
#include "optim/ademamix.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
    {"alpha", offsetof(bp_optimizer_options, mix), BP_RULE_NOT_NEGATIVE, false},
    {"beta3", offsetof(bp_optimizer_options, beta3), BP_RULE_FRACTION, false},
    {"t_alpha", offsetof(bp_optimizer_options, mix_steps), BP_RULE_NOT_NEGATIVE, false},
    {"t_beta3", offsetof(bp_optimizer_options, beta3_steps), BP_RULE_NOT_NEGATIVE, false},
};

static void ademamix_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->ademamix.beta1 = options->beta1;
    scalars->ademamix.beta2 = options->beta2;
    scalars->ademamix.beta3 = options->beta3;
    scalars->ademamix.epsilon = options->epsilon;
    scalars->ademamix.alpha = options->mix;
    scalars->ademamix.t_alpha = options->mix_steps;
    scalars->ademamix.t_beta3 = options->beta3_steps;
}

static const bp_rule rule = {.name = "ademamix",
                             .kernel = BP_KERNEL_ademamix,
                             .state_names = {"exp_avg_fast", "exp_avg_slow", "exp_avg_sq"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = ademamix_fill};

static const bp_optimizer_options defaults = {
    .beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999, .epsilon = 1e-8, .mix = 5.0};

BP_RULE_OPTIMIZER(ademamix, , "ademamix", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER(ademamix, _8bit, "ademamix_8bit", BP_CODEC_BLOCK8, defaults)
