/* SPDX-License-Identifier: MIT */
/* Magnitudes of adapted weights (DoRA): lengths of rows, and what is applied column by column. */
#include "device/cuda/kernels/master.cuh"
#include "device/cuda/kernels/products/quantised.cuh"

#define LANES   32
#define WARPS   8 /* rows of a block of weight_norms */
#define COLUMNS 8 /* of a block of magnitude_backward */
#define GROUPS  128

/* A warp has a row, a lane every 32nd column: rows of a block read the same of a. */
BP_KERNEL bp_weight_norms(float *norms, const void *weight, const uint8_t *codes,
                          const void *scales, const float *nested, const void *a, const void *b,
                          uint64_t rows, uint64_t columns, uint64_t rank, float factor,
                          uint32_t turned, uint32_t kind, uint32_t form)
{
    __shared__ float table[16];
    if (rows == 0) {
        return;
    }
    if (threadIdx.x < 16) {
        table[threadIdx.x] = book_value(kind, threadIdx.x);
    }
    __syncthreads();
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / LANES;
    uint32_t lane = threadIdx.x % LANES;
    const bp_codes stored = {codes, scales, nested, kind};
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t i = lane; i < columns && row < rows; i += LANES) {
        float low = 0.0f;
#pragma unroll 4
        for (uint64_t k = 0; k < rank; k++) {
            low = fmaf(bp_get(b, row * rank + k, form), bp_get(a, k * columns + i, form), low);
        }
        float w;
        uint64_t at = turned != 0 ? i * rows + row : row * columns + i;
        if (kind != 0) {
            float x[4] = {code_value(&stored, at, at / columns, table), 0.0f, 0.0f, 0.0f};
            bp_round4(form, x);
            w = x[0];
        } else {
            w = bp_get(weight, at, form);
        }
        w = fmaf(factor, low, w);
        sum = fmaf(w, w, sum);
    }
#pragma unroll
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(BP_ALL_LANES, sum, distance);
    }
    if (lane == 0 && row < rows) {
        norms[row] = sqrtf(sum);
    }
}

/* A thread has four columns of a row. */
BP_KERNEL bp_magnitude_apply(void *y, const void *x, const void *magnitude, const float *norms,
                             const void *bias, const void *residual, uint64_t rows, uint64_t n,
                             uint64_t pitch, uint64_t x_pitch, float less, uint32_t form_y,
                             uint32_t form_x, uint32_t form_n)
{
    uint64_t row = blockIdx.x;
    if (row >= rows) {
        return;
    }
#pragma unroll 1
    for (uint64_t i = (uint64_t)threadIdx.x * 4; i < n; i += (uint64_t)blockDim.x * 4) {
        float v[4], m[4], b[4] = {0.0f, 0.0f, 0.0f, 0.0f}, r[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        bp_load4(bp_at(x, row * x_pitch, form_x), i, n - i, form_x, v);
        bp_load4(magnitude, i, n - i, form_n, m);
        if (bias != NULL) {
            bp_load4(bias, i, n - i, form_n, b);
        }
        if (residual != NULL) {
            bp_load4(bp_at(residual, row * pitch, form_y), i, n - i, form_y, r);
        }
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            float norm = i + e < n ? norms[i + e] : 0.0f;
            float factor = (norm > 0.0f ? m[e] / norm : 0.0f) - less;
            v[e] = factor * v[e] + b[e] + r[e];
        }
        bp_store4(bp_to(y, row * pitch, form_y), i, n - i, form_y, v);
    }
}

/* A block has 8 columns, its groups of threads rows in turn. */
BP_KERNEL bp_magnitude_backward(void *d_magnitude, const void *d_y, const void *x,
                                const float *norms, uint64_t rows, uint64_t n, uint64_t pitch,
                                uint32_t accumulate, uint32_t form, uint32_t form_sum)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (n == 0) {
        return;
    }
    float sum = 0.0f;
    float norm = column < n ? norms[column] : 0.0f;
    float inverse = norm > 0.0f ? 1.0f / norm : 0.0f;
#pragma unroll 4
    for (uint64_t row = column < n ? threadIdx.y : rows; row < rows; row += blockDim.y) {
        sum +=
            bp_get(d_y, row * pitch + column, form) * (bp_get(x, row * n + column, form) * inverse);
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
#pragma unroll 1
    for (uint32_t distance = blockDim.y / 2; distance > 0; distance /= 2) {
        if (threadIdx.y < distance) {
            part[threadIdx.y][threadIdx.x] += part[threadIdx.y + distance][threadIdx.x];
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && column < n) {
        float before = accumulate != 0 ? bp_get(d_magnitude, column, form_sum) : 0.0f;
        bp_put(d_magnitude, column, form_sum, before + part[0][threadIdx.x]);
    }
}

BP_KERNEL bp_store_values(void *y, void *master, const float *x, uint64_t count, uint32_t kind,
                          uint32_t even, uint32_t form)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    if (even != 0) {
        bp_put(y, i, form, x[i]);
    } else {
        bp_store_master(y, master, i, form, kind, x[i]);
    }
}
