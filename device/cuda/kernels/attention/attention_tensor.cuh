/* SPDX-License-Identifier: MIT */
/* The square tile of attention on tensor cores: 64 queries by 64 keys, and 64 columns of a head's
 * width at a time, of 16-bit elements with float sums. Weights lie in shared memory as floats; each
 * goes into the second product as one 16-bit element (attention_power.cuh).
 *
 * Eight warps stand as 4 x 2, each with 16 rows and 32 columns of a tile, in mma.m16n8k16's
 * fragments: element [r][c] of a thread is of the 8 columns from 8 r on. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_TENSOR_CUH
#define BP_DEVICE_KERNELS_ATTENTION_TENSOR_CUH

#include "device/cuda/kernels/async.cuh"
#include "device/cuda/kernels/attention/attention_power.cuh"
#include "device/cuda/kernels/products/tensor.cuh"

#define ROWS 64
#define SIDE 4
#define PITCH                                                                                      \
    (ROWS + 8)          /* floats between rows of weights: a fragment's pairs in different banks   \
                         */
#define LINE (ROWS + 8) /* elements between rows of the other tiles: ldmatrix' rows likewise */
#define TILE (ROWS * LINE / 2) /* floats that such a tile takes */

/* A thread's own elements of a tile of scores: OWN_ROWS rows and OWN_COLUMNS columns. */
#define OWN_ROWS    2
#define OWN_COLUMNS 8

/* The warp's first row and column, and where its lane's first element lies. */
BP_DEVICE uint32_t warp_row(void)
{
    return threadIdx.x / (2 * BP_WARP) * 16;
}

BP_DEVICE uint32_t warp_column(void)
{
    return threadIdx.x / BP_WARP % 2 * 32;
}

BP_DEVICE uint32_t own_row(uint32_t i)
{
    return warp_row() + threadIdx.x % BP_WARP / 4 + 8 * i;
}

BP_DEVICE uint32_t own_column(uint32_t i)
{
    return warp_column() + threadIdx.x % 4 * 2 + i / 2 * 8 + i % 2;
}

/* Which of them is element [r][c] of a thread's scores, or outputs. */
#define OWN_ROW(r, c)    ((c) / 2)
#define OWN_COLUMN(r, c) (2 * (r) + (c) % 2)

/* Brings 64 columns of 64 rows of a matrix to shared memory, from row `first` and column `column`
 * on; what is not there is 0. Rows are whole groups of eight elements, each aligned to that. */
BP_DEVICE void tile_load(float *to, const void *from, uint64_t pitch, uint64_t first,
                         uint64_t column, const bp_attention *at)
{
    uint32_t d = threadIdx.x % 8 * 8;
#pragma unroll 1
    for (uint32_t row = threadIdx.x / 8; row < ROWS; row += 32) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (first + row < at->sequence && column + d < at->width) {
            v = *(const uint4 *)((const uint16_t *)from + (first + row) * pitch + column + d);
        }
        *(uint4 *)((uint16_t *)to + row * LINE + d) = v;
    }
}

/* sum[r] += the 16 x 16 fragment of weights `x` times 16 terms of columns 8 r .., for all r. */
BP_DEVICE void add_products(float sum[SIDE][SIDE], const uint32_t x[4], const uint32_t y[2][4],
                            bool half)
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        bp_multiply_add(sum[r], x, y[r / 2] + r % 2 * 2, half);
    }
}

BP_DEVICE void multiply(float sum[SIDE][SIDE], const uint32_t x[4], const uint32_t y[2][4],
                        const bp_attention *at)
{
    if ((at->form & BP_TYPE_BITS) == BP_HALF) {
        add_products(sum, x, y, true);
    } else {
        add_products(sum, x, y, false);
    }
}

/* sum += x_row . y_column, over the columns in order. */
BP_DEVICE void tile_scores(float sum[SIDE][SIDE], const float *x, const float *y,
                           const bp_attention *at)
{
    uint32_t lane = threadIdx.x % BP_WARP;
    uint32_t row = warp_row() + lane % 16, column = warp_column() + lane % 8 + lane / 16 * 8;
    uint32_t from_x = bp_shared_address(x) + (row * LINE + lane / 16 * 8) * 2;
    uint32_t from_y = bp_shared_address(y) + (column * LINE + lane / 8 % 2 * 8) * 2;
#pragma unroll 1
    for (uint32_t k = 0; k < ROWS * 2; k += 32) {
        uint32_t u[4], v[2][4];
        bp_matrix(u, from_x + k);
        bp_matrix(v[0], from_y + k);
        bp_matrix(v[1], from_y + k + 16 * LINE * 2);
        multiply(sum, u, v, at);
    }
}

/* sum += weights_row . y, over the rows of y in order. */
BP_DEVICE void tile_combine(float sum[SIDE][SIDE], const float *weights, const float *y,
                            const bp_attention *at)
{
    uint32_t lane = threadIdx.x % BP_WARP;
    bool half = (at->form & BP_TYPE_BITS) == BP_HALF;
    const float *w = weights + own_row(0) * PITCH + lane % 4 * 2;
    uint32_t column = warp_column() + lane / 16 * 8;
    uint32_t from_y = bp_shared_address(y) + (lane % 16 * LINE + column) * 2;
#pragma unroll 1
    for (uint32_t k = 0; k < ROWS; k += 16) {
        uint32_t u[4], v[2][4];
        bp_matrix_turned(v[0], from_y + k * LINE * 2);
        bp_matrix_turned(v[1], from_y + k * LINE * 2 + 32);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            float2 x = *(const float2 *)(w + i % 2 * 8 * PITCH + i / 2 * 8 + k);
            u[i] = bp_pair(x.x, x.y, half);
        }
        multiply(sum, u, v, at);
    }
}

/* Multiplies each row by its factor. */
BP_DEVICE void tile_scale(float sum[SIDE][SIDE], const float factor[ROWS])
{
    float upper = factor[own_row(0)], lower = factor[own_row(1)];
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        sum[r][0] *= upper;
        sum[r][1] *= upper;
        sum[r][2] *= lower;
        sum[r][3] *= lower;
    }
}

/* weights[row][column] = value, or the transposed place. */
BP_DEVICE void tile_put(float *weights, float value[SIDE][SIDE], bool transposed)
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            uint32_t i = own_row(OWN_ROW(r, c)), j = own_column(OWN_COLUMN(r, c));
            weights[transposed ? j * PITCH + i : i * PITCH + j] = value[r][c];
        }
    }
}

/* Writes sums to 64 columns of the rows of a matrix that are there. */
BP_DEVICE void tile_store(void *to, uint64_t pitch, uint64_t first, uint64_t column,
                          float sum[SIDE][SIDE], const bp_attention *at)
{
    bool half = (at->form & BP_TYPE_BITS) == BP_HALF;
    uint32_t across = own_column(0);
    uint32_t width = column < at->width ? (uint32_t)bp_least(at->width - column, ROWS) : 0;
    uint32_t rows = first < at->sequence ? (uint32_t)bp_least(at->sequence - first, ROWS) : 0;
    uint16_t *out = (uint16_t *)to + (first + own_row(0)) * pitch + column + across;
#pragma unroll
    for (uint32_t s = 0; s < 2 * SIDE; s++) {
        const float *x = sum[s % SIDE] + s / SIDE * 2;
        uint32_t bits = bp_pair(x[0], x[1], half);
        if (own_row(s / SIDE) < rows && across + s % SIDE * 8 < width) {
            *(uint32_t *)(out + s % SIDE * 8) = bits;
        }
        out += s == SIDE - 1 ? 8 * pitch : 0;
    }
}

#endif
