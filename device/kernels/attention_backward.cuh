/* SPDX-License-Identifier: MIT */
/* Attention backward in tiles, after attention_tile.cuh for the same tile; NAME(x) names the kernels.
 * Probabilities are recomputed twice, once by rows of queries for d_q and once by rows of keys for d_k
 * and d_v, so that every sum is one chain in order of the rows: no atomics, and the host's order.
 * Shared memory: q, d_out, k, v, then weights. */

/* What one block of backward works with. */
typedef struct NAME(desk) {
    bp_head head;
    bp_mask mask;
    float *q;
    float *d_out;
    float *k;
    float *v;
    float *weights;
} NAME(desk);

BP_DEVICE void NAME(set)(NAME(desk) *desk, float4 *memory, const bp_attention *at, uint64_t head,
                         const bp_step_block *step)
{
    desk->head = bp_head_make(at, head);
    desk->mask = bp_mask_make(step, at->site, at->threshold, at->factor);
    desk->q = (float *)memory;
    desk->d_out = desk->q + ROWS * PITCH;
    desk->k = desk->d_out + ROWS * PITCH;
    desk->v = desk->k + ROWS * PITCH;
    desk->weights = desk->v + ROWS * PITCH;
}

BP_DEVICE void NAME(load_queries)(const NAME(desk) *desk, const bp_element *qkv,
                                  const bp_element *d_out, uint64_t row, const bp_attention *at)
{
    const bp_head *head = &desk->head;
    TILE(load)(desk->q, qkv + head->first, head->pitch, row, at);
    TILE(load)(desk->d_out, d_out + head->first_out, head->step_k, row, at);
}

BP_DEVICE void NAME(load_keys)(const NAME(desk) *desk, const bp_element *qkv, uint64_t row,
                               const bp_attention *at)
{
    const bp_head *head = &desk->head;
    TILE(load)(desk->k, qkv + head->first + head->step_k, head->pitch, row, at);
    TILE(load)(desk->v, qkv + head->first + 2 * head->step_k, head->pitch, row, at);
}

/* A tile of dot products q . k becomes probabilities, in place in shared memory; each thread has the
 * elements that it put there. A dropped one gets a minus sign; pairs that are not there become 0. */
BP_DEVICE void NAME(probabilities)(const NAME(desk) *desk, const uint16_t *kept, const float *lse,
                                   uint64_t row, uint64_t column, const bp_attention *at)
{
    uint32_t across = threadIdx.x % 16;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / 16; i < ROWS; i += 16) {
        float *w = desk->weights + i * SPAN + across;
        bool inside = row + i < at->sequence;
        float row_lse = inside ? lse[desk->head.first_row + row + i] : 0.0f;
#pragma unroll 1
        for (uint32_t c = 0; c < SIDE; c++) {
            bool there = inside && column + across + 16 * c <= row + i;
            float e = bp_expf_inline(w[16 * c] * at->scale - row_lse);
            if (at->threshold != 0) {
                e = TILE(factor)(kept, i, c, at) != 0.0f ? e : -e;
            }
            w[16 * c] = there ? e : 0.0f;
        }
    }
}

/* One tile of p (masked) and of its scores' gradient ds, for queries row .. and keys column ... */
BP_DEVICE void NAME(gradients)(float p[SIDE][SIDE], float ds[SIDE][SIDE], const NAME(desk) *desk,
                               const uint16_t *kept, const float *lse, const float *delta,
                               uint64_t row, uint64_t column, const bp_attention *at)
{
    /* q . k, then d_out . v: two turns of one loop, so that the code is there once */
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        TILE(scores)(ds, turn == 0 ? desk->q : desk->d_out, turn == 0 ? desk->k : desk->v);
        if (turn == 0) {
            TILE(put)(desk->weights, ds, false);
            NAME(probabilities)(desk, kept, lse, row, column, at);
        }
    }
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        uint32_t i = threadIdx.x / 16 + 16 * r;
        float row_delta = row + i < at->sequence ? delta[desk->head.first_row + row + i] : 0.0f;
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            float e = desk->weights[i * SPAN + threadIdx.x % 16 + 16 * c];
            bool dropped = (bp_float_bits(e) & 0x80000000u) != 0;
            float f = dropped ? 0.0f : at->factor;
            e = fabsf(e);
            p[r][c] = e * f;
            ds[r][c] = (e * (ds[r][c] * f - row_delta)) * at->scale;
        }
    }
}

/* Adds up d_q for one tile of queries, over the tiles of keys in order. */
extern "C" __global__ void __launch_bounds__(256)
    NAME(bp_attention_backward_queries)(bp_element *d_qkv, const bp_element *d_out,
                                        const bp_element *qkv, const float *lse,
                                        const float *delta, BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS;
    uint64_t first = (tiles - 1 - blockIdx.x % tiles) * ROWS;
    NAME(desk) desk;
    NAME(set)(&desk, memory, at, blockIdx.x / tiles, step);
    float sum[SIDE][PARTS];
    TILE(clear)(sum);
    NAME(load_queries)(&desk, qkv, d_out, first, at);
#pragma unroll 1
    for (uint64_t key = 0; key <= first; key += ROWS) {
        float p[SIDE][SIDE], ds[SIDE][SIDE];
        __syncthreads();
        NAME(load_keys)(&desk, qkv, key, at);
        if (threshold != 0) {
            TILE(masks)(kept, &desk.mask, at, &desk.head, first, key);
        }
        __syncthreads();
        NAME(gradients)(p, ds, &desk, kept, lse, delta, first, key, at);
        TILE(put)(desk.weights, ds, false); /* over this thread's own elements */
        __syncthreads();
        TILE(combine)(sum, desk.weights, desk.k);
    }
    TILE(store)(d_qkv + desk.head.first, desk.head.pitch, first, sum, at);
}

/* Adds up d_k and d_v for one tile of keys, over the tiles of queries in order. */
extern "C" __global__ void __launch_bounds__(256)
    NAME(bp_attention_backward_keys)(bp_element *d_qkv, const bp_element *d_out,
                                     const bp_element *qkv, const float *lse, const float *delta,
                                     BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS;
    uint64_t first = blockIdx.x % tiles * ROWS;
    NAME(desk) desk;
    NAME(set)(&desk, memory, at, blockIdx.x / tiles, step);
    float sum_k[SIDE][PARTS], sum_v[SIDE][PARTS];
    TILE(clear)(sum_k);
    TILE(clear)(sum_v);
    NAME(load_keys)(&desk, qkv, first, at);
#pragma unroll 1
    for (uint64_t row = first; row < sequence; row += ROWS) {
        float p[SIDE][SIDE], ds[SIDE][SIDE];
        __syncthreads();
        NAME(load_queries)(&desk, qkv, d_out, row, at);
        if (threshold != 0) {
            TILE(masks)(kept, &desk.mask, at, &desk.head, row, first);
        }
        __syncthreads();
        NAME(gradients)(p, ds, &desk, kept, lse, delta, row, first, at);
        __syncthreads();
        TILE(put)(desk.weights, p, true);
        __syncthreads();
        TILE(combine)(sum_v, desk.weights, desk.d_out);
        __syncthreads();
        TILE(put)(desk.weights, ds, true);
        __syncthreads();
        TILE(combine)(sum_k, desk.weights, desk.q);
    }
    bp_element *d_k = d_qkv + desk.head.first + desk.head.step_k;
    TILE(store)(d_k, desk.head.pitch, first, sum_k, at);
    TILE(store)(d_k + desk.head.step_k, desk.head.pitch, first, sum_v, at);
}
