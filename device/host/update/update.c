/* SPDX-License-Identifier: MIT */
/* The factors of a step, and the trust ratio. */
#include "device/host/update/update.h"

#include "core/base/math.h"
#include "device/host/kernel.h"

static double ademamix_beta3(const bp_update_scalars *s, double t)
{
    double beta1 = bp_update_own(s, 0), beta3 = bp_update_own(s, 2), steps = bp_update_own(s, 6);
    if (steps <= 0.0 || t >= steps || beta1 <= 0.0 || beta3 <= 0.0) {
        return beta3;
    }
    double log1 = bp_log(beta1), log3 = bp_log(beta3), part = t / steps;
    double now = bp_exp(log1 * log3 / ((1.0 - part) * log3 + part * log1));
    return now < beta3 ? now : beta3;
}

bp_update_factors bp_update_factors_of(uint32_t rule, const bp_update_scalars *scalars,
                                       const bp_update_view *view)
{
    bp_update_factors f;
    float trust = view->trust != NULL ? *view->trust : 1.0f;
    double beta3 = rule == BP_UPDATE_ademamix
                       ? ademamix_beta3(scalars, (double)view->control->applied)
                   : rule == BP_UPDATE_scaled && view->trust != NULL ? (double)view->trust[1]
                                                                     : 1.0;
    bp_update_prepare(&f, rule, scalars, view->control, view->step, trust, beta3);
    return f;
}

void bp_update_take_factors(bp_update_view *view)
{
    view->rows = (const float *)(const void *)view->state[1];
    view->columns = (const float *)(const void *)view->state[2];
    view->state[1] = view->state[2] = NULL;
}

void bp_update_fill_factors(const bp_update_view *view, uint64_t width, uint64_t first,
                            uint32_t count, float *to)
{
    uint64_t row = first / width, column = first % width;
    for (uint32_t i = 0; i < count; row++, column = 0) {
        const uint64_t left = width - column;
        const uint32_t some = left < count - i ? (uint32_t)left : count - i;
        const float factor = view->rows != NULL ? view->rows[row] : 1.0f;
        for (uint32_t k = 0; k < some; k++) {
            to[i + k] = view->columns != NULL ? factor * view->columns[column + k] : factor;
        }
        i += some;
    }
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
