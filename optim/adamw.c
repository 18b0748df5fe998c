/* SPDX-License-Identifier: MIT */
/* AdamW. */
#include "optim/adamw.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
};

static void adamw_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->adamw.beta1 = options->beta1;
    scalars->adamw.beta2 = options->beta2;
    scalars->adamw.epsilon = options->epsilon;
}

static const bp_rule rule = {.name = "adamw",
                             .kernel = BP_KERNEL_adamw,
                             .state_names = {"exp_avg", "exp_avg_sq"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = adamw_fill};

static const bp_optimizer_options defaults = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

BP_RULE_OPTIMIZER_ACCUMULATES(adamw, , "adamw", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER_ACCUMULATES(adamw, _8bit, "adamw_8bit", BP_CODEC_BLOCK8, defaults)
BP_RULE_OPTIMIZER_ACCUMULATES(adamw, _8bit_companded, "adamw_8bit_companded", BP_CODEC_COMPANDED8,
                              defaults)
BP_RULE_OPTIMIZER_ACCUMULATES(adamw, _4bit, "adamw_4bit", BP_CODEC_BLOCK4, defaults)
