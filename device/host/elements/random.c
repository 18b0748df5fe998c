/* SPDX-License-Identifier: MIT */
/* First values of weights: random ones, and those that another op made. */
#include "core/ops/master.h"
#include "device/host/elements/normal.h"
#include "device/host/vector/half.h"

static void normal_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_random_normal_scalars *s = call->scalars;
    const bp_random_normal_pointers *p = call->pointers;
    const uint64_t seed = bp_normal_seed(call);
    bp_dtype dtype = (bp_dtype)call->dtypes[0];
    bp_master form = (bp_master)s->form;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += 2) {
        double pair[2];
        bp_random_normal_pair(seed, (uint32_t)s->stream, i / 2, pair);
        float value = (float)(s->deviation * pair[0]);
        bp_master_store(dtype, form, p->y, p->master, i, value);
        if (i + 1 < end) {
            value = (float)(s->deviation * pair[1]);
            bp_master_store(dtype, form, p->y, p->master, i + 1, value);
        }
    }
}

const bp_host_kernel bp_host_random_normal = {bp_normal_tasks, normal_run, NULL};

static uint64_t store_tasks(const void *scalars)
{
    const bp_store_values_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void store_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_store_values_scalars *s = call->scalars;
    const bp_store_values_pointers *p = call->pointers;
    const float *x = p->x;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        if (s->even != 0) {
            bp_element_store(p->y, i, x[i], (bp_dtype)call->dtypes[0]);
        } else {
            bp_master_store((bp_dtype)call->dtypes[0], (bp_master)s->form, p->y, p->master, i,
                            x[i]);
        }
    }
}

const bp_host_kernel bp_host_store_values = {store_tasks, store_run, NULL};
