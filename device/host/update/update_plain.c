/* SPDX-License-Identifier: MIT */
/* Update rules of tensors that are f32 in memory throughout: weight, gradient and states, no
 * master, no codes, no parts of AdamA. They are the portable form's arithmetic without its choices,
 * in a tenth of its code; plan --emit-c takes them where a plan allows it. The whole tensor is one
 * task. */
#include "device/host/kernel.h"
#include "device/host/update/update.h"

static uint64_t plain_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static bp_update_factors plain_factors(uint32_t rule, const bp_host_call *call)
{
    const bp_adamw_pointers *p = call->pointers; /* all update rows have the same */
    bp_update_factors f;
    bp_update_prepare(&f, rule, call->scalars, p->control, p->step, 1.0f, 0.0);
    return f;
}

static bool plain_skips(const bp_host_call *call)
{
    const bp_adamw_pointers *p = call->pointers;
    return ((const bp_control_block *)p->control)->skip != 0;
}

/* Rules of two moments. */
#define PLAIN_ADAM(name, rule)                                                                     \
    static void name##_run(const bp_host_call *call, uint64_t first, uint64_t last,                \
                           uint32_t worker)                                                        \
    {                                                                                              \
        const bp_update_scalars *s = call->scalars;                                                \
        const bp_adamw_pointers *p = call->pointers;                                               \
        float *w = p->weight, *m = p->state1, *v = p->state2;                                      \
        const float *g = p->gradient;                                                              \
        (void)first, (void)last, (void)worker;                                                     \
        if (plain_skips(call)) {                                                                   \
            return;                                                                                \
        }                                                                                          \
        const bp_update_factors f = plain_factors(rule, call);                                     \
        for (size_t i = 0; i < (size_t)s->count; i++) {                                            \
            bp_update_##name(&f, g[i] * f.clip, &w[i], &m[i], &v[i]);                              \
        }                                                                                          \
    }                                                                                              \
    const bp_host_kernel bp_host_##name##_plain = {plain_tasks, name##_run, NULL};

PLAIN_ADAM(adam, BP_UPDATE_adam)
PLAIN_ADAM(adamw, BP_UPDATE_adamw)

static void sgd_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_update_scalars *s = call->scalars;
    const bp_adamw_pointers *p = call->pointers;
    float *w = p->weight, *b = p->state1;
    const float *g = p->gradient;
    (void)first, (void)last, (void)worker;
    if (plain_skips(call)) {
        return;
    }
    const bp_update_factors f = plain_factors(BP_UPDATE_sgd, call);
    for (size_t i = 0; i < (size_t)s->count; i++) {
        const float clipped = g[i] * f.clip;
        if (b == NULL) {
            bp_update_plain(&f, clipped, &w[i]);
        } else if (f.nesterov != 0) {
            bp_update_nesterov(&f, clipped, &w[i], &b[i]);
        } else {
            bp_update_momentum(&f, clipped, &w[i], &b[i]);
        }
    }
}

const bp_host_kernel bp_host_sgd_plain = {plain_tasks, sgd_run, NULL};
