/* SPDX-License-Identifier: MIT */
/* Layer normalisation forward and both backwards, and bias gradients.
 *
 * Along a row: half a warp has a row, its lane t the elements t, t + 16, ..., and the sixteen sums are
 * added pairwise at distance 8, 4, 2, 1: the host's order, and its bits. Down the rows: a block has 8
 * columns, and blockDim.y groups of rows that are added as a tree. */
#include "device/kernels/element.cuh"

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

BP_KERNEL bp_layernorm_forward(bp_element *y, float *mean, float *rstd, const bp_element *x,
                               const bp_element *weight, const bp_element *bias, uint64_t rows,
                               uint64_t width, float epsilon)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    x += there ? row * width : 0;
    float sum = 0.0f;
#pragma unroll 4
    for (uint64_t i = lane; i < width; i += LANES) {
        sum += bp_from_element(x[i]);
    }
    float average = lanes_sum(sum) / (float)width;
    float square = 0.0f;
#pragma unroll 4
    for (uint64_t i = lane; i < width; i += LANES) {
        float d = bp_from_element(x[i]) - average;
        square = fmaf(d, d, square);
    }
    float scale = 1.0f / sqrtf(lanes_sum(square) / (float)width + epsilon);
    if (!there) {
        return;
    }
    y += row * width;
#pragma unroll 4
    for (uint64_t i = lane; i < width; i += LANES) {
        float h = (bp_from_element(x[i]) - average) * scale;
        y[i] = bp_to_element(fmaf(h, bp_from_element(weight[i]), bp_from_element(bias[i])));
    }
    if (lane == 0 && mean != NULL) {
        mean[row] = average;
    }
    if (lane == 0 && rstd != NULL) {
        rstd[row] = scale;
    }
}

/* d_x may be d_y or residual: each lane reads its elements of both before it writes them. */
BP_KERNEL bp_layernorm_backward_input(bp_element *d_x, const bp_element *d_y, const bp_element *x,
                                      const bp_element *weight, const float *mean,
                                      const float *rstd, const bp_element *residual, uint64_t rows,
                                      uint64_t width)
{
    uint64_t row = my_row(), lane = threadIdx.x % LANES;
    if (rows == 0) {
        return;
    }
    bool there = row < rows;
    row = there ? row : 0;
    d_y += row * width;
    x += row * width;
    float average = mean[row], scale = rstd[row], sum_g = 0.0f, sum_gh = 0.0f;
#pragma unroll 4
    for (uint64_t i = lane; i < width && there; i += LANES) {
        float g = bp_from_element(d_y[i]) * bp_from_element(weight[i]);
        float h = (bp_from_element(x[i]) - average) * scale;
        sum_g += g;
        sum_gh = fmaf(g, h, sum_gh);
    }
    float a = lanes_sum(sum_g) / (float)width;
    float b = lanes_sum(sum_gh) / (float)width;
    if (!there) {
        return;
    }
    d_x += row * width;
    residual += residual != NULL ? row * width : 0;
#pragma unroll 1
    for (uint64_t i = lane; i < width; i += LANES) {
        float g = bp_from_element(d_y[i]) * bp_from_element(weight[i]);
        float h = (bp_from_element(x[i]) - average) * scale;
        float t = fmaf(-h, b, g - a);
        float r = residual != NULL ? fmaf(scale, t, bp_from_element(residual[i])) : scale * t;
        d_x[i] = bp_to_element(r);
    }
}

/* Adds the sums of all groups of rows for each column of the block, as a tree; the result is right in
 * group 0. */
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

BP_DEVICE void write_sum(bp_element *to, float sum, uint32_t accumulate)
{
    *to = bp_to_element(accumulate != 0 ? bp_from_element(*to) + sum : sum);
}

BP_KERNEL bp_layernorm_backward_parameters(bp_element *d_weight, bp_element *d_bias,
                                           const bp_element *d_y, const bp_element *x,
                                           const float *mean, const float *rstd, uint64_t rows,
                                           uint64_t width, uint32_t accumulate)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (width == 0) {
        return;
    }
    float sum_weight = 0.0f, sum_bias = 0.0f;
#pragma unroll 4
    for (uint64_t row = threadIdx.y; row < rows && column < width; row += blockDim.y) {
        float d = bp_from_element(d_y[row * width + column]);
        float h = (bp_from_element(x[row * width + column]) - mean[row]) * rstd[row];
        sum_weight = fmaf(d, h, sum_weight);
        sum_bias += d;
    }
    sum_weight = groups_sum(sum_weight, part);
    sum_bias = groups_sum(sum_bias, part);
    if (threadIdx.y == 0 && column < width) {
        write_sum(d_weight + column, sum_weight, accumulate);
        write_sum(d_bias + column, sum_bias, accumulate);
    }
}

BP_KERNEL bp_bias_backward(bp_element *d_bias, const bp_element *d_y, uint64_t rows, uint64_t n,
                           uint32_t accumulate)
{
    __shared__ float part[GROUPS][COLUMNS];
    uint64_t column = (uint64_t)blockIdx.x * COLUMNS + threadIdx.x;
    if (n == 0) {
        return;
    }
    float sum = 0.0f;
#pragma unroll 4
    for (uint64_t row = threadIdx.y; row < rows && column < n; row += blockDim.y) {
        sum += bp_from_element(d_y[row * n + column]);
    }
    sum = groups_sum(sum, part);
    if (threadIdx.y == 0 && column < n) {
        write_sum(d_bias + column, sum, accumulate);
    }
}
