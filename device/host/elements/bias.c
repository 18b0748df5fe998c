/* SPDX-License-Identifier: MIT */
/* Bias gradients, plain form. */
#include "device/host/vector/element.h"
#include "device/host/vector/lanes.h"

static uint64_t bias_tasks(const void *scalars)
{
    const bp_bias_backward_scalars *s = scalars;
    return bp_cut(s->n, BP_COLUMNS);
}

/* A task is a slice of 64 columns: rows are added in order, in float. */
static void bias_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_bias_backward_scalars *s = call->scalars;
    const bp_bias_backward_pointers *p = call->pointers;
    uint64_t n = (uint64_t)s->n, pitch = (uint64_t)s->pitch;
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_COLUMNS;
        bp_columns sum = {p->d_bias,
                          bp_call_type(call, BP_OPERAND(bias_backward, d_bias)),
                          column,
                          bp_least(n - column, BP_COLUMNS),
                          {0.0f}};
        bp_columns_begin(&sum, s->accumulate);
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const bp_element *d_y = (const bp_element *)p->d_y + row * pitch + column;
            for (uint64_t i = 0; i < sum.count; i++) {
                sum.value[i] += bp_get(d_y, i);
            }
        }
        bp_columns_end(&sum);
    }
}

const bp_host_kernel BP_BUILT(bp_host_bias_backward) = {bias_tasks, bias_run, NULL};
