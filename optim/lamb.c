/* SPDX-License-Identifier: MIT */
/* LAMB. */
#include "optim/clip.h"
#include "optim/rule.h"

double bp_lamb_coefficient(const bp_optimizer_options *options)
{
    (void)options;
    return 1.0;
}

void bp_lamb_norms(bp_builder *builder, const bp_rule_scalars *scalars,
                   const bp_adamw_operands *operands, bp_ref partials, bool first)
{
    const bp_lamb_scalars *s = &scalars->lamb;
    const bp_lamb_norms_scalars own = {.count = s->count,
                                       .first = s->first,
                                       .stream = s->stream,
                                       .form = s->form,
                                       .master_form = s->master_form,
                                       .decay = s->decay,
                                       .rate_scale = s->rate_scale,
                                       .beta1 = s->beta1,
                                       .beta2 = s->beta2,
                                       .epsilon = s->epsilon,
                                       .chunk = BP_CLIP_CHUNK};
    const bp_lamb_norms_operands at = {.partials = partials,
                                       .weight = operands->weight,
                                       .master = operands->master,
                                       .state1 = operands->state1,
                                       .state2 = operands->state2,
                                       .gradient = operands->gradient,
                                       .control = operands->control,
                                       .step = operands->step};
    if (first) {
        bp_build_lamb_norms(builder, &at, &own);
    } else {
        bp_build_tuple(builder, (const bp_ref *)&at, &own);
    }
}
