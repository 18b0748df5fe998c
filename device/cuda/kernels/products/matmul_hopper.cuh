/* SPDX-License-Identifier: MIT */
/* Products of 16-bit elements by Hopper's warpgroups: the ring of slices, how two warpgroups
 * multiply them, and what becomes of the sums. Who fills the ring is each kernel's own. */
#ifndef BP_DEVICE_KERNELS_MATMUL_HOPPER_CUH
#define BP_DEVICE_KERNELS_MATMUL_HOPPER_CUH

#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/products/hopper.cuh"
#include "device/cuda/kernels/products/matmul_hopper_rows.cuh"

/* A warpgroup multiplies 64 rows of a tile. */
#define TILE 128 /* rows and columns of a tile */
#ifndef DEPTH
#define DEPTH 64 /* terms of a slice: 128 bytes */
#endif
#define PANEL    8192        /* bytes: 64 lines of 128 */
#define SLICE    (4 * PANEL) /* of both operands */
#define STAGES   4
#define PITCH    (TILE + 4)       /* floats, of the sums on their way out */
#define OUT      (STAGES * SLICE) /* where these lie behind the ring */
#define BARRIERS (OUT + TILE * PITCH * 4)
#define GROUP    128 /* threads of a warpgroup */
#define THREADS  (3 * GROUP)

/* What a block works on: its part of the terms, and all tiles that it takes in turn. */
typedef struct bp_share {
    const bp_product *p;
    uint32_t ring;  /* shared addresses */
    uint32_t full;  /* of STAGES barriers: the slice has come */
    uint32_t empty; /* both warpgroups are done with it */
    uint32_t first; /* term */
    uint32_t slices;
    uint32_t tiles;
    const float *by_row;    /* factors of the sums, of c's rows; NULL, a constant: none */
    const float *by_column; /* and of its columns */
} bp_share;

BP_DEVICE bp_share share_of(const bp_product *p, uint32_t ring)
{
    uint64_t first = blockIdx.y * p->depth, terms = bp_least(p->depth, p->k - first);
    const bp_share share = {p,
                            ring,
                            ring + BARRIERS,
                            ring + BARRIERS + STAGES * 8,
                            (uint32_t)first,
                            (uint32_t)((terms + DEPTH - 1) / DEPTH),
                            (uint32_t)((p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE)),
                            NULL,
                            NULL};
    return share;
}

/* Makes the ring's barriers, by one thread for the block; `fillers`: that arrive for a slice. */
BP_DEVICE void ring_begin(const bp_share *s, uint32_t fillers)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            bp_barrier_init(s->full + i * 8, fillers);
            bp_barrier_init(s->empty + i * 8, 2);
        }
        bp_barrier_init_fence();
    }
    __syncthreads();
}

/* The tile of a number, in the order of bp_product_tile(). */
BP_DEVICE void tile_at(const bp_share *s, uint32_t index, uint32_t *row, uint32_t *column)
{
    uint32_t down = (uint32_t)((s->p->m + TILE - 1) / TILE);
    uint32_t across = (uint32_t)((s->p->n + TILE - 1) / TILE);
    uint32_t band = index / (8 * across), rest = index % (8 * across);
    uint32_t height = min(8u, down - band * 8);
    *row = (band * 8 + rest % height) * TILE;
    *column = rest / height * TILE;
}

/* Panels of an operand's slice by its tensor map: along its tile's side, or along the terms. */
BP_DEVICE void slice_bring(uint32_t to, const bp_map *map, uint32_t barrier, bool along,
                           uint32_t edge, uint32_t term, uint32_t panels)
{
#pragma unroll
    for (uint32_t i = 0; i < panels; i++) {
        uint32_t x = along ? edge + 64 * i : term, y = along ? term : edge + 64 * i;
        bp_bring_box(to + i * PANEL, map, x, y, barrier);
    }
}

/* One slice: 64 rows of a. */
BP_DEVICE void slice_multiply(float sum[64], uint64_t a, uint64_t b, bool starts, uint32_t flags)
{
    bool half = (flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
    bool along_a = (flags & BP_TRANSPOSE_A) != 0, along_b = (flags & BP_TRANSPOSE_B) == 0;
    uint64_t step_a = along_a ? 2048 >> 4 : 32 >> 4, step_b = along_b ? 2048 >> 4 : 32 >> 4;
    switch ((half ? 4 : 0) | (along_a ? 2 : 0) | (along_b ? 1 : 0)) {
    case 0:
        BP_GROUP_MULTIPLY("bf16", "0", "0");
        break;
    case 1:
        BP_GROUP_MULTIPLY("bf16", "0", "1");
        break;
    case 2:
        BP_GROUP_MULTIPLY("bf16", "1", "0");
        break;
    case 3:
        BP_GROUP_MULTIPLY("bf16", "1", "1");
        break;
    case 4:
        BP_GROUP_MULTIPLY("f16", "0", "0");
        break;
    case 5:
        BP_GROUP_MULTIPLY("f16", "0", "1");
        break;
    case 6:
        BP_GROUP_MULTIPLY("f16", "1", "0");
        break;
    default:
        BP_GROUP_MULTIPLY("f16", "1", "1");
        break;
    }
}

#ifdef SUMS_BY /* factors of rows and columns */
/* 64 rows of sums to shared memory. */
BP_DEVICE void sums_lay(const float sum[64], float *out)
{
    uint32_t thread = threadIdx.x % GROUP, lane = thread % BP_WARP, warp = thread / BP_WARP;
#pragma unroll
    for (uint32_t i = 0; i < 64; i += 2) {
        uint32_t row = 16 * warp + lane / 4 + 8 * (i / 2 % 2),
                 column = 8 * (i / 4) + 2 * (lane % 4);
        *(float2 *)(out + row * PITCH + column) = make_float2(sum[i], sum[i + 1]);
    }
}

/* Of products with factors: the warpgroup's 64 rows, from row0 on, row by row. */
BP_DEVICE void sums_finish_by(const bp_share *share, uint32_t row0, uint32_t column0,
                              uint32_t group, const float sum[64], float *out)
{
    const bp_product *p = share->p;
    out += group * 64 * PITCH;
    bp_group_sync(1 + group, GROUP); /* what was there before is read */
    sums_lay(sum, out);
    bp_group_sync(1 + group, GROUP);
#pragma unroll 1
    for (uint32_t s = threadIdx.x % GROUP; s < 64 * TILE / 4; s += GROUP) {
        uint32_t i = s / (TILE / 4), j = s % (TILE / 4) * 4;
        uint64_t row = row0 + i, column = column0 + j;
        if (row < p->m && column < p->n) {
            float v[4];
            *(float4 *)v = *(const float4 *)(out + i * PITCH + j);
            const uint64_t count = p->n - column;
            const float by = share->by_row[row];
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) {
                v[e] = v[e] * by * (e < count ? share->by_column[column + e] : 0.0f);
            }
            bp_product_end(p, row, column, v, (p->flags & BP_ACCUMULATE) != 0);
        }
    }
}

#else
/* 64 columns of sums to shared memory: a warp reads what it wrote itself. */
BP_DEVICE void sums_panel(uint32_t right, uint32_t lay, const float sum[64])
{
    __syncwarp(); /* what was there before is read */
    if (right == 0) {
        bp_rows_lay(sum, lay);
    } else {
        bp_rows_lay(sum + 32, lay);
    }
    __syncwarp();
}

/* The warpgroup's 64 rows in a form, which is a constant as half is, by way of shared memory. */
BP_DEVICE void sums_end(const bp_rows *r, float sum[64], uint32_t form, bool half)
{
    const bp_product *p = r->p;
    const bp_shorts s = bp_shorts_at(r);
    const bp_rows_place at = bp_rows_first(r);
    const bp_rows_other o = bp_rows_others(p);
    const uint64_t pitch = p->ldc * 8; /* bytes of four rows */
    unsigned char *const to = (unsigned char *)p->c + (at.row * p->ldc + at.column) * 2;
    unsigned char *const row[4] = {to, to + pitch, to + 2 * pitch, to + 3 * pitch};
    __syncwarp(); /* what was there before is read */
    if (form == ROWS_ADDS) {
        bp_shorts_fetch(&s, row, o.added, at.left > 0);
    }
    bp_shorts_end(&s, r, sum, TILE / 64, row, at.left, &o, 0, form, half);
}

/* Everything that has no form of its own, floats too. */
BP_DEVICE void sums_end_edge(const bp_rows *r, const float sum[64])
{
#pragma unroll 1
    for (uint32_t right = 0; right < TILE; right += 64) {
        sums_panel(right, bp_rows_to(r->out), sum);
        bp_rows_edge(r, 0, right);
    }
}

BP_DEVICE void sums_finish(const bp_rows *r, float sum[64])
{
    const bool half = bp_rows_half(r->p);
    if (r->form == ROWS_PLAIN && half) {
        sums_end(r, sum, ROWS_PLAIN, true);
    } else if (r->form == ROWS_PLAIN) {
        sums_end(r, sum, ROWS_PLAIN, false);
    } else if (r->form == ROWS_ADDS && half) {
        sums_end(r, sum, ROWS_ADDS, true);
    } else if (r->form == ROWS_ADDS) {
        sums_end(r, sum, ROWS_ADDS, false);
    } else {
        sums_end_edge(r, sum);
    }
}

#endif

BP_DEVICE void sums_clear(float sum[64])
{
#pragma unroll
    for (uint32_t i = 0; i < 64; i++) {
        sum[i] = 0.0f;
    }
}

#ifndef SUMS_BY
BP_DEVICE void slices_multiply(const bp_share *s, uint32_t group)
{
    const uint32_t form = bp_rows_form(s->p), out = s->ring + OUT;
    bool along_a = (s->p->flags & BP_TRANSPOSE_A) != 0;
    bool along_b = (s->p->flags & BP_TRANSPOSE_B) == 0;
    uint32_t stage = 0, turn = 0;
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < s->tiles; tile += gridDim.x) {
        float sum[64];
        uint32_t row, column;
        tile_at(s, tile, &row, &column);
        sums_clear(sum);
#pragma unroll 1
        for (uint32_t slice = 0; slice < s->slices; slice++) {
            uint32_t at = s->ring + stage * SLICE;
            uint64_t a = bp_descriptor(at + group * PANEL, along_a ? PANEL : 16);
            uint64_t b = bp_descriptor(at + 2 * PANEL, along_b ? PANEL : 16);
            bp_barrier_wait(s->full + stage * 8, turn);
            slice_multiply(sum, a, b, slice == 0, s->p->flags);
            if (threadIdx.x % GROUP == 0 && slice > 0) { /* the slice before is multiplied */
                bp_barrier_arrive(s->empty + (stage + STAGES - 1) % STAGES * 8);
            }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            turn ^= stage == 0;
        }
        bp_group_wait(sum);
        if (threadIdx.x % GROUP == 0 && s->slices > 0) {
            bp_barrier_arrive(s->empty + (stage + STAGES - 1) % STAGES * 8);
        }
        const bp_rows rows = bp_rows_set(s->p, form, out, row, column, 64, TILE);
        sums_finish(&rows, sum);
    }
}
#endif

#endif
