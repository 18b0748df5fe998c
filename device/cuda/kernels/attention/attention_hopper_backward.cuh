/* SPDX-License-Identifier: MIT */
/* Attention backward on Hopper; the second half of attention_hopper.cu. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_HOPPER_BACKWARD_CUH
#define BP_DEVICE_KERNELS_ATTENTION_HOPPER_BACKWARD_CUH

/* What backward knows of the queries of a tile, by known_lse() and known_delta(): of the thread's
 * own rows where they are lines, of all where they are columns. */
typedef struct known {
    float lse[2];
    float delta[2];
    const float *all; /* 64 log-sum-exps, then 64 deltas */
} known;

/* A thread's line `turn`, 0 or 1, of dot products q . k becomes probabilities. A dropped one gets a
 * minus sign. `turned`: lines are keys, columns queries. */
BP_DEVICE void probabilities(float score[SCORES], const desk *d, const known *rows, uint32_t turn,
                             bool turned)
{
    const float scale = weight_scale(d->at);
    const uint32_t line = own_line() + 8 * turn;
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        float *w = &score[OF_ROW(i, turn)];
        const uint32_t column = i / 2 * 8 + own_column() + i % 2;
        const float lse = turned ? rows->all[column] : rows->lse[turn];
        *w = bp_power(fmaf(*w, scale, -lse));
    }
    if ((d->flags & IS_DROPS) != 0) {
        const uint64_t kept = !turned ? kept_of(d, line) >> own_column() : 0;
#pragma unroll
        for (uint32_t i = 0; i < SCORES / 2; i++) {
            float *w = &score[OF_ROW(i, turn)];
            uint32_t query = i / 2 * 8 + own_column() + i % 2;
            uint64_t bits = turned
                                ? (uint64_t)d->kept[query * 4 + threadIdx.x / BP_WARP] >> line % 16
                                : kept >> (i / 2 * 8 + i % 2);
            *w = (bits & 1) != 0 ? *w : -*w;
        }
    }
}

/* Pairs that are not there become 0. */
BP_DEVICE void pairs_clear(float score[SCORES], uint32_t turn, uint64_t there)
{
#pragma unroll
    for (uint32_t i = 0; i < SCORES / 2; i++) {
        float *w = &score[OF_ROW(i, turn)];
        *w = (there >> (i / 2 * 8 + i % 2) & 1) != 0 ? *w : 0.0f;
    }
}

BP_DEVICE void probabilities_tile(float score[SCORES], desk *d, const known *rows, uint32_t query,
                                  uint32_t key, bool turned)
{
    const bool whole = tile_whole(d, query, key, turned);
    if ((d->flags & IS_CAPPED) != 0) {
        tile_cap(score, d->at);
    }
#pragma unroll
    for (uint32_t turn = 0; turn < 2; turn++) {
        flags_forget(&d->flags);
        probabilities(score, d, rows, turn, turned);
        if (!whole) {
            const uint32_t line = own_line() + 8 * turn;
            const int32_t edge = d->edges[line];
            pairs_clear(score, turn,
                        turned ? sight_columns(&d->see, key + line, query, edge, true)
                               : sight_columns(&d->see, query + line, key, edge, false));
        }
    }
}

/* The factor of a probability, 0 if its sign says that it is dropped. */
BP_DEVICE float kept_factor(float e, const desk *d)
{
    return (bp_float_bits(e) & 0x80000000u) != 0 ? 0.0f : d->at->factor;
}

/* Under a cap the scores' gradients are multiplied by 1 - (score / cap)^2, the score found again
 * from its probability, as attention_backward.cuh does; one element at a time. */
BP_DEVICE void slopes_apply(float ds[SCORES], const float e[SCORES], const desk *d,
                            const known *rows, bool turned)
{
    float left[SCORES];
#pragma unroll
    for (uint32_t i = 0; i < SCORES; i++) {
        left[i] = e[i];
    }
#pragma unroll 1
    for (uint32_t n = 0; n < SCORES; n++) {
        float lse = n / 2 % 2 == 0 ? rows->lse[0] : rows->lse[1];
        lse = turned ? rows->all[n / 4 * 8 + own_column() + n % 2] : lse;
        float w = fabsf(left[0]), score = w > 0.0f ? probability_score(w, lse) : 0.0f;
        float first = ds[0] * (1.0f - score / d->at->cap * (score / d->at->cap));
#pragma unroll
        for (uint32_t i = 0; i < SCORES; i++) {
            ds[i] = i + 1 < SCORES ? ds[i + 1] : first;
            left[i] = i + 1 < SCORES ? left[i + 1] : 0.0f;
        }
    }
}

/* ds, so far d_out . v, becomes the scores' gradients. */
BP_DEVICE void gradients(float ds[SCORES], const float e[SCORES], const desk *d, const known *rows,
                         bool turned)
{
    if ((d->flags & IS_DROPS) != 0) {
#pragma unroll
        for (uint32_t i = 0; i < SCORES; i++) {
            ds[i] *= kept_factor(e[i], d);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < SCORES; i++) {
        uint32_t column = i / 4 * 8 + own_column() + i % 2;
        float delta = turned ? rows->all[ROWS + column] : rows->delta[i / 2 % 2];
        ds[i] = gradient_of(fabsf(e[i]), ds[i], delta, d->at);
    }
    if ((d->flags & IS_CAPPED) != 0) {
        slopes_apply(ds, e, d, rows, turned);
    }
}

/* A head's rows of lse and of delta, which begin at row `first` of all: as bp_head_sums() and
 * bp_head_delta() have them. */
BP_DEVICE const float *known_rows(const desk *d, const float *of, const float *delta,
                                  uint64_t first)
{
    if ((d->flags & IS_PACKED) == 0) {
        return of + first;
    }
    return delta + 2 * first + (of == delta ? 0 : d->at->sequence);
}

/* Adds up d_q for one tile of queries, over the tiles of keys in order. */
BP_DEVICE void backward_queries(void *d_qkv, const float *lse, const float *delta,
                                const bp_attention *at, const bp_step_block *step,
                                const bp_map *map, const bp_map *map_d_out)
{
    bool wide = at->width > 64;
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ uint64_t full[STAGES];
    __shared__ __align__(8) uint16_t kept[ROWS * 4];
    __shared__ int32_t edges[ROWS];
    uint32_t tiles = (uint32_t)((at->sequence + ROWS - 1) / ROWS);
    desk d;
    desk_set(&d, at, step, blockIdx.x / tiles, kept);
    d.first = (tiles - 1 - blockIdx.x % tiles) * ROWS;
    edges_set(edges, &d, false);
    const ring r = ring_make(memory, full, 2, wide);
    uint32_t begin = keys_first(&d), count = keys_tiles(&d, begin);
    known rows;
    float sum[64];
    tile_clear(sum);
    rows.all = NULL;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t row = d.first + own_line() + 8 * i;
        bool inside = row < d.see.queries;
        const float *of_row = known_rows(&d, lse, delta, d.head.first_row);
        rows.lse[i] = inside ? known_lse(of_row[row]) : 0.0f;
        of_row = known_rows(&d, delta, delta, d.head.first_row);
        rows.delta[i] = inside ? known_delta(of_row[row], at) : 0.0f;
    }
    if (threadIdx.x == 0 && count > 0) {
        uint32_t sample = (uint32_t)d.head.sample, q = d.q;
        keys_begin(&r, &d, map, begin, count, 2 * TILE_BYTES(wide), wide);
        tile_bring(r.tiles, map, q, d.first, sample, r.full, wide);
        tile_bring(r.tiles + TILE_BYTES(wide), map_d_out, q, d.first, sample, r.full, wide);
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t turn = 0; turn < count; turn++) {
        flags_forget(&d.flags);
        wide = (d.flags & IS_WIDE) != 0;
        float e[SCORES], ds[SCORES];
        uint32_t key = begin + turn * ROWS, k = ring_stage(&r, turn, wide);
        if ((d.flags & IS_DROPS) != 0) {
            tile_masks(kept, &d.mask, at, &d.head, d.first, key);
            __syncthreads();
        }
        ring_wait(&r, turn);
        tile_scores(e, r.tiles, k, (d.flags & IS_HALF) != 0, wide);
        probabilities_tile(e, &d, &rows, d.first, key, false);
        tile_scores(ds, r.tiles + TILE_BYTES(wide), k + TILE_BYTES(wide), (d.flags & IS_HALF) != 0,
                    wide);
        gradients(ds, e, &d, &rows, false);
        tile_combine(sum, ds, k, (d.flags & IS_HALF) != 0, wide);
        __syncthreads(); /* all are done with the stage */
        if (threadIdx.x == 0 && turn + STAGES < count) {
            keys_bring(&r, turn + STAGES, &d, map, key + STAGES * ROWS, 0, wide);
        }
        __syncwarp();
    }
    tile_store(bp_to(d_qkv, d.head.first, at->form), d.head.pitch, d.first, sum, at, wide);
}

/* The tiles of queries that look at a tile of keys: `each` from `begin` on, of all query heads of
 * its key-value head in order. */
typedef struct visits {
    uint32_t begin;
    uint32_t each;
    uint32_t count;
} visits;

BP_DEVICE visits visits_make(const desk *d)
{
    visits v;
    uint32_t last = d->first + ROWS - 1, end = (uint32_t)bp_head_reach(d->at, last);
    if ((d->flags & IS_PACKED) != 0) {
        uint32_t edge = (uint32_t)d->edges[ROWS - 1];
        end = min(end, edge > 0 ? edge : last);
    }
    v.begin = d->at->causal != 0 ? d->first : keys_first(d);
    v.each = d->first < d->see.keys && end > v.begin ? (end - v.begin + ROWS - 1) / ROWS : 0;
    v.count = v.each * (uint32_t)(d->at->heads / d->at->kv_heads);
    return v;
}

/* A turn's head of the group, and its first query. */
BP_DEVICE void visit_at(const visits *v, uint32_t turn, uint32_t *head, uint32_t *query)
{
    *head = turn / v->each;
    *query = v->begin + turn % v->each * ROWS;
}

/* One thread brings the queries of a turn and their d_out. */
BP_DEVICE void queries_bring(const ring *r, uint32_t turn, const desk *d, const visits *v,
                             const bp_map *map, const bp_map *map_d_out, uint32_t more, bool wide)
{
    uint32_t to = ring_stage(r, turn, wide), full = ring_full(r, turn);
    uint32_t sample = (uint32_t)d->head.sample, head, query;
    visit_at(v, turn, &head, &query);
    uint32_t q = d->q + head * (uint32_t)d->at->width;
    bp_barrier_expect(full, 2 * TILE_BYTES(wide) + more);
    tile_bring(to, map, q, query, sample, full, wide);
    tile_bring(to + TILE_BYTES(wide), map_d_out, q, query, sample, full, wide);
}

/* The thread's own of a turn's log-sum-exps and deltas. */
BP_DEVICE float known_of(const float *lse, const float *delta, const desk *d, const visits *v,
                         uint32_t turn)
{
    uint32_t head, query;
    visit_at(v, turn, &head, &query);
    uint32_t row = query + threadIdx.x % ROWS;
    uint64_t first = d->head.first_row + head * d->at->sequence;
    const float *from = known_rows(d, threadIdx.x < ROWS ? lse : delta, delta, first);
    const float value = row < d->see.queries ? from[row] : 0.0f;
    return threadIdx.x < ROWS ? known_lse(value) : known_delta(value, d->at);
}

BP_DEVICE void add_zero(float sum[64])
{
#pragma unroll
    for (uint32_t i = 0; i < 64; i++) {
        sum[i] += 0.0f; /* no -0 goes on */
    }
}

/* One tile of queries: its part of d_v and of d_k. k, v: the block's own tiles; q: of the stage. */
BP_DEVICE void keys_add(float sum_k[64], float sum_v[64], desk *d, known *rows, uint32_t query,
                        uint32_t k, uint32_t q, bool wide)
{
    float e[SCORES], ds[SCORES];
    uint32_t d_out = q + TILE_BYTES(wide);
    tile_scores(e, k, q, (d->flags & IS_HALF) != 0, wide);
    probabilities_tile(e, d, rows, query, d->first, true);
#pragma unroll
    for (uint32_t i = 0; i < SCORES; i++) {
        ds[i] = e[i];
    }
    if ((d->flags & IS_DROPS) != 0) {
#pragma unroll
        for (uint32_t i = 0; i < SCORES; i++) {
            ds[i] = fabsf(e[i]) * kept_factor(e[i], d);
        }
    }
    tile_combine(sum_v, ds, d_out, (d->flags & IS_HALF) != 0, wide);
    tile_scores(ds, k + TILE_BYTES(wide), d_out, (d->flags & IS_HALF) != 0, wide);
    gradients(ds, e, d, rows, true);
    tile_combine(sum_k, ds, q, (d->flags & IS_HALF) != 0, wide);
}

/* Adds up d_k and d_v for one tile of keys, over the tiles of queries of each of its query heads,
 * in order. */
BP_DEVICE void backward_keys(void *d_qkv, const float *lse, const float *delta,
                             const bp_attention *at, const bp_step_block *step, const bp_map *map,
                             const bp_map *map_d_out)
{
    bool wide = at->width > 64;
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ uint64_t full[STAGES];
    __shared__ __align__(8) uint16_t kept[ROWS * 4];
    __shared__ int32_t edges[ROWS];
    __shared__ __align__(8) float all[2 * ROWS];
    uint32_t tiles = (uint32_t)((at->sequence + ROWS - 1) / ROWS);
    uint32_t group = (uint32_t)(at->heads / at->kv_heads);
    desk d;
    desk_set(&d, at, step, (uint64_t)(blockIdx.x / tiles) * group, kept);
    d.first = blockIdx.x % tiles * ROWS;
    edges_set(edges, &d, true);
    const ring r = ring_make(memory, full, 2, wide);
    const visits v = visits_make(&d);
    known rows = {{0.0f, 0.0f}, {0.0f, 0.0f}, all};
    float sum_k[64], sum_v[64];
    tile_clear(sum_k);
    tile_clear(sum_v);
    if (threadIdx.x == 0 && v.count > 0) {
        uint32_t sample = (uint32_t)d.head.sample;
#pragma unroll 1
        for (uint32_t turn = 0; turn < STAGES && turn < v.count; turn++) {
            uint32_t own = turn == 0 ? 2 * TILE_BYTES(wide) : 0;
            queries_bring(&r, turn, &d, &v, map, map_d_out, own, wide);
        }
        tile_bring(r.tiles, map, d.k, d.first, sample, r.full, wide);
        tile_bring(r.tiles + TILE_BYTES(wide), map, d.v, d.first, sample, r.full, wide);
    }
    float mine = v.count > 0 ? known_of(lse, delta, &d, &v, 0) : 0.0f;
#pragma unroll 1
    for (uint32_t turn = 0; turn < v.count; turn++) {
        flags_forget(&d.flags);
        wide = (d.flags & IS_WIDE) != 0;
        uint32_t number, query;
        visit_at(&v, turn, &number, &query);
        all[threadIdx.x] = mine;
        if ((d.flags & IS_DROPS) != 0) {
            bp_head head = d.head;
            head.number += number;
            tile_masks(kept, &d.mask, at, &head, query, d.first);
        }
        __syncthreads();
        if (query == v.begin) { /* the next head */
            add_zero(sum_k);
            add_zero(sum_v);
        }
        mine = turn + 1 < v.count ? known_of(lse, delta, &d, &v, turn + 1) : 0.0f;
        ring_wait(&r, turn);
        keys_add(sum_k, sum_v, &d, &rows, query, r.tiles, ring_stage(&r, turn, wide), wide);
        __syncthreads(); /* all are done with the stage */
        if (threadIdx.x == 0 && turn + STAGES < v.count) {
            queries_bring(&r, turn + STAGES, &d, &v, map, map_d_out, 0, wide);
        }
        __syncwarp();
    }
    tile_store(bp_to(d_qkv, d.head.k, at->form), d.head.pitch, d.first, sum_k, at, wide);
    tile_store(bp_to(d_qkv, d.head.v, at->form), d.head.pitch, d.first, sum_v, at, wide);
}

#define BACKWARD(name, body)                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                       \
        name(void *d_qkv, const void *d_out, const void *qkv, const float *lse,                    \
             const float *delta, BP_ATTENTION_PARAMETERS, const __grid_constant__ bp_map map,      \
             const __grid_constant__ bp_map map_d_out)                                             \
    {                                                                                              \
        if (sequence == 0) {                                                                       \
            return;                                                                                \
        }                                                                                          \
        const bp_attention at = BP_ATTENTION_GATHER;                                               \
        body(d_qkv, lse, delta, &at, step, &map, &map_d_out);                                      \
    }

BACKWARD(bp_attention_backward_queries_hopper, backward_queries)
BACKWARD(bp_attention_backward_keys_hopper, backward_keys)

#endif
