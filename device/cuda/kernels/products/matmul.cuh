/* SPDX-License-Identifier: MIT */
/* What every matrix product has in common: its parameters, the order of tiles, and what follows the
 * sum: bias, residual, GELU, or the sum of splits. */
#ifndef BP_DEVICE_KERNELS_MATMUL_CUH
#define BP_DEVICE_KERNELS_MATMUL_CUH

#include "device/cuda/kernels/element.cuh"

/* How operands may be read and written: bits of `flags`. */
#define BP_TRANSPOSE_A 1u
#define BP_TRANSPOSE_B 2u
#define BP_ACCUMULATE  4u
#define BP_GELU        8u
#define BP_WIDE_A      16u /* rows of a start at multiples of 16 bytes */
#define BP_WIDE_B      32u
#define BP_WIDE_C      64u  /* rows of c, before, residual, bias at multiples of four elements */
#define BP_WIDE_ROWS   128u /* and of eight, where they are 16-bit elements */
#define BP_TYPE_C      8    /* from this bit on: the type of c */
#define BP_TYPE_AB     10   /* and that of all other operands */

typedef struct bp_product {
    void *c;
    void *before;
    const void *a;
    const void *b;
    const void *bias;
    const void *residual;
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

BP_DEVICE uint32_t bp_product_wide(const bp_product *p)
{
    return (p->flags & BP_WIDE_C) != 0 ? BP_WIDE : 0;
}

/* The form of c, whose type is its own, and that of the operands that are added to the sums. */
BP_DEVICE uint32_t bp_form_c(const bp_product *p)
{
    return bp_hidden((p->flags >> BP_TYPE_C & BP_TYPE_BITS) | bp_product_wide(p));
}

BP_DEVICE uint32_t bp_form_others(const bp_product *p)
{
    return bp_hidden((p->flags >> BP_TYPE_AB & BP_TYPE_BITS) | bp_product_wide(p));
}

/* The workspace's sums. */
BP_DEVICE uint32_t bp_form_work(const bp_product *p)
{
    return BP_SINGLE | (p->n % 4 == 0 ? BP_WIDE : 0);
}

BP_DEVICE void bp_gelu4(float v[4])
{
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
        float x = v[0];
        v[0] = v[1];
        v[1] = v[2];
        v[2] = v[3];
        v[3] = bp_gelu_inline(x);
    }
}

/* Four sums of one row become elements of c: + bias, + residual, kept in `before`, GELU, as the
 * host does it; or with accumulate = true (no bias and no residual then) what is there is added.
 * Loads and stores are made by turns, so that their code is there once. column + count <= n. */
BP_DEVICE void bp_product_finish(const bp_product *p, uint64_t row, uint64_t column, float v[4],
                                 bool accumulate)
{
    uint64_t count = p->n - column, place = row * p->ldc + column;
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        const void *from = turn == 0 ? p->bias : p->residual;
        from = accumulate && turn == 0 ? p->c : from;
        if (from != NULL) {
            uint32_t form = accumulate ? bp_form_c(p) : bp_form_others(p);
            float other[4];
            bp_load4_as(from, turn == 0 && !accumulate ? column : place, count, form, other);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                v[e] += other[e];
            }
        }
    }
#pragma unroll 1
    for (uint32_t turn = 0; turn < 2; turn++) {
        void *to = turn == 0 ? p->before : p->c;
        if (turn == 1 && (p->flags & BP_GELU) != 0) {
            bp_round4(bp_form_others(p), v); /* as it is kept, or would be */
            bp_gelu4(v);
        }
        if (to != NULL) {
            bp_store4_as(to, place, count, turn == 0 ? bp_form_others(p) : bp_form_c(p), v);
        }
    }
}

/* Four sums of one row of a block's tile: to the workspace of a split product, or to c, added to
 * what is there where the product accumulates and did not start from it. */
BP_DEVICE void bp_product_end(const bp_product *p, uint64_t row, uint64_t column, float sum[4],
                              bool accumulate)
{
    if (p->splits > 1) {
        uint64_t to = ((uint64_t)blockIdx.y * p->m + row) * p->n + column;
        bp_store4_as(p->work, to, p->n - column, bp_form_work(p), sum);
    } else {
        bp_product_finish(p, row, column, sum, accumulate);
    }
}

/* The tile of this block: tiles lie in bands of 8 rows of tiles, column after column, so that
 * blocks that run together share operands in the cache. */
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
    void *c, void *before, const void *a, const void *b, const void *bias, const void *residual,   \
        float *work, uint64_t m, uint64_t n, uint64_t k, uint64_t lda, uint64_t ldb, uint64_t ldc, \
        uint64_t depth, uint32_t splits, uint32_t flags
#define BP_PRODUCT_GATHER                                                                          \
    {                                                                                              \
        c, before, a, b, bias, residual, work, m, n, k, lda, ldb, ldc, depth, splits, flags        \
    }

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
        bp_load4_as(p->c, row * p->ldc + column, p->n - column, bp_form_c(p), sum);
    }
#pragma unroll 1
    for (uint32_t split = 0; split < p->splits; split++) {
        uint64_t from = ((uint64_t)split * p->m + row) * p->n + column;
        bp_load4_as(p->work, from, p->n - column, bp_form_work(p), part);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[e] += part[e];
        }
    }
    bp_product_finish(p, row, column, sum, false);
}

#endif
