/* SPDX-License-Identifier: MIT */
/* The sum of losses. */
#include <string.h>

#include "core/ir/step.h"
#include "device/host/kernel.h"

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

const bp_host_kernel bp_host_loss_sum = {sum_tasks, sum_run, NULL};
