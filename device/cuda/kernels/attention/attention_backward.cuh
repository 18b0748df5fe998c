/* SPDX-License-Identifier: MIT */
/* Attention backward in tiles; the second half of attention_body.cuh. Probabilities are recomputed
 * twice, once by rows of queries for d_q and once by rows of keys for d_k and d_v, so that every
 * sum is one chain in order of the rows: no atomics, and the host's order. Shared memory: q, k,
 * d_out, v, then weights. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_BACKWARD_CUH
#define BP_DEVICE_KERNELS_ATTENTION_BACKWARD_CUH

/* What one block of backward works with. */
typedef struct desk {
    bp_head head;
    bp_mask mask;
    const void *from_q;
    const void *from_k;
    const void *from_v;
    const void *from_d_out;
    const float *lse; /* of this head */
    const float *delta;
    float *shared;
    uint16_t *kept;
} desk;

#define SHARED_Q     0
#define SHARED_K     TILE
#define SHARED_D_OUT (2 * TILE)
#define SHARED_V     (3 * TILE)
#define SHARED_P     (4 * TILE)

/* A tile of dot products q . k becomes probabilities, in place in shared memory; each thread has
 * the elements that it put there. A dropped one gets a minus sign; pairs that are not there become
 * 0. */
BP_DEVICE void probabilities(const desk *d, uint64_t row, uint64_t column, const bp_attention *at)
{
#pragma unroll 1
    for (uint32_t r = 0; r < OWN_ROWS; r++) {
        uint32_t i = own_row(r);
        float *w = d->shared + SHARED_P + i * PITCH;
        bool inside = row + i < at->sequence;
        float row_lse = inside ? known_lse(d->lse[row + i]) : 0.0f;
        uint32_t left = inside ? bp_head_left(at, &d->head, row + i, column) : 0;
        uint32_t skipped = bp_head_skipped(at, &d->head, row + i, column);
#pragma unroll 1
        for (uint32_t c = 0; c < OWN_COLUMNS; c++) {
            uint32_t j = own_column(c);
            float e = probability_of(w[j], row_lse, at);
            if (at->threshold != 0) {
                e = tile_factor(d->kept, i, j, at) != 0.0f ? e : -e;
            }
            w[j] = j < left && j >= skipped ? e : 0.0f;
        }
    }
}

/* Under a cap the scores' gradients are multiplied by 1 - (score / cap)^2; the score is found again
 * from its probability, whose rounding is as little beside the cap as that of the score. Each
 * thread has the elements that it put there. */
BP_DEVICE void apply_slopes(float ds[SIDE][SIDE], const desk *d, uint64_t row,
                            const bp_attention *at)
{
#pragma unroll 1
    for (uint32_t n = 0; n < OWN_ROWS * OWN_COLUMNS; n++) {
        uint32_t i = own_row(n / OWN_COLUMNS);
        float *w = d->shared + SHARED_P + i * PITCH + own_column(n % OWN_COLUMNS);
        float e = fabsf(*w);
        float score = e > 0.0f ? probability_score(e, known_lse(d->lse[row + i])) : 0.0f;
        *w = 1.0f - score / at->cap * (score / at->cap);
    }
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            uint32_t i = own_row(OWN_ROW(r, c)), j = own_column(OWN_COLUMN(r, c));
            ds[r][c] *= d->shared[SHARED_P + i * PITCH + j];
        }
    }
}

/* One tile of p (masked) and of its scores' gradient ds, for queries row .. and keys column ..: q .
 * k and d_out . v are two turns of one loop, so that the code is there once. new_rows, new_columns:
 * the tiles of queries, of keys, are not in shared memory yet. */
BP_DEVICE void gradients(float p[SIDE][SIDE], float ds[SIDE][SIDE], const desk *d, uint64_t row,
                         uint64_t column, bool new_rows, bool new_columns, const bp_attention *at)
{
    const bp_head *head = &d->head;
    __syncthreads();
    if (at->threshold != 0) {
        tile_masks(d->kept, &d->mask, at, head, row, column);
    }
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        const void *x = turn == 0 ? d->from_q : d->from_d_out;
        const void *y = turn == 0 ? d->from_k : d->from_v;
        float *shared = d->shared + turn * SHARED_D_OUT;
        tile_clear(ds);
#pragma unroll 1
        for (uint64_t part = 0; part < at->width; part += ROWS) {
            __syncthreads();
            if (new_rows) {
                tile_load(shared, x, turn == 0 ? head->pitch : head->out_pitch, row, part, at);
            }
            if (new_columns) {
                tile_load(shared + TILE, y, head->pitch, column, part, at);
            }
            __syncthreads();
            tile_scores(ds, shared, shared + TILE, at);
        }
        if (turn == 0) {
            tile_put(d->shared + SHARED_P, ds, false);
            probabilities(d, row, column, at);
        }
    }
    float row_delta[OWN_ROWS];
#pragma unroll
    for (uint32_t r = 0; r < OWN_ROWS; r++) {
        bool inside = row + own_row(r) < at->sequence;
        row_delta[r] = inside ? known_delta(d->delta[row + own_row(r)], at) : 0.0f;
    }
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            uint32_t i = OWN_ROW(r, c), j = own_column(OWN_COLUMN(r, c));
            float e = d->shared[SHARED_P + own_row(i) * PITCH + j];
            float f = (bp_float_bits(e) & 0x80000000u) != 0 ? 0.0f : at->factor;
            e = fabsf(e);
            p[r][c] = e * f;
            ds[r][c] = gradient_of(e, ds[r][c] * f, row_delta[i], at);
        }
    }
    if (at->cap > 0.0f) {
        apply_slopes(ds, d, row, at);
    }
}

BP_DEVICE void set_desk(desk *d, const void *d_out, const void *qkv, const float *lse,
                        const float *delta, const bp_attention *at, const bp_step_block *step,
                        uint64_t head)
{
    d->head = bp_head_make(at, head);
    d->mask = bp_mask_make(step, at->site, at->threshold, at->factor);
    d->from_q = bp_at(qkv, d->head.first, at->form);
    d->from_k = bp_at(qkv, d->head.k, at->form);
    d->from_v = bp_at(qkv, d->head.v, at->form);
    d->from_d_out = bp_at(d_out, d->head.first_out, at->form);
    d->lse = bp_head_sums(at, &d->head, lse, delta);
    d->delta = bp_head_delta(at, &d->head, delta);
}

/* Adds up d_q for one tile of queries, over the tiles of keys in order. */
extern "C" __global__ void __launch_bounds__(256, 2)
    NAME(bp_attention_backward_queries)(void *d_qkv, const void *d_out, const void *qkv,
                                        const float *lse, const float *delta,
                                        BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS, mine = (uint64_t)blockIdx.y * ROWS;
    uint64_t first = (tiles - 1 - blockIdx.x % tiles) * ROWS;
    bool several = width > ROWS;
    desk d;
    set_desk(&d, d_out, qkv, lse, delta, at, step, blockIdx.x / tiles);
    d.shared = (float *)memory;
    d.kept = kept;
    float sum[SIDE][SIDE];
    tile_clear(sum);
    uint64_t keys = bp_head_keys(at, &d.head, first + ROWS - 1);
    bool new_rows = true;
#pragma unroll 1
    for (uint64_t key = bp_head_tile(at, &d.head, first) / ROWS * ROWS; key < keys; key += ROWS) {
        float p[SIDE][SIDE], ds[SIDE][SIDE];
        gradients(p, ds, &d, first, key, new_rows || several, true, at);
        new_rows = false;
        tile_put(d.shared + SHARED_P, ds, false); /* over this thread's own elements */
        __syncthreads();
        if (several) {
            tile_load(d.shared + SHARED_K, d.from_k, d.head.pitch, key, mine, at);
            __syncthreads();
        }
        tile_combine(sum, d.shared + SHARED_P, d.shared + SHARED_K, at);
    }
    tile_store(bp_to(d_qkv, d.head.first, form), d.head.pitch, first, mine, sum, at);
}

/* sum += weights^T . (rows of queries), with the weights that this thread holds. */
BP_DEVICE void combine_transposed(float sum[SIDE][SIDE], float weights[SIDE][SIDE], const desk *d,
                                  float *tile, const bp_attention *at)
{
    __syncthreads();
    tile_put(d->shared + SHARED_P, weights, true);
    __syncthreads();
    tile_combine(sum, d->shared + SHARED_P, tile, at);
}

BP_DEVICE void add_zero(float sum[SIDE][SIDE])
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t n = 0; n < SIDE; n++) {
            sum[r][n] += 0.0f; /* no -0 goes on */
        }
    }
}

/* Adds up d_k and d_v for one tile of keys, over the tiles of queries of each of its query heads,
 * in order. */
extern "C" __global__ void __launch_bounds__(256, 2)
    NAME(bp_attention_backward_keys)(void *d_qkv, const void *d_out, const void *qkv,
                                     const float *lse, const float *delta, BP_ATTENTION_PARAMETERS)
{
    extern __shared__ float4 memory[];
    __shared__ uint16_t kept[ROWS * SIDE];
    if (sequence == 0) {
        return;
    }
    const bp_attention attention = BP_ATTENTION_GATHER;
    const bp_attention *at = &attention;
    uint64_t tiles = (sequence + ROWS - 1) / ROWS, mine = (uint64_t)blockIdx.y * ROWS;
    uint64_t first = blockIdx.x % tiles * ROWS;
    bool several = width > ROWS;
    uint64_t group = heads / kv_heads, number = blockIdx.x / tiles * group, begin = first;
    bool new_keys = true;
    desk d;
    d.shared = (float *)memory;
    d.kept = kept;
    float sum_k[SIDE][SIDE], sum_v[SIDE][SIDE];
    tile_clear(sum_k);
    tile_clear(sum_v);
    if (causal == 0) {
        begin = bp_head_first(at, NULL, first) / ROWS * ROWS;
    }
    d.head = bp_head_make(at, number);
    uint64_t end = bp_head_rows(at, &d.head, first + ROWS - 1);
#pragma unroll 1
    for (uint64_t i = 0; i < group; i++) {
        set_desk(&d, d_out, qkv, lse, delta, at, step, number + i);
        add_zero(sum_k);
        add_zero(sum_v);
#pragma unroll 1
        for (uint64_t row = first < d.head.keys ? begin : end; row < end; row += ROWS) {
            float p[SIDE][SIDE], ds[SIDE][SIDE];
            gradients(p, ds, &d, row, first, true, new_keys || several, at);
            new_keys = false;
            if (several) {
                __syncthreads();
                tile_load(d.shared + SHARED_Q, d.from_q, d.head.pitch, row, mine, at);
                tile_load(d.shared + SHARED_D_OUT, d.from_d_out, d.head.out_pitch, row, mine, at);
            }
            combine_transposed(sum_v, p, &d, d.shared + SHARED_D_OUT, at);
            combine_transposed(sum_k, ds, &d, d.shared + SHARED_Q, at);
        }
    }
    tile_store(bp_to(d_qkv, d.head.k, form), d.head.pitch, first, mine, sum_k, at);
    tile_store(bp_to(d_qkv, d.head.v, form), d.head.pitch, first, mine, sum_v, at);
}

#endif
