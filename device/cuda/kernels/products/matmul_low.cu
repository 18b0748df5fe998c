/* SPDX-License-Identifier: MIT */
/* Products of 16-bit elements one side of which, m or n, is at most LOW: of adapters, and of few
 * rows. Memory limits them, so each operand is read once, and there is one launch.
 *
 * A block has WIDE rows of the other side, and all terms. Slices of DEPTH terms pass through a ring
 * in shared memory; each of its warps multiplies 16 terms of every slice with mma.m16n8k16, the
 * other side's rows as x. Thus warp w has steps w, w + WARPS, .. of 16 terms each, in order; what
 * the warps have is then added in their order. An operand keeps the direction that it has in
 * memory, as in matmul_tensor.cuh. */
#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/products/matmul.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define LOW     64
#define WIDE    64
#define WARPS   8
#define DEPTH   (16 * WARPS)
#define STAGES  3
#define THREADS (WARPS * BP_WARP)
#define SLICE   (WIDE * DEPTH * 2)           /* bytes of an operand's; of the low side's at most */
#define PASSES  (WIDE * DEPTH / 8 / THREADS) /* pieces of 8 elements of a slice per thread */
#define BLOCKS  (WIDE / 16)
#define PART    1280 /* floats of a warp's sums of WIDE x 16, in rows of 16 or of WIDE, padded */

/* One operand's pieces of a thread: PASSES of each slice. */
typedef struct low_feed {
    const uint16_t *from; /* its first piece of the next slice */
    uint64_t step;        /* elements from piece to piece */
    uint64_t advance;     /* and from slice to slice */
    uint32_t to;          /* place of the first piece in a slice, PASSES places evenly apart */
    uint32_t line;        /* of its first piece: a term when along, else a row of the side */
    uint32_t lines;       /* between its pieces */
    uint32_t first;       /* element of the line */
    uint32_t side;        /* rows of the side that there are */
    uint32_t needed;      /* and those that are multiplied: what is not there is 0 */
    bool along;           /* lines run along the side */
    bool wide;
} low_feed;

/* Where a piece lies: along: term `line`, rows 8 piece .. of the side; else row `line`, terms
 * 8 piece .. The eight that one phase of ldmatrix reads lie in different banks. */
BP_DEVICE uint32_t low_piece(bool along, uint32_t line, uint32_t piece)
{
    return line * (along ? WIDE * 2 : DEPTH * 2) + (piece ^ (line & 7)) * 16;
}

BP_DEVICE low_feed low_feed_of(const void *from, uint64_t pitch, bool along, bool wide,
                               uint64_t edge, uint64_t rows, uint32_t needed)
{
    const uint32_t per_line = along ? WIDE / 8 : DEPTH / 8, piece = threadIdx.x % per_line;
    low_feed feed;
    feed.along = along;
    feed.wide = wide;
    feed.line = threadIdx.x / per_line;
    feed.lines = THREADS / per_line;
    feed.first = piece * 8;
    feed.side = (uint32_t)bp_least(rows - edge, WIDE);
    feed.needed = needed;
    feed.to = low_piece(along, feed.line, piece);
    feed.step = feed.lines * pitch;
    feed.advance = along ? DEPTH * pitch : DEPTH;
    feed.from =
        (const uint16_t *)from + (along ? edge : edge * pitch) + feed.line * pitch + feed.first;
    return feed;
}

/* Starts the copies of the next slice, of which `terms` are left, or makes them at once where lines
 * are not aligned. */
BP_DEVICE void low_bring(low_feed *feed, uint32_t slice, uint32_t terms)
{
    const uint32_t length = feed->along ? feed->side : terms;
    const uint32_t lines = feed->along ? terms : feed->side;
    const uint32_t count = length > feed->first ? min(length - feed->first, 8u) : 0;
    if (feed->along && feed->first >= feed->needed) {
        return;
    }
#pragma unroll 1
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        const uint32_t line = feed->line + pass * feed->lines;
        const uint32_t there = line < lines ? count : 0;
        const uint32_t to = slice + feed->to + pass * (SLICE / PASSES);
        const uint16_t *from = feed->from + pass * feed->step;
        if (!feed->along && line >= feed->needed) {
            break;
        }
        if (feed->wide) {
            bp_copy_async16(to, from, there * 2);
        } else {
            bp_copy_narrow16(to, from, there);
        }
    }
    feed->from += feed->advance;
}

/* A warp's 16 terms, `term` .. of a slice: sum[i][j] is the 16 x 8 block of the wide side's rows
 * 16 i .., of the low side's 8 j .., of which there are `lows` by 16. */
BP_DEVICE void low_multiply(uint32_t x_slice, uint32_t y_slice, bool along_x, bool along_y,
                            uint32_t term, uint32_t lows, float sum[BLOCKS][LOW / 8][4], bool half)
{
    const uint32_t lane = threadIdx.x % BP_WARP;
    uint32_t x[BLOCKS][4];
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (along_x) {
            const uint32_t line = term + lane % 8 + lane / 16 * 8;
            bp_matrix_turned(x[i], x_slice + low_piece(true, line, 2 * i + lane / 8 % 2));
        } else {
            const uint32_t piece = term / 8 + lane / 16;
            bp_matrix(x[i], x_slice + low_piece(false, 16 * i + lane % 16, piece));
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < LOW / 16; j++) {
        if (j < lows) {
            uint32_t y[4];
            if (along_y) {
                const uint32_t line = term + lane % 16;
                bp_matrix_turned(y, y_slice + low_piece(true, line, 2 * j + lane / 16));
            } else {
                const uint32_t line = 16 * j + lane % 8 + lane / 16 * 8;
                bp_matrix(y, y_slice + low_piece(false, line, term / 8 + lane / 8 % 2));
            }
#pragma unroll
            for (uint32_t i = 0; i < BLOCKS; i++) {
                bp_multiply_add(sum[i][2 * j], x[i], y, half);
                bp_multiply_add(sum[i][2 * j + 1], x[i], y + 2, half);
            }
        }
    }
}

/* The sums of a warp, 16 of the low side, to its part: in rows of c. */
BP_DEVICE void low_put(float *part, float sum[BLOCKS][LOW / 8][4], bool turned)
{
    const uint32_t lane = threadIdx.x % BP_WARP;
    const uint32_t across = turned ? 1 : 20, down = turned ? WIDE + 4 : 1;
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS; i++) {
#pragma unroll
        for (uint32_t e = 0; e < 8; e++) { /* of two blocks of 8 */
            const uint32_t row = 16 * i + lane / 4 + e / 2 % 2 * 8;
            const uint32_t column = e / 4 * 8 + lane % 4 * 2 + e % 2;
            part[row * across + column * down] = sum[i][e / 4][e % 4];
        }
    }
}

/* Four sums of a row of c: what the warps have of them, in order, and what follows. A factor is
 * that of an op of its own, whose operand is rounded. */
BP_DEVICE void low_end(const bp_product *p, const float *parts, uint64_t wide0, uint32_t low0,
                       bool turned, float factor)
{
    const uint32_t line = turned ? threadIdx.x / 16 : threadIdx.x / 4;
    const uint32_t four = turned ? threadIdx.x % 16 * 4 : threadIdx.x % 4 * 4;
    const uint64_t row = turned ? low0 + line : wide0 + line;
    const uint64_t column = turned ? wide0 + four : low0 + four;
    if (row >= p->m || column >= p->n) {
        return;
    }
    const float *from = parts + line * (turned ? WIDE + 4 : 20) + four;
    float v[4];
    *(float4 *)v = *(const float4 *)from;
#pragma unroll
    for (uint32_t warp = 1; warp < WARPS; warp++) {
        const float4 other = *(const float4 *)(from + warp * PART);
        v[0] += other.x;
        v[1] += other.y;
        v[2] += other.z;
        v[3] += other.w;
    }
    if (factor != 1.0f) {
        bp_round4(bp_form_c(p), v);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            v[e] *= factor;
        }
    }
    bp_product_finish(p, row, column, v, (p->flags & BP_ACCUMULATE) != 0);
}

/* All sums, 16 of the low side at a time: the next 16 take the place of those that are done, so
 * that the code is there once. */
BP_DEVICE void low_finish(const bp_product *p, float *parts, uint64_t wide0, bool turned,
                          uint32_t lows, float sum[BLOCKS][LOW / 8][4], float factor)
{
#pragma unroll 1
    for (uint32_t j = 0; j < lows; j++) {
        __syncthreads();
        low_put(parts + threadIdx.x / BP_WARP * PART, sum, turned);
        __syncthreads();
        low_end(p, parts, wide0, 16 * j, turned, factor);
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS * (LOW / 8 - 2) * 4; i++) {
            const uint32_t block = i / 4 % (LOW / 8 - 2);
            sum[i / 4 / (LOW / 8 - 2)][block][i % 4] = sum[i / 4 / (LOW / 8 - 2)][block + 2][i % 4];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    bp_matmul_low(BP_PRODUCT_PARAMETERS, float factor)
{
    extern __shared__ float4 memory[];
    if (m == 0) {
        return;
    }
    const bp_product product = BP_PRODUCT_GATHER;
    const bp_product *p = &product;
    const uint32_t ring = bp_shared_address(memory), term = threadIdx.x / BP_WARP * 16;
    const bool half = (flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
    const bool turned = n > LOW; /* the low side is m: a is y, b is x */
    const bool along_a = (flags & BP_TRANSPOSE_A) != 0, along_b = (flags & BP_TRANSPOSE_B) == 0;
    const bool wide_a = (flags & BP_WIDE_A) != 0, wide_b = (flags & BP_WIDE_B) != 0;
    const uint64_t wide0 = (uint64_t)blockIdx.x * WIDE;
    const uint32_t lows = (uint32_t)((turned ? m : n) + 15) / 16;
    low_feed x = turned ? low_feed_of(b, ldb, along_b, wide_b, wide0, n, WIDE)
                        : low_feed_of(a, lda, along_a, wide_a, wide0, m, WIDE);
    low_feed y = turned ? low_feed_of(a, lda, along_a, wide_a, 0, m, lows * 16)
                        : low_feed_of(b, ldb, along_b, wide_b, 0, n, lows * 16);
    float sum[BLOCKS][LOW / 8][4];
#pragma unroll
    for (uint32_t i = 0; i < BLOCKS * (LOW / 8) * 4; i++) {
        sum[i / (LOW / 2)][i / 4 % (LOW / 8)][i % 4] = 0.0f;
    }
    const uint32_t slices = (uint32_t)((k + DEPTH - 1) / DEPTH);
    uint32_t fill = 0, use = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < slices + STAGES - 1; step++) {
        const bool filled = step >= STAGES - 1;
        if (filled) {
            bp_copy_wait(STAGES - 2);
            __syncthreads();
        }
        if (step < slices) {
            const uint32_t left = (uint32_t)bp_least(k - (uint64_t)step * DEPTH, DEPTH);
            low_bring(&x, ring + fill, left);
            low_bring(&y, ring + fill + SLICE, left);
            fill = fill == (STAGES - 1) * 2 * SLICE ? 0 : fill + 2 * SLICE;
        }
        bp_copy_commit();
        if (filled) {
            const uint32_t from = ring + use;
            if (half) {
                low_multiply(from, from + SLICE, x.along, y.along, term, lows, sum, true);
            } else {
                low_multiply(from, from + SLICE, x.along, y.along, term, lows, sum, false);
            }
            use = use == (STAGES - 1) * 2 * SLICE ? 0 : use + 2 * SLICE;
        }
    }
    bp_copy_wait(0);
    low_finish(p, (float *)memory, wide0, turned, lows, sum, factor);
}
