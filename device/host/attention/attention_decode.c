/* SPDX-License-Identifier: MIT */
/* Attention of new rows against a cache of keys and values, plain form. */
#include <string.h>

#include "core/base/math_inline.h"
#include "core/ir/step.h"
#include "device/host/attention/attention.h"

static uint64_t decode_tasks(const void *scalars)
{
    return bp_decode_tasks(scalars);
}

/* One query, and `count` cached rows of its key-value head, in elements. */
typedef struct cached {
    const void *k_cache;
    const void *v_cache;
    const void *qkv;
    void *out;
    bp_dtype type;
    uint64_t q;     /* in qkv */
    uint64_t place; /* in both caches, row j < near at place + j * pitch, */
    uint64_t own;   /* the others at own + (j - near) * pitch */
    uint64_t pitch;
    uint64_t near;
    uint64_t count;
    uint64_t width;
    float scale;
    float cap;         /* 0: none */
    const void *sinks; /* of query heads; NULL: none */
    const float *bias; /* of the first key's distance; NULL: none */
} cached;

static uint64_t row_place(const cached *c, uint64_t j)
{
    return j < c->near ? c->place + j * c->pitch : c->own + (j - c->near) * c->pitch;
}

/* out = softmax(scale q k^T) v: the same operations in the same order as attention_forward. */
static void decode_row(const cached *c, float *score, uint64_t head, uint64_t out)
{
    for (uint64_t j = 0; j < c->count; j++) {
        const uint64_t row = row_place(c, j);
        float dot = 0.0f;
        for (uint64_t d = 0; d < c->width; d++) {
            float k = bp_element_load(c->k_cache, row + d, c->type);
            dot = fmaf(bp_element_load(c->qkv, c->q + d, c->type), k, dot);
        }
        float slope;
        score[j] = dot * c->scale;
        score[j] = c->cap > 0.0f ? bp_attention_capped(score[j], c->cap, &slope) : score[j];
        score[j] = c->bias != NULL ? score[j] + c->bias[j] : score[j];
    }
    float most = bp_row_max(score, c->count);
    float lane[BP_LANES] = {0.0f};
    for (uint64_t j = 0; j < c->count; j++) {
        score[j] = bp_expf_inline(score[j] - most);
        lane[j % BP_LANES] += score[j];
    }
    const float total = bp_lanes_sum(lane), inverse = 1.0f / total;
    for (uint64_t d = 0; d < c->width; d++) {
        float sum = 0.0f;
        for (uint64_t j = 0; j < c->count; j++) {
            float v = bp_element_load(c->v_cache, row_place(c, j) + d, c->type);
            sum = fmaf(score[j] * inverse, v, sum);
        }
        bp_element_store(c->out, out + d, sum, c->type);
    }
    if (c->sinks != NULL) {
        const float sink = bp_element_load(c->sinks, head, c->type);
        (void)bp_attention_sink(most + bp_logf(total), sink, c->out, out, c->width, c->type);
    }
}

/* A task is a key-value head: keys and values enter the caches before rows look at them. */
static void decode_beside(const bp_host_call *call, const void *sinks, const float *bias,
                          uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const bp_attention_decode_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, kv_heads = (uint64_t)s->kv_heads;
    uint64_t width = (uint64_t)s->head_width, group = heads / kv_heads;
    uint64_t qkv_row = (heads + 2 * kv_heads) * width;
    uint64_t position = ((const bp_step_block *)p->step)->position;
    cached c = {.k_cache = p->k_cache,
                .v_cache = p->v_cache,
                .qkv = p->qkv,
                .out = p->out,
                .type = bp_call_type(call, 0),
                .pitch = kv_heads * width,
                .width = width,
                .scale = (float)s->scale,
                .cap = (float)s->cap,
                .sinks = sinks};
    const uint64_t near = (uint64_t)s->window;
    float *score = bp_worker_part(p->work, bp_attention_decode_workspace, call, worker);
    for (uint64_t number = first; number < last; number++) {
        const bp_decode_task task = bp_decode_task_of(s, position, number);
        bp_decode_enter(call, &task);
        for (uint64_t i = 0; i < task.rows * group; i++) {
            uint64_t r = i / group, row = task.first + r, head = task.head * group + i % group;
            c.q = row * qkv_row + head * width;
            c.count = position + r + 1;
            c.count = near != 0 ? bp_least(c.count, near) : c.count;
            c.near = c.count;
            c.place = task.place + r * c.pitch - (c.count - 1) * c.pitch;
            c.bias =
                bias != NULL ? bias + (2 * head + 1) * (uint64_t)s->positions + 1 - c.count : NULL;
            decode_row(&c, score, head, (row * heads + head) * width);
        }
    }
}

static void decode_over(const bp_host_call *call, const void *sinks, uint64_t first, uint64_t last,
                        uint32_t worker)
{
    decode_beside(call, sinks, NULL, first, last, worker);
}

/* The rows with distances have the scalars of the others. */
static void biased_decode_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    const bp_attention_biased_decode_pointers *p = call->pointers;
    const bp_attention_decode_pointers own = {.out = p->out,
                                              .k_cache = p->k_cache,
                                              .v_cache = p->v_cache,
                                              .qkv = p->qkv,
                                              .step = p->step,
                                              .work = p->work};
    const bp_host_call plain = {&own, call->scalars, call->dtypes, NULL, NULL};
    decode_beside(&plain, NULL, p->bias, first, last, worker);
}

const bp_host_kernel bp_host_attention_biased_decode = {decode_tasks, biased_decode_run,
                                                        bp_attention_decode_workspace};

static uint64_t slots_tasks(const void *scalars)
{
    return bp_slots_tasks(scalars);
}

/* What a query head of a row looks at. */
static void slots_row(cached *c, const bp_attention_slots_scalars *s, const bp_slot_row *at,
                      uint64_t row, uint64_t head, float *score)
{
    const uint64_t heads = (uint64_t)s->heads, kv_heads = (uint64_t)s->kv_heads;
    const uint64_t of = head / (heads / kv_heads) * c->width;
    const uint64_t out = (row * heads + head) * c->width;
    c->q = row * (heads + 2 * kv_heads) * c->width + head * c->width;
    c->count = at->count;
    c->near = at->near;
    c->place = at->near_first * c->pitch + of;
    c->own = at->own_first * c->pitch + of;
    if (at->there) {
        decode_row(c, score, head, out);
    }
    for (uint64_t d = 0; !at->there && d < c->width; d++) {
        bp_element_store(c->out, out + d, 0.0f, c->type);
    }
}

/* A task is a key-value head, of all rows or of one. */
static void slots_over(const bp_host_call *call, const void *sinks, uint64_t first, uint64_t last,
                       uint32_t worker)
{
    const bp_attention_slots_scalars *s = call->scalars;
    const bp_attention_slots_pointers *p = call->pointers;
    const uint64_t kv_heads = (uint64_t)s->kv_heads, group = (uint64_t)s->heads / kv_heads;
    cached c = {.k_cache = p->k_cache,
                .v_cache = p->v_cache,
                .qkv = p->qkv,
                .out = p->out,
                .type = bp_call_type(call, 0),
                .pitch = kv_heads * (uint64_t)s->head_width,
                .width = (uint64_t)s->head_width,
                .scale = (float)s->scale,
                .cap = (float)s->cap,
                .sinks = sinks};
    float *score = bp_worker_part(p->work, bp_attention_slots_workspace, call, worker);
    for (uint64_t number = first; number < last; number++) {
        const uint64_t head = number % kv_heads, begin = number / kv_heads;
        const uint64_t end = s->together != 0 ? (uint64_t)s->rows : begin + 1;
        bp_slots_enter(call, head, begin, end);
        for (uint64_t row = begin; row < end; row++) {
            const bp_slot_row at = bp_slot_row_of(s, p, row);
            for (uint64_t i = 0; i < group; i++) {
                slots_row(&c, s, &at, row, head * group + i, score);
            }
        }
    }
}

#define BP_DECODES(name) bp_host_##name
#include "device/host/attention/attention_sinks.h"
