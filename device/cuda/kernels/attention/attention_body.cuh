/* SPDX-License-Identifier: MIT */
/* Attention in tiles, forward and backward, over the products of a tile that attention_tile.cuh or
 * attention_tensor.cuh brought before, with NAME(x) defined. Each block makes 64 columns of its
 * outputs; heads wider than 64 have several blocks per tile. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_BODY_CUH
#define BP_DEVICE_KERNELS_ATTENTION_BODY_CUH

BP_DEVICE void tile_clear(float sum[SIDE][SIDE])
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t n = 0; n < SIDE; n++) {
            sum[r][n] = 0.0f;
        }
    }
}

/* Which elements of a tile of scores are kept, 16 columns to a word. */
BP_DEVICE void tile_masks(uint16_t *kept, const bp_mask *mask, const bp_attention *at,
                          const bp_head *head, uint64_t row, uint64_t column)
{
    uint32_t s = threadIdx.x;
    kept[s] = (uint16_t)bp_head_mask16(mask, at, head, row + s / SIDE, column + s % SIDE * 16);
}

/* The factor of an element of the tile. */
BP_DEVICE float tile_factor(const uint16_t *kept, uint32_t row, uint32_t column,
                            const bp_attention *at)
{
    uint32_t word = kept[row * SIDE + column / 16];
    return (word >> column % 16 & 1) != 0 ? at->factor : 0.0f;
}

/* What a block keeps of its rows while it goes through the keys. */
typedef struct running {
    float most[ROWS];
    float total[ROWS];
    float shrink[ROWS]; /* what the newest tile of keys does to the sums before it */
} running;

/* The maximum, or the sum, of a row over its sixteen threads, in all of them. */
BP_DEVICE float row_max(float a)
{
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
        float b = __shfl_xor_sync(BP_ALL_LANES, a, distance);
        a = b > a ? b : a;
    }
    return a;
}

BP_DEVICE float row_sum(float a)
{
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) {
        a += __shfl_xor_sync(BP_ALL_LANES, a, distance);
    }
    return a;
}

/* A thread's dot products of a row become capped scores. */
BP_DEVICE void cap_scores(float *w, const bp_attention *at)
{
#pragma unroll 1
    for (uint32_t c = 0; c < SIDE; c++) {
        float slope;
        w[16 * c] = bp_head_score(at, w[16 * c], &slope);
    }
}

/* A tile of dot products becomes weights, in place in shared memory, and the running state moves on
 * (Dao et al., arXiv 2205.14135). Each thread has the elements that it put there; columns that the
 * row does not look at are out. */
BP_DEVICE void advance(running *state, float *weights, const uint16_t *kept, uint64_t row,
                       uint64_t column, const bp_attention *at, const bp_head *head)
{
    uint32_t across = threadIdx.x % 16;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / 16; i < ROWS; i += 16) {
        float *w = weights + i * PITCH + across;
        uint32_t left = bp_head_left(at, head, row + i, column);
        uint32_t skipped = bp_head_skipped(at, head, row + i, column);
        float scale = weight_scale(at), before = state->most[i], largest = -INFINITY, part = 0.0f;
        bool raw = weight_raw(scale);
        if (at->cap > 0.0f) {
            cap_scores(w, at);
        }
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            bool there = across + 16 * c < left && across + 16 * c >= skipped;
            float score = there ? w[16 * c] * (raw ? 1.0f : scale) : -INFINITY;
            w[16 * c] = score;
            largest = score > largest ? score : largest;
        }
        scale = raw ? scale : 1.0f;
        largest = row_max(largest) * scale;
        largest = largest > before ? largest : before;
        float top = largest > -INFINITY ? largest : 0.0f; /* none of this window yet */
#pragma unroll 1
        for (uint32_t c = 0; c < SIDE; c++) {
            float p = weight_of(w[16 * c], scale, top);
            part += p;
            w[16 * c] = at->threshold != 0 ? p * tile_factor(kept, i, across + 16 * c, at) : p;
        }
        part = row_sum(part);
        float shrink = weight_shrink(before, top);
        __syncwarp(); /* all have read `most` */
        if (across == 0) {
            state->most[i] = largest;
            state->total[i] = fmaf(state->total[i], shrink, part);
            state->shrink[i] = shrink;
        }
    }
}

/* Ends a tile's rows: log-sum-exp to memory, 1 / total to `shrink`; 0 without keys. */
BP_DEVICE void settle(running *state, float *lse, uint64_t first, const bp_attention *at,
                      const bp_head *head)
{
    uint32_t i = threadIdx.x;
    if (i < ROWS) {
        float total = state->total[i];
        if (lse != NULL && blockIdx.y == 0 && first + i < at->sequence) {
            lse[bp_head_lse(at, head, first + i)] =
                total > 0.0f ? weight_lse(state->most[i], total) : 0.0f;
        }
        state->shrink[i] = total > 0.0f ? 1.0f / total : 0.0f;
    }
    __syncthreads();
}

/* Shared memory: q, then keys and values in turn, then weights. */
extern "C" __global__ void __launch_bounds__(256, 3)
    NAME(bp_attention_forward)(void *out, float *lse, const void *qkv, BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    __shared__ running state;
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    float *q = (float *)memory, *y = q + TILE, *weights = y + TILE;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS;
    uint64_t first = (tiles - 1 - blockIdx.x % tiles) * ROWS; /* most keys first */
    uint64_t mine = (uint64_t)blockIdx.y * ROWS;
    bp_head head = bp_head_make(at, blockIdx.x / tiles);
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    const void *from_q = bp_at(qkv, head.first, form), *from_k = bp_at(qkv, head.k, form);
    const void *from_v = bp_at(qkv, head.v, form);
    uint64_t keys = bp_head_keys(at, &head, first + ROWS - 1);
    uint64_t begin = bp_head_tile(at, &head, first) / ROWS * ROWS;
    float sum[SIDE][SIDE];
    tile_clear(sum);
    if (threadIdx.x < ROWS) {
        state.most[threadIdx.x] = -INFINITY;
        state.total[threadIdx.x] = 0.0f;
    }
#pragma unroll 1
    for (uint64_t key = begin; key < keys; key += ROWS) {
        float score[SIDE][SIDE];
        tile_clear(score);
#pragma unroll 1
        for (uint64_t column = 0; column < width; column += ROWS) {
            __syncthreads();
            if (key == begin || width > ROWS) {
                tile_load(q, from_q, head.pitch, first, column, at);
            }
            tile_load(y, from_k, head.pitch, key, column, at);
            __syncthreads();
            tile_scores(score, q, y, at);
        }
        if (threshold != 0) {
            tile_masks(kept, &mask, at, &head, first, key);
        }
        tile_put(weights, score, false);
        __syncthreads();
        advance(&state, weights, kept, first, key, at, &head);
        tile_load(y, from_v, head.pitch, key, mine, at);
        __syncthreads();
        tile_scale(sum, state.shrink);
        tile_combine(sum, weights, y, at);
    }
    __syncthreads();
    settle(&state, lse, first, at, &head);
    tile_scale(sum, state.shrink);
    tile_store(bp_to(out, head.first_out, form), head.out_pitch, first, mine, sum, at);
}

#include "device/cuda/kernels/attention/attention_backward.cuh"

#endif
