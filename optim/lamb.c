/* SPDX-License-Identifier: MIT */
/* LAMB. */
#include "optim/lamb.h"

#include "optim/clip.h"
#include "optim/rule.h"

static const bp_rule_argument arguments[] = {
    {"adam-beta1", offsetof(bp_optimizer_options, beta1), BP_RULE_FRACTION, true},
    {"adam-beta2", offsetof(bp_optimizer_options, beta2), BP_RULE_FRACTION, true},
    {"adam-epsilon", offsetof(bp_optimizer_options, epsilon), BP_RULE_NOT_NEGATIVE, true},
};

static void lamb_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->lamb.beta1 = options->beta1;
    scalars->lamb.beta2 = options->beta2;
    scalars->lamb.epsilon = options->epsilon;
}

static double coefficient(const bp_optimizer_options *options)
{
    (void)options;
    return 1.0;
}

static void norms(bp_builder *builder, const bp_rule_scalars *scalars,
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

static const bp_rule rule = {.name = "lamb",
                             .kernel = BP_KERNEL_lamb,
                             .state_names = {"exp_avg", "exp_avg_sq"},
                             .argument_count = sizeof arguments / sizeof arguments[0],
                             .arguments = arguments,
                             .fill = lamb_fill,
                             .norms = norms,
                             .coefficient = coefficient};

static const bp_optimizer_options defaults = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6};

BP_RULE_OPTIMIZER_WHOLE(lamb, , "lamb", BP_CODEC_F32, defaults)
BP_RULE_OPTIMIZER_WHOLE(lamb, _8bit, "lamb_8bit", BP_CODEC_BLOCK8, defaults)
