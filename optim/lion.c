/* SPDX-License-Identifier: MIT */
/* Lion. */
#include "optim/lion.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
};

static void lion_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->lion.beta1 = options->beta1;
    scalars->lion.beta2 = options->beta2;
}

static const bp_rule rule = {.name = "lion",
                             .kernel = BP_KERNEL_lion,
                             .state_names = {"exp_avg"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = lion_fill};

static const bp_optimizer_options defaults = {.beta1 = 0.9, .beta2 = 0.99};

BP_RULE_OPTIMIZER(lion, , "lion", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER(lion, _8bit, "lion_8bit", BP_CODEC_BLOCK8, defaults)
