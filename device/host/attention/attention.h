/* SPDX-License-Identifier: MIT */
/* What the forms of attention share: its shape, the cut into tasks and the workspace. */
#ifndef BP_DEVICE_HOST_ATTENTION_H
#define BP_DEVICE_HOST_ATTENTION_H

#include <string.h>

#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"
#include "device/host/elements/mask.h"

#define BP_ATTENTION_QUERIES 32 /* query rows of a forward task and of a backward block */

/* The scalars of a forward or backward call, and what else says how it is laid out. */
typedef struct bp_attention_shape {
    uint64_t sequence;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t group; /* query heads of a key-value head */
    uint64_t width; /* of a head */
    uint64_t row;   /* elements of a row of qkv */
    bool causal;
    float scale;
    double dropout;
    uint64_t span; /* positions that dropout's elements are counted by */
    int64_t site;
    bp_dtype type; /* of all operands but lse and lengths */
    const void *step;
    const int32_t *lengths; /* (B) or NULL */
} bp_attention_shape;

bp_attention_shape bp_attention_forward_shape(const bp_host_call *call);
bp_attention_shape bp_attention_backward_shape(const bp_host_call *call);

/* Keys of a sample: its length, 0 .. sequence. */
static inline uint64_t bp_attention_keys(const bp_attention_shape *s, uint64_t sample)
{
    int64_t length = s->lengths != NULL ? s->lengths[sample] : (int64_t)s->sequence;
    return length > 0 ? bp_least((uint64_t)length, s->sequence) : 0;
}

/* Places of a head's first element: in qkv its queries, keys and values, in out. */
static inline uint64_t bp_attention_q(const bp_attention_shape *s, uint64_t sample, uint64_t head)
{
    return sample * s->sequence * s->row + head * s->width;
}

static inline uint64_t bp_attention_k(const bp_attention_shape *s, uint64_t sample,
                                      uint64_t kv_head)
{
    return bp_attention_q(s, sample, s->heads + kv_head);
}

static inline uint64_t bp_attention_v(const bp_attention_shape *s, uint64_t sample,
                                      uint64_t kv_head)
{
    return bp_attention_q(s, sample, s->heads + s->kv_heads + kv_head);
}

static inline uint64_t bp_attention_out(const bp_attention_shape *s, uint64_t sample, uint64_t head)
{
    return (sample * s->sequence * s->heads + head) * s->width;
}

static inline bp_mask bp_attention_mask(const bp_attention_shape *s, uint64_t sample)
{
    return bp_mask_make(s->step, sample, s->site, s->dropout);
}

/* Dropout element of query i and key 0. */
static inline uint64_t bp_attention_element(const bp_attention_shape *s, uint64_t head, uint64_t i)
{
    return (head * s->span + i) * s->span;
}

/* Bytes of workspace per worker, O(T x (const + D)), the same for every form. With T' and D'
 * rounded up to 16 elements: forward 32 rows of T' scores and keys regrouped; backward the same for
 * scores and their gradients, keys and values. Elements of 16 bits need the head's rows and their
 * gradients as floats too. */
uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes);

/* Floats of a workspace that f32 needs; what else there is comes after them. */
uint64_t bp_attention_forward_floats(int64_t sequence, int64_t head_width);
uint64_t bp_attention_backward_floats(int64_t sequence, int64_t head_width);

/* Floats of one (T, D) matrix in a workspace. */
static inline uint64_t bp_attention_matrix(uint64_t sequence, uint64_t width)
{
    return bp_size_align(bp_size_mul(sequence, width), BP_LANES);
}

#define BP_ATTENTION_CACHED 64 /* cached rows of 16 bits that are floats at a time */

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

/* The worker's own part of a workspace whose parts are `bytes` each. */
static inline float *bp_worker_part(void *work, uint64_t bytes, uint32_t worker)
{
    return (float *)(void *)((unsigned char *)work + worker * bp_size_align(bytes, 64));
}

/* Forward: one task per sample, query head and block of 32 queries, in this order.
 * Backward: one per sample and key-value head. */
uint64_t bp_attention_forward_tasks(const void *scalars);
uint64_t bp_attention_backward_tasks(const void *scalars);

#endif
