/* SPDX-License-Identifier: MIT */
/* Schedule-free AdamW. */
#include "optim/rule.h"

/* An iterate weighs in the average as this power of the largest rate so far. */
#define RATE_POWER 2

bp_status bp_schedule_free_check(const bp_optimizer *self, const bp_optimizer_options *options,
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
double bp_schedule_free_average(const bp_optimizer_options *options)
{
    return (1.0 - options->beta1) / options->beta1;
}

void bp_schedule_free_decide(bp_builder *builder, bool later, bool last)
{
    bp_clip_decide(builder, later, last);
    if (!later) {
        const bp_average_step_operands operands = {.control = builder->control,
                                                   .step = builder->step};
        bp_build_average_step(builder, &operands, &(bp_average_step_scalars){.power = RATE_POWER});
    }
}
