/* SPDX-License-Identifier: MIT */
/* The body of a 16-bit product on tensor cores for one tile size; included once per size by
 * matmul_16.cu, with TILE (64 or 128) and NAME(x) defined.
 *
 * Four warps make a TILE x TILE tile of c, each a quarter, with mma.m16n8k16 and float sums, over k
 * in increasing order. Slices of DEPTH terms pass through a ring of STAGES in shared memory,
 * brought by cp.async in pieces of 8 elements. An operand keeps the direction that it has in memory
 * (k, or rows of the tile, running fastest); ldmatrix turns it where mma needs that. Pieces are
 * permuted so that the eight that one ldmatrix phase reads lie in different banks. */
#define QUARTER (TILE / 2)
#define ACROSS  (TILE / 8)                   /* pieces of a row whose elements run along the tile */
#define SLICE   (TILE * DEPTH * 2)           /* bytes of one operand's slice */
#define PITCH   (TILE + 4)                   /* floats, of the sums on their way out */
#define PASSES  (TILE * DEPTH / 8 / THREADS) /* pieces of an operand's slice per thread */
#define BLOCKS  (QUARTER / 16)               /* of 16 rows in a warp's quarter, and of 16 columns */

/* Where the piece of an operand's slice lies: along: term k, elements 8 i .. of the tile's side;
 * else: element k of the side, terms 8 i .. */
BP_DEVICE uint32_t NAME(piece)(bool along, uint32_t k, uint32_t i)
{
    return along ? k * (TILE * 2) + (i ^ (k & 7)) * 16 : k * (DEPTH * 2) + (i ^ (k >> 1 & 3)) * 16;
}

/* What a thread has to bring of one operand: PASSES pieces of each slice, LINES lines apart. */
typedef struct NAME(feed) {
    const uint16_t *from; /* its first piece of the next slice */
    uint64_t step;        /* elements from piece to piece, 0 .. */
    uint64_t advance;     /* and from slice to slice */
    uint32_t to;          /* place of its first piece in a slice */
    uint32_t line;        /* of its first piece: a term when along, else a row of the tile */
    uint32_t lines;       /* between its pieces */
    uint32_t piece;       /* number within the line */
    uint32_t rows;        /* of the tile that there are */
    bool along;
    bool wide;
} NAME(feed);

BP_DEVICE void NAME(feed_set)(NAME(feed) * feed, const void *from, uint64_t pitch, bool along,
                              bool wide, uint64_t edge, uint64_t rows, uint64_t first)
{
    uint32_t per_line = along ? ACROSS : DEPTH / 8;
    feed->along = along;
    feed->wide = wide;
    feed->line = threadIdx.x / per_line;
    feed->lines = THREADS / per_line;
    feed->piece = threadIdx.x % per_line;
    feed->rows = (uint32_t)bp_least(rows - edge, TILE);
    feed->to = NAME(piece)(along, feed->line, feed->piece);
    feed->step = feed->lines * pitch;
    feed->advance = along ? DEPTH * pitch : DEPTH;
    feed->from = (const uint16_t *)from + (along ? first * pitch + edge : edge * pitch + first) +
                 feed->line * pitch + feed->piece * 8;
}

/* How many elements of the piece `pass` there are, with `terms` terms left. */
BP_DEVICE uint32_t NAME(feed_count)(const NAME(feed) * feed, uint32_t pass, uint32_t terms)
{
    uint32_t line = feed->line + pass * feed->lines, first = feed->piece * 8;
    uint32_t length = feed->along ? feed->rows : terms, lines = feed->along ? terms : feed->rows;
    uint32_t left = length > first ? min(length - first, 8u) : 0;
    return line < lines ? left : 0;
}

/* Starts the copies of the next slice, or makes them at once where lines are not aligned. */
BP_DEVICE void NAME(feed_slice)(NAME(feed) * feed, uint32_t slice, uint32_t terms)
{
    if (feed->wide) {
#pragma unroll
        for (uint32_t pass = 0; pass < PASSES; pass++) {
            bp_copy_async16(slice + feed->to + pass * (SLICE / PASSES),
                            feed->from + pass * feed->step,
                            NAME(feed_count)(feed, pass, terms) * 2);
        }
    } else {
#pragma unroll 1
        for (uint32_t pass = 0; pass < PASSES; pass++) {
            bp_copy_narrow16(slice + feed->to + pass * (SLICE / PASSES),
                             feed->from + pass * feed->step, NAME(feed_count)(feed, pass, terms));
        }
    }
    feed->from += feed->advance;
}

/* Adds one slice to the warp's sums: sum[i][j] is the 16 x 8 block of rows 16 i, columns 8 j. */
BP_DEVICE void NAME(multiply)(uint32_t a, uint32_t b, bool along_a, bool along_b, uint32_t row,
                              uint32_t column, float sum[BLOCKS][2 * BLOCKS][4], bool half)
{
    uint32_t lane = threadIdx.x % BP_WARP;
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; k += 16) {
        uint32_t x[BLOCKS][4], y[BLOCKS][4];
        if (along_a) {
            uint32_t term = k + lane % 8 + lane / 16 * 8, first = row / 8 + lane / 8 % 2;
#pragma unroll
            for (uint32_t i = 0; i < BLOCKS; i++) {
                bp_matrix_turned(x[i], a + NAME(piece)(true, term, first + 2 * i));
            }
        } else {
            uint32_t from = a + NAME(piece)(false, row + lane % 16, k / 8 + lane / 16);
#pragma unroll
            for (uint32_t i = 0; i < BLOCKS; i++) {
                bp_matrix(x[i], from + i * 16 * DEPTH * 2);
            }
        }
        if (along_b) {
            uint32_t term = k + lane % 16, first = column / 8 + lane / 16;
#pragma unroll
            for (uint32_t j = 0; j < BLOCKS; j++) {
                bp_matrix_turned(y[j], b + NAME(piece)(true, term, first + 2 * j));
            }
        } else {
            uint32_t line = column + lane % 8 + lane / 16 * 8;
            uint32_t from = b + NAME(piece)(false, line, k / 8 + lane / 8 % 2);
#pragma unroll
            for (uint32_t j = 0; j < BLOCKS; j++) {
                bp_matrix(y[j], from + j * 16 * DEPTH * 2);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS; i++) {
#pragma unroll
            for (uint32_t j = 0; j < 2 * BLOCKS; j++) {
                bp_multiply_add(sum[i][j], x[i], y[j / 2] + j % 2 * 2, half);
            }
        }
    }
}

#include "device/cuda/kernels/products/matmul_finish.cuh"

#ifndef TILE_ALONE /* another kernel makes its own use of the tile */
extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME(bp_matmul)(BP_PRODUCT_PARAMETERS)
{
    extern __shared__ float4 memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = BP_PRODUCT_GATHER;
    const bp_product *p = &product;
    uint32_t ring = bp_shared_address(memory);
    uint32_t warp = threadIdx.x / BP_WARP;
    uint32_t row = warp / 2 * QUARTER, column = warp % 2 * QUARTER;
    bool half = (flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
    bool along_a = (flags & BP_TRANSPOSE_A) != 0, along_b = (flags & BP_TRANSPOSE_B) == 0;
    uint64_t row0, column0, first = blockIdx.y * depth;
    bp_product_tile(p, TILE, &row0, &column0);
    uint64_t terms = bp_least(depth, k - first);
    NAME(feed) feed_a, feed_b;
    NAME(feed_set)(&feed_a, a, lda, along_a, (flags & BP_WIDE_A) != 0, row0, m, first);
    NAME(feed_set)(&feed_b, b, ldb, along_b, (flags & BP_WIDE_B) != 0, column0, n, first);
    float sum[BLOCKS][2 * BLOCKS][4];
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS * 2 * BLOCKS * 4; i++) {
        sum[i / (8 * BLOCKS)][i / 4 % (2 * BLOCKS)][i % 4] = 0.0f;
    }
    uint32_t slices = (uint32_t)((terms + DEPTH - 1) / DEPTH), fill = 0, use = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < slices + STAGES - 1; step++) {
        bool filled = step >= STAGES - 1;
        if (filled) {
            bp_copy_wait(STAGES - 2);
            __syncthreads();
        }
        if (step < slices) {
            uint32_t left = (uint32_t)bp_least(terms - (uint64_t)step * DEPTH, DEPTH);
            NAME(feed_slice)(&feed_a, ring + fill, left);
            NAME(feed_slice)(&feed_b, ring + fill + SLICE, left);
            fill = fill == (STAGES - 1) * 2 * SLICE ? 0 : fill + 2 * SLICE;
        }
        bp_copy_commit();
        if (filled) {
            uint32_t x = ring + use, y = x + SLICE;
            if (half) {
                NAME(multiply)(x, y, along_a, along_b, row, column, sum, true);
            } else {
                NAME(multiply)(x, y, along_a, along_b, row, column, sum, false);
            }
            use = use == (STAGES - 1) * 2 * SLICE ? 0 : use + 2 * SLICE;
        }
    }
    bp_copy_wait(0);
    NAME(finish)(p, row0, column0, row, column, sum, (float *)memory);
}
#endif

#undef QUARTER
#undef ACROSS
#undef SLICE
#undef PITCH
#undef BLOCKS
#undef PASSES
