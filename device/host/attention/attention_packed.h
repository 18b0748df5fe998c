/* SPDX-License-Identifier: MIT */
/* Attention within documents that lie one behind the other in a row, over the same form's attention
 * of a sample: included once by each form, which says by BP_PACKED(name) what its kernels are
 * called, and by BP_PACKED_BYTES(name) which workspace they have. A document has the bits that it
 * would have as a sample of its own length; what is dropped goes by the places of the whole row. */
#ifndef BP_DEVICE_HOST_ATTENTION_PACKED_H
#define BP_DEVICE_HOST_ATTENTION_PACKED_H

#include "device/host/attention/attention.h"

/* A document: places first .. first + count - 1 of a row, or, without `there`, padding. */
typedef struct packed_document {
    uint64_t first;
    uint64_t count;
    bool there;
} packed_document;

/* The document that begins at `at`: places with the same start. */
static packed_document packed_document_at(const int32_t *starts, uint64_t at, uint64_t sequence)
{
    packed_document document = {at, 1, starts[at] >= 0};
    while (at + document.count < sequence && starts[at + document.count] == starts[at]) {
        document.count++;
    }
    return document;
}

/* The call for one document of sample `sample`: both rows have the same scalars. */
static bp_attention_forward_scalars packed_scalars(const bp_attention_forward_scalars *s,
                                                   const packed_document *document)
{
    bp_attention_forward_scalars own = *s;
    own.batch = 1;
    own.sequence = (int64_t)document->count;
    return own;
}

/* The masks of a document that begins at place `first` of a row are those of the row there. */
static bp_step_block packed_step(const void *step, uint64_t sample, uint64_t sequence,
                                 uint64_t first)
{
    bp_step_block own;
    memcpy(&own, step, sizeof own);
    own.sample += (uint32_t)sample;
    own.mask_span = own.mask_span > sequence ? own.mask_span : (uint32_t)sequence;
    own.mask_first = (uint32_t)first;
    return own;
}

static void *packed_place(const void *from, uint64_t element, size_t bytes)
{
    return from == NULL ? NULL : (void *)((uintptr_t)from + (uintptr_t)(element * bytes));
}

static void packed_clear(void *at, uint64_t element, uint64_t count, size_t bytes)
{
    if (at != NULL) {
        memset((unsigned char *)at + element * bytes, 0, count * bytes);
    }
}

static uint64_t packed_forward_tasks(const void *scalars)
{
    const bp_attention_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads;
}

/* A task is a query head of a row. */
static void packed_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    const bp_attention_forward_scalars *s = call->scalars;
    const bp_attention_packed_forward_pointers *p = call->pointers;
    const uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    const uint64_t width = (uint64_t)s->head_width;
    const uint64_t row = (heads + 2 * (uint64_t)s->kv_heads) * width;
    const size_t element = bp_dtype_bytes(bp_call_type(call, 0));
    void *work = bp_worker_part(p->work, BP_PACKED_BYTES(attention_forward), call, worker);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t sample = task / heads, number = task % heads, at = sample * sequence;
        const int32_t *starts = (const int32_t *)p->starts + at;
        packed_document d = {0, 0, false};
        for (uint64_t t = 0; t < sequence; t = d.first + d.count) {
            d = packed_document_at(starts, t, sequence);
            const bp_attention_forward_scalars own = packed_scalars(s, &d);
            const bp_step_block step = packed_step(p->step, sample, sequence, d.first);
            const uint64_t lse = (at + d.first) * heads;
            const bp_attention_forward_pointers regions = {
                .out = packed_place(p->out, (at + d.first) * heads * width, element),
                .lse = packed_place(p->lse, lse, sizeof(float)),
                .qkv = packed_place(p->qkv, (at + d.first) * row, element),
                .lengths = NULL,
                .step = &step,
                .work = work};
            const bp_host_call document = {&regions, &own, call->dtypes, NULL, NULL};
            const uint64_t blocks = bp_cut(own.sequence, BP_ATTENTION_QUERIES);
            if (d.there) {
                BP_PACKED(attention_forward)
                    .run(&document, number * blocks, (number + 1) * blocks, 0);
                continue;
            }
            packed_clear(p->lse, lse + number * d.count, d.count, sizeof(float));
            for (uint64_t i = 0; i < d.count; i++) {
                packed_clear(regions.out, (i * heads + number) * width, width, element);
            }
        }
    }
}

static uint64_t packed_backward_tasks(const void *scalars)
{
    const bp_attention_backward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->kv_heads;
}

/* Padding gets no gradient: of the queries of a key-value head, its keys and values. */
static void packed_clear_group(const bp_attention_forward_scalars *s, void *d_qkv, uint64_t kv_head,
                               uint64_t count, size_t element)
{
    const uint64_t width = (uint64_t)s->head_width, heads = (uint64_t)s->heads;
    const uint64_t kv_heads = (uint64_t)s->kv_heads, group = heads / kv_heads;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t row = i * (heads + 2 * kv_heads) * width;
        packed_clear(d_qkv, row + kv_head * group * width, group * width, element);
        packed_clear(d_qkv, row + (heads + kv_head) * width, width, element);
        packed_clear(d_qkv, row + (heads + kv_heads + kv_head) * width, width, element);
    }
}

/* A task is a key-value head of a row. */
static void packed_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    const bp_attention_forward_scalars *s = call->scalars; /* both rows have the same */
    const bp_attention_packed_backward_pointers *p = call->pointers;
    const uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    const uint64_t kv_heads = (uint64_t)s->kv_heads, width = (uint64_t)s->head_width;
    const uint64_t row = (heads + 2 * kv_heads) * width;
    const size_t element = bp_dtype_bytes(bp_call_type(call, 0));
    void *work = bp_worker_part(p->work, BP_PACKED_BYTES(attention_backward), call, worker);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t at = task / kv_heads * sequence, number = task % kv_heads;
        const int32_t *starts = (const int32_t *)p->starts + at;
        packed_document d = {0, 0, false};
        for (uint64_t t = 0; t < sequence; t = d.first + d.count) {
            d = packed_document_at(starts, t, sequence);
            const bp_attention_forward_scalars own = packed_scalars(s, &d);
            const bp_step_block step = packed_step(p->step, task / kv_heads, sequence, d.first);
            const uint64_t out = (at + d.first) * heads * width;
            const bp_attention_backward_pointers regions = {
                .d_qkv = packed_place(p->d_qkv, (at + d.first) * row, element),
                .d_out = packed_place(p->d_out, out, element),
                .qkv = packed_place(p->qkv, (at + d.first) * row, element),
                .out = packed_place(p->out, out, element),
                .lse = packed_place(p->lse, (at + d.first) * heads, sizeof(float)),
                .lengths = NULL,
                .step = &step,
                .work = work};
            const bp_host_call document = {&regions, &own, call->dtypes, NULL, NULL};
            if (d.there) {
                BP_PACKED(attention_backward).run(&document, number, number + 1, 0);
            } else {
                packed_clear_group(s, regions.d_qkv, number, d.count, element);
            }
        }
    }
}

const bp_host_kernel BP_PACKED(attention_packed_forward) = {
    packed_forward_tasks, packed_forward_run, BP_PACKED_BYTES(attention_forward)};
const bp_host_kernel BP_PACKED(attention_packed_backward) = {
    packed_backward_tasks, packed_backward_run, BP_PACKED_BYTES(attention_backward)};

#endif
