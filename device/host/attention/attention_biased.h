/* SPDX-License-Identifier: MIT */
/* Attention with a number for each distance, over the same form's attention: included once by each
 * form, which says by BP_BIASED(name) what its kernels are called, by BP_BIASED_BYTES(name) how
 * much they work in, and has forward_over and backward_over. */
#ifndef BP_DEVICE_HOST_ATTENTION_BIASED_H
#define BP_DEVICE_HOST_ATTENTION_BIASED_H

#include "device/host/attention/attention.h"

static void biased_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    const bp_attention_biased_forward_pointers *p = call->pointers;
    const bp_attention_forward_pointers own = {.out = p->out,
                                               .lse = p->lse,
                                               .qkv = p->qkv,
                                               .lengths = p->lengths,
                                               .step = p->step,
                                               .work = p->work};
    const bp_host_call plain = {&own, call->scalars, call->dtypes, NULL, NULL};
    bp_attention_shape s = bp_attention_forward_shape(&plain);
    s.bias = p->bias;
    forward_over(&plain, &s, first, last, worker);
}

static void biased_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    const bp_attention_biased_backward_pointers *p = call->pointers;
    const bp_attention_backward_pointers own = {.d_qkv = p->d_qkv,
                                                .d_out = p->d_out,
                                                .qkv = p->qkv,
                                                .out = p->out,
                                                .lse = p->lse,
                                                .lengths = p->lengths,
                                                .step = p->step,
                                                .work = p->work};
    const bp_host_call plain = {&own, call->scalars, call->dtypes, NULL, NULL};
    bp_attention_shape s = bp_attention_backward_shape(&plain);
    s.bias = p->bias;
    s.d_bias = p->d_bias;
    backward_over(&plain, &s, first, last, worker);
}

const bp_host_kernel BP_BIASED(attention_biased_forward) = {
    bp_attention_forward_tasks, biased_forward_run, BP_BIASED_BYTES(attention_forward)};
const bp_host_kernel BP_BIASED(attention_biased_backward) = {
    bp_attention_backward_tasks, biased_backward_run, BP_BIASED_BYTES(attention_backward)};

#endif
