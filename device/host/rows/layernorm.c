/* SPDX-License-Identifier: MIT */
/* Layer normalisation (Ba, Kiros, Hinton, arXiv 1607.06450): forward, both backwards, plain form.
 */
#include "device/host/vector/element.h"

static uint64_t forward_tasks(const void *scalars)
{
    const bp_layernorm_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* mean = sum x / width; rstd = 1 / sqrt(sum (x - mean)^2 / width + epsilon); sums in lanes, the
 * second by fused multiply-add. */
static void row_statistics(const bp_element *x, uint64_t width, float epsilon, float *mean,
                           float *rstd)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i++) {
        lane[i % BP_LANES] += bp_get(x, i);
    }
    float average = bp_lanes_sum(lane) / (float)width;
    float square[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i++) {
        float d = bp_get(x, i) - average;
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
    const bp_element *weight = p->weight, *bias = p->bias;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *x = (const bp_element *)p->x + row * width;
        bp_element *y = (bp_element *)p->y + row * width;
        float mean, rstd;
        row_statistics(x, width, (float)s->epsilon, &mean, &rstd);
        for (uint64_t i = 0; i < width; i++) {
            bp_put(y, i, fmaf((bp_get(x, i) - mean) * rstd, bp_get(weight, i), bp_get(bias, i)));
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
    const bp_element *weight = p->weight;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *d_y = (const bp_element *)p->d_y + row * width;
        const bp_element *x = (const bp_element *)p->x + row * width;
        const bp_element *residual =
            p->residual != NULL ? (const bp_element *)p->residual + row * width : NULL;
        bp_element *d_x = (bp_element *)p->d_x + row * width;
        float mean = ((const float *)p->mean)[row], rstd = ((const float *)p->rstd)[row];
        float lane_g[BP_LANES] = {0.0f}, lane_gh[BP_LANES] = {0.0f};
        for (uint64_t i = 0; i < width; i++) {
            float g = bp_get(d_y, i) * bp_get(weight, i);
            float h = (bp_get(x, i) - mean) * rstd;
            lane_g[i % BP_LANES] += g;
            lane_gh[i % BP_LANES] = fmaf(g, h, lane_gh[i % BP_LANES]);
        }
        float a = bp_lanes_sum(lane_g) / (float)width;
        float b = bp_lanes_sum(lane_gh) / (float)width;
        for (uint64_t i = 0; i < width; i++) {
            float g = bp_get(d_y, i) * bp_get(weight, i);
            float h = (bp_get(x, i) - mean) * rstd;
            float t = fmaf(-h, b, g - a);
            bp_put(d_x, i, residual != NULL ? fmaf(rstd, t, bp_get(residual, i)) : rstd * t);
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
    bp_columns weight = {.at = p->d_weight}, bias = {.at = p->d_bias};
    weight.type = bp_call_type(call, BP_OPERAND(layernorm_backward_parameters, d_weight));
    bias.type = bp_call_type(call, BP_OPERAND(layernorm_backward_parameters, d_bias));
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_COLUMNS;
        uint64_t count = bp_least(width - column, BP_COLUMNS);
        weight.first = bias.first = column;
        weight.count = bias.count = count;
        bp_columns_begin(&weight, s->accumulate);
        bp_columns_begin(&bias, s->accumulate);
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const bp_element *d_y = (const bp_element *)p->d_y + row * width + column;
            const bp_element *x = (const bp_element *)p->x + row * width + column;
            for (uint64_t i = 0; i < count; i++) {
                float d = bp_get(d_y, i);
                weight.value[i] = fmaf(d, (bp_get(x, i) - mean[row]) * rstd[row], weight.value[i]);
                bias.value[i] += d;
            }
        }
        bp_columns_end(&weight);
        bp_columns_end(&bias);
    }
}

const bp_host_kernel BP_BUILT(bp_host_layernorm_forward) = {forward_tasks, forward_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_layernorm_backward_input) = {input_tasks, input_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_layernorm_backward_parameters) = {parameters_tasks,
                                                                        parameters_run, NULL};
