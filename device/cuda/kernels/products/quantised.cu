/* SPDX-License-Identifier: MIT */
/* Products in single precision with a b in 4 or 8 bits (core/ops/quantised.h, fp8.h): its values
 * are made slice by slice, on their way into shared memory.
 *
 * A block makes a 64 x 64 tile of c, a thread 4 x 4 of it. Each element is one chain of fused
 * multiply-adds over k in increasing order, as on the host. */
#include "device/cuda/kernels/products/matmul.cuh"
#include "device/cuda/kernels/products/quantised.cuh"

#define TILE    64
#define DEPTH   16 /* terms of a slice */
#define THREADS 256
#define PITCH   (TILE + 4) /* keeps rows 16-byte aligned and spreads a column over the banks */

/* Four elements of a row of memory from `first` on, of which `count` exist, rounded to the working
 * type. */
BP_DEVICE void code_values(const bp_codes *b, uint64_t first, uint64_t row, uint64_t count,
                           uint32_t form, const float *table, float x[4])
{
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
        x[3] = e < count ? code_value(b, first + e, row, table) : 0.0f;
    }
    bp_round4(form, x);
}

/* The thread's four elements of a's slice, (DEPTH, TILE) in shared memory. */
BP_DEVICE void bring_a(const bp_product *p, uint64_t top, uint64_t term, float *slice)
{
    uint32_t i = threadIdx.x / 4, k = threadIdx.x % 4 * 4;
    uint64_t row = top + i, count = row < p->m && term + k < p->k ? p->k - term - k : 0;
    float x[4];
    bp_load4_as(p->a, row * p->lda + term + k, count, bp_form_others(p) & BP_TYPE_BITS, x);
#pragma unroll
    for (uint32_t e = 0; e < 4; e++) {
        slice[(k + e) * PITCH + i] = x[e];
    }
}

/* And of b's. */
BP_DEVICE void bring_b(const bp_product *p, const bp_codes *b, uint64_t left, uint64_t term,
                       const float *table, float *slice)
{
    bool along = (p->flags & BP_TRANSPOSE_B) == 0; /* rows of memory lie along the tile's columns */
    uint32_t j = along ? threadIdx.x % 16 * 4 : threadIdx.x / 4;
    uint32_t k = along ? threadIdx.x / 16 : threadIdx.x % 4 * 4;
    uint64_t column = left + j, at = term + k;
    bool inside = column < p->n && at < p->k;
    uint64_t first = along ? at * p->n + column : column * p->k + at;
    uint64_t count = !inside ? 0 : along ? p->n - column : p->k - at;
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    code_values(b, first, along ? at : column, count, bp_form_others(p), table, x);
#pragma unroll
    for (uint32_t e = 0; e < 4; e++) {
        slice[along ? k * PITCH + j + e : (k + e) * PITCH + j] = x[e];
    }
}

/* Adds one slice to the thread's sums. */
BP_DEVICE void multiply(const float *a, const float *b, float sum[4][4])
{
    a += threadIdx.x / 16 * 4;
    b += threadIdx.x % 16 * 4;
#pragma unroll 4
    for (uint32_t k = 0; k < DEPTH; k++) {
        float x[4], y[4];
        *(float4 *)x = *(const float4 *)(a + k * PITCH);
        *(float4 *)y = *(const float4 *)(b + k * PITCH);
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
            }
        }
    }
}

BP_DEVICE void finish(const bp_product *p, uint64_t top, uint64_t left, float sum[4][4])
{
    uint64_t row = top + threadIdx.x / 16 * 4, column = left + threadIdx.x % 16 * 4;
#pragma unroll 1
    for (uint32_t i = 0; i < 4; i++, row++) {
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] = sum[0][e];
            sum[0][e] = sum[1][e];
            sum[1][e] = sum[2][e];
            sum[2][e] = sum[3][e];
        }
        if (row < p->m && column < p->n) {
            bp_product_finish(p, row, column, v, false);
        }
    }
}

BP_KERNEL __launch_bounds__(THREADS, 4)
    bp_matmul_quantised(void *c, void *before, const void *a, const uint8_t *codes,
                        const void *scales, const float *nested, const void *bias,
                        const void *residual, uint64_t m, uint64_t n, uint64_t k, uint64_t lda,
                        uint64_t ldc, uint32_t form, uint32_t flags)
{
    __shared__ float4 memory[2 * DEPTH * PITCH / 4];
    __shared__ float table[16];
    if (m == 0) {
        return;
    }
    const bp_product product = {c, before, a,   NULL, bias, residual, NULL, m,
                                n, k,      lda, 0,    ldc,  k,        1,    flags};
    const bp_product *p = &product;
    const bp_codes b = {codes, scales, nested, form};
    float *slice_a = (float *)memory, *slice_b = slice_a + DEPTH * PITCH;
    float sum[4][4] = {{0.0f}};
    uint64_t top, left;
    bp_product_tile(p, TILE, &top, &left);
    if (threadIdx.x < 16) {
        table[threadIdx.x] = book_value(form, threadIdx.x);
    }
    __syncthreads();
#pragma unroll 1
    for (uint64_t term = 0; term < k; term += DEPTH) {
        bring_a(p, top, term, slice_a);
        bring_b(p, &b, left, term, table, slice_b);
        __syncthreads();
        multiply(slice_a, slice_b, sum);
        __syncthreads();
    }
    finish(p, top, left, sum);
}
