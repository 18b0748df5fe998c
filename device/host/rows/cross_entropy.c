/* SPDX-License-Identifier: MIT */
/* Softmax cross-entropy over chunks of logits; plain form. */
#include <string.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"
#include "core/ir/step.h"
#include "device/host/vector/element.h"
#include "device/host/rows/loss.h"

static uint64_t gradient_tasks(const void *scalars)
{
    const bp_cross_entropy_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* The largest element that is a number; -infinity if there is none. */
static float row_max(const bp_element *x, uint64_t count)
{
    float most = -INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        float value = bp_get(x, i);
        most = value > most ? value : most;
    }
    return most;
}

/* What smoothing adds to a row's loss: smoothing (x[label] - mean of x), the sum in lanes. */
static float row_smoothing(const bp_element *x, uint64_t count, uint64_t label, double smoothing)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < count; i++) {
        lane[i % BP_LANES] += bp_get(x, i);
    }
    return (float)smoothing * (bp_get(x, label) - bp_lanes_sum(lane) / (float)count);
}

/* A row of logits becomes its gradient e * (weight / sum) + shift, less peak at the label; e =
 * exp(x - max) is summed in lanes, and made again for the gradient where x has no room to keep it.
 * kept gets max and weight / sum. Returns the loss, (max + log sum) - x[label]. */
static float row_gradient(bp_element *x, uint64_t vocabulary, uint64_t label,
                          const bp_loss_slope *slope, float kept[2])
{
    float target = bp_get(x, label);
    float most = row_max(x, vocabulary);
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < vocabulary; i++) {
        float e = bp_expf_inline(bp_get(x, i) - most);
        lane[i % BP_LANES] += e;
        if (BP_ELEMENT_EXACT) {
            bp_put(x, i, e);
        }
    }
    float sum = bp_lanes_sum(lane);
    float factor = slope->weight / sum;
    for (uint64_t i = 0; i < vocabulary; i++) {
        float e = bp_get(x, i);
        e = BP_ELEMENT_EXACT ? e : bp_expf_inline(e - most);
        bp_put(x, i, e * factor + slope->shift);
    }
    bp_put(x, label, (bp_expf_inline(target - most) * factor + slope->shift) - slope->peak);
    kept[0] = most;
    kept[1] = factor;
    return (most + bp_logf(sum)) - target;
}

/* A task is a row; weight = bp_loss_weight. */
static void gradient_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_scalars *s = call->scalars;
    const bp_cross_entropy_pointers *p = call->pointers;
    const bp_loss_slope slope = bp_loss_slope_of(bp_loss_weight(p->step, p->control, s->scaled),
                                                 s->smoothing, s->vocabulary);
    uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        float kept[2] = {0.0f, 0.0f};
        if (label < 0) {
            *loss = 0.0f;
            memset(x, 0, vocabulary * sizeof(*x));
        } else {
            const float more = s->smoothing > 0.0
                                   ? row_smoothing(x, vocabulary, (uint64_t)label, s->smoothing)
                                   : 0.0f;
            *loss = row_gradient(x, vocabulary, (uint64_t)label, &slope, kept) + more;
        }
        bp_loss_keep(p->statistics, row, (uint64_t)s->stride, kept[0], kept[1]);
    }
}

static uint64_t columns_tasks(const void *scalars)
{
    const bp_cross_entropy_columns_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row: exp(x - most) * factor + shift, less peak at the label. */
static void columns_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_columns_scalars *s = call->scalars;
    const bp_cross_entropy_columns_pointers *p = call->pointers;
    const bp_loss_slope slope = bp_loss_slope_of(bp_loss_weight(p->step, p->control, s->scaled),
                                                 s->smoothing, s->vocabulary);
    uint64_t columns = (uint64_t)s->columns;
    const float *statistics = p->statistics;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->logits + row * (uint64_t)s->pitch;
        int32_t label = ((const int32_t *)p->labels)[row];
        uint64_t place = (uint64_t)label - (uint64_t)s->first;
        if (label < 0) {
            memset(x, 0, columns * sizeof(*x));
            continue;
        }
        float most = statistics[row], factor = statistics[(uint64_t)s->stride + row];
        for (uint64_t i = 0; i < columns; i++) {
            float gradient = bp_expf_inline(bp_get(x, i) - most) * factor + slope.shift;
            bp_put(x, i, i == place ? gradient - slope.peak : gradient);
        }
    }
}

static uint64_t forward_tasks(const void *scalars)
{
    const bp_cross_entropy_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_forward_scalars *s = call->scalars;
    const bp_cross_entropy_forward_pointers *p = call->pointers;
    uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *x = (const bp_element *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        if (label < 0) {
            *loss = 0.0f;
            continue;
        }
        float most = row_max(x, vocabulary);
        float lane[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < vocabulary; i++) {
            lane[i % BP_LANES] += bp_expf_inline(bp_get(x, i) - most);
        }
        const float more =
            s->smoothing > 0.0 ? row_smoothing(x, vocabulary, (uint64_t)label, s->smoothing) : 0.0f;
        *loss = (most + bp_logf(bp_lanes_sum(lane))) - bp_get(x, (uint64_t)label) + more;
    }
}

const bp_host_kernel BP_BUILT(bp_host_cross_entropy) = {gradient_tasks, gradient_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_cross_entropy_columns) = {columns_tasks, columns_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_cross_entropy_forward) = {forward_tasks, forward_run, NULL};
