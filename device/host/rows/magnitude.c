/* SPDX-License-Identifier: MIT */
/* Magnitudes of adapted weights: the portable form of magnitude.h, and what is applied by columns.
 */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/rows/magnitude.h"

static uint64_t apply_tasks(const void *scalars)
{
    const bp_magnitude_apply_scalars *s = scalars;
    return bp_cut(s->n, BP_COLUMNS);
}

/* A task is a slice of 64 columns. */
static void apply_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_magnitude_apply_scalars *s = call->scalars;
    const bp_magnitude_apply_pointers *p = call->pointers;
    float factor[BP_COLUMNS];
    for (uint64_t task = first; task < last; task++) {
        const uint64_t column = task * BP_COLUMNS;
        const uint64_t count = bp_least((uint64_t)s->n - column, BP_COLUMNS);
        for (uint64_t i = 0; i < count; i++) {
            const float norm = ((const float *)p->norms)[column + i];
            factor[i] = norm > 0.0f ? bp_get(p->magnitude, column + i) / norm : 0.0f;
            factor[i] -= (float)s->less;
        }
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const uint64_t at = row * (uint64_t)s->pitch + column;
            const bp_element *x = (const bp_element *)p->x + row * (uint64_t)s->x_pitch + column;
            for (uint64_t i = 0; i < count; i++) {
                float value = factor[i] * bp_get(x, i);
                value += p->bias != NULL ? bp_get(p->bias, column + i) : 0.0f;
                value += p->residual != NULL ? bp_get(p->residual, at + i) : 0.0f;
                bp_put(p->y, at + i, value);
            }
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_magnitude_apply) = {apply_tasks, apply_run, NULL};

static uint64_t backward_tasks(const void *scalars)
{
    const bp_magnitude_backward_scalars *s = scalars;
    return bp_cut(s->n, BP_COLUMNS);
}

/* A task is a slice of 64 columns: rows are added in order, in float. */
static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_magnitude_backward_scalars *s = call->scalars;
    const bp_magnitude_backward_pointers *p = call->pointers;
    const uint64_t n = (uint64_t)s->n;
    float inverse[BP_COLUMNS];
    for (uint64_t task = first; task < last; task++) {
        const uint64_t column = task * BP_COLUMNS;
        bp_columns sum = {p->d_magnitude,
                          bp_call_type(call, BP_OPERAND(magnitude_backward, d_magnitude)),
                          column,
                          bp_least(n - column, BP_COLUMNS),
                          {0.0f}};
        for (uint64_t i = 0; i < sum.count; i++) {
            const float norm = ((const float *)p->norms)[column + i];
            inverse[i] = norm > 0.0f ? 1.0f / norm : 0.0f;
        }
        bp_columns_begin(&sum, s->accumulate);
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const bp_element *d_y = (const bp_element *)p->d_y + row * (uint64_t)s->pitch + column;
            const bp_element *x = (const bp_element *)p->x + row * n + column;
            for (uint64_t i = 0; i < sum.count; i++) {
                sum.value[i] += bp_get(d_y, i) * (bp_get(x, i) * inverse[i]);
            }
        }
        bp_columns_end(&sum);
    }
}

const bp_host_kernel BP_BUILT(bp_host_magnitude_backward) = {backward_tasks, backward_run, NULL};
