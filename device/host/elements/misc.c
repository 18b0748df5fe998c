/* SPDX-License-Identifier: MIT */
/* Copies, slices of time, and poison. */
#include <string.h>

#include "core/ir/step.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

static uint64_t copy_tasks(const void *scalars)
{
    const bp_copy_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of elements. */
static void copy_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_copy_scalars *s = call->scalars;
    const bp_copy_pointers *p = call->pointers;
    uint64_t from = first * BP_RUN_ELEMENTS;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    size_t size = bp_dtype_bytes(bp_call_type(call, 0));
    memcpy((char *)p->y + from * size, (const char *)p->x + from * size, (end - from) * size);
}

static uint64_t begin_tasks(const void *scalars)
{
    const bp_state_begin_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void begin_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_state_begin_scalars *s = call->scalars;
    const bp_state_begin_pointers *p = call->pointers;
    uint64_t from = first * BP_RUN_ELEMENTS;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    size_t size = bp_dtype_bytes(bp_call_type(call, 0));
    bool starts = s->decode != 0 && ((const bp_step_block *)p->step)->position == 0;
    if (p->x == NULL || starts) {
        memset((char *)p->y + from * size, 0, (end - from) * size);
    } else {
        memcpy((char *)p->y + from * size, (const char *)p->x + from * size, (end - from) * size);
    }
}

static uint64_t slice_tasks(const void *scalars)
{
    const bp_time_slice_scalars *s = scalars;
    return (uint64_t)s->batch;
}

static void slice_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_time_slice_scalars *s = call->scalars;
    const bp_time_slice_pointers *p = call->pointers;
    for (uint64_t b = first; b < last; b++) {
        const int32_t *x = (const int32_t *)p->x + b * (uint64_t)s->sequence;
        for (uint64_t t = 0; t < (uint64_t)s->length; t++) {
            ((int32_t *)p->y)[t * (uint64_t)s->batch + b] = x[t];
        }
    }
}

static uint64_t pick_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

/* last_row beyond the rows picks the last one: x must not be left. */
static void pick_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_pick_row_scalars *s = call->scalars;
    const bp_pick_row_pointers *p = call->pointers;
    uint64_t row = bp_least(((const bp_step_block *)p->step)->last_row, (uint64_t)s->rows - 1);
    size_t bytes = (size_t)s->width * bp_dtype_bytes(bp_call_type(call, 0));
    memcpy(p->y, (const char *)p->x + row * bytes, bytes);
}

static uint64_t poison_tasks(const void *scalars)
{
    const bp_poison_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS * 4);
}

/* As integers: moving a signalling NaN through a floating-point register may quiet it. */
static void poison_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_poison_scalars *s = call->scalars;
    const bp_poison_pointers *p = call->pointers;
    uint32_t *words = p->y;
    uint64_t end = bp_least((uint64_t)s->count / 4, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        words[i] = 0x7fa00000u;
    }
}

const bp_host_kernel bp_host_copy = {copy_tasks, copy_run, NULL};
const bp_host_kernel bp_host_state_begin = {begin_tasks, begin_run, NULL};
const bp_host_kernel bp_host_time_slice = {slice_tasks, slice_run, NULL};
const bp_host_kernel bp_host_pick_row = {pick_tasks, pick_run, NULL};
const bp_host_kernel bp_host_poison = {poison_tasks, poison_run, NULL};
