/* SPDX-License-Identifier: MIT */
/* A factor for every row. */
#include <string.h>

#include "device/host/vector/element.h"

static uint64_t row_scale_tasks(const void *scalars)
{
    const bp_row_scale_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void row_scale_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_row_scale_scalars *s = call->scalars;
    const bp_row_scale_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->x + row * (uint64_t)s->pitch;
        const float weight = ((const float *)p->weights)[row];
        if (weight == 0.0f) {
            memset(x, 0, width * sizeof(*x));
            continue;
        }
        for (uint64_t i = 0; i < width; i++) {
            bp_put(x, i, bp_get(x, i) * weight);
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_row_scale) = {row_scale_tasks, row_scale_run, NULL};
