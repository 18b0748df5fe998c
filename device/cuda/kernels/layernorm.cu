/* SPDX-License-Identifier: MIT */
/* Layer and RMS normalisation forward and both backwards, and bias gradients.
 *
 * Along a row: half a warp has a row, its lane t the elements t, t + 16, ..., and the sixteen sums
 * are added pairwise at distance 8, 4, 2, 1: the host's order, and its bits. Down the rows: a block
 * has 8 columns, and blockDim.y groups of rows that are added as a tree. */
#include "device/cuda/kernels/element.cuh"

#define LANES   16
#define THREADS 256 /* 16 rows */
#define COLUMNS 8
#define GROUPS  128 /* most groups of rows */

/* The sum over the sixteen lanes, in all of them. */
BP_DEVICE float lanes_sum(float sum)
{
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(BP_ALL_LANES, sum, distance, LANES);
    }
    return __shfl_sync(BP_ALL_LANES, sum, 0, LANES);
}

BP_DEVICE uint64_t my_row(void)
{
    return (uint64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
}

BP_KERNEL bp_layernorm_forward(void *y, float *mean, float *rstd, const void *x, const void *weight,
                               const void *bias, uint64_t rows, uint64_t width, float epsilon,
                               uint32_t form)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES, i;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    x = bp_at(x, there ? row * width : 0, form);
    float sum = 0.0f, square = 0.0f, v[4];
#pragma unroll 1
    for (i = lane; i + 3 * LANES < width; i += 4 * LANES) {
        bp_load4_apart(x, i, LANES, form, v);
        sum = ((sum + v[0]) + v[1] + v[2]) + v[3];
    }
#pragma unroll 1
    for (; i < width; i += LANES) {
        sum += bp_get(x, i, form);
    }
    float average = lanes_sum(sum) / (float)width;
#pragma unroll 1
    for (i = lane; i + 3 * LANES < width; i += 4 * LANES) {
        bp_load4_apart(x, i, LANES, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] -= average;
            square = fmaf(v[e], v[e], square);
        }
    }
#pragma unroll 1
    for (; i < width; i += LANES) {
        float d = bp_get(x, i, form) - average;
        square = fmaf(d, d, square);
    }
    float scale = 1.0f / sqrtf(lanes_sum(square) / (float)width + epsilon);
    if (!there) {
        return;
    }
    y = bp_to(y, row * width, form);
#pragma unroll 1
    for (i = lane; i < width; i += LANES) {
        float h = (bp_get(x, i, form) - average) * scale;
        bp_put(y, i, form, fmaf(h, bp_get(weight, i, form), bp_get(bias, i, form)));
    }
    if (lane == 0 && mean != NULL) {
        mean[row] = average;
    }
    if (lane == 0 && rstd != NULL) {
        rstd[row] = scale;
    }
}

/* Four elements of the gradient of a normalised row, and the normalised values, LANES apart: g =
 * d_y * weight and h = (x - mean) / deviation. */
typedef struct gradient_row {
    const void *d_y;
    const void *x;
    const void *weight;
    float average;
    float scale;
    uint32_t offset;
} gradient_row;

/* An RMS norm's weight: what is kept, or 1 more. */
BP_DEVICE float weight_at(const void *weight, uint64_t i, uint32_t form, uint32_t offset)
{
    float w = bp_get(weight, i, form);
    return offset != 0 ? w + 1.0f : w;
}

BP_DEVICE void row_terms(const gradient_row *r, uint64_t i, uint32_t form, float g[4], float h[4])
{
    float w[4];
    bp_load4_apart(r->d_y, i, LANES, form, g);
    bp_load4_apart(r->weight, i, LANES, form, w);
    bp_load4_apart(r->x, i, LANES, form, h);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        g[e] *= r->offset != 0 ? w[e] + 1.0f : w[e];
        h[e] = (h[e] - r->average) * r->scale;
    }
}

BP_DEVICE void row_term(const gradient_row *r, uint64_t i, uint32_t form, float *g, float *h)
{
    *g = bp_get(r->d_y, i, form) * weight_at(r->weight, i, form, r->offset);
    *h = (bp_get(r->x, i, form) - r->average) * r->scale;
}

/* d_x may be d_y or residual: each lane reads its elements of both before it writes them. */
BP_KERNEL bp_layernorm_backward_input(void *d_x, const void *d_y, const void *x, const void *weight,
                                      const float *mean, const float *rstd, const void *residual,
                                      uint64_t rows, uint64_t width, uint32_t form)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    row = there ? row : 0;
    uint64_t start = row * width, end = there ? width : 0;
    const gradient_row at = {
        bp_at(d_y, start, form), bp_at(x, start, form), weight, mean[row], rstd[row], 0};
    float sum_g = 0.0f, sum_gh = 0.0f, g[4], h[4];
    uint64_t i;
#pragma unroll 1
    for (i = lane; i + 3 * LANES < end; i += 4 * LANES) {
        row_terms(&at, i, form, g, h);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum_g += g[e];
            sum_gh = fmaf(g[e], h[e], sum_gh);
        }
    }
#pragma unroll 1
    for (; i < end; i += LANES) {
        row_term(&at, i, form, g, h);
        sum_g += g[0];
        sum_gh = fmaf(g[0], h[0], sum_gh);
    }
    float a = lanes_sum(sum_g) / (float)width;
    float b = lanes_sum(sum_gh) / (float)width;
    d_x = bp_to(d_x, start, form);
    residual = residual != NULL ? bp_at(residual, start, form) : NULL;
#pragma unroll 1
    for (i = lane; i < end; i += LANES) {
        row_term(&at, i, form, g, h);
        float t = fmaf(-h[0], b, g[0] - a);
        float r = residual != NULL ? fmaf(at.scale, t, bp_get(residual, i, form)) : at.scale * t;
        bp_put(d_x, i, form, r);
    }
}

/* Adds the sums of all groups of rows for each column of the block, as a tree; the result is right
 * in group 0. */
BP_DEVICE float groups_sum(float sum, float part[GROUPS][COLUMNS])
{
    uint32_t group = threadIdx.y, column = threadIdx.x;
    __syncthreads();
    part[group][column] = sum;
    __syncthreads();
#pragma unroll 1
    for (uint32_t distance = blockDim.y / 2; distance > 0; distance /= 2) {
        if (group < distance) {
            part[group][column] += part[group + distance][column];
        }
        __syncthreads();
    }
    return part[0][column];
}

BP_DEVICE void write_sum(void *to, uint64_t column, float sum, uint32_t accumulate, uint32_t form)
{
    bp_put(to, column, form, accumulate != 0 ? bp_get(to, column, form) + sum : sum);
}

BP_KERNEL bp_layernorm_backward_parameters(void *d_weight, void *d_bias, const void *d_y,
                                           const void *x, const float *mean, const float *rstd,
                                           uint64_t rows, uint64_t width, uint32_t accumulate,
                                           uint32_t form, uint32_t form_weight, uint32_t form_bias)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x, groups = blockDim.y;
    if (width == 0) {
        return;
    }
    float sum_weight = 0.0f, sum_bias = 0.0f;
    uint64_t row = column < width ? threadIdx.y : rows;
#pragma unroll 1
    for (; row + 3 * groups < rows; row += 4 * groups) {
        float d[4], h[4];
        bp_load4_apart(d_y, row * width + column, groups * width, form, d);
        bp_load4_apart(x, row * width + column, groups * width, form, h);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint64_t at = row + e * groups;
            sum_weight = fmaf(d[e], (h[e] - mean[at]) * rstd[at], sum_weight);
            sum_bias += d[e];
        }
    }
#pragma unroll 1
    for (; row < rows; row += groups) {
        float d = bp_get(d_y, row * width + column, form);
        float h = (bp_get(x, row * width + column, form) - mean[row]) * rstd[row];
        sum_weight = fmaf(d, h, sum_weight);
        sum_bias += d;
    }
    sum_weight = groups_sum(sum_weight, part);
    sum_bias = groups_sum(sum_bias, part);
    if (threadIdx.y == 0 && column < width) {
        write_sum(d_weight, column, sum_weight, accumulate, form_weight);
        write_sum(d_bias, column, sum_bias, accumulate, form_bias);
    }
}

/* pitch: elements between rows of d_y. */
BP_KERNEL bp_bias_backward(void *d_bias, const void *d_y, uint64_t rows, uint64_t n, uint64_t pitch,
                           uint32_t accumulate, uint32_t form, uint32_t form_sum)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x, groups = blockDim.y;
    if (n == 0) {
        return;
    }
    float sum = 0.0f, d[4];
    uint64_t row = column < n ? threadIdx.y : rows;
#pragma unroll 1
    for (; row + 3 * groups < rows; row += 4 * groups) {
        bp_load4_apart(d_y, row * pitch + column, groups * pitch, form, d);
        sum = ((sum + d[0]) + d[1] + d[2]) + d[3];
    }
#pragma unroll 1
    for (; row < rows; row += groups) {
        sum += bp_get(d_y, row * pitch + column, form);
    }
    sum = groups_sum(sum, part);
    if (threadIdx.y == 0 && column < n) {
        write_sum(d_bias, column, sum, accumulate, form_sum);
    }
}

/* Where head number `row` begins, of rows of `heads` heads that lie at a pitch. */
BP_DEVICE uint64_t head_at(uint64_t row, uint64_t width, uint64_t heads, uint64_t pitch)
{
    return heads == 1 ? row * pitch : row / heads * pitch + row % heads * width;
}

/* y = (x * rstd) * weight, rstd = 1 / sqrt(mean(x^2) + epsilon). */
BP_KERNEL bp_rmsnorm_forward(void *y, float *rstd, const void *x, const void *weight, uint64_t rows,
                             uint64_t width, uint64_t heads, uint64_t pitch, float epsilon,
                             uint32_t form, uint32_t offset)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES, i;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    uint64_t start = head_at(there ? row : 0, width, heads, pitch);
    x = bp_at(x, start, form);
    float square = 0.0f, v[4];
#pragma unroll 1
    for (i = lane; i + 3 * LANES < width; i += 4 * LANES) {
        bp_load4_apart(x, i, LANES, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            square = fmaf(v[e], v[e], square);
        }
    }
#pragma unroll 1
    for (; i < width; i += LANES) {
        float d = bp_get(x, i, form);
        square = fmaf(d, d, square);
    }
    float scale = 1.0f / sqrtf(lanes_sum(square) / (float)width + epsilon);
    if (!there) {
        return;
    }
    y = bp_to(y, start, form);
#pragma unroll 1
    for (i = lane; i < width; i += LANES) {
        bp_put(y, i, form, (bp_get(x, i, form) * scale) * weight_at(weight, i, form, offset));
    }
    if (lane == 0 && rstd != NULL) {
        rstd[row] = scale;
    }
}

/* With b = mean(g h), g = d_y * weight, h = x * rstd: d_x = residual + rstd * (g - h b). d_x may be
 * d_y or residual: each lane reads its elements of both before it writes them. */
BP_KERNEL bp_rmsnorm_backward_input(void *d_x, const void *d_y, const void *x, const void *weight,
                                    const float *rstd, const void *residual, uint64_t rows,
                                    uint64_t width, uint64_t heads, uint64_t pitch, uint32_t form,
                                    uint32_t offset)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES, i;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    row = there ? row : 0;
    uint64_t start = head_at(row, width, heads, pitch), end = there ? width : 0;
    const gradient_row at = {
        bp_at(d_y, start, form), bp_at(x, start, form), weight, 0.0f, rstd[row], offset};
    float sum = 0.0f, g[4], h[4];
#pragma unroll 1
    for (i = lane; i + 3 * LANES < end; i += 4 * LANES) {
        row_terms(&at, i, form, g, h);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum = fmaf(g[e], h[e], sum);
        }
    }
#pragma unroll 1
    for (; i < end; i += LANES) {
        row_term(&at, i, form, g, h);
        sum = fmaf(g[0], h[0], sum);
    }
    float b = lanes_sum(sum) / (float)width;
    d_x = bp_to(d_x, start, form);
    residual = residual != NULL ? bp_at(residual, start, form) : NULL;
#pragma unroll 1
    for (i = lane; i < end; i += LANES) {
        row_term(&at, i, form, g, h);
        float t = fmaf(-h[0], b, g[0]);
        float r = residual != NULL ? fmaf(at.scale, t, bp_get(residual, i, form)) : at.scale * t;
        bp_put(d_x, i, form, r);
    }
}

/* d_weight (+)= the sum over rows of d_y * (x * rstd). */
BP_KERNEL bp_rmsnorm_backward_weight(void *d_weight, const void *d_y, const void *x,
                                     const float *rstd, uint64_t rows, uint64_t width,
                                     uint64_t heads, uint64_t pitch, uint32_t accumulate,
                                     uint32_t form, uint32_t form_sum)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x, groups = blockDim.y;
    if (width == 0) {
        return;
    }
    float sum = 0.0f, d[4], h[4];
    uint64_t row = column < width ? threadIdx.y : rows;
#pragma unroll 1
    for (; heads == 1 && row + 3 * groups < rows; row += 4 * groups) {
        bp_load4_apart(d_y, row * pitch + column, groups * pitch, form, d);
        bp_load4_apart(x, row * pitch + column, groups * pitch, form, h);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum = fmaf(d[e], h[e] * rstd[row + e * groups], sum);
        }
    }
#pragma unroll 1
    for (; row < rows; row += groups) {
        uint64_t at = head_at(row, width, heads, pitch) + column;
        float x1 = bp_get(x, at, form) * rstd[row];
        sum = fmaf(bp_get(d_y, at, form), x1, sum);
    }
    sum = groups_sum(sum, part);
    if (threadIdx.y == 0 && column < width) {
        write_sum(d_weight, column, sum, accumulate, form_sum);
    }
}
