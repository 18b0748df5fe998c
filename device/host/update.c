/* SPDX-License-Identifier: MIT */
/* The factors of a step, rule by rule, and the trust ratio. */
#include "device/host/update.h"

#include <math.h>

#include "core/math.h"
#include "device/host/kernel.h"

/* The moments of the Adam family. */
static void set_moments(bp_update_factors *f, const bp_control_block *control, double beta1,
                        double beta2, double epsilon)
{
    f->m_gain = (float)(1.0 - beta1);
    f->m_scale = (float)(1.0 / control->correction1);
    f->v_keep = (float)beta2;
    f->v_gain = (float)(1.0 - beta2);
    f->v_scale = (float)(1.0 / sqrt(control->correction2));
    f->epsilon = (float)epsilon;
}

static void set_sgd(bp_update_factors *f, const bp_sgd_scalars *s, const bp_control_block *control)
{
    f->m_keep = (float)s->momentum;
    f->m_gain = control->applied > 1 ? (float)(1.0 - s->dampening) : 1.0f;
    f->lookahead = (float)s->momentum;
    f->nesterov = s->nesterov != 0;
}

static void set_lion(bp_update_factors *f, const bp_lion_scalars *s)
{
    f->c_keep = (float)s->beta1;
    f->c_gain = (float)(1.0 - s->beta1);
    f->m_keep = (float)s->beta2;
    f->m_gain = (float)(1.0 - s->beta2);
}

static void set_rmsprop(bp_update_factors *f, const bp_rmsprop_scalars *s)
{
    f->v_keep = (float)s->alpha;
    f->v_gain = (float)(1.0 - s->alpha);
    f->v_scale = 1.0f;
    f->epsilon = (float)s->epsilon;
    f->m_keep = (float)s->momentum;
}

static double ademamix_beta3(const bp_ademamix_scalars *s, double t)
{
    if (s->t_beta3 <= 0.0 || t >= s->t_beta3 || s->beta1 <= 0.0 || s->beta3 <= 0.0) {
        return s->beta3;
    }
    double log1 = bp_log(s->beta1), log3 = bp_log(s->beta3), part = t / s->t_beta3;
    double beta3 = bp_exp(log1 * log3 / ((1.0 - part) * log3 + part * log1));
    return beta3 < s->beta3 ? beta3 : s->beta3;
}

static void set_ademamix(bp_update_factors *f, const bp_ademamix_scalars *s,
                         const bp_control_block *control)
{
    double t = (double)control->applied;
    set_moments(f, control, s->beta1, s->beta2, s->epsilon);
    f->n_gain = (float)(1.0 - ademamix_beta3(s, t));
    f->mix = (float)(s->t_alpha > t ? t / s->t_alpha * s->alpha : s->alpha);
}

static void set_adam(bp_update_factors *f, const bp_adam_scalars *s,
                     const bp_control_block *control, double rate)
{
    set_moments(f, control, s->beta1, s->beta2, s->epsilon);
    f->rate = (float)(rate / control->correction1);
}

bp_update_factors bp_update_prepare(bp_kernel kernel, const void *scalars,
                                    const bp_update_view *view)
{
    const bp_update_scalars *common = scalars;
    const bp_control_block *control = view->control;
    double rate = (double)view->step->learning_rate * common->rate_scale;
    rate *= view->trust != NULL ? (double)*view->trust : 1.0;
    bp_update_factors f = {.clip = control->clip,
                           .rate = (float)rate,
                           .keep = (float)(1.0 - rate * common->decay),
                           .decay = (float)common->decay};
    switch (kernel) {
    case BP_KERNEL_sgd:
        set_sgd(&f, scalars, control);
        break;
    case BP_KERNEL_lion:
        set_lion(&f, scalars);
        break;
    case BP_KERNEL_rmsprop:
        set_rmsprop(&f, scalars);
        break;
    case BP_KERNEL_adagrad:
        f.v_keep = 1.0f;
        f.v_gain = 1.0f;
        f.v_scale = 1.0f;
        f.epsilon = (float)((const bp_adagrad_scalars *)scalars)->epsilon;
        break;
    case BP_KERNEL_lamb:
    case BP_KERNEL_lamb_norms: {
        const bp_lamb_scalars *s = scalars; /* both rows' scalars begin with these */
        set_moments(&f, control, s->beta1, s->beta2, s->epsilon);
        break;
    }
    case BP_KERNEL_lars:
        f.m_keep = (float)((const bp_lars_scalars *)scalars)->momentum;
        break;
    case BP_KERNEL_ademamix:
        set_ademamix(&f, scalars, control);
        break;
    case BP_KERNEL_lars_norms:
        break;
    default: /* adam and adamw have the same scalars */
        set_adam(&f, scalars, control, rate);
        break;
    }
    return f;
}

static uint64_t trust_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static void trust_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_trust_ratio_scalars *s = call->scalars;
    const bp_trust_ratio_pointers *p = call->pointers;
    const double *partials = p->partials;
    double weight = 0.0, update = 0.0;
    for (uint64_t i = 0; i < (uint64_t)s->pairs; i++) {
        weight += partials[2 * i];
        update += partials[2 * i + 1];
    }
    weight = sqrt(weight);
    update = sqrt(update);
    bool both = weight > 0.0 && update > 0.0;
    *(float *)p->trust =
        both ? (float)(s->coefficient * weight / (update + s->decay * weight)) : 1.0f;
}

const bp_host_kernel bp_host_trust_ratio = {trust_tasks, trust_run, NULL};
