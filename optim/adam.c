/* SPDX-License-Identifier: MIT */
/* Adam. */
#include "optim/adam.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
};

static void adam_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->adam.beta1 = options->beta1;
    scalars->adam.beta2 = options->beta2;
    scalars->adam.epsilon = options->epsilon;
}

static const bp_rule rule = {.name = "adam",
                             .kernel = BP_KERNEL_adam,
                             .state_names = {"exp_avg", "exp_avg_sq"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = adam_fill};

static const bp_optimizer_options defaults = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

BP_RULE_OPTIMIZER_ACCUMULATES(adam, , "adam", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER_ACCUMULATES(adam, _8bit, "adam_8bit", BP_CODEC_BLOCK8, defaults)
