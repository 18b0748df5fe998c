/* SPDX-License-Identifier: MIT */
/* Attention of new rows against a cache, in vectors: the chains of attention_decode.c. Included
 * after attention_vector.h, once per form. */

/* A key-value head's caches, and a worker's memory. */
typedef struct cached {
    const void *k; /* row j < near at j * pitch, of that type */
    const void *v;
    const void *own_k; /* the others at (j - near) * pitch */
    const void *own_v;
    int64_t near;
    bp_dtype type;
    int64_t pitch;
    int64_t width;
    float scale;
    float cap;         /* 0: none */
    const void *sinks; /* of query heads; NULL: none */
    float *score;      /* (positions) */
    float *some;       /* (BP_ATTENTION_CACHED, width) for 16 bits, as the next two */
    float *query;      /* (width) */
    float *out;        /* (width) */
} cached;

/* score_j = q . k_j of rows at `keys_at`, fused, in order of the elements: sixteen keys side by
 * side, their elements transposed sixteen at a time. */
static void decode_products(const cached *c, const float *q, const void *keys_at, int64_t count,
                            float *score)
{
    for (int64_t j = 0; j < count; j += BP_V) {
        float plain[BP_V * BP_V], transposed[BP_V * BP_V];
        int64_t keys = lower(count - j, BP_V);
        bp_v dot = bp_v_set(0.0f);
        for (int64_t d = 0; d < c->width; d += BP_V) {
            int64_t run = lower(c->width - d, BP_V), pitch = c->pitch;
            const void *k = bp_element_at(keys_at, j * pitch + d, c->type);
            if (c->type != BP_F32) {
                FORM->load(plain, BP_V, k, pitch, keys, run, c->type);
                k = plain;
                pitch = BP_V;
            }
            FORM->transpose(transposed, BP_V, k, pitch, keys, run);
            for (int64_t i = 0; i < run; i++) {
                bp_v x = bp_v_load(transposed + i * BP_V, bp_part_whole());
                dot = bp_v_fma(bp_v_set(q[d + i]), x, dot);
            }
        }
        if (keys == BP_V) {
            bp_v_store(score + j, dot, bp_part_whole());
        } else {
            bp_v_store(score + j, dot, bp_part_first((uint64_t)keys));
        }
    }
}

/* out += sum of score_j v_j over keys first .. first + count - 1, v as floats; or = for first = 0.
 */
static void decode_sums(const cached *c, const float *v, int64_t pitch, int64_t first,
                        int64_t count, float *out)
{
    for (int64_t d = 0; d < c->width; d += FORM->columns) {
        bp_matmul_tile tile = tile_make(v + d, pitch, count);
        tile.rows = 1;
        tile.columns = lower(c->width - d, FORM->columns);
        tile.a = c->score + first;
        tile.from = first > 0 ? out + d : NULL;
        tile.to = out + d;
        FORM->tile(&tile);
    }
}

/* The sums go on over `count` rows at `values`, whose scores are those from `first` on. */
static void decode_values(const cached *c, const void *values, int64_t first, int64_t count,
                          float *out)
{
    if (c->type == BP_F32) {
        decode_sums(c, values, c->pitch, first, count, out);
        return;
    }
    for (int64_t j = 0; j < count; j += BP_ATTENTION_CACHED) {
        int64_t run = lower(count - j, BP_ATTENTION_CACHED);
        FORM->load(c->some, c->width, bp_element_at(values, j * c->pitch, c->type), c->pitch, run,
                   c->width, c->type);
        decode_sums(c, c->some, c->width, first + j, run, out);
    }
}

static void decode_row(const cached *c, uint64_t of, const void *q, int64_t count, void *out)
{
    const float *query = q;
    if (c->type != BP_F32) {
        FORM->load(c->query, 0, q, 0, 1, c->width, c->type);
        query = c->query;
    }
    const int64_t near = lower(c->near, count);
    float *sums = c->type == BP_F32 ? out : c->out;
    if (near > 0) {
        decode_products(c, query, c->k, near, c->score);
    }
    if (near < count) {
        decode_products(c, query, c->own_k, count - near, c->score + near);
    }
    float most = scale_max(c->score, (uint64_t)count, c->scale);
    most = c->cap > 0.0f ? cap_max(c->score, (uint64_t)count, c->cap) : most;
    float sum = bp_v_row_exp(c->score, (uint64_t)count, most);
    bp_v_row_scale(c->score, (uint64_t)count, 1.0f / sum);
    if (near > 0) {
        decode_values(c, c->v, 0, near, sums);
    }
    if (near < count) {
        decode_values(c, c->own_v, near, count - near, sums);
    }
    if (c->type != BP_F32) {
        FORM->store(out, 0, c->out, 0, 1, c->width, c->type);
    }
    if (c->sinks != NULL) {
        const float sink = bp_element_load(c->sinks, of, c->type);
        (void)bp_attention_sink(most + bp_logf(sum), sink, out, 0, (uint64_t)c->width, c->type);
    }
}

static uint64_t decode_tasks(const void *scalars)
{
    return bp_decode_tasks(scalars);
}

/* A worker's memory, behind the scores of so many positions. */
static void cache_place(cached *c, float *work, int64_t positions)
{
    const uint64_t width = bp_size_align((uint64_t)c->width, BP_LANES);
    c->score = work;
    c->query = c->score + bp_size_align((uint64_t)positions, BP_LANES);
    c->out = c->query + width;
    c->some = c->out + width;
}

static cached cache_make(const bp_host_call *call, const void *sinks, uint32_t worker)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const bp_attention_decode_pointers *p = call->pointers;
    cached c = {.type = bp_call_type(call, 0),
                .pitch = s->kv_heads * s->head_width,
                .near = s->positions,
                .width = s->head_width,
                .scale = (float)s->scale,
                .cap = (float)s->cap,
                .sinks = sinks};
    cache_place(&c, bp_worker_part(p->work, bp_attention_decode_workspace, call, worker),
                s->positions);
    return c;
}

/* A task is a key-value head: keys and values enter the caches before rows look at them. */
static void decode_over(const bp_host_call *call, const void *sinks, uint64_t first, uint64_t last,
                        uint32_t worker)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const bp_attention_decode_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, kv_heads = (uint64_t)s->kv_heads;
    uint64_t width = (uint64_t)s->head_width, group = heads / kv_heads;
    uint64_t qkv_row = (heads + 2 * kv_heads) * width, pitch = kv_heads * width;
    uint64_t position = ((const bp_step_block *)p->step)->position;
    cached c = cache_make(call, sinks, worker);
    for (uint64_t number = first; number < last; number++) {
        const bp_decode_task task = bp_decode_task_of(s, position, number);
        bp_decode_enter(call, &task);
        for (uint64_t i = 0; i < task.rows * group; i++) {
            uint64_t r = i / group, row = task.first + r, of = task.head * group + i % group;
            uint64_t count = position + r + 1;
            count = s->window != 0 ? bp_least(count, (uint64_t)s->window) : count;
            int64_t place = (int64_t)(task.place + r * pitch - (count - 1) * pitch);
            c.k = bp_element_at(p->k_cache, place, c.type);
            c.v = bp_element_at(p->v_cache, place, c.type);
            int64_t q = (int64_t)(row * qkv_row + of * width);
            int64_t out = (int64_t)((row * heads + of) * width), bytes = c.type == BP_F32 ? 4 : 2;
            decode_row(&c, of, bp_element_at(p->qkv, q, c.type), (int64_t)count,
                       (char *)p->out + out * bytes);
        }
    }
}

static uint64_t slots_tasks(const void *scalars)
{
    return bp_slots_tasks(scalars);
}

/* The query heads of a key-value head in a row. */
static void slots_row(cached *c, const bp_host_call *call, uint64_t row, uint64_t kv_head)
{
    const bp_attention_slots_scalars *s = call->scalars;
    const bp_attention_slots_pointers *p = call->pointers;
    const bp_slot_row at = bp_slot_row_of(s, p, row);
    const int64_t group = s->heads / s->kv_heads, of = (int64_t)kv_head * c->width;
    const int64_t near = (int64_t)at.near_first * c->pitch + of;
    const int64_t own = (int64_t)at.own_first * c->pitch + of;
    const size_t bytes = bp_dtype_bytes(c->type);
    c->near = (int64_t)at.near;
    c->k = bp_element_at(p->k_cache, near, c->type);
    c->v = bp_element_at(p->v_cache, near, c->type);
    c->own_k = bp_element_at(p->k_cache, own, c->type);
    c->own_v = bp_element_at(p->v_cache, own, c->type);
    for (int64_t i = 0; i < group; i++) {
        const int64_t of_q = (int64_t)kv_head * group + i;
        const int64_t q = ((int64_t)row * (s->heads + 2 * s->kv_heads) + of_q) * c->width;
        char *out = (char *)p->out + (size_t)(((int64_t)row * s->heads + of_q) * c->width) * bytes;
        if (at.there) {
            decode_row(c, (uint64_t)of_q, bp_element_at(p->qkv, q, c->type), (int64_t)at.count,
                       out);
        } else {
            memset(out, 0, (size_t)c->width * bytes);
        }
    }
}

/* A task is a key-value head, of all rows or of one. */
static void slots_over(const bp_host_call *call, const void *sinks, uint64_t first, uint64_t last,
                       uint32_t worker)
{
    const bp_attention_slots_scalars *s = call->scalars;
    const bp_attention_slots_pointers *p = call->pointers;
    const uint64_t kv_heads = (uint64_t)s->kv_heads;
    cached c = {.type = bp_call_type(call, 0),
                .pitch = s->kv_heads * s->head_width,
                .width = s->head_width,
                .scale = (float)s->scale,
                .cap = (float)s->cap,
                .sinks = sinks};
    cache_place(&c, bp_worker_part(p->work, bp_attention_slots_workspace, call, worker),
                s->prompt + s->most);
    for (uint64_t number = first; number < last; number++) {
        const uint64_t begin = number / kv_heads;
        const uint64_t end = s->together != 0 ? (uint64_t)s->rows : begin + 1;
        bp_slots_enter(call, number % kv_heads, begin, end);
        for (uint64_t row = begin; row < end; row++) {
            slots_row(&c, call, row, number % kv_heads);
        }
    }
}

#define BP_DECODES(name) BP_ISA(bp_##name)
#include "device/host/attention/attention_sinks.h"
