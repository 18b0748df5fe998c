/* SPDX-License-Identifier: MIT */
/* LARS. */
#include "optim/clip.h"
#include "optim/rule.h"

double bp_lars_coefficient(const bp_optimizer_options *options)
{
    return options->trust_coefficient;
}

void bp_lars_norms(bp_builder *builder, const bp_rule_scalars *scalars,
                   const bp_adamw_operands *operands, bp_ref partials, bool first)
{
    const bp_lars_scalars *s = &scalars->lars;
    const bp_lars_norms_scalars own = {.count = s->count,
                                       .first = s->first,
                                       .stream = s->stream,
                                       .form = s->form,
                                       .master_form = s->master_form,
                                       .decay = s->decay,
                                       .rate_scale = s->rate_scale,
                                       .chunk = BP_CLIP_CHUNK};
    const bp_lars_norms_operands at = {.partials = partials,
                                       .weight = operands->weight,
                                       .master = operands->master,
                                       .state1 = BP_ABSENT,
                                       .state2 = BP_ABSENT,
                                       .gradient = operands->gradient,
                                       .control = operands->control,
                                       .step = operands->step};
    if (first) {
        bp_build_lars_norms(builder, &at, &own);
    } else {
        bp_build_tuple(builder, (const bp_ref *)&at, &own);
    }
}
