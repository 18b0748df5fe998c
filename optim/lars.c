/* SPDX-License-Identifier: MIT */
/* LARS. */
#include "optim/lars.h"

#include "optim/clip.h"
#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"momentum", offsetof(bp_optimizer_options, momentum), BP_RULE_FRACTION, false},
    {"trust_coefficient", offsetof(bp_optimizer_options, trust_coefficient), BP_RULE_NOT_NEGATIVE,
     false},
};

static void lars_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->lars.momentum = options->momentum;
}

static double coefficient(const bp_optimizer_options *options)
{
    return options->trust_coefficient;
}

static void norms(bp_builder *builder, const bp_rule_scalars *scalars,
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

static const bp_rule rule = {.name = "lars",
                             .kernel = BP_KERNEL_lars,
                             .state_names = {"momentum_buffer"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = lars_fill,
                             .norms = norms,
                             .coefficient = coefficient,
                             .decay_in_ratio = true};

static const bp_optimizer_options defaults = {.momentum = 0.9, .trust_coefficient = 0.001};

BP_RULE_OPTIMIZER_WHOLE(lars, , "lars", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER_WHOLE(lars, _8bit, "lars_8bit", BP_CODEC_BLOCK8, defaults)
