/* SPDX-License-Identifier: MIT */
/* Rows whose groups of parts become parts of groups. */
#include <string.h>

#include "device/host/vector/element.h"

static uint64_t regroup_tasks(const void *scalars)
{
    const bp_regroup_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void regroup_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_regroup_scalars *s = call->scalars;
    const bp_regroup_pointers *p = call->pointers;
    const uint64_t groups = (uint64_t)s->groups, parts = (uint64_t)s->parts;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t row = first; row < last; row++) {
        bp_element *y = (bp_element *)p->y + row * groups * parts * width;
        const bp_element *x = (const bp_element *)p->x + row * groups * parts * width;
        for (uint64_t g = 0; g < groups; g++) {
            for (uint64_t k = 0; k < parts; k++) {
                memcpy(y + (k * groups + g) * width, x + (g * parts + k) * width,
                       width * sizeof *y);
            }
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_regroup) = {regroup_tasks, regroup_run, NULL};
