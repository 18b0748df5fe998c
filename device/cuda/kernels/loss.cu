/* SPDX-License-Identifier: MIT */
/* Softmax cross-entropy over a chunk of logits, with and without its gradient: a row per block,
 * read once for the running maximum and sum (Milakov and Gimelshein, arXiv 1805.02867). */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/reduce.cuh"

/* The largest logit of a row and the sum of exp(logit - largest), in all threads. */
BP_DEVICE void row_sum(const void *x, uint64_t vocabulary, uint32_t form, float *largest,
                       float *total)
{
    float most = -INFINITY, sum = 0.0f;
#pragma unroll 1
    for (uint64_t i = (uint64_t)threadIdx.x * 4; i < vocabulary; i += (uint64_t)blockDim.x * 4) {
        float v[4];
        bp_load4(x, i, vocabulary - i, form, v);
        float before = most;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            most = i + e < vocabulary && v[e] > most ? v[e] : most;
        }
        sum *= before == most ? 1.0f : bp_expf_inline(before - most);
        /* by turns, so that the code is there once */
        uint32_t end = (uint32_t)bp_least(4, vocabulary - i);
#pragma unroll 1
        for (uint32_t e = 0; e < end; e++) {
            sum += bp_expf_inline(v[0] - most);
            v[0] = v[1];
            v[1] = v[2];
            v[2] = v[3];
        }
    }
    *largest = bp_block_max(most);
    sum *= most == *largest ? 1.0f : bp_expf_inline(most - *largest);
    *total = bp_block_sum(sum);
}

/* The sum of a row, in all threads. */
BP_DEVICE float row_total(const void *x, uint64_t count, uint32_t form)
{
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
        sum += bp_get(x, i, form);
    }
    return bp_block_sum(sum);
}

/* What the gradient of a row is made with: exp(logit - most) * factor - share, and less peak at the
 * label. */
typedef struct slope {
    float most;
    float factor;
    float share;
    float peak;
} slope;

BP_DEVICE slope slope_of(float most, float factor, float weight, double smoothing,
                         uint64_t vocabulary)
{
    const slope s = {most, factor, weight * (float)(smoothing / (double)vocabulary),
                     weight * (float)(1.0 - smoothing)};
    return s;
}

/* Columns first .. first + columns - 1 of a row: logits become their gradient. */
BP_DEVICE void row_gradient(void *logits, uint64_t columns, uint64_t first, int32_t label,
                            const slope *s, uint32_t form)
{
#pragma unroll 1
    for (uint64_t i = (uint64_t)threadIdx.x * 4; i < columns; i += (uint64_t)blockDim.x * 4) {
        float v[4];
        bp_load4(logits, i, columns - i, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float g = bp_expf_inline(v[e] - s->most) * s->factor - s->share;
            g = first + i + e == (uint64_t)(int64_t)label ? g - s->peak : g;
            v[e] = label >= 0 ? g : 0.0f;
        }
        bp_store4(logits, i, columns - i, form, v);
    }
}

BP_DEVICE float loss_weight(const bp_step_block *step, const bp_control_block *control,
                            uint32_t scaled)
{
    return scaled != 0 ? step->inverse_valid * control->scale : step->inverse_valid;
}

/* gradient: logits become their gradient, times control.scale when scaled; else they are only read,
 * and step and control may be absent, and statistics. */
BP_KERNEL bp_cross_entropy(void *logits, float *losses, const int32_t *labels,
                           const bp_step_block *step, const bp_control_block *control,
                           float *statistics, uint64_t stride, uint64_t rows, uint64_t vocabulary,
                           uint64_t pitch, uint32_t gradient, uint32_t scaled, double smoothing,
                           uint32_t form)
{
    uint64_t row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    logits = bp_to(logits, row * pitch, form);
    int32_t label = labels[row];
    float most = 0.0f, sum = 1.0f;
    if (label >= 0) {
        float target = bp_get(logits, (uint64_t)label, form);
        row_sum(logits, vocabulary, form, &most, &sum);
        float more = 0.0f;
        if (smoothing > 0.0) {
            more = (float)smoothing *
                   (target - row_total(logits, vocabulary, form) / (float)vocabulary);
        }
        if (threadIdx.x == 0) {
            losses[row] = (most + bp_logf(sum)) - target + more;
        }
    } else if (threadIdx.x == 0) {
        losses[row] = 0.0f;
    }
    if (gradient == 0) {
        return;
    }
    float weight = loss_weight(step, control, scaled);
    float factor = weight / sum;
    if (statistics != NULL && threadIdx.x == 0) {
        statistics[row] = most;
        statistics[stride + row] = label >= 0 ? factor : 0.0f;
    }
    const slope s = slope_of(most, factor, weight, smoothing, vocabulary);
    row_gradient(logits, vocabulary, 0, label, &s, form);
}

BP_KERNEL bp_cross_entropy_columns(void *logits, const int32_t *labels, const float *statistics,
                                   const bp_step_block *step, const bp_control_block *control,
                                   uint64_t stride, uint64_t rows, uint64_t columns, uint64_t pitch,
                                   uint64_t first, uint64_t vocabulary, uint32_t scaled,
                                   double smoothing, uint32_t form)
{
    uint64_t row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    const slope s = slope_of(statistics[row], statistics[stride + row],
                             loss_weight(step, control, scaled), smoothing, vocabulary);
    row_gradient(bp_to(logits, row * pitch, form), columns, first, labels[row], &s, form);
}
