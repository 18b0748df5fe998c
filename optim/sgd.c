/* SPDX-License-Identifier: MIT */
/* SGD with momentum. */
#include "optim/sgd.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"momentum", offsetof(bp_optimizer_options, momentum), BP_RULE_FRACTION, false},
    {"dampening", offsetof(bp_optimizer_options, dampening), BP_RULE_FRACTION, false},
    {"nesterov", offsetof(bp_optimizer_options, nesterov), BP_RULE_FLAG, false},
};

static uint32_t states(const bp_optimizer_options *options)
{
    return options->momentum > 0.0 ? 1 : 0;
}

static void sgd_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->sgd.momentum = options->momentum;
    scalars->sgd.dampening = options->dampening;
    scalars->sgd.nesterov = options->nesterov ? 1 : 0;
}

static const bp_rule rule = {.name = "sgd",
                             .kernel = BP_KERNEL_sgd,
                             .state_names = {"momentum_buffer"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .states = states,
                             .fill = sgd_fill};

static const bp_optimizer_options defaults = {.momentum = 0.0};
static const bp_optimizer_options defaults_8bit = {.momentum = 0.9};

BP_RULE_OPTIMIZER(sgd, , "sgd", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER(sgd, _8bit, "sgd_8bit", BP_CODEC_BLOCK8, defaults_8bit)
