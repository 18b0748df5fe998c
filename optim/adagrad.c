/* SPDX-License-Identifier: MIT */
/* Adagrad. */
#include "optim/adagrad.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
};

static void adagrad_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->adagrad.epsilon = options->epsilon;
}

static const bp_rule rule = {.name = "adagrad",
                             .kernel = BP_KERNEL_adagrad,
                             .state_names = {"sum"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = adagrad_fill};

static const bp_optimizer_options defaults = {.epsilon = 1e-10};

BP_RULE_OPTIMIZER(adagrad, , "adagrad", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER(adagrad, _8bit, "adagrad_8bit", BP_CODEC_BLOCK8, defaults)
