/* SPDX-License-Identifier: MIT */
/* The gradient of some columns of the logits, from what cross_entropy kept of each row; plain form.
 */
#include <string.h>

#include "core/math_inline.h"
#include "core/step.h"
#include "device/host/kernel.h"

static uint64_t columns_tasks(const void *scalars)
{
    const bp_cross_entropy_columns_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row: exp(x - most) * factor, less the loss weight at the label. */
static void columns_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_columns_scalars *s = call->scalars;
    const bp_cross_entropy_columns_pointers *p = call->pointers;
    float weight = bp_loss_weight(p->step, p->control, s->scaled);
    uint64_t columns = (uint64_t)s->columns;
    const float *statistics = p->statistics;
    for (uint64_t row = first; row < last; row++) {
        float *x = (float *)p->logits + row * (uint64_t)s->pitch;
        int32_t label = ((const int32_t *)p->labels)[row];
        if (label < 0) {
            memset(x, 0, columns * sizeof(float));
            continue;
        }
        float most = statistics[row], factor = statistics[(uint64_t)s->stride + row];
        for (uint64_t i = 0; i < columns; i++) {
            x[i] = bp_expf_inline(x[i] - most) * factor;
        }
        uint64_t place = (uint64_t)label - (uint64_t)s->first;
        if (place < columns) {
            x[place] -= weight;
        }
    }
}

const bp_host_kernel bp_host_cross_entropy_columns = {columns_tasks, columns_run, NULL};
