/* SPDX-License-Identifier: MIT */
/* What the update rules over whole matrices have beside their step: a part of optimizer.cu. */
#ifndef BP_DEVICE_KERNELS_MATRIX_CUH
#define BP_DEVICE_KERNELS_MATRIX_CUH

#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/parameters.h"
#include "device/cuda/kernels/reduce.cuh"
#include "device/cuda/kernels/update.cuh"

/* A block is 1024 elements. */
BP_KERNEL bp_direction(void *x, unsigned char *state1, unsigned char *state2, const void *gradient,
                       const bp_control_block *control, bp_direction_parameters p)
{
    __shared__ update_shared shared;
    uint64_t i = (uint64_t)blockIdx.x * (BP_RUN_THREADS * 4) + threadIdx.x * 4;
    uint64_t left = i < p.count ? p.count - i : 0;
    float g[4], y[3][4] = {{0.0f}}, to[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    make_books(&shared, p.codec);
    __syncthreads();
    if (control->skip == 0) {
        update_tensor t;
        t.state[0] = state1;
        t.state[1] = state2;
        t.state[2] = NULL;
        t.gradient = (const unsigned char *)gradient;
        t.gradient_form = p.form_gradient;
        t.wide = p.form_x & BP_WIDE;
        load_gradient(&t, i, left, control->clip, g);
#pragma unroll 1
        for (uint32_t k = 0; k < 3; k++) {
            load_state(&shared, p.codec, k == 0, t.state[0], i, left, t.wide, y[0]);
            turn_states(&t, y);
        }
#pragma unroll 1
        for (int e = 0; e < 4; e++) {
            to[0] = state2 != NULL ? bp_update_ratio(g[0], &y[0][0], &y[1][0], p.gain, p.keep2,
                                                     p.gain2, p.epsilon)
                                   : bp_update_direction(g[0], &y[0][0], p.gain, p.nesterov);
            BP_TURN(float, to);
            BP_TURN(float, g);
            BP_TURN(float, y[0]);
            BP_TURN(float, y[1]);
        }
        __syncthreads(); /* scales have been read by all before one thread writes them */
#pragma unroll 1
        for (uint32_t k = 0; k < 3; k++) {
            store_state(&shared, &t, p.codec, k == 0, i, p.count, k, y[0]);
            turn_states(&t, y);
        }
    }
    if (left > 0) {
        bp_store4(x, i, left, p.form_x, to);
    }
}

/* A block is 1024 elements. */
BP_KERNEL bp_averaged_weight(void *x, const unsigned char *weight, const unsigned char *master,
                             const unsigned char *state, bp_averaged_weight_parameters p)
{
    __shared__ update_shared shared;
    const uint64_t i = (uint64_t)blockIdx.x * (BP_RUN_THREADS * 4) + threadIdx.x * 4;
    const uint64_t left = i < p.count ? p.count - i : 0;
    const bp_weight from = {(unsigned char *)weight, (unsigned char *)master, p.form_weight,
                            p.master};
    float w[4] = {0.0f, 0.0f, 0.0f, 0.0f}, d[4];
    make_books(&shared, p.codec);
    __syncthreads();
    if (left == 0) {
        return;
    }
    bp_load_weight4(&from, i, left, w);
    load_state(&shared, p.codec, true, (unsigned char *)state, i, left, p.form_x & BP_WIDE, d);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        w[e] = fmaf(-p.factor, d[e], w[e]);
    }
    bp_store4(x, i, left, p.form_x, w);
}

/* A block is 1024 elements; each adds up the sums for itself. */
BP_KERNEL bp_unit(void *x, const double *sums, uint64_t count, uint64_t partials, double epsilon,
                  uint32_t form)
{
    __shared__ float factor;
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (uint64_t k = 0; k < partials; k++) {
            sum += sums[k];
        }
        factor = (float)(1.0 / (sqrt(sum) + epsilon));
    }
    __syncthreads();
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4];
    bp_load4(x, i, count - i, form, v);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] *= factor;
    }
    bp_store4(x, i, count - i, form, v);
}

/* A warp is a row. */
BP_KERNEL bp_row_squares(double *sums, const void *x, const bp_control_block *control,
                         uint64_t rows, uint64_t width, uint32_t raw, uint32_t form)
{
    uint64_t row = (uint64_t)blockIdx.x * (BP_RUN_THREADS / BP_WARP) + threadIdx.x / BP_WARP;
    if (row >= rows) {
        return;
    }
    float clip = raw != 0 ? 1.0f : control->clip;
    double sum = 0.0;
    for (uint64_t j = threadIdx.x % BP_WARP; j < width; j += BP_WARP) {
        double g = (double)(bp_get(x, row * width + j, form) * clip);
        sum += g * g;
    }
    sum = bp_block_sum_double_warp(sum);
    if (threadIdx.x % BP_WARP == 0) {
        sums[row] = sum;
    }
}

/* A thread is a column of one chunk of rows; chunks lie along y. */
BP_KERNEL bp_column_squares(double *sums, const void *x, const bp_control_block *control,
                            uint64_t rows, uint64_t width, uint64_t chunk, uint32_t raw,
                            uint32_t form)
{
    uint64_t column = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (column >= width) {
        return;
    }
    uint64_t end = bp_least(rows, (blockIdx.y + 1) * chunk);
    float clip = raw != 0 ? 1.0f : control->clip;
    double sum = 0.0;
    for (uint64_t row = blockIdx.y * chunk; row < end; row++) {
        double g = (double)(bp_get(x, row * width + column, form) * clip);
        sum += g * g;
    }
    sums[blockIdx.y * width + column] = sum;
}

/* The moving mean of one block of squares. */
BP_DEVICE void move_mean(const bp_moment_factors_parameters *p, const double *sums, double beta,
                         uint64_t block, float *mean)
{
    double sum = 0.0;
    for (uint64_t i = block * p->group; i < (block + 1) * p->group; i++) {
        for (uint64_t piece = 0; piece < p->pieces; piece++) {
            sum += sums[piece * p->count * p->group + i];
        }
    }
    *mean = (float)(beta * (double)*mean + (1.0 - beta) * (sum / p->divisor + p->floor));
}

/* A thread is a mean; for kind 0, whose factors need all of them, in the one block there is. */
BP_KERNEL bp_moment_factors(float *means, float *factors, const double *sums,
                            const bp_control_block *control, bp_moment_factors_parameters p)
{
    uint64_t first = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    uint64_t stride = (uint64_t)gridDim.x * BP_RUN_THREADS;
    double t = control->applied > 1 ? (double)control->applied : 1.0, all = 0.0;
    double beta = p.power < 0.0 ? 1.0 - bp_exp(p.power * bp_log(t)) : p.beta2;
    for (uint64_t i = first; i < p.count; i += stride) {
        if (control->skip == 0) {
            move_mean(&p, sums, beta, i, &means[i]);
        }
        all += (double)means[i];
    }
    all = p.kind == 0 ? bp_block_sum_double(all) / (double)p.count : 1.0;
    double below = sqrt(control->correction2);
    for (uint64_t i = first; i < p.count; i += stride) {
        double mean = (double)means[i];
        double factor =
            p.kind == 2 ? 1.0 / (sqrt(mean) / below + p.epsilon) : 1.0 / sqrt(mean / all);
        for (uint64_t k = 0; k < p.group; k++) {
            factors[i * p.group + k] = (float)factor;
        }
    }
}

/* One block. */
BP_KERNEL bp_rms_scale(float *scale, const double *partials, uint64_t pairs, double elements,
                       double threshold, double floor)
{
    double weight = 0.0, update = 0.0;
    for (uint64_t i = threadIdx.x; i < pairs; i += BP_RUN_THREADS) {
        weight += partials[2 * i];
        update += partials[2 * i + 1];
    }
    weight = bp_block_sum_double(weight);
    __syncthreads();
    update = bp_block_sum_double(update);
    if (threadIdx.x == 0) {
        weight = sqrt(weight / elements);
        update = sqrt(update / elements) / threshold;
        double own = floor > 0.0 ? (weight > floor ? weight : floor) : 1.0;
        scale[0] = (float)(own / (update > 1.0 ? update : 1.0));
        scale[1] = (float)own;
    }
}

/* One block; threads take channels in turn. */
BP_KERNEL bp_limited_factors(float *norm, float *factors, float *scale, const double *directions,
                             const double *projections, const double *squares,
                             const bp_control_block *control, uint64_t channels, uint64_t pieces,
                             double root, double limit, uint32_t whole)
{
    double d = 0.0, q = 0.0, sum = 0.0;
    for (uint64_t j = threadIdx.x; whole != 0 && j < channels; j += BP_RUN_THREADS) {
        d += directions[j];
        q += projections[j];
    }
    d = bp_block_sum_double(d);
    __syncthreads();
    q = bp_block_sum_double(q);
    __syncthreads();
    for (uint64_t j = threadIdx.x; j < channels; j += BP_RUN_THREADS) {
        double f =
            sqrt(whole != 0 ? d : directions[j]) / (sqrt(whole != 0 ? q : projections[j]) + 1e-8);
        double g = 0.0;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            g += squares[piece * channels + j];
        }
        factors[j] = (float)f;
        sum += f * f * g;
    }
    sum = bp_block_sum_double(sum);
    if (threadIdx.x == 0) {
        double now = sqrt(sum), ratio = now / ((double)*norm + 1e-8) / limit;
        double limiter = *norm > 0.0f && ratio > 1.0 ? ratio : 1.0;
        scale[0] = (float)(root / limiter * sqrt(control->correction2) / control->correction1);
        scale[1] = 1.0f;
        if (control->skip == 0) {
            *norm = (float)(now / limiter);
        }
    }
}

#endif
