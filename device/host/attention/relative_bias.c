/* SPDX-License-Identifier: MIT */
/* What a table of buckets has for each distance, and its gradient. */
#include "core/base/math.h"
#include "device/host/vector/element.h"

enum { BUCKETS_MOST = 256 };

/* The bucket of place c of 1 .. 2 T - 1, whose key is c - T behind its query. */
static uint64_t bucket_of(const bp_relative_bias_scalars *s, uint64_t c)
{
    const uint64_t sequence = (uint64_t)s->sequence, all = (uint64_t)s->buckets;
    const bool causal = s->causal != 0, behind = c > sequence;
    const uint64_t half = causal ? all : all / 2, own = half / 2;
    const uint64_t first = behind && !causal ? half : 0;
    const uint64_t distance = !behind ? sequence - c : causal ? 0 : c - sequence;
    if (distance < own) {
        return first + distance;
    }
    const double grown = bp_log((double)distance / (double)own) /
                         bp_log((double)s->most / (double)own) * (double)(half - own);
    return first + bp_least(own + (uint64_t)(grown + 0x1p-20), half - 1);
}

static uint64_t relative_tasks(const void *scalars)
{
    const bp_relative_bias_scalars *s = scalars;
    return (uint64_t)s->heads;
}

/* A task is a head. */
static void relative_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_relative_bias_scalars *s = call->scalars;
    const bp_relative_bias_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, BP_OPERAND(relative_bias, table));
    const uint64_t places = 2 * (uint64_t)s->sequence, heads = (uint64_t)s->heads;
    for (uint64_t head = first; head < last; head++) {
        float *bias = (float *)p->bias + head * places;
        for (uint64_t c = 0; c < places; c++) {
            bias[c] =
                c == 0 ? 0.0f : bp_element_load(p->table, bucket_of(s, c) * heads + head, type);
        }
    }
}

static uint64_t relative_backward_tasks(const void *scalars)
{
    const bp_relative_bias_backward_scalars *s = scalars;
    return (uint64_t)s->heads;
}

/* The head's sums of all buckets. */
static void relative_sums(const bp_relative_bias_backward_scalars *s, const float *d_bias,
                          uint64_t head, float sum[BUCKETS_MOST])
{
    const bp_relative_bias_scalars of = {s->sequence, s->heads, s->buckets, s->most, s->causal};
    const uint64_t places = 2 * (uint64_t)s->sequence, heads = (uint64_t)s->heads;
    for (uint64_t c = 1; c < places; c++) {
        float *to = &sum[bucket_of(&of, c)];
        for (uint64_t sample = 0; sample < (uint64_t)s->batch; sample++) {
            *to += d_bias[(sample * heads + head) * places + c];
        }
    }
}

static void relative_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)worker;
    const bp_relative_bias_backward_scalars *s = call->scalars;
    const bp_relative_bias_backward_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, BP_OPERAND(relative_bias_backward, d_table));
    const uint64_t heads = (uint64_t)s->heads, buckets = (uint64_t)s->buckets;
    for (uint64_t head = first; head < last; head++) {
        float sum[BUCKETS_MOST];
        for (uint64_t b = 0; b < buckets; b++) {
            sum[b] =
                s->accumulate != 0 ? bp_element_load(p->d_table, b * heads + head, type) : 0.0f;
        }
        relative_sums(s, p->d_bias, head, sum);
        for (uint64_t b = 0; b < buckets; b++) {
            bp_element_store(p->d_table, b * heads + head, sum[b], type);
        }
    }
}

const bp_host_kernel bp_host_relative_bias = {relative_tasks, relative_run, NULL};
const bp_host_kernel bp_host_relative_bias_backward = {relative_backward_tasks,
                                                       relative_backward_run, NULL};
