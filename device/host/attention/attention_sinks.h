/* SPDX-License-Identifier: MIT */
/* Attention against a cache with and without sinks, over the same form's: included once by each
 * form, which says by BP_DECODES(name) what its kernels are called, and has decode_over and
 * slots_over. */
#ifndef BP_DEVICE_HOST_ATTENTION_SINKS_H
#define BP_DEVICE_HOST_ATTENTION_SINKS_H

#include "device/host/attention/attention.h"

static void decode_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    decode_over(call, NULL, first, last, worker);
}

static void slots_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    slots_over(call, NULL, first, last, worker);
}

/* The rows with sinks have the scalars of the others. */
static void sinks_decode_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    const bp_attention_sinks_decode_pointers *p = call->pointers;
    const bp_attention_decode_pointers own = {.out = p->out,
                                              .k_cache = p->k_cache,
                                              .v_cache = p->v_cache,
                                              .qkv = p->qkv,
                                              .step = p->step,
                                              .work = p->work};
    const bp_host_call plain = {&own, call->scalars, call->dtypes, NULL, NULL};
    decode_over(&plain, p->sinks, first, last, worker);
}

static void sinks_slots_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    const bp_attention_sinks_slots_pointers *p = call->pointers;
    const bp_attention_slots_pointers own = {.out = p->out,
                                             .k_cache = p->k_cache,
                                             .v_cache = p->v_cache,
                                             .qkv = p->qkv,
                                             .positions = p->positions,
                                             .places = p->places,
                                             .work = p->work};
    const bp_host_call plain = {&own, call->scalars, call->dtypes, NULL, NULL};
    slots_over(&plain, p->sinks, first, last, worker);
}

const bp_host_kernel BP_DECODES(attention_decode) = {decode_tasks, decode_run,
                                                     bp_attention_decode_workspace};
const bp_host_kernel BP_DECODES(attention_slots) = {slots_tasks, slots_run,
                                                    bp_attention_slots_workspace};
const bp_host_kernel BP_DECODES(attention_sinks_decode) = {decode_tasks, sinks_decode_run,
                                                           bp_attention_decode_workspace};
const bp_host_kernel BP_DECODES(attention_sinks_slots) = {slots_tasks, sinks_slots_run,
                                                          bp_attention_slots_workspace};

#endif
