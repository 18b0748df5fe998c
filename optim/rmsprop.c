/* SPDX-License-Identifier: MIT */
/* RMSprop. */
#include "optim/rmsprop.h"

#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
    {"alpha", offsetof(bp_optimizer_options, smoothing), BP_RULE_FRACTION, false},
    {"momentum", offsetof(bp_optimizer_options, momentum), BP_RULE_FRACTION, false},
};

static uint32_t states(const bp_optimizer_options *options)
{
    return options->momentum > 0.0 ? 2 : 1;
}

static void rmsprop_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->rmsprop.alpha = options->smoothing;
    scalars->rmsprop.epsilon = options->epsilon;
    scalars->rmsprop.momentum = options->momentum;
}

static const bp_rule rule = {.name = "rmsprop",
                             .kernel = BP_KERNEL_rmsprop,
                             .state_names = {"square_avg", "momentum_buffer"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .states = states,
                             .fill = rmsprop_fill};

static const bp_optimizer_options defaults = {.smoothing = 0.99, .epsilon = 1e-8};

BP_RULE_OPTIMIZER(rmsprop, , "rmsprop", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER(rmsprop, _8bit, "rmsprop_8bit", BP_CODEC_BLOCK8, defaults)
