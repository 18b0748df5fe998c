/* SPDX-License-Identifier: MIT */
/* Backward of attention over the place of its queries, keys and values, over the same form's
 * attention: included once by each form, which says by BP_OVER(name) what its kernel is called, by
 * BP_OVER_BYTES(name) how much it works in, and has backward_over and packed_document_at. */
#ifndef BP_DEVICE_HOST_ATTENTION_OVER_H
#define BP_DEVICE_HOST_ATTENTION_OVER_H

#include "device/host/attention/attention_packed.h"

/* Tasks range[0] .. range[1] - 1 of attention_backward with the scalars `own`, whose first row is
 * row `first` of the call's. */
static void over_text(const bp_host_call *call, const bp_attention_forward_scalars *own,
                      const void *step, uint64_t first, const uint64_t range[2], void *work)
{
    const bp_attention_backward_over_pointers *p = call->pointers;
    const uint64_t heads = (uint64_t)own->heads, width = (uint64_t)own->head_width;
    const uint64_t row = (heads + 2 * (uint64_t)own->kv_heads) * width;
    const size_t element = bp_dtype_bytes(bp_call_type(call, 0));
    void *qkv = packed_place(p->qkv, first * row, element);
    const bp_attention_backward_pointers regions = {
        .d_qkv = qkv,
        .d_out = packed_place(p->d_out, first * heads * width, element),
        .qkv = qkv,
        .lse = packed_place(p->lse, first * heads, sizeof(float)),
        .step = step,
        .work = work};
    const bp_host_call text = {&regions, own, call->dtypes, NULL, NULL};
    bp_attention_shape shape = bp_attention_backward_shape(&text);
    shape.delta = packed_place(p->delta, first * heads, sizeof(float));
    backward_over(&text, &shape, range[0], range[1], 0);
}

/* A key-value head of a row of documents. */
static void over_documents(const bp_host_call *call, uint64_t task, void *work)
{
    const bp_attention_forward_scalars *s = call->scalars; /* all rows have the same */
    const bp_attention_backward_over_pointers *p = call->pointers;
    const uint64_t kv_heads = (uint64_t)s->kv_heads, sequence = (uint64_t)s->sequence;
    const uint64_t row = ((uint64_t)s->heads + 2 * kv_heads) * (uint64_t)s->head_width;
    const size_t element = bp_dtype_bytes(bp_call_type(call, 0));
    const uint64_t sample = task / kv_heads, number = task % kv_heads, at = sample * sequence;
    packed_document d = {0, 0, false};
    for (uint64_t t = 0; t < sequence; t = d.first + d.count) {
        d = packed_document_at((const int32_t *)p->starts + at, t, sequence);
        const bp_attention_forward_scalars own = packed_scalars(s, &d);
        const bp_step_block step = packed_step(p->step, sample, sequence, d.first);
        const uint64_t range[2] = {number, number + 1};
        if (d.there) {
            over_text(call, &own, &step, at + d.first, range, work);
        } else {
            void *padding = packed_place(p->qkv, (at + d.first) * row, element);
            packed_clear_group(s, padding, number, d.count, element);
        }
    }
}

static void over_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_backward_over_pointers *p = call->pointers;
    const uint64_t range[2] = {first, last};
    void *work = bp_worker_part(p->work, BP_OVER_BYTES(attention_backward_over), call, worker);
    if (p->starts == NULL) {
        over_text(call, call->scalars, p->step, 0, range, work);
        return;
    }
    for (uint64_t task = first; task < last; task++) {
        over_documents(call, task, work);
    }
}

const bp_host_kernel BP_OVER(attention_backward_over) = {bp_attention_backward_tasks, over_run,
                                                         BP_OVER_BYTES(attention_backward_over)};

#endif
