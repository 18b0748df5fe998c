/* SPDX-License-Identifier: MIT */
/* Attention a row per block, for any head width: against a cache while generating, and forward and
 * backward for heads that tiles do not serve: not whole groups of four elements. */
#include "device/kernels/attention.cuh"

#define THREADS 128 /* keys, or queries, looked at together */

/* x . y over `width` elements, fused, in order; x in shared memory. */
BP_DEVICE float dot(const float *x, const bp_element *y, uint64_t width)
{
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t d = 0; d < width; d++) {
        sum = fmaf(x[d], bp_from_element(y[d]), sum);
    }
    return sum;
}

BP_DEVICE void row_to_shared(float *to, const bp_element *from, uint64_t width)
{
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        to[d] = bp_from_element(from[d]);
    }
}

/* sum (+)= weights . rows: adds THREADS weighted rows of y, in order, to sums in shared memory. */
BP_DEVICE void add_rows(float *sum, float shrink, const float *weights, const bp_element *y,
                        uint64_t pitch, uint64_t count, uint64_t width)
{
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        float s = sum[d] * shrink;
#pragma unroll 1
        for (uint64_t j = 0; j < count; j++) {
            s = fmaf(weights[j], bp_from_element(y[j * pitch + d]), s);
        }
        sum[d] = s;
    }
}

/* The row being looked at, and what it looks at. */
typedef struct row_view {
    const bp_element *q;
    const bp_element *k;
    const bp_element *v;
    uint64_t pitch; /* of k and v */
    uint64_t count; /* keys */
    uint64_t row;
} row_view;

/* out = softmax(q k^T scale) v with a running maximum and sum; shared holds 2 * width + THREADS. */
BP_DEVICE void attend(const row_view *view, const bp_attention *at, const bp_head *head,
                      const bp_mask *mask, float *shared, bp_element *out, float *lse)
{
    float *q = shared, *sum = q + at->width, *weights = sum + at->width;
    float most = -INFINITY, total = 0.0f;
    row_to_shared(q, view->q, at->width);
    for (uint64_t d = threadIdx.x; d < at->width; d += THREADS) {
        sum[d] = 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t first = 0; first < view->count; first += THREADS) {
        uint64_t j = first + threadIdx.x;
        float score = -INFINITY;
        if (j < view->count) {
            score = dot(q, view->k + j * view->pitch, at->width) * at->scale;
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
        add_rows(sum, shrink, weights, view->v + first * view->pitch, view->pitch,
                 bp_least(THREADS, view->count - first), at->width);
        __syncthreads();
    }
    float inverse = 1.0f / total;
    for (uint64_t d = threadIdx.x; d < at->width; d += THREADS) {
        out[d] = bp_to_element(sum[d] * inverse);
    }
    if (lse != NULL && threadIdx.x == 0) {
        *lse = most + bp_logf(total);
    }
}

/* Puts the keys and values of new rows into the caches; an element per thread. */
BP_KERNEL bp_attention_cache(bp_element *k_cache, bp_element *v_cache, const bp_element *qkv,
                             const bp_step_block *step, uint64_t rows, uint64_t positions,
                             uint64_t across)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * across) {
        return;
    }
    uint64_t row = i / across, d = i % across, position = step->position + row;
    if (position < positions) {
        k_cache[position * across + d] = qkv[(row * 3 + 1) * across + d];
        v_cache[position * across + d] = qkv[(row * 3 + 2) * across + d];
    }
}

/* A block per new row and head. */
BP_KERNEL bp_attention_decode(bp_element *out, const bp_element *k_cache, const bp_element *v_cache,
                              const bp_element *qkv, const bp_step_block *step, uint64_t rows,
                              uint64_t positions, uint64_t heads, uint64_t width, float scale)
{
    extern __shared__ float shared[];
    if (rows == 0) {
        return;
    }
    uint64_t row = blockIdx.x / heads, number = blockIdx.x % heads, across = heads * width;
    uint64_t position = step->position + row;
    if (position >= positions) {
        return;
    }
    const bp_attention at = {0, heads, width, scale, 0, 0, 1.0f};
    row_view view = {qkv + row * 3 * across + number * width,
                     k_cache + number * width,
                     v_cache + number * width,
                     across,
                     position + 1,
                     0};
    attend(&view, &at, NULL, NULL, shared, out + row * across + number * width, NULL);
}

/* Which head and row a block of the wide forms has. */
BP_DEVICE bp_head block_head(const bp_attention *at, uint64_t *row)
{
    *row = at->sequence - 1 - blockIdx.x % at->sequence;
    return bp_head_make(at, blockIdx.x / at->sequence);
}

BP_KERNEL bp_attention_forward_any(bp_element *out, float *lse, const bp_element *qkv,
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
    const bp_element *first = qkv + head.first;
    row_view view = {first + row * head.pitch, first + head.step_k, first + 2 * head.step_k,
                     head.pitch,               row + 1,             row};
    attend(&view, &at, &head, &mask, shared, out + head.first_out + row * head.step_k,
           lse != NULL ? lse + head.first_row + row : NULL);
}

/* p (with its mask) and ds of query i and key j. */
BP_DEVICE void pair_gradient(float score, float d_p, float lse, float delta, uint64_t i, uint64_t j,
                             const bp_attention *at, const bp_head *head, const bp_mask *mask,
                             float *p, float *ds)
{
    float e = bp_expf_inline(score * at->scale - lse), f = 1.0f;
    if (at->threshold != 0) {
        uint64_t element = (head->number * at->sequence + i) * at->sequence + j;
        f = bp_mask1(mask, (uint32_t)head->sample, element);
    }
    *p = e * f;
    *ds = (e * (d_p * f - delta)) * at->scale;
}

/* d_q of one row; shared: q, d_out, the sums, THREADS weights. */
BP_KERNEL bp_attention_backward_queries_any(bp_element *d_qkv, const bp_element *d_out,
                                            const bp_element *qkv, const float *lse,
                                            const float *delta, BP_ATTENTION_PARAMETERS)
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
    const bp_element *k = qkv + head.first + head.step_k, *v = k + head.step_k;
    row_to_shared(q, qkv + head.first + row * head.pitch, width);
    row_to_shared(d_o, d_out + head.first_out + row * head.step_k, width);
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        sum[d] = 0.0f;
    }
    float row_lse = lse[head.first_row + row], row_delta = delta[head.first_row + row];
    __syncthreads();
#pragma unroll 1
    for (uint64_t first = 0; first <= row; first += THREADS) {
        uint64_t j = first + threadIdx.x;
        float p, ds = 0.0f;
        if (j <= row) {
            pair_gradient(dot(q, k + j * head.pitch, width), dot(d_o, v + j * head.pitch, width),
                          row_lse, row_delta, row, j, &at, &head, &mask, &p, &ds);
        }
        weights[threadIdx.x] = ds;
        __syncthreads();
        add_rows(sum, 1.0f, weights, k + first * head.pitch, head.pitch,
                 bp_least(THREADS, row + 1 - first), width);
        __syncthreads();
    }
    bp_element *to = d_qkv + head.first + row * head.pitch;
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        to[d] = bp_to_element(sum[d]);
    }
}

/* d_k and d_v of one row; shared: k, v, both sums, twice THREADS weights. */
BP_KERNEL bp_attention_backward_keys_any(bp_element *d_qkv, const bp_element *d_out,
                                         const bp_element *qkv, const float *lse,
                                         const float *delta, BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float shared[];
    if (sequence == 0) {
        return;
    }
    const bp_attention at = BP_ATTENTION_GATHER;
    uint64_t key;
    bp_head head = block_head(&at, &key);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    float *k = shared, *v = k + width, *sum_k = v + width, *sum_v = sum_k + width;
    float *weights = sum_v + width;
    const bp_element *q = qkv + head.first, *d_o = d_out + head.first_out;
    row_to_shared(k, q + head.step_k + key * head.pitch, width);
    row_to_shared(v, q + 2 * head.step_k + key * head.pitch, width);
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        sum_k[d] = 0.0f;
        sum_v[d] = 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t first = key; first < sequence; first += THREADS) {
        uint64_t i = first + threadIdx.x, count = bp_least(THREADS, sequence - first);
        float p = 0.0f, ds = 0.0f;
        if (i < sequence) {
            pair_gradient(dot(k, q + i * head.pitch, width), dot(v, d_o + i * head.step_k, width),
                          lse[head.first_row + i], delta[head.first_row + i], i, key, &at, &head,
                          &mask, &p, &ds);
        }
        weights[threadIdx.x] = p;
        weights[THREADS + threadIdx.x] = ds;
        __syncthreads();
        add_rows(sum_v, 1.0f, weights, d_o + first * head.step_k, head.step_k, count, width);
        add_rows(sum_k, 1.0f, weights + THREADS, q + first * head.pitch, head.pitch, count, width);
        __syncthreads();
    }
    bp_element *to = d_qkv + head.first + key * head.pitch;
    for (uint64_t d = threadIdx.x; d < width; d += THREADS) {
        to[head.step_k + d] = bp_to_element(sum_k[d]);
        to[2 * head.step_k + d] = bp_to_element(sum_v[d]);
    }
}
