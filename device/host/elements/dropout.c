/* SPDX-License-Identifier: MIT */
/* Dropout with an optional residual (Srivastava et al., JMLR 15, 2014), plain form. */
#include "device/host/vector/element.h"
#include "device/host/elements/mask.h"

#define BLOCK_ELEMENTS 64 /* elements whose mask is made at a time */

static uint64_t dropout_tasks(const void *scalars)
{
    const bp_dropout_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* y = fma(x, factor, residual), or x * factor without a residual. */
static void block_run(const bp_dropout_pointers *p, uint64_t from, uint64_t count,
                      const float *factor)
{
    const bp_element *x = (const bp_element *)p->x + from;
    bp_element *y = (bp_element *)p->y + from;
    if (p->residual == NULL) {
        for (uint64_t i = 0; i < count; i++) {
            bp_put(y, i, bp_get(x, i) * factor[i]);
        }
        return;
    }
    const bp_element *residual = (const bp_element *)p->residual + from;
    for (uint64_t i = 0; i < count; i++) {
        bp_put(y, i, fmaf(bp_get(x, i), factor[i], bp_get(residual, i)));
    }
}

/* A task is a run of elements; a block of masks never crosses into the next sample. */
static void dropout_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_dropout_scalars *s = call->scalars;
    const bp_dropout_pointers *p = call->pointers;
    uint64_t per_sample = (uint64_t)s->per_sample;
    uint64_t at = first * BP_RUN_ELEMENTS;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    while (at < end) {
        const uint64_t place = (uint64_t)s->first + at, element = place % per_sample;
        uint64_t count = bp_least(bp_least(end - at, BLOCK_ELEMENTS), per_sample - element);
        bp_mask mask = bp_mask_make(p->step, place / per_sample, s->site, s->dropout);
        float factor[BLOCK_ELEMENTS];
        bp_mask_fill(&mask, element, count, factor);
        block_run(p, at, count, factor);
        at += count;
    }
}

const bp_host_kernel BP_BUILT(bp_host_dropout) = {dropout_tasks, dropout_run, NULL};
