/* SPDX-License-Identifier: MIT */
/* What the forms of attention share: its shape, the cut into tasks and the workspace. */
#ifndef BP_DEVICE_HOST_ATTENTION_H
#define BP_DEVICE_HOST_ATTENTION_H

#include <string.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"
#include "device/host/elements/mask.h"

#define BP_ATTENTION_QUERIES 32 /* query rows of a forward task and of a backward block */

/* Backward in vectors passes BP_ATTENTION_ROWS queries over one block of keys after the other, so
 * that what is made of keys and of queries does not grow with the sequence. A block has whole
 * panels of every form and whole blocks of queries. Up to BP_ATTENTION_WHOLE tokens the workspace
 * is what all keys at once took, so that plans of such lengths have the bytes that they had. So
 * does forward with strips of bp_attention_strip queries, whose scores alone have all keys; up to
 * BP_ATTENTION_WHOLE tokens its block has all of them, and a strip is a block of queries. */
#define BP_ATTENTION_KEYS  576
#define BP_ATTENTION_ROWS  512
#define BP_ATTENTION_WHOLE 2048

/* Of some rows of a head (attention_strips.h): in backward of a block of queries and of a range of
 * keys, whole blocks of both. */
#define BP_STRIP_ROWS 256
#define BP_STRIP_KEYS (4 * BP_ATTENTION_KEYS)

/* The scalars of a forward or backward call, and what else says how it is laid out. */
typedef struct bp_attention_shape {
    uint64_t sequence; /* rows of keys and values */
    uint64_t queries;  /* rows of queries; of attention to other rows they lie apart, in q */
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t group;     /* query heads of a key-value head */
    uint64_t width;     /* of a head */
    uint64_t row;       /* elements of a row of qkv */
    uint64_t q_row;     /* of the queries; */
    uint64_t first_key; /* the head's place in such a row that the first of the keys has */
    const void *q;      /* what has the queries, and */
    void *d_q;          /* their gradients */
    uint64_t pitch; /* scores of a row of a block's; in backward in vectors of a block of keys */
    bool causal;
    uint64_t window; /* 0: none */
    float scale;
    float cap; /* 0: none */
    double dropout;
    uint64_t span;  /* positions that dropout's elements are counted by */
    uint64_t first; /* the place that position 0 has in this count */
    int64_t site;
    bp_dtype type; /* of all operands but lse and lengths */
    const void *step;
    const int32_t *lengths; /* (B) or NULL */
    const float *bias;      /* (heads, 2 T) or NULL */
    float *d_bias;          /* (B, heads, 2 T) or NULL */
    const float *delta;     /* (B, T, heads): gradients take the place of qkv; NULL: of d_qkv */
} bp_attention_shape;

/* Whether backward forms gradients apart and then rounds or copies them to where they belong. */
static inline bool bp_attention_apart(const bp_attention_shape *s)
{
    return s->type != BP_F32 || s->delta != NULL;
}

bp_attention_shape bp_attention_forward_shape(const bp_host_call *call);
bp_attention_shape bp_attention_backward_shape(const bp_host_call *call);

/* Keys of a sample: its length, 0 .. sequence. */
static inline uint64_t bp_attention_keys(const bp_attention_shape *s, uint64_t sample)
{
    int64_t length = s->lengths != NULL ? s->lengths[sample] : (int64_t)s->sequence;
    return length > 0 ? bp_least((uint64_t)length, s->sequence) : 0;
}

/* Keys first .. last - 1 of the sample's `keys` that query i looks at. */
typedef struct bp_attention_span {
    uint64_t first;
    uint64_t last;
} bp_attention_span;

static inline bp_attention_span bp_attention_span_of(const bp_attention_shape *s, uint64_t keys,
                                                     uint64_t i)
{
    const uint64_t near = s->window != 0 ? s->window : s->sequence + s->queries;
    bp_attention_span span = {.last = bp_least(s->causal ? i + 1 : i + near, keys)};
    span.first = bp_least(i + 1 > near ? i + 1 - near : 0, span.last);
    return span;
}

/* A scaled score under a cap, and what its derivative is then multiplied by. */
static inline float bp_attention_capped(float score, float cap, float *slope)
{
    const float t = bp_tanhf_inline(score / cap);
    *slope = 1.0f - t * t;
    return cap * t;
}

/* A row of out, `width` elements from `at` on, whose scores have that log-sum-exp, with a sink
 * beside them: out times the share that the scores have. Returns the log-sum-exp with the sink. */
static inline float bp_attention_sink(float lse, float sink, void *out, uint64_t at, uint64_t width,
                                      bp_dtype type)
{
    const float most = lse > sink ? lse : sink;
    const float e = bp_expf_inline((lse > sink ? sink : lse) - most);
    const float share = (lse > sink ? 1.0f : e) / (1.0f + e);
    for (uint64_t d = at; d < at + width; d++) {
        bp_element_store(out, d, share * bp_element_load(out, d, type), type);
    }
    return most + bp_logf(1.0f + e);
}

/* Places of a head's first element: of its queries, keys and values, and in out. */
static inline uint64_t bp_attention_q(const bp_attention_shape *s, uint64_t sample, uint64_t head)
{
    return sample * s->queries * s->q_row + head * s->width;
}

static inline uint64_t bp_attention_k(const bp_attention_shape *s, uint64_t sample,
                                      uint64_t kv_head)
{
    return sample * s->sequence * s->row + (s->first_key + kv_head) * s->width;
}

static inline uint64_t bp_attention_v(const bp_attention_shape *s, uint64_t sample,
                                      uint64_t kv_head)
{
    return bp_attention_k(s, sample, s->kv_heads + kv_head);
}

static inline uint64_t bp_attention_out(const bp_attention_shape *s, uint64_t sample, uint64_t head)
{
    return (sample * s->queries * s->heads + head) * s->width;
}

static inline bp_mask bp_attention_mask(const bp_attention_shape *s, uint64_t sample)
{
    return bp_mask_make(s->step, sample, s->site, s->dropout);
}

/* Place of query i and key j in what a query head has for each distance. */
static inline uint64_t bp_attention_distance(const bp_attention_shape *s, uint64_t head, uint64_t i,
                                             uint64_t j)
{
    return (2 * head + 1) * s->sequence + j - i;
}

/* The gradients of the distances of a sample's query head; NULL: nobody wants them. */
static inline float *bp_attention_d_bias(const bp_attention_shape *s, uint64_t sample,
                                         uint64_t head)
{
    return s->d_bias != NULL ? s->d_bias + (sample * s->heads + head) * 2 * s->sequence : NULL;
}

/* The deltas of a sample's query head, of row t at t * heads; NULL: they are found of out. */
static inline const float *bp_attention_deltas_of(const bp_attention_shape *s, uint64_t sample,
                                                  uint64_t head)
{
    return s->delta != NULL ? s->delta + sample * s->queries * s->heads + head : NULL;
}

/* Dropout element of query i and key 0. */
static inline uint64_t bp_attention_element(const bp_attention_shape *s, uint64_t head, uint64_t i)
{
    return (head * s->span + s->first + i) * s->span + s->first;
}

/* Bytes of workspace per worker, the same for every form in vectors. With T' and D' rounded up to
 * 16 elements: forward a strip's rows of T' scores and keys of a block regrouped; backward 32
 * rows of the scores of a block of keys, their gradients, and its keys and values regrouped. Rows
 * of scores are no longer than what their queries see through their windows. Elements of 16 bits
 * need rows as floats too: those of a block of keys, of the queries that pass over it and of what
 * is made for them, and backward the sums of all gradients by key. */
uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_over_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_strip_forward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_strip_backward_workspace(const void *scalars, const uint8_t *dtypes);
/* Of the plain form, no more than those: forward a row's scores and their factors; backward a row
 * of d_q, with elements of 16 bits also the sums of a head's d_k and d_v. */
uint64_t bp_attention_forward_plain(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_plain(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_over_plain(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_strip_forward_plain(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_strip_backward_plain(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_slots_workspace(const void *scalars, const uint8_t *dtypes);

/* Floats of a row of scores of so many queries in order; a window of 0 is none. */
uint64_t bp_attention_pitch(uint64_t sequence, uint64_t window, bool causal, uint64_t queries);

/* Queries of a strip of forward, as many as share what is made of a block of keys. Fewer where
 * heads are narrow, so that their scores take no more than all keys of such a head took. */
static inline uint64_t bp_attention_strip(uint64_t width)
{
    return bp_least(bp_cut((int64_t)width, BP_LANES), 4) * BP_ATTENTION_QUERIES;
}

/* Query rows of a task of attention_strip_forward, whose scores of two workers take no more than a
 * head's sums of d_k and d_v. */
static inline uint64_t bp_attention_strip_queries(int64_t width)
{
    return (width > 64 ? 2 : 1) * BP_ATTENTION_QUERIES;
}

/* Floats of so many keys as panels of any form. */
static inline uint64_t bp_attention_panels(uint64_t keys, uint64_t width)
{
    return bp_size_mul(bp_size_align(keys, BP_LANES) + BP_ATTENTION_QUERIES,
                       bp_size_align(width, BP_LANES));
}

/* Floats of a workspace that f32 needs; what else there is comes after them. They do not grow
 * beyond a block. */
uint64_t bp_attention_backward_floats(const bp_attention_forward_scalars *s);

/* Tasks of attention_strip_backward that are done before the next as many begin: blocks of queries.
 */
uint64_t bp_attention_strip_blocks(const void *scalars);
uint64_t bp_attention_strip_floats(const bp_attention_strip_forward_scalars *s);

/* The larger of a sample's two numbers of rows. */
static inline uint64_t bp_attention_rows(const bp_attention_shape *s)
{
    return s->queries > s->sequence ? s->queries : s->sequence;
}

/* Floats of one (T, D) matrix in a workspace. */
static inline uint64_t bp_attention_matrix(uint64_t sequence, uint64_t width)
{
    return bp_size_align(bp_size_mul(sequence, width), BP_LANES);
}

#define BP_ATTENTION_CACHED 64 /* cached rows of 16 bits that are floats at a time */

/* What a task of attention_decode has: one key-value head of the new rows first .. first + rows -
 * 1, whose keys and values have their places from `place` on in both caches, in elements. */
typedef struct bp_decode_task {
    uint64_t head;
    uint64_t first;
    uint64_t rows;
    uint64_t place;
} bp_decode_task;

/* Key-value heads, of each sequence where rows are of several. */
static inline uint64_t bp_decode_tasks(const bp_attention_decode_scalars *s)
{
    return (uint64_t)s->kv_heads * (s->apart != 0 ? (uint64_t)s->rows : 1);
}

static inline bp_decode_task bp_decode_task_of(const bp_attention_decode_scalars *s,
                                               uint64_t position, uint64_t number)
{
    const uint64_t heads = (uint64_t)s->kv_heads, positions = (uint64_t)s->positions;
    const uint64_t row = s->apart != 0 ? number / heads : 0;
    const uint64_t asked = s->apart != 0 ? 1 : (uint64_t)s->rows;
    const uint64_t left = position < positions ? positions - position : 0;
    const uint64_t pitch = heads * (uint64_t)s->head_width;
    return (bp_decode_task){.head = number % heads,
                            .first = row,
                            .rows = asked < left ? asked : left,
                            .place = (row * positions + position) * pitch +
                                     number % heads * (uint64_t)s->head_width};
}

/* One row of keys, at element `k` of qkv, and of values, `apart` further, enter the caches at `to`.
 */
static inline void bp_attention_cache(const bp_attention_decode_pointers *p, uint64_t k,
                                      uint64_t apart, uint64_t to, uint64_t width, bp_dtype type)
{
    size_t element = bp_dtype_bytes(type);
    const char *from = (const char *)p->qkv + k * element;
    memcpy((char *)p->k_cache + to * element, from, width * element);
    memcpy((char *)p->v_cache + to * element, from + apart * element, width * element);
}

/* The task's keys and values enter its caches: all of them, or those of its sequence. */
static inline void bp_decode_enter(const bp_host_call *call, const bp_decode_task *task)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const uint64_t width = (uint64_t)s->head_width, pitch = (uint64_t)s->kv_heads * width;
    const uint64_t keys = ((uint64_t)s->heads + task->head) * width;
    const uint64_t row = (uint64_t)s->heads * width + 2 * pitch;
    const uint64_t caches = s->apart != 0 ? 1 : (uint64_t)s->others + 1;
    for (uint64_t r = 0; r < task->rows; r++) {
        for (uint64_t c = 0; c < caches; c++) {
            const uint64_t to = task->place + (c * (uint64_t)s->positions + r) * pitch;
            bp_attention_cache(call->pointers, (task->first + r) * row + keys, pitch, to, width,
                               (bp_dtype)call->dtypes[0]);
        }
    }
}

/* The worker's own part of a workspace whose parts have as many bytes as `each` says. */
static inline float *bp_worker_part(void *work, uint64_t (*each)(const void *, const uint8_t *),
                                    const bp_host_call *call, uint32_t worker)
{
    const uint64_t before =
        BP_THREADS_MAX > 1 ? worker * bp_size_align(each(call->scalars, call->dtypes), 64) : 0;
    return (float *)(void *)((unsigned char *)work + before);
}

/* Forward: one task per sample, query head and block of 32 queries, in this order.
 * Backward: one per sample and key-value head. */
uint64_t bp_attention_forward_tasks(const void *scalars);
uint64_t bp_attention_backward_tasks(const void *scalars);

/* Attention to other rows (both rows of attention.def have the same scalars): its tasks; what
 * workspaces ask of attention whose sequence is the larger number of its rows; and what its shape
 * differs in from that one's. */
uint64_t bp_attention_cross_forward_tasks(const void *scalars);
uint64_t bp_attention_cross_backward_tasks(const void *scalars);
uint64_t bp_attention_cross_forward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_cross_backward_workspace(const void *scalars, const uint8_t *dtypes);
bp_attention_forward_scalars
bp_attention_cross_scalars(const bp_attention_cross_forward_scalars *s);
void bp_attention_cross_shape(bp_attention_shape *shape,
                              const bp_attention_cross_forward_scalars *s);

/* What a row of attention_slots looks at, in rows of the caches: `near` keys from near_first on,
 * and count - near from own_first on. */
typedef struct bp_slot_row {
    bool there;
    uint64_t enters;
    uint64_t count;
    uint64_t near;
    uint64_t near_first;
    uint64_t own_first;
} bp_slot_row;

static inline bp_slot_row bp_slot_row_of(const bp_attention_slots_scalars *s,
                                         const bp_attention_slots_pointers *p, uint64_t r)
{
    const int64_t position = ((const int32_t *)p->positions)[r];
    const int64_t region = ((const int32_t *)p->places)[r];
    const int64_t shared = ((const int32_t *)p->places)[(uint64_t)s->rows + r];
    const bool begun = position < shared;
    if (position < 0 || region < 0 || region >= s->regions || shared < 0 || shared > s->prompt ||
        (!begun && (position - shared >= s->most || r >= (uint64_t)s->slots))) {
        return (bp_slot_row){.there = false};
    }
    const uint64_t at = (uint64_t)position, split = (uint64_t)shared;
    const uint64_t prompt = (uint64_t)(region * s->prompt);
    const uint64_t own = (uint64_t)(s->regions * s->prompt) + r * (uint64_t)s->most;
    const uint64_t window = (uint64_t)s->window;
    const uint64_t first = window != 0 && at + 1 > window ? at + 1 - window : 0;
    return (bp_slot_row){.there = true,
                         .enters = begun ? prompt + at : own + (at - split),
                         .count = at + 1 - first,
                         .near = first < split ? bp_least(split, at + 1) - first : 0,
                         .near_first = prompt + first,
                         .own_first = own + (first > split ? first - split : 0)};
}

/* Which rows a task has, of its key-value head number % kv_heads. */
static inline uint64_t bp_slots_tasks(const bp_attention_slots_scalars *s)
{
    return (uint64_t)s->kv_heads * (s->together != 0 ? 1 : (uint64_t)s->rows);
}

/* The keys and values of rows first .. end - 1 enter. */
static inline void bp_slots_enter(const bp_host_call *call, uint64_t kv_head, uint64_t first,
                                  uint64_t end)
{
    const bp_attention_slots_scalars *s = call->scalars;
    const bp_attention_slots_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->head_width, pitch = (uint64_t)s->kv_heads * width;
    const uint64_t row = (uint64_t)s->heads * width + 2 * pitch;
    const size_t element = bp_dtype_bytes((bp_dtype)call->dtypes[0]);
    for (uint64_t r = first; r < end; r++) {
        const bp_slot_row at = bp_slot_row_of(s, p, r);
        const uint64_t k = r * row + ((uint64_t)s->heads + kv_head) * width;
        const uint64_t to = (at.enters * pitch + kv_head * width) * element;
        if (at.there) {
            memcpy((char *)p->k_cache + to, (const char *)p->qkv + k * element, width * element);
            memcpy((char *)p->v_cache + to, (const char *)p->qkv + (k + pitch) * element,
                   width * element);
        }
    }
}

#endif
