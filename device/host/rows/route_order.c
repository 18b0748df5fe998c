/* SPDX-License-Identifier: MIT */
/* Choices in order of the expert, then of the token: counted, then put in their places; and the
 * balancing loss of all routers. */
#include "device/host/rows/route_order.h"

#include <string.h>

#include "core/ir/step.h"

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

static void balance_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    (void)first;
    (void)last;
    const bp_route_balance_loss_scalars *s = call->scalars;
    const bp_route_balance_loss_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    const float *sums = p->sums;
    const int64_t both = 2 * s->experts;
    double tokens = 0.0, loss = 0.0;
    for (int64_t i = 0; i < s->layers * s->experts; i++) {
        tokens += (double)sums[i / s->experts * both + i % s->experts];
    }
    tokens /= (double)s->top;
    const double per = tokens > 0.0 ? (double)s->experts / tokens / tokens : 0.0;
    const double micros = (double)step->inverse_micros, weight = s->coefficient * micros;
    for (int64_t e = 0; e < s->experts; e++) {
        double chosen = 0.0, share = 0.0;
        for (int64_t l = 0; l < s->layers; l++) {
            chosen += (double)sums[l * both + e];
            share += (double)sums[l * both + s->experts + e];
        }
        loss += tokens > 0.0 ? chosen * share * per : 0.0;
        ((float *)p->slopes)[e] = (float)(weight * chosen * per);
    }
    bp_result_block *result = p->result;
    result->loss_sum += weight * loss / (double)step->inverse_valid;
    result->metrics[0] += s->tells != 0 ? (float)(micros * loss) : 0.0f;
}

const bp_host_kernel bp_host_route_balance_loss = {order_tasks, balance_run, NULL};
