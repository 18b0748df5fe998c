/* SPDX-License-Identifier: MIT */
/* The body of a TF32 product for one tile size; included once per size by matmul_tf32.cu, with TILE
 * and NAME(x) defined.
 *
 * Four warps make a TILE x TILE tile of c, each a quarter, with mma.m16n8k8 and float sums, over k
 * in increasing order. Slices of DEPTH terms pass through a ring of STAGES in shared memory,
 * brought by cp.async. An operand keeps the direction that it has in memory; rows of a slice are
 * padded so that the 32 elements of one register of a fragment, 8 along the tile and 4 along k, lie
 * in different banks in either direction. */
#define QUARTER    (TILE / 2)
#define LINE_ALONG (TILE + 8)          /* floats of a row whose elements run along the tile */
#define LINE_TERMS (DEPTH + 4)         /* and along k */
#define SLICE      (TILE * LINE_TERMS) /* the larger of both directions */
#define PITCH      (TILE + 4)          /* floats, of the sums on their way out */
#define PASSES     (TILE * DEPTH / 4 / THREADS) /* fours of an operand's slice, per thread */
#define BLOCKS     (QUARTER / 16) /* of 16 rows in a warp's quarter, and of 16 columns */

/* What a thread has to bring of one operand: PASSES pieces of each slice, `lines` lines apart. */
typedef struct NAME(feed) {
    const float *from; /* its first piece of the next slice */
    uint64_t step;     /* elements from piece to piece */
    uint64_t advance;  /* and from slice to slice */
    uint32_t to;       /* byte of its first piece in a slice */
    uint32_t jump;     /* bytes from piece to piece */
    uint32_t line;     /* of its first piece: a term when along, else a row of the tile */
    uint32_t lines;    /* between its pieces */
    uint32_t first;    /* element of the line */
    uint32_t rows;     /* of the tile that there are */
    bool along;
    bool wide;
} NAME(feed);

BP_DEVICE void NAME(feed_set)(NAME(feed) * feed, const void *from, uint64_t pitch, bool along,
                              bool wide, uint64_t edge, uint64_t rows, uint64_t first)
{
    uint32_t per_line = along ? TILE / 4 : DEPTH / 4;
    uint32_t bytes = (along ? LINE_ALONG : LINE_TERMS) * 4;
    feed->along = along;
    feed->wide = wide;
    feed->line = threadIdx.x / per_line;
    feed->lines = THREADS / per_line;
    feed->first = threadIdx.x % per_line * 4;
    feed->rows = (uint32_t)bp_least(rows - edge, TILE);
    feed->to = feed->line * bytes + feed->first * 4;
    feed->jump = feed->lines * bytes;
    feed->step = feed->lines * pitch;
    feed->advance = along ? DEPTH * pitch : DEPTH;
    feed->from = (const float *)from + (along ? first * pitch + edge : edge * pitch + first) +
                 feed->line * pitch + feed->first;
}

/* Starts the copies of the next slice, whole pieces where lines are aligned; what is not there
 * becomes 0. */
BP_DEVICE void NAME(feed_slice)(NAME(feed) * feed, uint32_t slice, uint32_t terms)
{
    uint32_t length = feed->along ? feed->rows : terms, lines = feed->along ? terms : feed->rows;
    uint32_t left = length > feed->first ? min(length - feed->first, 4u) : 0;
    const float *from = feed->from;
    uint32_t to = slice + feed->to, line = feed->line;
#pragma unroll 1
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        uint32_t count = line < lines ? left : 0;
        if (feed->wide) {
            bp_copy_async16(to, from, count * 4);
        } else {
#pragma unroll 1
            for (uint32_t e = 0; e < 4; e++) {
                bp_copy_async4(to + e * 4, from + e, e < count ? 4 : 0);
            }
        }
        from += feed->step;
        to += feed->jump;
        line += feed->lines;
    }
    feed->from += feed->advance;
}

/* Where the elements of a warp's fragments lie: floats from one element to the next along the tile
 * and along k. */
typedef struct NAME(walk) {
    uint32_t side;
    uint32_t term;
    uint32_t first; /* this lane's first element, of side `at` + lane / 4 and term lane % 4 */
} NAME(walk);

BP_DEVICE NAME(walk) NAME(walk_make)(bool along, uint32_t at)
{
    uint32_t lane = threadIdx.x % BP_WARP;
    NAME(walk) walk;
    walk.side = along ? 1 : LINE_TERMS;
    walk.term = along ? LINE_ALONG : 1;
    walk.first = (at + lane / 4) * walk.side + lane % 4 * walk.term;
    return walk;
}

/* Adds one slice to the warp's sums: sum[i][j] is the 16 x 8 block of rows 16 i, columns 8 j. */
BP_DEVICE void NAME(multiply)(const float *a, const float *b, const NAME(walk) * rows,
                              const NAME(walk) * columns, float sum[BLOCKS][2 * BLOCKS][4])
{
    a += rows->first;
    b += columns->first;
#pragma unroll 1
    for (uint32_t k = 0; k < DEPTH; k += 8) {
        uint32_t x[BLOCKS][4], y[2 * BLOCKS][2];
#pragma unroll
        for (uint32_t i = 0; i < 4 * BLOCKS; i++) {
            uint32_t side = i / 4 * 16 + i % 2 * 8, term = i / 2 % 2 * 4;
            x[i / 4][i % 4] = bp_tf32(a[side * rows->side + term * rows->term]);
        }
#pragma unroll
        for (uint32_t j = 0; j < 4 * BLOCKS; j++) {
            y[j / 2][j % 2] = bp_tf32(b[j / 2 * 8 * columns->side + j % 2 * 4 * columns->term]);
        }
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++) {
#pragma unroll
            for (uint32_t j = 0; j < 2 * BLOCKS; j++) {
                bp_multiply_add_tf32(sum[i][j], x[i], y[j]);
            }
        }
        a += 8 * rows->term;
        b += 8 * columns->term;
    }
}

#include "device/cuda/kernels/products/matmul_finish.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME(bp_matmul_tf32)(BP_PRODUCT_PARAMETERS)
{
    extern __shared__ float4 memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = BP_PRODUCT_GATHER;
    const bp_product *p = &product;
    float *slices = (float *)memory;
    uint32_t ring = bp_shared_address(memory);
    uint32_t warp = threadIdx.x / BP_WARP;
    uint32_t row = warp / 2 * QUARTER, column = warp % 2 * QUARTER;
    bool along_a = (flags & BP_TRANSPOSE_A) != 0, along_b = (flags & BP_TRANSPOSE_B) == 0;
    uint64_t row0, column0, first = blockIdx.y * depth;
    bp_product_tile(p, TILE, &row0, &column0);
    uint64_t terms = bp_least(depth, k - first);
    NAME(feed) feed_a, feed_b;
    NAME(feed_set)(&feed_a, a, lda, along_a, (flags & BP_WIDE_A) != 0, row0, m, first);
    NAME(feed_set)(&feed_b, b, ldb, along_b, (flags & BP_WIDE_B) != 0, column0, n, first);
    NAME(walk) rows = NAME(walk_make)(along_a, row), columns = NAME(walk_make)(along_b, column);
    float sum[BLOCKS][2 * BLOCKS][4];
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS * 2 * BLOCKS * 4; i++) {
        sum[i / (8 * BLOCKS)][i / 4 % (2 * BLOCKS)][i % 4] = 0.0f;
    }
    uint32_t count = (uint32_t)((terms + DEPTH - 1) / DEPTH), fill = 0, use = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < count + STAGES - 1; step++) {
        bool filled = step >= STAGES - 1;
        if (filled) {
            bp_copy_wait(STAGES - 2);
            __syncthreads();
        }
        if (step < count) {
            uint32_t left = (uint32_t)bp_least(terms - (uint64_t)step * DEPTH, DEPTH);
            NAME(feed_slice)(&feed_a, ring + fill * 4, left);
            NAME(feed_slice)(&feed_b, ring + (fill + SLICE) * 4, left);
            fill = fill == (STAGES - 1) * 2 * SLICE ? 0 : fill + 2 * SLICE;
        }
        bp_copy_commit();
        if (filled) {
            NAME(multiply)(slices + use, slices + use + SLICE, &rows, &columns, sum);
            use = use == (STAGES - 1) * 2 * SLICE ? 0 : use + 2 * SLICE;
        }
    }
    bp_copy_wait(0);
    NAME(finish)(p, row0, column0, row, column, sum, slices);
}

#undef QUARTER
#undef LINE_ALONG
#undef LINE_TERMS
#undef SLICE
#undef PITCH
#undef PASSES
#undef BLOCKS
