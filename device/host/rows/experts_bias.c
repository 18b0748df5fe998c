/* SPDX-License-Identifier: MIT */
/* Biases of experts' products, and their part in gradients. */
#include <string.h>

#include "device/host/rows/route_order.h"
#include "device/host/vector/element.h"

/* The expert of a row, at or after expert `e`. */
static uint64_t expert_at(const bp_route *route, uint64_t e, uint64_t row)
{
    while ((uint64_t)route->begins[e + 1] <= row) {
        e++;
    }
    return e;
}

static uint64_t expert_bias_tasks(const void *scalars)
{
    const bp_expert_bias_scalars *s = scalars;
    return (uint64_t)s->rows * (uint64_t)s->top;
}

static void expert_bias_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_expert_bias_scalars *s = call->scalars;
    const bp_expert_bias_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width;
    uint64_t e = 0;
    for (uint64_t r = first; r < last; r++) {
        e = expert_at(&route, e, r);
        memcpy((bp_element *)p->y + r * width, (const bp_element *)p->bias + e * width,
               width * sizeof(bp_element));
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_bias) = {expert_bias_tasks, expert_bias_run, NULL};

static uint64_t bias_backward_tasks(const void *scalars)
{
    const bp_expert_bias_backward_scalars *s = scalars;
    return (uint64_t)s->experts * bp_cut(s->width, BP_COLUMNS);
}

/* A task is a slice of an expert's columns. */
static void bias_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_expert_bias_backward_scalars *s = call->scalars;
    const bp_expert_bias_backward_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width, slices = bp_cut(s->width, BP_COLUMNS);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t e = task / slices, column = task % slices * BP_COLUMNS;
        bp_columns sum = {p->d_bias,
                          bp_call_type(call, BP_OPERAND(expert_bias_backward, d_bias)),
                          e * width + column,
                          bp_least(width - column, BP_COLUMNS),
                          {0.0f}};
        bp_columns_begin(&sum, s->accumulate);
        for (uint64_t r = (uint64_t)route.begins[e]; r < (uint64_t)route.begins[e + 1]; r++) {
            const bp_element *d_y = (const bp_element *)p->d_y + r * width + column;
            const float weight =
                p->weights != NULL ? ((const float *)p->weights)[route.choices[r]] : 1.0f;
            for (uint64_t i = 0; i < sum.count; i++) {
                sum.value[i] = fmaf(weight, bp_get(d_y, i), sum.value[i]);
            }
        }
        bp_columns_end(&sum);
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_bias_backward) = {bias_backward_tasks,
                                                               bias_backward_run, NULL};

static void bias_weights_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_expert_bias_weights_scalars *s = call->scalars;
    const bp_expert_bias_weights_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width;
    uint64_t e = 0;
    for (uint64_t r = first; r < last; r++) {
        e = expert_at(&route, e, r);
        const bp_element *d_y = (const bp_element *)p->d_y + r * width;
        const bp_element *bias = (const bp_element *)p->bias + e * width;
        float lane[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < width; i++) {
            lane[i % BP_LANES] = fmaf(bp_get(bias, i), bp_get(d_y, i), lane[i % BP_LANES]);
        }
        ((float *)p->d_weights)[route.choices[r]] += bp_lanes_sum(lane);
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_bias_weights) = {expert_bias_tasks, bias_weights_run,
                                                              NULL};
