/* SPDX-License-Identifier: MIT */
/* Schedule-free AdamW. */
#include "optim/schedule_free.h"

#include "optim/rule.h"

/* An iterate weighs in the average as this power of the largest rate so far. */
#define RATE_POWER 2

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
};

static void schedule_free_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->adamw.beta1 = options->beta1;
    scalars->adamw.beta2 = options->beta2;
    scalars->adamw.epsilon = options->epsilon;
}

static bp_status check(const bp_optimizer *self, const bp_optimizer_options *options,
                       bp_error *error)
{
    BP_TRY(bp_rule_check(self, options, error));
    return options->beta1 > 0.0 ? BP_OK
                                : bp_error_set(error, BP_ERR_USAGE, self->name,
                                               "the average is formed with 1 / beta1: it has to be "
                                               "above 0",
                                               "adam-beta1");
}

/* x = (y - (1 - beta1) z) / beta1 = y - (1 - beta1) / beta1 (z - y). */
static double average(const bp_optimizer_options *options)
{
    return (1.0 - options->beta1) / options->beta1;
}

static void decide(bp_builder *builder, bool later, bool last)
{
    bp_clip_decide(builder, later, last);
    if (!later) {
        const bp_average_step_operands operands = {.control = builder->control,
                                                   .step = builder->step};
        bp_build_average_step(builder, &operands, &(bp_average_step_scalars){.power = RATE_POWER});
    }
}

static const bp_rule rule = {.name = "schedule_free_adamw",
                             .kernel = BP_KERNEL_schedule_free,
                             .state_names = {"z_less_y", "exp_avg_sq"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = schedule_free_fill};

static const bp_optimizer_options defaults = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

#define SCHEDULE_FREE(suffix, text, form_of)                                                       \
    const bp_optimizer bp_optimizer_schedule_free_adamw##suffix = {.name = text,                   \
                                                                   .form = form_of,                \
                                                                   .defaults = &defaults,          \
                                                                   .rule = &rule,                  \
                                                                   .check = check,                 \
                                                                   .declare = bp_rule_declare,     \
                                                                   .state_bytes =                  \
                                                                       bp_rule_state_bytes,        \
                                                                   .average = average,             \
                                                                   .state_form = bp_rule_codec,    \
                                                                   .norms = bp_clip_norms,         \
                                                                   .decide = decide,               \
                                                                   .apply = bp_rule_apply};

SCHEDULE_FREE(, "schedule_free_adamw", BP_CODEC_F32)
SCHEDULE_FREE(_8bit, "schedule_free_adamw_8bit", BP_CODEC_BLOCK8)
