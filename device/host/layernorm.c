/* SPDX-License-Identifier: MIT */
/* Layer normalisation (Ba, Kiros, Hinton, arXiv 1607.06450): forward, both backwards, plain form.
 */
#include "device/host/kernel.h"
#include "device/host/lanes.h"

static uint64_t forward_tasks(const void *scalars)
{
    const bp_layernorm_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* mean = sum x / width; rstd = 1 / sqrt(sum (x - mean)^2 / width + epsilon); sums in lanes, the
 * second by fused multiply-add. */
static void row_statistics(const float *x, uint64_t width, float epsilon, float *mean, float *rstd)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i++) {
        lane[i % BP_LANES] += x[i];
    }
    float average = bp_lanes_sum(lane) / (float)width;
    float square[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i++) {
        float d = x[i] - average;
        square[i % BP_LANES] = fmaf(d, d, square[i % BP_LANES]);
    }
    *mean = average;
    *rstd = 1.0f / sqrtf(bp_lanes_sum(square) / (float)width + epsilon);
}

/* A task is a row. y = fma((x - mean) * rstd, weight, bias). */
static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_layernorm_forward_scalars *s = call->scalars;
    const bp_layernorm_forward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    const float *weight = p->weight, *bias = p->bias;
    for (uint64_t row = first; row < last; row++) {
        const float *x = (const float *)p->x + row * width;
        float *y = (float *)p->y + row * width;
        float mean, rstd;
        row_statistics(x, width, (float)s->epsilon, &mean, &rstd);
        for (uint64_t i = 0; i < width; i++) {
            y[i] = fmaf((x[i] - mean) * rstd, weight[i], bias[i]);
        }
        if (p->mean != NULL) {
            ((float *)p->mean)[row] = mean;
        }
        if (p->rstd != NULL) {
            ((float *)p->rstd)[row] = rstd;
        }
    }
}

static uint64_t input_tasks(const void *scalars)
{
    const bp_layernorm_backward_input_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. With g = d_y * weight, h = (x - mean) * rstd, a = sum g / width (plain lanes),
 * b = sum g h / width (fused lanes): t = fma(-h, b, g - a); d_x = fma(rstd, t, residual), or
 * rstd * t without a residual. d_x may be d_y or residual: a row is summed before it is written. */
static void input_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_layernorm_backward_input_scalars *s = call->scalars;
    const bp_layernorm_backward_input_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    const float *weight = p->weight;
    for (uint64_t row = first; row < last; row++) {
        const float *d_y = (const float *)p->d_y + row * width;
        const float *x = (const float *)p->x + row * width;
        const float *residual =
            p->residual != NULL ? (const float *)p->residual + row * width : NULL;
        float *d_x = (float *)p->d_x + row * width;
        float mean = ((const float *)p->mean)[row], rstd = ((const float *)p->rstd)[row];
        float lane_g[BP_LANES] = {0.0f}, lane_gh[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < width; i++) {
            float g = d_y[i] * weight[i];
            float h = (x[i] - mean) * rstd;
            lane_g[i % BP_LANES] += g;
            lane_gh[i % BP_LANES] = fmaf(g, h, lane_gh[i % BP_LANES]);
        }
        float a = bp_lanes_sum(lane_g) / (float)width;
        float b = bp_lanes_sum(lane_gh) / (float)width;
        for (uint64_t i = 0; i < width; i++) {
            float g = d_y[i] * weight[i];
            float h = (x[i] - mean) * rstd;
            float t = fmaf(-h, b, g - a);
            d_x[i] = residual != NULL ? fmaf(rstd, t, residual[i]) : rstd * t;
        }
    }
}

static uint64_t parameters_tasks(const void *scalars)
{
    const bp_layernorm_backward_parameters_scalars *s = scalars;
    return bp_cut(s->width, BP_COLUMNS);
}

/* A task is a slice of 64 columns: d_weight = fma(d_y, (x - mean) * rstd, d_weight) and
 * d_bias += d_y, row after row. */
static void parameters_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_layernorm_backward_parameters_scalars *s = call->scalars;
    const bp_layernorm_backward_parameters_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    const float *mean = p->mean, *rstd = p->rstd;
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_COLUMNS;
        uint64_t count = bp_least(width - column, BP_COLUMNS);
        float *d_weight = (float *)p->d_weight + column;
        float *d_bias = (float *)p->d_bias + column;
        for (uint64_t i = 0; s->accumulate == 0 && i < count; i++) {
            d_weight[i] = 0.0f;
            d_bias[i] = 0.0f;
        }
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const float *d_y = (const float *)p->d_y + row * width + column;
            const float *x = (const float *)p->x + row * width + column;
            for (uint64_t i = 0; i < count; i++) {
                d_weight[i] = fmaf(d_y[i], (x[i] - mean[row]) * rstd[row], d_weight[i]);
                d_bias[i] += d_y[i];
            }
        }
    }
}

const bp_host_kernel bp_host_layernorm_forward = {forward_tasks, forward_run, NULL};
const bp_host_kernel bp_host_layernorm_backward_input = {input_tasks, input_run, NULL};
const bp_host_kernel bp_host_layernorm_backward_parameters = {parameters_tasks, parameters_run,
                                                              NULL};
