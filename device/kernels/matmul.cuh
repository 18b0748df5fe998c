/* SPDX-License-Identifier: MIT */
/* What every matrix product has in common: its parameters, the order of tiles, and what follows the
 * sum: bias, residual, GELU, or the sum of splits. */
#ifndef BP_DEVICE_KERNELS_MATMUL_CUH
#define BP_DEVICE_KERNELS_MATMUL_CUH

#include "device/kernels/element.cuh"

/* How operands may be read and written: bits of `flags`. */
#define BP_TRANSPOSE_A 1u
#define BP_TRANSPOSE_B 2u
#define BP_ACCUMULATE  4u
#define BP_GELU        8u
#define BP_WIDE_A      16u /* rows of a start at multiples of 16 bytes */
#define BP_WIDE_B      32u
#define BP_WIDE_C      64u /* rows of c, before and residual at multiples of four elements; bias too */

typedef struct bp_product {
    bp_element *c;
    bp_element *before;
    const bp_element *a;
    const bp_element *b;
    const bp_element *bias;
    const bp_element *residual;
    float *work; /* (splits, m, n): partial sums, when there is more than one split */
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t lda;
    uint64_t ldb;
    uint64_t ldc;
    uint64_t depth; /* terms of one split, a multiple of the tile's depth */
    uint32_t splits;
    uint32_t flags;
} bp_product;

/* Four sums of one row become elements of c: + bias, + residual, kept in `before`, GELU, as the host
 * does it. column + count <= n. */
BP_DEVICE void bp_product_finish(const bp_product *p, uint64_t row, uint64_t column,
                                 const float sum[4])
{
    uint64_t count = p->n - column, place = row * p->ldc + column;
    bool wide = (p->flags & BP_WIDE_C) != 0;
    float v[4] = {sum[0], sum[1], sum[2], sum[3]}, other[4];
    if (p->bias != NULL) {
        bp_load4(p->bias + column, count, wide, other);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] += other[e];
        }
    }
    if (p->residual != NULL) {
        bp_load4(p->residual + place, count, wide, other);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] += other[e];
        }
    }
    if (p->before != NULL) {
        bp_store4(p->before + place, count, wide, v);
    }
    if ((p->flags & BP_GELU) != 0) {
        /* by turns, so that the code is there once */
#pragma unroll 1
        for (int e = 0; e < 4; e++) {
            float x = v[0];
            v[0] = v[1];
            v[1] = v[2];
            v[2] = v[3];
            v[3] = bp_gelu_inline(x);
        }
    }
    bp_store4(p->c + place, count, wide, v);
}

/* Four sums of one row of a block's tile: to the workspace of a split product, or to c, added to what
 * is there where the product accumulates. */
BP_DEVICE void bp_product_end(const bp_product *p, uint64_t row, uint64_t column, float sum[4])
{
    if (p->splits > 1) {
        float *to = p->work + ((uint64_t)blockIdx.y * p->m + row) * p->n + column;
        bp_store4f(to, p->n - column, p->n % 4 == 0, sum);
        return;
    }
    if ((p->flags & BP_ACCUMULATE) != 0) {
        float before[4];
        bp_load4(p->c + row * p->ldc + column, p->n - column, (p->flags & BP_WIDE_C) != 0, before);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[e] += before[e];
        }
    }
    bp_product_finish(p, row, column, sum);
}

/* The tile of this block: tiles lie in bands of 8 rows of tiles, column after column, so that blocks
 * that run together share operands in the cache. */
BP_DEVICE void bp_product_tile(const bp_product *p, uint32_t tile, uint64_t *row, uint64_t *column)
{
    uint64_t down = (p->m + tile - 1) / tile, across = (p->n + tile - 1) / tile;
    uint64_t band = blockIdx.x / (8 * across), rest = blockIdx.x % (8 * across);
    uint64_t height = bp_least(8, down - band * 8);
    *row = (band * 8 + rest % height) * tile;
    *column = rest / height * tile;
}

/* The parameters of a product kernel in the order that device/cuda gives them. */
#define BP_PRODUCT_PARAMETERS                                                                      \
    bp_element *c, bp_element *before, const bp_element *a, const bp_element *b,                   \
        const bp_element *bias, const bp_element *residual, float *work, uint64_t m, uint64_t n,   \
        uint64_t k, uint64_t lda, uint64_t ldb, uint64_t ldc, uint64_t depth, uint32_t splits,     \
        uint32_t flags
#define BP_PRODUCT_GATHER                                                                          \
    {c, before, a, b, bias, residual, work, m, n, k, lda, ldb, ldc, depth, splits, flags}

/* c (+)= the sum over splits, in order; four elements per thread. */
BP_DEVICE void bp_product_join(const bp_product *p)
{
    uint64_t across = (p->n + 3) / 4;
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= p->m * across) {
        return;
    }
    uint64_t row = i / across, column = i % across * 4;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, part[4];
    if ((p->flags & BP_ACCUMULATE) != 0) {
        bp_load4(p->c + row * p->ldc + column, p->n - column, (p->flags & BP_WIDE_C) != 0, sum);
    }
#pragma unroll 1
    for (uint32_t split = 0; split < p->splits; split++) {
        const float *from = p->work + ((uint64_t)split * p->m + row) * p->n + column;
        bp_load4f(from, p->n - column, p->n % 4 == 0, part);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[e] += part[e];
        }
    }
    bp_product_finish(p, row, column, sum);
}

#endif
