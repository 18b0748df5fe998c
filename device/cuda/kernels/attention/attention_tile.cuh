/* SPDX-License-Identifier: MIT */
/* The square tile of attention: 64 queries by 64 keys, and 64 columns of a head's width at a time.
 *
 * 256 threads stand as 16 x 16: in a tile of scores thread (down, across) has rows down + 16 r and
 * columns across + 16 c, r and c below SIDE; in a tile of outputs, columns 4 across + c. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_TILE_CUH
#define BP_DEVICE_KERNELS_ATTENTION_TILE_CUH

#include "device/cuda/kernels/attention/attention.cuh"

#define ROWS  64
#define SIDE  (ROWS / 16) /* rows and columns of a tile per thread */
#define PITCH (ROWS + 4)  /* floats between rows in shared memory */
#define TILE  (ROWS * PITCH)

/* A thread's own elements of a tile of scores: OWN_ROWS rows and OWN_COLUMNS columns. */
#define OWN_ROWS    SIDE
#define OWN_COLUMNS SIDE

BP_DEVICE uint32_t own_row(uint32_t i)
{
    return threadIdx.x / 16 + 16 * i;
}

BP_DEVICE uint32_t own_column(uint32_t i)
{
    return threadIdx.x % 16 + 16 * i;
}

/* Which of them is element [r][c] of a thread's scores. */
#define OWN_ROW(r, c)    (r)
#define OWN_COLUMN(r, c) (c)

/* Brings 64 columns of 64 rows of a matrix to shared memory, from row `first` and column `column`
 * on; what is not there is 0. Rows are whole groups of four elements, each aligned to that. */
BP_DEVICE void tile_load(float *to, const void *from, uint64_t pitch, uint64_t first,
                         uint64_t column, const bp_attention *at)
{
    uint32_t d = threadIdx.x % 16 * 4;
#pragma unroll 1
    for (uint32_t row = threadIdx.x / 16; row < ROWS; row += 16) {
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (first + row < at->sequence && column + d < at->width) {
            *(float4 *)v =
                *(const float4 *)((const float *)from + (first + row) * pitch + column + d);
        }
        *(float4 *)(to + row * PITCH + d) = *(float4 *)v;
    }
}

/* sum[r][c] += x_row . y_column, fused, in order of the columns. */
BP_DEVICE void tile_scores(float sum[SIDE][SIDE], const float *x, const float *y,
                           const bp_attention *at)
{
    (void)at;
    x += threadIdx.x / 16 * PITCH;
    y += threadIdx.x % 16 * PITCH;
#pragma unroll 1
    for (uint32_t d = 0; d < ROWS; d += 4) {
        float4 u[SIDE], v[SIDE];
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
            u[r] = *(const float4 *)(x + 16 * r * PITCH + d);
            v[r] = *(const float4 *)(y + 16 * r * PITCH + d);
        }
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
            for (uint32_t c = 0; c < SIDE; c++) {
                float s = fmaf(u[r].x, v[c].x, sum[r][c]);
                s = fmaf(u[r].y, v[c].y, s);
                s = fmaf(u[r].z, v[c].z, s);
                sum[r][c] = fmaf(u[r].w, v[c].w, s);
            }
        }
    }
}

/* sum[r][n] += weights_row . y, over the rows of y in order; outputs are columns 4 across + n. */
BP_DEVICE void tile_combine(float sum[SIDE][SIDE], const float *weights, const float *y,
                            const bp_attention *at)
{
    (void)at;
    weights += threadIdx.x / 16 * PITCH;
    y += threadIdx.x % 16 * 4;
#pragma unroll 1
    for (uint32_t j = 0; j < ROWS; j += 4) {
        float w[SIDE][4];
#pragma unroll
        for (uint32_t r = 0; r < SIDE; r++) {
            *(float4 *)w[r] = *(const float4 *)(weights + 16 * r * PITCH + j);
        }
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            float v[SIDE];
            *(float4 *)v = *(const float4 *)(y + (j + e) * PITCH);
#pragma unroll
            for (uint32_t n = 0; n < SIDE; n++) {
#pragma unroll
                for (uint32_t r = 0; r < SIDE; r++) {
                    sum[r][n] = fmaf(w[r][e], v[n], sum[r][n]);
                }
            }
        }
    }
}

/* Weights as the host has them; attention_power.cuh says what each is. */
BP_DEVICE float weight_scale(const bp_attention *at)
{
    return at->cap > 0.0f ? 1.0f : at->scale;
}

BP_DEVICE bool weight_raw(float scale)
{
    (void)scale;
    return false;
}

BP_DEVICE float weight_of(float score, float scale, float top)
{
    (void)scale;
    return bp_expf_inline(score - top);
}

BP_DEVICE float weight_shrink(float before, float top)
{
    return bp_expf_inline(before - top);
}

BP_DEVICE float weight_lse(float most, float total)
{
    return most + bp_logf(total);
}

BP_DEVICE float known_lse(float lse)
{
    return lse;
}

BP_DEVICE float known_delta(float delta, const bp_attention *at)
{
    (void)at;
    return delta;
}

BP_DEVICE float probability_of(float dot, float lse, const bp_attention *at)
{
    float slope;
    return bp_expf_inline(bp_head_score(at, dot, &slope) - lse);
}

BP_DEVICE float probability_score(float e, float lse)
{
    return bp_logf(e) + lse;
}

BP_DEVICE float gradient_of(float e, float dot, float delta, const bp_attention *at)
{
    return (e * (dot - delta)) * at->scale;
}

/* Multiplies each row by its factor. */
BP_DEVICE void tile_scale(float sum[SIDE][SIDE], const float factor[ROWS])
{
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        float f = factor[threadIdx.x / 16 + 16 * r];
#pragma unroll
        for (uint32_t n = 0; n < SIDE; n++) {
            sum[r][n] *= f;
        }
    }
}

/* weights[down][across] = value, or the transposed place. */
BP_DEVICE void tile_put(float *weights, float value[SIDE][SIDE], bool transposed)
{
    uint32_t across = threadIdx.x % 16, down = threadIdx.x / 16;
    weights += transposed ? across * PITCH + down : down * PITCH + across;
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
#pragma unroll
        for (uint32_t c = 0; c < SIDE; c++) {
            weights[transposed ? 16 * c * PITCH + 16 * r : 16 * r * PITCH + 16 * c] = value[r][c];
        }
    }
}

/* Writes sums to 64 columns of the rows of a matrix that are there. */
BP_DEVICE void tile_store(void *to, uint64_t pitch, uint64_t first, uint64_t column,
                          float sum[SIDE][SIDE], const bp_attention *at)
{
    column += threadIdx.x % 16 * 4;
#pragma unroll
    for (uint32_t r = 0; r < SIDE; r++) {
        uint64_t row = first + threadIdx.x / 16 + 16 * r;
        if (row < at->sequence && column < at->width) {
            *(float4 *)((float *)to + row * pitch + column) = *(float4 *)sum[r];
        }
    }
}

#endif
