/* SPDX-License-Identifier: MIT */
/* Sinks of attention: their part of rows that attention_forward made, and their gradient. */
#include "device/host/attention/attention.h"
#include "device/host/vector/element.h"

/* Positions first .. first + count - 1 of a sample, whose log-sum-exps lie together. */
typedef struct sink_run {
    uint64_t first;
    uint64_t count;
} sink_run;

/* The whole sample, or the places with the same start. */
static sink_run sink_run_at(const int32_t *starts, uint64_t first, uint64_t sequence)
{
    sink_run run = {first, starts == NULL ? sequence : 1};
    while (starts != NULL && first + run.count < sequence &&
           starts[first + run.count] == starts[first]) {
        run.count++;
    }
    return run;
}

/* Of a head's rows of a sample: its sizes, and where a run's begin. */
typedef struct sink_rows {
    uint64_t sequence;
    uint64_t heads;
    uint64_t width;
    uint64_t sample;
    uint64_t head;
    const int32_t *starts; /* of the sample, or NULL */
} sink_rows;

static uint64_t sink_lse(const sink_rows *r, const sink_run *run)
{
    return (r->sample * r->sequence + run->first) * r->heads + r->head * run->count;
}

static uint64_t sink_out(const sink_rows *r, uint64_t position)
{
    return ((r->sample * r->sequence + position) * r->heads + r->head) * r->width;
}

static const int32_t *sink_starts(const void *starts, uint64_t sample, uint64_t sequence)
{
    return starts != NULL ? (const int32_t *)starts + sample * sequence : NULL;
}

static uint64_t sinks_tasks(const void *scalars)
{
    const bp_attention_sinks_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads;
}

/* A task is a head of a sample. */
static void sinks_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_attention_sinks_scalars *s = call->scalars;
    const bp_attention_sinks_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, 0);
    sink_rows r = {.sequence = (uint64_t)s->sequence,
                   .heads = (uint64_t)s->heads,
                   .width = (uint64_t)s->head_width};
    for (uint64_t task = first; task < last; task++) {
        r.sample = task / r.heads;
        r.head = task % r.heads;
        r.starts = sink_starts(p->starts, r.sample, r.sequence);
        const float sink = bp_element_load(p->sinks, r.head, type);
        sink_run run = {0, 0};
        for (uint64_t t = 0; t < r.sequence; t += run.count) {
            run = sink_run_at(r.starts, t, r.sequence);
            float *lse = (float *)p->lse + sink_lse(&r, &run);
            for (uint64_t i = 0; i < run.count; i++) {
                lse[i] =
                    bp_attention_sink(lse[i], sink, p->out, sink_out(&r, t + i), r.width, type);
            }
        }
    }
}

static uint64_t sinks_backward_tasks(const void *scalars)
{
    const bp_attention_sinks_backward_scalars *s = scalars;
    return (uint64_t)s->heads;
}

static float sink_product(const bp_attention_sinks_backward_pointers *p, uint64_t at,
                          uint64_t width, bp_dtype type)
{
    float sum = 0.0f;
    for (uint64_t d = at; d < at + width; d++) {
        sum = fmaf(bp_element_load(p->out, d, type), bp_element_load(p->d_out, d, type), sum);
    }
    return sum;
}

/* `sum` goes on over the rows of a head of one sample. */
static float sink_sum(const bp_attention_sinks_backward_pointers *p, const sink_rows *r, float sink,
                      float sum, bp_dtype type)
{
    sink_run run = {0, 0};
    for (uint64_t t = 0; t < r->sequence; t += run.count) {
        run = sink_run_at(r->starts, t, r->sequence);
        const float *lse = (const float *)p->lse + sink_lse(r, &run);
        for (uint64_t i = 0; i < run.count; i++) {
            const float product = sink_product(p, sink_out(r, t + i), r->width, type);
            sum -= bp_expf_inline(sink - lse[i]) * product;
        }
    }
    return sum;
}

/* A task is a head. */
static void sinks_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_attention_sinks_backward_scalars *s = call->scalars;
    const bp_attention_sinks_backward_pointers *p = call->pointers;
    const bp_dtype own = bp_call_type(call, BP_OPERAND(attention_sinks_backward, d_sinks));
    const bp_dtype type = bp_call_type(call, BP_OPERAND(attention_sinks_backward, out));
    sink_rows r = {.sequence = (uint64_t)s->sequence,
                   .heads = (uint64_t)s->heads,
                   .width = (uint64_t)s->head_width};
    for (r.head = first; r.head < last; r.head++) {
        const float sink = bp_element_load(p->sinks, r.head, type);
        float sum = s->accumulate != 0 ? bp_element_load(p->d_sinks, r.head, own) : 0.0f;
        for (r.sample = 0; r.sample < (uint64_t)s->batch; r.sample++) {
            r.starts = sink_starts(p->starts, r.sample, r.sequence);
            sum = sink_sum(p, &r, sink, sum, type);
        }
        bp_element_store(p->d_sinks, r.head, sum, own);
    }
}

const bp_host_kernel bp_host_attention_sinks = {sinks_tasks, sinks_run, NULL};
const bp_host_kernel bp_host_attention_sinks_backward = {sinks_backward_tasks, sinks_backward_run,
                                                         NULL};
