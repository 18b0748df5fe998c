/* SPDX-License-Identifier: MIT */
/* Attention of some rows of one query head over keys and values of all (attention_strip_forward and
 * _backward), over the same form's attention: included once by each form, which says by
 * BP_STRIPS(name) what its kernels are called, by BP_STRIPS_BYTES(name) how much they work in and
 * by BP_STRIPS_WHOLE whether backward is one task, and which has strip_forward and strip_backward.
 *
 * Backward runs along the diagonals of blocks of queries and ranges of keys: those of one diagonal
 * have neither in common, so workers share them; those of the next go on from their sums. So each
 * sum by query takes keys in order, each by key queries, as in one task over all. */
#ifndef BP_DEVICE_HOST_ATTENTION_STRIPS_H
#define BP_DEVICE_HOST_ATTENTION_STRIPS_H

#include "device/host/attention/attention.h"

/* Rows of a strip that are of one sample or document, at places begin .. end - 1 of it. */
typedef struct strip_segment {
    uint64_t base;  /* row of all with its first place */
    uint64_t begin; /* its place that row `row` of the strip has */
    uint64_t end;
    uint64_t row;
    bool there; /* false: padding */
} strip_segment;

/* The scalars of backward begin like these. */
typedef bp_attention_strip_forward_scalars strip_scalars;

/* What the form does: a segment's rows of out and lse; their d_q, and what they add to d_kv, with
 * keys of range number `range`. */
static void strip_forward(const bp_host_call *call, const strip_segment *segment, float *work);
static void strip_backward(const bp_host_call *call, const strip_segment *segment, uint64_t range,
                           float *work);

/* What follows from row `row` of the strip on, before `limit`. */
static strip_segment strip_segment_at(const strip_scalars *s, const int32_t *starts, uint64_t row,
                                      uint64_t limit)
{
    const uint64_t at = (uint64_t)s->first + row, sequence = (uint64_t)s->sequence;
    const uint64_t place = at % sequence;
    const uint64_t most = bp_least(limit - row, sequence - place);
    strip_segment segment = {at - place, place, place + most, row, true};
    if (starts != NULL) {
        const int32_t start = starts[at];
        const uint64_t before = start > 0 ? bp_least((uint64_t)start, place) : 0;
        uint64_t count = 1;
        while (count < most && starts[at + count] == start) {
            count++;
        }
        segment.there = start >= 0;
        segment.base += before;
        segment.begin -= before;
        segment.end = segment.begin + count;
    }
    return segment;
}

/* A tensor of the strip's rows, `bytes` each, as if it began with place 0 of the segment. */
static void *strip_from(const void *rows, const strip_segment *segment, uint64_t bytes)
{
    return rows == NULL
               ? NULL
               : (void *)((uintptr_t)rows + (uintptr_t)((segment->row - segment->begin) * bytes));
}

/* A segment as a sample of its own, of one head. */
static bp_attention_shape strip_shape(const bp_host_call *call, const strip_segment *segment,
                                      const void *q, const bp_step_block *step)
{
    const strip_scalars *s = call->scalars;
    const uint64_t width = (uint64_t)s->head_width;
    return (bp_attention_shape){.sequence = segment->end,
                                .queries = segment->end,
                                .heads = 1,
                                .kv_heads = 1,
                                .group = 1,
                                .width = width,
                                .row = 2 * width,
                                .q_row = width,
                                .q = q,
                                .causal = true,
                                .window = (uint64_t)s->window,
                                .scale = (float)s->scale,
                                .cap = (float)s->cap,
                                .span = segment->end,
                                .type = bp_call_type(call, 0),
                                .step = step};
}

/* Elements of a tensor of the segment's sample, from its first place on. */
static void *strip_keys(const void *kv, const strip_segment *segment, uint64_t bytes)
{
    return (void *)((uintptr_t)kv + (uintptr_t)(segment->base * bytes));
}

static void strip_clear(void *to, const strip_segment *segment, uint64_t bytes)
{
    if (to != NULL) {
        memset((unsigned char *)to + segment->row * bytes, 0,
               (segment->end - segment->begin) * bytes);
    }
}

static uint64_t strip_forward_tasks(const void *scalars)
{
    const strip_scalars *s = scalars;
    return bp_cut(s->rows, bp_attention_strip_queries(s->head_width));
}

static void strip_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    const strip_scalars *s = call->scalars;
    const bp_attention_strip_forward_pointers *p = call->pointers;
    const uint64_t row = (uint64_t)s->head_width * bp_dtype_bytes(bp_call_type(call, 0));
    float *work = bp_worker_part(p->work, BP_STRIPS_BYTES(attention_strip_forward), call, worker);
    const uint64_t queries = bp_attention_strip_queries(s->head_width);
    const uint64_t end = bp_least(last * queries, (uint64_t)s->rows);
    for (uint64_t at = first * queries, next; at < end; at = next) {
        const strip_segment segment = strip_segment_at(s, p->starts, at, end);
        next = at + (segment.end - segment.begin);
        if (segment.there) {
            strip_forward(call, &segment, work);
        } else {
            strip_clear(p->out, &segment, row);
            strip_clear(p->lse, &segment, sizeof(float));
        }
    }
}

const bp_host_kernel BP_STRIPS(attention_strip_forward) = {
    strip_forward_tasks, strip_forward_run, BP_STRIPS_BYTES(attention_strip_forward)};

/* Blocks of queries, for every diagonal. */
static uint64_t strip_backward_tasks(const void *scalars)
{
    const strip_scalars *s = scalars;
    const uint64_t blocks = BP_STRIPS_WHOLE ? 1 : bp_attention_strip_blocks(scalars);
    const uint64_t keys = bp_least((uint64_t)s->sequence, (uint64_t)(s->first + s->rows));
    return BP_STRIPS_WHOLE || blocks == 0
               ? blocks
               : blocks * (blocks - 1 + bp_cut((int64_t)keys, BP_STRIP_KEYS));
}

/* Block `block` of queries with range `range` of keys. */
static void strip_cell(const bp_host_call *call, uint64_t block, uint64_t range, float *work)
{
    const strip_scalars *s = call->scalars;
    const bp_attention_strip_backward_pointers *p = call->pointers;
    const uint64_t row = (uint64_t)s->head_width * bp_dtype_bytes(bp_call_type(call, 0));
    const uint64_t rows = BP_STRIPS_WHOLE ? (uint64_t)s->rows : BP_STRIP_ROWS;
    const uint64_t end = bp_least((block + 1) * rows, (uint64_t)s->rows);
    for (uint64_t at = block * rows, next; at < end; at = next) {
        const strip_segment segment = strip_segment_at(s, p->starts, at, end);
        next = at + (segment.end - segment.begin);
        if (segment.there) {
            strip_backward(call, &segment, range, work);
        } else if (range == 0) {
            strip_clear(p->q, &segment, row);
            strip_clear(p->sums, &segment, (uint64_t)s->head_width * sizeof(float));
        }
    }
}

static void strip_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    const bp_attention_strip_backward_scalars *s = call->scalars;
    const bp_attention_strip_backward_pointers *p = call->pointers;
    const uint64_t blocks = BP_STRIPS_WHOLE ? 1 : bp_attention_strip_blocks(s);
    float *work = bp_worker_part(p->work, BP_STRIPS_BYTES(attention_strip_backward), call, worker);
    if (first == 0 && s->more == 0) { /* the first diagonal is one block */
        memset(p->d_kv, 0, (size_t)(s->batch * s->sequence * s->head_width) * 2 * sizeof(float));
    }
    for (uint64_t task = first; task < last; task++) {
        const uint64_t block = task % blocks, diagonal = task / blocks;
        if (diagonal >= block) {
            strip_cell(call, block, diagonal - block, work);
        }
    }
}

const bp_host_kernel BP_STRIPS(attention_strip_backward) = {
    strip_backward_tasks, strip_backward_run, BP_STRIPS_BYTES(attention_strip_backward)};

#endif
