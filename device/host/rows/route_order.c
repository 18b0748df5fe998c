/* SPDX-License-Identifier: MIT */
/* Choices in order of the expert, then of the token: counted, then put in their places. */
#include "device/host/rows/route_order.h"

#include <string.h>

static uint64_t order_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static void order_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    (void)first;
    (void)last;
    const bp_route_order_scalars *s = call->scalars;
    const bp_route_order_pointers *p = call->pointers;
    const int32_t *choice = p->choice;
    const int64_t count = s->rows * s->top;
    int32_t *begins = p->order, *choices = begins + s->experts + 1, *rows = choices + count;
    memset(begins, 0, (size_t)(s->experts + 1) * sizeof *begins);
    for (int64_t i = 0; i < count; i++) {
        begins[choice[i]]++;
    }
    int32_t before = 0;
    for (int64_t e = 0; e <= s->experts; e++) { /* where the next row of each goes */
        const int32_t here = begins[e];
        begins[e] = before;
        before += here;
    }
    for (int64_t i = 0; i < count; i++) {
        rows[i] = begins[choice[i]]++;
        choices[rows[i]] = (int32_t)i;
    }
    memmove(begins + 1, begins, (size_t)s->experts * sizeof *begins);
    begins[0] = 0;
}

const bp_host_kernel bp_host_route_order = {order_tasks, order_run, NULL};
