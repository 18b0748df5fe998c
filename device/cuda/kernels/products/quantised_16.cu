/* SPDX-License-Identifier: MIT */
/* Products of bfloat16 and half elements with a b in 4 or 8 bits, on tensor cores: matmul_16.cu's
 * tile of 64, whose slices of b are not copied but made of codes, rounded to the working type. The
 * bits are those of matmul_64 with the values of b, not split. */
#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/products/matmul_rows.cuh"
#include "device/cuda/kernels/products/quantised.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define DEPTH   32 /* terms of a slice */
#define STAGES  4  /* slices in shared memory */
#define THREADS 128

#define TILE    64
#define NAME(x) x##_64
#define TILE_ALONE
#include "device/cuda/kernels/products/matmul_tensor.cuh"

#define SLICE_BYTES  (TILE * DEPTH * 2)
#define SLICE_PASSES (TILE * DEPTH / 8 / THREADS)
#define SUM_BLOCKS   (TILE / 32)

/* Eight elements of a row of memory from `first` on, of which `count` exist. */
BP_DEVICE void code_piece(const bp_codes *b, uint64_t first, uint64_t row, uint32_t count,
                          const float *table, float x[8])
{
    if (count == 8 && first % 8 == 0) {
        const bp_code_piece piece = code_piece_load(b, first, row);
        code_piece_values(b->form, &piece, table, x);
        return;
    }
#pragma unroll 1
    for (uint32_t e = 0; e < 8; e++) {
#pragma unroll
        for (int i = 0; i < 7; i++) {
            x[i] = x[i + 1];
        }
        x[7] = e < count ? code_value(b, first + e, row, table) : 0.0f;
    }
}

/* The thread's pieces of b's next slice, made and stored; `at` is the element where the first
 * begins, `row` its row of memory. */
BP_DEVICE void make_slice(const feed_64 *feed, const bp_codes *b, uint64_t at, uint64_t row,
                          uint32_t slice, uint32_t terms, const float *table, bool half)
{
#pragma unroll 1
    for (uint32_t pass = 0; pass < SLICE_PASSES; pass++) {
        float x[8];
        code_piece(b, at + pass * feed->step, row + pass * feed->lines,
                   feed_count_64(feed, pass, terms), table, x);
        const uint32_t to = slice + feed->to + pass * (SLICE_BYTES / SLICE_PASSES);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(bp_pair(x[0], x[1], half)), "r"(bp_pair(x[2], x[3], half)),
                     "r"(bp_pair(x[4], x[5], half)), "r"(bp_pair(x[6], x[7], half))
                     : "memory");
    }
}

BP_KERNEL __launch_bounds__(THREADS)
    bp_matmul_quantised(void *c, void *before, const void *a, const uint8_t *codes,
                        const void *scales, const float *nested, const void *bias,
                        const void *residual, uint64_t m, uint64_t n, uint64_t k, uint64_t lda,
                        uint64_t ldc, uint32_t form, uint32_t flags)
{
    extern __shared__ float4 memory[];
    __shared__ float table[16];
    if (m == 0) {
        return;
    }
    const bp_product product = {c, before, a,   NULL, bias, residual, NULL, m,
                                n, k,      lda, 0,    ldc,  k,        1,    flags};
    const bp_product *p = &product;
    const bool along = (flags & BP_TRANSPOSE_B) == 0;
    const bool half = (flags >> BP_TYPE_AB & BP_TYPE_BITS) == BP_HALF;
    const bp_codes b = {codes, scales, nested, form};
    const uint64_t columns = along ? n : k;
    const uint32_t ring = bp_shared_address(memory), warp = threadIdx.x / BP_WARP;
    const uint32_t row = warp / 2 * (TILE / 2), column = warp % 2 * (TILE / 2);
    uint64_t row0, column0;
    bp_product_tile(p, TILE, &row0, &column0);
    feed_64 feed_a, feed_b;
    feed_set_64(&feed_a, a, lda, false, (flags & BP_WIDE_A) != 0, row0, m, 0);
    feed_set_64(&feed_b, NULL, columns, along, false, column0, n, 0);
    uint64_t at = (along ? column0 : column0 * k) + feed_b.line * columns + feed_b.piece * 8;
    uint64_t line = (along ? 0 : column0) + feed_b.line;
    float sum[SUM_BLOCKS][2 * SUM_BLOCKS][4];
#pragma unroll
    for (uint32_t i = 0; i < SUM_BLOCKS * 2 * SUM_BLOCKS * 4; i++) {
        sum[i / (8 * SUM_BLOCKS)][i / 4 % (2 * SUM_BLOCKS)][i % 4] = 0.0f;
    }
    if (threadIdx.x < 16) {
        table[threadIdx.x] = book_value(form, threadIdx.x);
    }
    __syncthreads();
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
            feed_slice_64(&feed_a, ring + fill, left);
            make_slice(&feed_b, &b, at, line, ring + fill + SLICE_BYTES, left, table, half);
            at += feed_b.advance;
            line += along ? DEPTH : 0;
            fill = fill == (STAGES - 1) * 2 * SLICE_BYTES ? 0 : fill + 2 * SLICE_BYTES;
        }
        bp_copy_commit();
        if (filled) {
            const uint32_t x = ring + use, y = x + SLICE_BYTES;
            if (half) {
                multiply_64(x, y, false, along, row, column, sum, true);
            } else {
                multiply_64(x, y, false, along, row, column, sum, false);
            }
            use = use == (STAGES - 1) * 2 * SLICE_BYTES ? 0 : use + 2 * SLICE_BYTES;
        }
    }
    bp_copy_wait(0);
    finish_64(p, row0, column0, row, column, sum, (float *)memory);
}
