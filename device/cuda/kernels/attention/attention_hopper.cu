/* SPDX-License-Identifier: MIT */
/* Attention of bfloat16 and half elements on Hopper's own tensor instructions, for heads of 64 and
 * of 128 elements: the sums, and what follows them, in the order and with the bits of
 * attention_16.cu. A block is one warpgroup with one tile of 64 queries, or of keys, and all of its
 * head's width; the tiles that it goes through are brought two ahead. Weights never leave the
 * registers: backward by keys works on the transposed scores. */
#include "device/cuda/kernels/attention/attention_hopper.cuh"

/* What a block works on. */
typedef struct desk {
    const bp_attention *at;
    bp_head head;
    bp_mask mask;
    sight see;
    uint16_t *kept;
    const int32_t *edges; /* of the rows of its own tile: see edges_set() */
    uint32_t first;       /* of the rows of its own tile */
    uint32_t flags;
    uint32_t q; /* columns of the head's queries, keys and values in a row of qkv */
    uint32_t k;
    uint32_t v;
} desk;

BP_DEVICE void desk_set(desk *d, const bp_attention *at, const bp_step_block *step, uint64_t head,
                        uint16_t *kept)
{
    d->at = at;
    d->head = bp_head_make(at, head);
    d->mask = bp_mask_make(step, at->site, at->threshold, at->factor);
    d->see = sight_make(at, &d->head);
    d->kept = kept;
    d->flags = (at->form & BP_TYPE_BITS) == BP_HALF ? IS_HALF : 0;
    d->flags |= at->threshold != 0 ? IS_DROPS : 0;
    d->flags |= at->width > 64 ? IS_WIDE : 0;
    d->flags |= at->cap > 0.0f ? IS_CAPPED : 0;
    d->flags |= bp_attention_packed(at) ? IS_PACKED : 0;
    uint32_t width = (uint32_t)at->width, group = (uint32_t)(at->heads / at->kv_heads);
    d->q = (uint32_t)d->head.number * width;
    d->k = ((uint32_t)at->heads + (uint32_t)d->head.number / group) * width;
    d->v = d->k + (uint32_t)at->kv_heads * width;
}

/* The edges of packed documents, by the block's first threads: for each query of a tile the first
 * key that it looks at, for each key the end of its document; of what is in none the end of all,
 * and 0. What is not packed has edges that nothing is beyond. */
BP_DEVICE void edges_set(int32_t edges[ROWS], desk *d, bool of_keys)
{
    uint64_t row = d->first + threadIdx.x, edge = of_keys ? 1u << 30 : 0;
    d->edges = edges;
    if (threadIdx.x >= ROWS) {
        return;
    }
    if ((d->flags & IS_PACKED) != 0 && of_keys) {
        uint64_t start = bp_head_start(d->at, &d->head, row);
        edge = start < d->at->sequence ? bp_head_end(d->at, &d->head, row, start) : 0;
    } else if ((d->flags & IS_PACKED) != 0) {
        edge = bp_head_first(d->at, &d->head, row);
    }
    edges[threadIdx.x] = (int32_t)edge;
}

/* Whether all pairs of a tile are there: documents lie one behind the other, so that the last query
 * looks furthest ahead, and the first key's document ends first. */
BP_DEVICE bool tile_whole(const desk *d, uint32_t query, uint32_t key, bool turned)
{
    bool within =
        turned ? d->edges[0] >= (int32_t)(query + ROWS) : d->edges[ROWS - 1] <= (int32_t)key;
    return within && sight_whole(&d->see, query, key);
}

/* One thread brings the keys and values of a tile to a turn's stage; `more` bytes come besides. */
BP_DEVICE void keys_bring(const ring *r, uint32_t turn, const desk *d, const bp_map *map,
                          uint32_t key, uint32_t more, bool wide)
{
    uint32_t to = ring_stage(r, turn, wide), full = ring_full(r, turn);
    uint32_t sample = (uint32_t)d->head.sample;
    bp_barrier_expect(full, 2 * TILE_BYTES(wide) + more);
    tile_bring(to, map, d->k, key, sample, full, wide);
    tile_bring(to + TILE_BYTES(wide), map, d->v, key, sample, full, wide);
}

/* The same of the first turns; `kept` bytes of the block's own tiles come with the first. */
BP_DEVICE void keys_begin(const ring *r, const desk *d, const bp_map *map, uint32_t begin,
                          uint32_t count, uint32_t kept, bool wide)
{
#pragma unroll 1
    for (uint32_t turn = 0; turn < STAGES && turn < count; turn++) {
        keys_bring(r, turn, d, map, begin + turn * ROWS, turn == 0 ? kept : 0, wide);
    }
}

/* The bits of the kept ones among the 64 keys of a query. */
BP_DEVICE uint64_t kept_of(const desk *d, uint32_t query)
{
    return *(const uint64_t *)(d->kept + query * 4);
}

/* The state of a row. */
typedef struct running {
    float most;
    float total;
    float shrink; /* what the newest tile of keys does to the sums before it */
} running;

/* Where the element i of the thread's row `turn`, 0 or 1, is among its scores. */
#define OF_ROW(i, turn) ((i) / 2 * 4 + (i) % 2 + 2 * (turn))

/* The sum of a row over its four threads, in all of them, in attention_body.cuh's order: over
 * keys 16 apart, then 8, 4, 2 and 1. */
BP_DEVICE float row_sum(const float score[SCORES], uint32_t turn)
{
    float part[2][2];
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        float p = score[OF_ROW(i, turn)];
        float *to = &part[i / 2 % 2][i % 2];
        *to = i < 4 ? p : *to + p;
    }
#pragma unroll
    for (uint32_t e = 0; e < 2; e++) {
        part[0][e] += part[1][e];
        part[0][e] += __shfl_xor_sync(BP_ALL_LANES, part[0][e], 2);
        part[0][e] += __shfl_xor_sync(BP_ALL_LANES, part[0][e], 1);
    }
    return part[0][0] + part[0][1];
}

BP_DEVICE float row_max(float a)
{
#pragma unroll
    for (int distance = 2; distance > 0; distance /= 2) {
        a = fmaxf(__shfl_xor_sync(BP_ALL_LANES, a, distance), a);
    }
    return a;
}

/* The largest of a thread's scores of a row; not a number counts as none. */
BP_DEVICE float scores_max(const float score[SCORES], uint32_t turn)
{
    float part[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        part[i % 4] = fmaxf(part[i % 4], score[OF_ROW(i, turn)]);
    }
    return fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
}

BP_DEVICE void scores_scale(float score[SCORES], uint32_t turn, float scale)
{
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        score[OF_ROW(i, turn)] *= scale;
    }
}

/* A row of the thread's, 0 or 1, of a tile of dot products becomes weights, and its state moves on.
 */
BP_DEVICE void advance(float score[SCORES], running *state, const desk *d, uint32_t turn,
                       uint32_t key, bool whole)
{
    const uint32_t row = own_line() + 8 * turn;
    float scale = weight_scale(d->at);
    if (!weight_raw(scale)) {
        scores_scale(score, turn, scale);
        scale = 1.0f;
    }
    if (!whole) {
        uint64_t there = sight_columns(&d->see, d->first + row, key, d->edges[row], false);
#pragma unroll
        for (uint32_t i = 0; i < SCORES / 2; i++) {
            float *w = &score[OF_ROW(i, turn)];
            *w = (there >> (i / 2 * 8 + i % 2) & 1) != 0 ? *w : -INFINITY;
        }
    }
    const float largest = row_max(fmaxf(scores_max(score, turn) * scale, state->most));
    float top = largest > -INFINITY ? largest : 0.0f; /* none of this window yet */
    if (fabsf(top) >= BP_POWER_EXACT) {
        scores_scale(score, turn, scale);
        scale = 1.0f;
    }
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        float *w = &score[OF_ROW(i, turn)];
        *w = bp_power(fmaf(*w, scale, -top));
    }
    state->shrink = weight_shrink(state->most, top);
    state->most = largest;
    state->total = fmaf(state->total, state->shrink, row_sum(score, turn));
    if ((d->flags & IS_DROPS) != 0) {
        uint64_t kept = kept_of(d, row) >> own_column();
#pragma unroll
        for (uint32_t i = 0; i < SCORES / 2; i++) {
            float *w = &score[OF_ROW(i, turn)];
            *w *= (kept >> (i / 2 * 8 + i % 2) & 1) != 0 ? d->at->factor : 0.0f;
        }
    }
}

BP_DEVICE void advance_tile(float score[SCORES], running state[2], const desk *d, uint32_t key)
{
    bool whole = tile_whole(d, d->first, key, false);
    if ((d->flags & IS_CAPPED) != 0) {
        tile_cap(score, d->at);
    }
#pragma unroll
    for (uint32_t turn = 0; turn < 2; turn++) {
        advance(score, &state[turn], d, turn, key, whole);
    }
}

/* The log-sum-exp of the thread's rows to memory, and what their sums are multiplied by. */
BP_DEVICE void settle(const running state[2], float factor[2], float *lse, const desk *d)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t row = d->first + own_line() + 8 * i;
        float total = state[i].total;
        if (lse != NULL && threadIdx.x % 4 == 0 && row < d->see.queries) {
            lse[bp_head_lse(d->at, &d->head, row)] =
                total > 0.0f ? weight_lse(state[i].most, total) : 0.0f;
        }
        factor[i] = total > 0.0f ? 1.0f / total : 0.0f;
    }
}

/* The tiles of keys that a tile of queries looks at: from the first, how many. */
BP_DEVICE uint32_t keys_first(const desk *d)
{
    int32_t first;
    if ((d->flags & IS_PACKED) != 0) {
        first = min(d->edges[threadIdx.x % BP_WARP], d->edges[threadIdx.x % BP_WARP + BP_WARP]);
#pragma unroll
        for (uint32_t distance = BP_WARP / 2; distance > 0; distance /= 2) {
            first = min(first, __shfl_xor_sync(BP_ALL_LANES, first, distance));
        }
    } else {
        first = (int32_t)bp_head_first(d->at, NULL, d->first);
    }
    return (uint32_t)first / ROWS * ROWS;
}

BP_DEVICE uint32_t keys_tiles(const desk *d, uint32_t begin)
{
    uint32_t end = (uint32_t)bp_head_keys(d->at, &d->head, d->first + ROWS - 1);
    return end > begin ? (end - begin + ROWS - 1) / ROWS : 0;
}

BP_DEVICE void forward(void *out, float *lse, const bp_attention *at, const bp_step_block *step,
                       const bp_map *map)
{
    bool wide = at->width > 64;
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ uint64_t full[STAGES];
    __shared__ __align__(8) uint16_t kept[ROWS * 4];
    __shared__ int32_t edges[ROWS];
    uint32_t tiles = (uint32_t)((at->sequence + ROWS - 1) / ROWS);
    desk d;
    desk_set(&d, at, step, blockIdx.x / tiles, kept);
    d.first = (tiles - 1 - blockIdx.x % tiles) * ROWS; /* most keys first */
    edges_set(edges, &d, false);
    const ring r = ring_make(memory, full, 1, wide);
    uint32_t begin = keys_first(&d), count = keys_tiles(&d, begin);
    running state[2] = {{-INFINITY, 0.0f, 0.0f}, {-INFINITY, 0.0f, 0.0f}};
    float sum[64], factor[2];
    tile_clear(sum);
    if (threadIdx.x == 0 && count > 0) {
        keys_begin(&r, &d, map, begin, count, TILE_BYTES(wide), wide);
        tile_bring(r.tiles, map, d.q, d.first, (uint32_t)d.head.sample, r.full, wide);
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t turn = 0; turn < count; turn++) {
        flags_forget(&d.flags);
        wide = (d.flags & IS_WIDE) != 0;
        float score[SCORES];
        uint32_t key = begin + turn * ROWS, k = ring_stage(&r, turn, wide);
        if ((d.flags & IS_DROPS) != 0) {
            tile_masks(kept, &d.mask, at, &d.head, d.first, key);
            __syncthreads();
        }
        ring_wait(&r, turn);
        tile_scores(score, r.tiles, k, (d.flags & IS_HALF) != 0, wide);
        advance_tile(score, state, &d, key);
        factor[0] = state[0].shrink;
        factor[1] = state[1].shrink;
        if (__any_sync(BP_ALL_LANES, factor[0] != 1.0f || factor[1] != 1.0f)) {
            tile_scale(sum, factor, wide); /* a row's largest score moved */
        }
        tile_combine(sum, score, k + TILE_BYTES(wide), (d.flags & IS_HALF) != 0, wide);
        __syncthreads(); /* all are done with the stage */
        if (threadIdx.x == 0 && turn + STAGES < count) {
            keys_bring(&r, turn + STAGES, &d, map, key + STAGES * ROWS, 0, wide);
        }
        __syncwarp();
    }
    settle(state, factor, lse, &d);
    tile_scale(sum, factor, wide);
    tile_store(bp_to(out, d.head.first_out, at->form), d.head.out_pitch, d.first, sum, at, wide);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    bp_attention_forward_hopper(void *out, float *lse, const void *qkv, BP_ATTENTION_PARAMETERS,
                                const __grid_constant__ bp_map map)
{
    if (sequence == 0) {
        return;
    }
    const bp_attention at = BP_ATTENTION_GATHER;
    forward(out, lse, &at, step, &map);
}

#include "device/cuda/kernels/attention/attention_hopper_backward.cuh"
