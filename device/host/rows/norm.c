/* SPDX-License-Identifier: MIT */
/* The gradient norm in double, and the decision it leads to (core/ir/step.h). */
#include <math.h>

#include "core/base/math.h"
#include "core/ir/step.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

static uint64_t partial_tasks(const void *scalars)
{
    const bp_norm_partial_scalars *s = scalars;
    return bp_cut(s->count, (uint64_t)s->chunk);
}

/* A task is a chunk; squares in double (exact) are summed in lanes from the chunk's start. */
static void partial_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_norm_partial_scalars *s = call->scalars;
    const bp_norm_partial_pointers *p = call->pointers;
    bp_dtype type = bp_call_type(call, 1);
    for (uint64_t task = first; task < last; task++) {
        uint64_t from = task * (uint64_t)s->chunk;
        uint64_t count = bp_least((uint64_t)s->count - from, (uint64_t)s->chunk);
        double lane[BP_LANES] = {0.0};
        for (uint64_t i = 0; i < count; i++) {
            double x = (double)bp_element_load(p->x, from + i, type);
            lane[i % BP_LANES] += x * x;
        }
        ((double *)p->partials)[task] = bp_lanes_sum_double(lane);
    }
}

static uint64_t decide_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

/* The dynamic loss scale after a step, as torch.amp.GradScaler moves it. */
static void move_scale(const bp_step_decide_scalars *s, bp_control_block *control)
{
    if (control->skip == 0) {
        control->good_steps += 1;
        if (control->good_steps >= (uint64_t)s->interval) {
            float grown = control->scale * (float)s->growth;
            control->scale = isfinite(grown) ? grown : control->scale;
            control->good_steps = 0;
            control->bad_steps = 0;
        }
        return;
    }
    control->good_steps = 0;
    control->bad_steps += 1;
    if (control->bad_steps >= (uint64_t)s->hysteresis) {
        float shrunk = control->scale * (float)s->backoff;
        control->scale = shrunk > (float)s->floor ? shrunk : (float)s->floor;
    }
}

static void apply_step(const bp_step_decide_scalars *s, bp_control_block *control)
{
    control->applied += 1;
    control->correction1 = 1.0 - bp_powi(s->beta1, control->applied);
    control->correction2 = 1.0 - bp_powi(s->beta2, control->applied);
}

/* Number `percentile`, from 0, of the latest norms of applied steps in rising order, this one among
 * them: equal ones are ordered by slot. Slots of 0 are empty, and taken by it. */
static float percentile_of(const bp_step_decide_scalars *s, float *norms, uint64_t applied,
                           float norm)
{
    for (uint32_t i = 0; i < BP_NORM_HISTORY; i++) {
        bool this_one = i == applied % BP_NORM_HISTORY || norms[i] == 0.0f;
        norms[i] = this_one ? norm : norms[i];
    }
    float found = norm;
    for (uint32_t i = 0; i < BP_NORM_HISTORY; i++) {
        int64_t below = 0;
        for (uint32_t j = 0; j < BP_NORM_HISTORY; j++) {
            below += norms[j] < norms[i] || (norms[j] == norms[i] && j < i);
        }
        found = below == s->percentile ? norms[i] : found;
    }
    return found;
}

/* For the step after this one, once no gradient is missing. */
static void keep_norm(const bp_step_decide_scalars *s, bp_control_block *control, double norm)
{
    if (s->previous == 2 && control->skip == 0) {
        control->norm = (float)norm;
    }
}

static void decide_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_step_decide_scalars *s = call->scalars;
    const bp_step_decide_pointers *p = call->pointers;
    bp_control_block *control = p->control;
    bp_result_block *result = p->result;
    const double *sums = p->sums;
    double sum = 0.0;
    for (uint64_t i = 0; i < (uint64_t)s->partials; i++) {
        sum += sums[i];
    }
    double scale = s->scaling != 0 ? (double)control->scale : 1.0;
    double norm = sqrt(sum) / scale;
    double judged = s->previous != 0 ? (double)control->norm : norm;
    double clip = s->max_norm > 0.0 ? s->max_norm / (judged + 1e-6) : 1.0;
    clip = clip < 1.0 ? clip : 1.0;
    bool finite = isfinite(norm) && (s->scaling != 0 || isfinite(result->loss_sum));
    if (s->later != 0) {
        control->skip = finite ? control->skip : 1;
        keep_norm(s, control, norm);
        result->norm = (float)norm;
        result->skip = control->skip;
        return;
    }
    if (finite && p->norms != NULL && norm > 0.0) {
        double most = (double)percentile_of(s, p->norms, control->applied, (float)norm);
        clip = most / norm < clip ? most / norm : clip;
    }
    result->scale = (float)scale;
    control->clip = (float)(clip / scale);
    control->skip = finite ? 0 : 1;
    if (finite) {
        apply_step(s, control);
    }
    keep_norm(s, control, norm);
    if (s->scaling == 2) {
        move_scale(s, control);
    }
    result->norm = (float)norm;
    result->clip = (float)clip;
    result->skip = control->skip;
    result->applied = control->applied;
}

static void average_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_average_step_scalars *s = call->scalars;
    const bp_average_step_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    bp_control_block *control = p->control;
    if (control->skip != 0) {
        return;
    }
    const float peak = control->average_peak;
    control->average_peak = peak > step->learning_rate ? peak : step->learning_rate;
    const double weight = bp_powi((double)control->average_peak, (uint64_t)s->power);
    const double sum = control->average_sum + weight;
    control->average_sum = sum;
    control->average_mix = sum > 0.0 ? (float)(weight / sum) : 0.0f;
}

const bp_host_kernel bp_host_average_step = {decide_tasks, average_run, NULL};
const bp_host_kernel bp_host_norm_partial = {partial_tasks, partial_run, NULL};
const bp_host_kernel bp_host_step_decide = {decide_tasks, decide_run, NULL};
