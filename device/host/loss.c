/* SPDX-License-Identifier: MIT */
/* Softmax cross-entropy over chunks of logits, and the sum of losses; plain form. */
#include <string.h>

#include "core/math.h"
#include "core/math_inline.h"
#include "core/step.h"
#include "device/host/kernel.h"
#include "device/host/lanes.h"
#include "device/host/loss.h"

static uint64_t gradient_tasks(const void *scalars)
{
    const bp_cross_entropy_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row: e = exp(x - max) summed in lanes, loss = (max + log sum) - x[label], and the
 * gradient e * (weight / sum), less weight at the label; weight = bp_loss_weight. */
static void gradient_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_scalars *s = call->scalars;
    const bp_cross_entropy_pointers *p = call->pointers;
    float weight = bp_loss_weight(p->step, p->control, s->scaled);
    uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t row = first; row < last; row++) {
        float *x = (float *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        if (label < 0) {
            *loss = 0.0f;
            bp_loss_keep(p->statistics, row, (uint64_t)s->stride, 0.0f, 0.0f);
            memset(x, 0, vocabulary * sizeof(float));
            continue;
        }
        float target = x[label];
        float most = bp_row_max(x, vocabulary);
        float lane[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < vocabulary; i++) {
            x[i] = bp_expf_inline(x[i] - most);
            lane[i % BP_LANES] += x[i];
        }
        float sum = bp_lanes_sum(lane);
        float factor = weight / sum;
        bp_loss_keep(p->statistics, row, (uint64_t)s->stride, most, factor);
        for (uint64_t i = 0; i < vocabulary; i++) {
            x[i] *= factor;
        }
        x[label] -= weight;
        *loss = (most + bp_logf(sum)) - target;
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
        const float *x = (const float *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        if (label < 0) {
            *loss = 0.0f;
            continue;
        }
        float most = bp_row_max(x, vocabulary);
        float lane[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < vocabulary; i++) {
            lane[i % BP_LANES] += bp_expf_inline(x[i] - most);
        }
        *loss = (most + bp_logf(bp_lanes_sum(lane))) - x[label];
    }
}

static uint64_t sum_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static void sum_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_loss_sum_scalars *s = call->scalars;
    const bp_loss_sum_pointers *p = call->pointers;
    bp_result_block *result = p->result;
    const float *losses = p->losses;
    if (s->accumulate == 0) {
        memset(result, 0, sizeof(*result));
    }
    double sum = result->loss_sum;
    for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
        sum += (double)losses[row];
    }
    result->loss_sum = sum;
}

const bp_host_kernel bp_host_cross_entropy = {gradient_tasks, gradient_run, NULL};
const bp_host_kernel bp_host_cross_entropy_forward = {forward_tasks, forward_run, NULL};
const bp_host_kernel bp_host_loss_sum = {sum_tasks, sum_run, NULL};
