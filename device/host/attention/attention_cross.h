/* SPDX-License-Identifier: MIT */
/* Attention of queries to rows of others, over the same form's attention: included once by each
 * form, which says by BP_CROSS(name) what its kernels are called, by BP_CROSS_BYTES(name) how much
 * they work in, and has forward_over and backward_over. */
#ifndef BP_DEVICE_HOST_ATTENTION_CROSS_H
#define BP_DEVICE_HOST_ATTENTION_CROSS_H

#include "device/host/attention/attention.h"

static uint64_t cross_forward_bytes(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(scalars);
    return BP_CROSS_BYTES(attention_forward)(&own, dtypes);
}

static uint64_t cross_backward_bytes(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(scalars);
    return BP_CROSS_BYTES(attention_backward)(&own, dtypes);
}

static void cross_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(call->scalars);
    const bp_attention_cross_forward_pointers *p = call->pointers;
    const bp_attention_forward_pointers pointers = {.out = p->out,
                                                    .lse = p->lse,
                                                    .qkv = p->kv,
                                                    .lengths = p->lengths,
                                                    .step = p->step,
                                                    .work = p->work};
    const bp_host_call plain = {&pointers, &own, call->dtypes, NULL, NULL};
    bp_attention_shape s = bp_attention_forward_shape(&plain);
    bp_attention_cross_shape(&s, call->scalars);
    s.q = p->q;
    forward_over(&plain, &s, first, last, worker);
}

static void cross_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(call->scalars);
    const bp_attention_cross_backward_pointers *p = call->pointers;
    const bp_attention_backward_pointers pointers = {.d_qkv = p->d_kv,
                                                     .d_out = p->d_out,
                                                     .qkv = p->kv,
                                                     .out = p->out,
                                                     .lse = p->lse,
                                                     .lengths = p->lengths,
                                                     .step = p->step,
                                                     .work = p->work};
    const bp_host_call plain = {&pointers, &own, call->dtypes, NULL, NULL};
    bp_attention_shape s = bp_attention_backward_shape(&plain);
    bp_attention_cross_shape(&s, call->scalars);
    s.q = p->q;
    s.d_q = p->d_q;
    backward_over(&plain, &s, first, last, worker);
}

const bp_host_kernel BP_CROSS(attention_cross_forward) = {bp_attention_cross_forward_tasks,
                                                          cross_forward_run, cross_forward_bytes};
const bp_host_kernel BP_CROSS(attention_cross_backward) = {
    bp_attention_cross_backward_tasks, cross_backward_run, cross_backward_bytes};

#endif
