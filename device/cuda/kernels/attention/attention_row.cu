/* SPDX-License-Identifier: MIT */
/* Attention a row per block, for any head width: against a cache while generating, and forward and
 * backward for heads that tiles do not serve: not whole groups of four elements. */
#include "device/cuda/kernels/attention/attention.cuh"

#define THREADS 128 /* keys, or queries, looked at together */

/* x . y over `width` elements, fused, in order; x in shared memory. */
BP_DEVICE float dot(const float *x, const void *y, uint64_t first, uint64_t width, uint32_t form)
{
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t d = 0; d < width; d += 4) {
        float v[4];
        bp_load4(y, first + d, width - d, form, v);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            sum = d + e < width ? fmaf(x[d + e], v[e], sum) : sum;
        }
    }
    return sum;
}

BP_DEVICE void row_to_shared(float *to, const void *from, uint64_t first, uint64_t width,
                             uint32_t form)
{
#pragma unroll 1
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        to[d] = bp_get(from, first + d, form);
    }
}

BP_DEVICE void row_from_shared(void *to, uint64_t first, const float *from, float factor,
                               uint64_t width, uint32_t form)
{
#pragma unroll 1
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        bp_put(to, first + d, form, from[d] * factor);
    }
}

/* Rows of a matrix from element `first` on. */
typedef struct row_run {
    const void *y;
    uint64_t first;
    uint64_t pitch;
    uint64_t count;
} row_run;

/* sum (+)= weights . rows: adds THREADS weighted rows, in order, to sums in shared memory. */
BP_DEVICE void add_rows(float *sum, float shrink, const float *weights, row_run rows,
                        uint64_t width, uint32_t form)
{
    const void *y = rows.y;
    uint64_t first = rows.first, pitch = rows.pitch, count = rows.count;
#pragma unroll 1
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        float s = sum[d] * shrink;
        uint64_t from = first + d, j = 0;
#pragma unroll 1
        for (; j + 3 < count; j += 4) {
            float v[4];
            bp_load4_apart(y, from + j * pitch, pitch, form, v);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                s = fmaf(weights[j + e], v[e], s);
            }
        }
#pragma unroll 1
        for (; j < count; j++) {
            s = fmaf(weights[j], bp_get(y, from + j * pitch, form), s);
        }
        sum[d] = s;
    }
}

/* The row being looked at, and what it looks at. */
typedef struct row_view {
    const void *from; /* q; k and v, unless they are elsewhere */
    const void *keys;
    const void *values;
    uint64_t q; /* where they begin */
    uint64_t k;
    uint64_t v;
    uint64_t pitch; /* of k and v */
    uint64_t begin; /* keys from here on */
    uint64_t end;   /* and before here */
    uint64_t row;
} row_view;

/* out = softmax(q k^T scale) v with a running maximum and sum; shared holds 2 * width + THREADS. */
BP_DEVICE void attend(const row_view *view, const bp_attention *at, const bp_head *head,
                      const bp_mask *mask, float *shared, void *out, uint64_t first_out, float *lse)
{
    float *q = shared, *sum = q + at->width, *weights = sum + at->width;
    float most = -INFINITY, total = 0.0f;
    row_to_shared(q, view->from, view->q, at->width, at->form);
    for (uint64_t d = threadIdx.x; d < at->width; d += THREADS) {
        sum[d] = 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t first = view->begin; first < view->end; first += THREADS) {
        uint64_t j = first + threadIdx.x;
        float score = -INFINITY, slope;
        if (j < view->end) {
            score = dot(q, view->keys, view->k + j * view->pitch, at->width, at->form);
            score = bp_head_score(at, score, &slope);
        }
        float largest = bp_block_max(score);
        largest = largest > most ? largest : most;
        float p = bp_expf_inline(score - largest);
        float shrink = bp_expf_inline(most - largest);
        total = fmaf(total, shrink, bp_block_sum(p));
        most = largest;
        if (at->threshold != 0) {
            uint64_t element = (head->number * at->sequence + view->row) * at->sequence + j;
            p *= bp_mask1(mask, (uint32_t)head->sample, element);
        }
        weights[threadIdx.x] = p;
        __syncthreads();
        const row_run rows = {view->values, view->v + first * view->pitch, view->pitch,
                              bp_least(THREADS, view->end - first)};
        add_rows(sum, shrink, weights, rows, at->width, at->form);
        __syncthreads();
    }
    bool any = view->begin < view->end; /* a row without keys is 0 */
    row_from_shared(out, first_out, sum, any ? 1.0f / total : 0.0f, at->width, at->form);
    if (lse != NULL && threadIdx.x == 0) {
        *lse = any ? most + bp_logf(total) : 0.0f;
    }
}

/* Puts the keys and values of new rows into the caches; an element per thread. Keys lie `skipped`
 * elements into a row of qkv, `across` of them, and values behind. Row r enters all caches at its
 * own position; with `apart` all are at one position, and it enters cache r. */
BP_KERNEL bp_attention_cache(void *k_cache, void *v_cache, const void *qkv,
                             const bp_step_block *step, uint64_t rows, uint64_t positions,
                             uint64_t skipped, uint64_t across, uint32_t form, uint64_t caches,
                             uint32_t apart)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * across) {
        return;
    }
    uint64_t row = i / across, d = i % across;
    uint64_t position = step->position + (apart != 0 ? 0 : row);
    uint64_t from = row * (skipped + 2 * across) + skipped + d;
    if (position >= positions) {
        return;
    }
    float key = bp_get(qkv, from, form), value = bp_get(qkv, from + across, form);
    uint64_t cache = apart != 0 ? row : 0, end = apart != 0 ? row + 1 : caches;
#pragma unroll 1
    for (; cache < end; cache++) {
        uint64_t to = (cache * positions + position) * across + d;
        bp_put(k_cache, to, form, key);
        bp_put(v_cache, to, form, value);
    }
}

/* A block per new row and head. */
BP_KERNEL bp_attention_decode(void *out, const void *k_cache, const void *v_cache, const void *qkv,
                              const bp_step_block *step, uint64_t rows, uint64_t positions,
                              uint64_t heads, uint64_t kv_heads, uint64_t width, float scale,
                              uint32_t form, float cap, uint64_t window, uint32_t apart)
{
    extern __shared__ float shared[];
    if (rows == 0) {
        return;
    }
    uint64_t row = blockIdx.x / heads, number = blockIdx.x % heads;
    uint64_t kv = number / (heads / kv_heads) * width, pitch = (heads + 2 * kv_heads) * width;
    uint64_t position = step->position + (apart != 0 ? 0 : row);
    if (position >= positions) {
        return;
    }
    uint64_t cache = apart != 0 ? row * positions * kv_heads * width : 0;
    const bp_attention at = {NULL, 0, heads, kv_heads, width, scale, 1,
                             0,    0, 1.0f,  form,     cap,   window};
    row_view view = {qkv,          k_cache,    v_cache,          row * pitch + number * width,
                     cache + kv,   cache + kv, kv_heads * width, bp_head_first(&at, NULL, position),
                     position + 1, 0};
    attend(&view, &at, NULL, NULL, shared, out, (row * heads + number) * width, NULL);
}

/* Which head and row a block of the wide forms has. */
BP_DEVICE bp_head block_head(const bp_attention *at, uint64_t *row)
{
    *row = at->sequence - 1 - blockIdx.x % at->sequence;
    return bp_head_make(at, blockIdx.x / at->sequence);
}

BP_KERNEL bp_attention_forward_any(void *out, float *lse, const void *qkv, BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float shared[];
    if (sequence == 0) {
        return;
    }
    const bp_attention at = BP_ATTENTION_GATHER;
    uint64_t row;
    bp_head head = block_head(&at, &row);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    row_view view = {qkv,
                     qkv,
                     qkv,
                     head.first + row * head.pitch,
                     head.k,
                     head.v,
                     head.pitch,
                     bp_head_first(&at, &head, row),
                     bp_head_keys(&at, &head, row),
                     row};
    attend(&view, &at, &head, &mask, shared, out, head.first_out + row * head.out_pitch,
           lse != NULL ? lse + bp_head_lse(&at, &head, row) : NULL);
}

/* What is known of a query and a key, and what follows. */
typedef struct row_pair {
    float score;
    float d_p;
    float lse;
    float delta;
    float p; /* with its mask */
    float ds;
} row_pair;

/* p and ds of query i and key j. */
BP_DEVICE void pair_gradient(row_pair *of, uint64_t i, uint64_t j, const bp_attention *at,
                             const bp_head *head, const bp_mask *mask)
{
    float slope, score = bp_head_score(at, of->score, &slope);
    float e = bp_expf_inline(score - of->lse), f = 1.0f;
    if (at->threshold != 0) {
        uint64_t element = (head->number * at->sequence + i) * at->sequence + j;
        f = bp_mask1(mask, (uint32_t)head->sample, element);
    }
    of->p = e * f;
    of->ds = (e * (of->d_p * f - of->delta)) * slope * at->scale;
}

/* d_q of one row; shared: q, d_out, the sums, THREADS weights. */
BP_KERNEL bp_attention_backward_queries_any(void *d_qkv, const void *d_out, const void *qkv,
                                            const float *lse, const float *delta,
                                            BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float shared[];
    if (sequence == 0) {
        return;
    }
    const bp_attention at = BP_ATTENTION_GATHER;
    uint64_t row;
    bp_head head = block_head(&at, &row);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    float *q = shared, *d_o = q + width, *sum = d_o + width, *weights = sum + width;
    uint64_t keys = bp_head_keys(&at, &head, row);
    row_to_shared(q, qkv, head.first + row * head.pitch, width, form);
    row_to_shared(d_o, d_out, head.first_out + row * head.out_pitch, width, form);
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        sum[d] = 0.0f;
    }
    float row_lse = bp_head_sums(&at, &head, lse, delta)[row];
    float row_delta = bp_head_delta(&at, &head, delta)[row];
    __syncthreads();
#pragma unroll 1
    for (uint64_t first = bp_head_first(&at, &head, row); first < keys; first += THREADS) {
        uint64_t j = first + threadIdx.x;
        row_pair of = {0.0f, 0.0f, row_lse, row_delta, 0.0f, 0.0f};
        if (j < keys) {
            of.score = dot(q, qkv, head.k + j * head.pitch, width, form);
            of.d_p = dot(d_o, qkv, head.v + j * head.pitch, width, form);
            pair_gradient(&of, row, j, &at, &head, &mask);
        }
        weights[threadIdx.x] = of.ds;
        __syncthreads();
        const row_run rows = {qkv, head.k + first * head.pitch, head.pitch,
                              bp_least(THREADS, keys - first)};
        add_rows(sum, 1.0f, weights, rows, width, form);
        __syncthreads();
    }
    row_from_shared(d_qkv, head.first + row * head.pitch, sum, 1.0f, width, form);
}

/* What the backward pass reads. */
typedef struct row_inputs {
    const void *d_out;
    const void *qkv;
    const float *lse;
    const float *delta;
} row_inputs;

/* Adds what the queries of one head give to d_k and d_v of one row. */
BP_DEVICE void add_queries(float *shared, const row_inputs *in, uint64_t key,
                           const bp_attention *at, const bp_head *head, const bp_mask *mask)
{
    uint64_t width = at->width, q = head->first, d_o = head->first_out;
    uint64_t begin = at->causal != 0 ? key : bp_head_first(at, head, key);
    uint64_t end = bp_head_rows(at, head, key);
    const float *lse = bp_head_sums(at, head, in->lse, in->delta);
    const float *delta = bp_head_delta(at, head, in->delta);
    float *k = shared, *v = k + width, *sum_k = v + width, *sum_v = sum_k + width;
    float *weights = sum_v + width;
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        sum_k[d] += 0.0f; /* no -0 goes on */
        sum_v[d] += 0.0f;
    }
#pragma unroll 1
    for (uint64_t first = key < head->keys ? begin : end; first < end; first += THREADS) {
        uint64_t i = first + threadIdx.x, count = bp_least(THREADS, end - first);
        row_pair of = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        if (i < end) {
            of.score = dot(k, in->qkv, q + i * head->pitch, width, at->form);
            of.d_p = dot(v, in->d_out, d_o + i * head->out_pitch, width, at->form);
            of.lse = lse[i];
            of.delta = delta[i];
            pair_gradient(&of, i, key, at, head, mask);
        }
        weights[threadIdx.x] = of.p;
        weights[THREADS + threadIdx.x] = of.ds;
        __syncthreads();
        const row_run outs = {in->d_out, d_o + first * head->out_pitch, head->out_pitch, count};
        const row_run queries = {in->qkv, q + first * head->pitch, head->pitch, count};
        add_rows(sum_v, 1.0f, weights, outs, width, at->form);
        add_rows(sum_k, 1.0f, weights + THREADS, queries, width, at->form);
        __syncthreads();
    }
}

/* d_k and d_v of one row of a key-value head, over its query heads in order; shared: k, v, both
 * sums, twice THREADS weights. */
BP_KERNEL bp_attention_backward_keys_any(void *d_qkv, const void *d_out, const void *qkv,
                                         const float *lse, const float *delta,
                                         BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float shared[];
    if (sequence == 0) {
        return;
    }
    const bp_attention at = BP_ATTENTION_GATHER;
    const row_inputs in = {d_out, qkv, lse, delta};
    uint64_t key = sequence - 1 - blockIdx.x % sequence, group = heads / kv_heads;
    uint64_t number = blockIdx.x / sequence * group;
    bp_head head = bp_head_make(&at, number);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    float *sum_k = shared + 2 * width, *sum_v = sum_k + width;
    uint64_t to_k = head.k + key * head.pitch, to_v = head.v + key * head.pitch;
    row_to_shared(shared, qkv, to_k, width, form);
    row_to_shared(shared + width, qkv, to_v, width, form);
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        sum_k[d] = 0.0f;
        sum_v[d] = 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t i = 0; i < group; i++) {
        head = bp_head_make(&at, number + i);
        add_queries(shared, &in, key, &at, &head, &mask);
    }
    row_from_shared(d_qkv, to_k, sum_k, 1.0f, width, form);
    row_from_shared(d_qkv, to_v, sum_v, 1.0f, width, form);
}
