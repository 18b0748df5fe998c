/* SPDX-License-Identifier: MIT */
/* AdamW (Loshchilov and Hutter, arXiv 1711.05101), plain form. */
#include <math.h>

#include "core/step.h"
#include "device/host/adamw.h"
#include "device/host/kernel.h"
#include "device/host/lanes.h"

bp_adamw_factors bp_adamw_prepare(const void *scalars, const void *control_block,
                                  const void *step_block)
{
    const bp_adamw_scalars *s = scalars;
    const bp_control_block *control = control_block;
    const bp_step_block *step = step_block;
    double rate = (double)step->learning_rate * s->rate_scale;
    return (bp_adamw_factors){.clip = control->clip,
                              .keep = (float)(1.0 - rate * s->decay),
                              .m_gain = (float)(1.0 - s->beta1),
                              .v_keep = (float)s->beta2,
                              .v_gain = (float)(1.0 - s->beta2),
                              .v_scale = (float)(1.0 / sqrt(control->correction2)),
                              .epsilon = (float)s->epsilon,
                              .rate = (float)(rate / control->correction1)};
}

static uint64_t adamw_tasks(const void *scalars)
{
    const bp_adamw_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of elements. Each line below is the operations in their order. */
static void adamw_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_adamw_scalars *s = call->scalars;
    const bp_adamw_pointers *p = call->pointers;
    if (((const bp_control_block *)p->control)->skip != 0) {
        return;
    }
    bp_adamw_factors f = bp_adamw_prepare(s, p->control, p->step);
    float *weight = p->weight, *m = p->m, *v = p->v;
    const float *gradient = p->gradient;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        float g = gradient[i] * f.clip;
        m[i] = fmaf(f.m_gain, g - m[i], m[i]);
        v[i] = fmaf(g * f.v_gain, g, v[i] * f.v_keep);
        float below = fmaf(sqrtf(v[i]), f.v_scale, f.epsilon);
        weight[i] = fmaf(-f.rate, m[i] / below, weight[i] * f.keep);
    }
}

const bp_host_kernel bp_host_adamw = {adamw_tasks, adamw_run, NULL};
