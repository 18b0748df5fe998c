/* SPDX-License-Identifier: MIT */
/* The loss against a label and a teacher, and the likeliest tokens of a row: a block each. */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/parameters.h"
#include "device/cuda/kernels/reduce.cuh"

/* core/ops/distill.h says `static inline`; here that means a device function. */
#define inline __forceinline__ __device__
#define bp_expf bp_expf_inline
#include "core/ops/distill.h"
#undef inline
#undef bp_expf

BP_BLOCK_REDUCTION(block_most, unsigned long long, b > a ? b : a, 0)

/* Largest first, and of equal ones the first: greater is before. Never 0. */
BP_DEVICE unsigned long long place_of(float value, uint64_t at)
{
    uint32_t bits = bp_float_bits(value + 0.0f); /* -0 is 0 */
    bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | (uint32_t) ~(uint32_t)at;
}

BP_DEVICE float row_most(const void *x, uint64_t count, uint32_t form)
{
    float most = -INFINITY;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
        float value = bp_get(x, i, form);
        most = value > most ? value : most;
    }
    return bp_block_max(most);
}

/* The sum of exp((x - most) * by), in all threads. */
BP_DEVICE float row_exp(const void *x, uint64_t count, float most, float by, uint32_t form)
{
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
        sum += bp_expf_inline((bp_get(x, i, form) - most) * by);
    }
    return bp_block_sum(sum);
}

/* What the gradient of a row is made with, and the columns of it that are there. */
typedef struct row_slope {
    float most;
    float label;
    float teacher;
    uint64_t first;
    uint64_t columns;
} row_slope;

BP_DEVICE float gradient_of(float x, const row_slope *row, float inverse)
{
    float d = x - row->most;
    return bp_expf_inline(d) * row->label + bp_expf_inline(d * inverse) * row->teacher;
}

/* What the teacher says of the row, and its label. */
typedef struct row_said {
    const int32_t *tops;
    const float *logps;
    uint64_t k;
    int32_t label;
    bp_distill_teacher teacher;
} row_said;

/* Whether a token is among the columns, and which of them it is. */
BP_DEVICE bool column_of(const row_slope *row, int32_t token, uint64_t *column)
{
    *column = (uint64_t)(int64_t)token - row->first;
    return token >= 0 && *column < row->columns;
}

/* A thread has a token of the teacher's, the last where one stands twice: its logit is kept before
 * the row becomes its gradient. */
BP_DEVICE void row_gradient(void *x, const row_slope *row, const bp_distill_slope *s,
                            const row_said *said, uint32_t form)
{
    uint64_t column, target, j = threadIdx.x;
    bool labelled = j == 0 && column_of(row, said->label, &target);
    bool among = j < said->k && column_of(row, said->tops[j], &column);
#pragma unroll 1
    for (uint64_t i = j + 1; among && i < said->k; i++) {
        among = said->tops[i] != said->tops[j];
    }
    float at_label = labelled ? bp_get(x, target, form) : 0.0f;
    float at_said = among ? bp_get(x, column, form) : 0.0f;
    __syncthreads();
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < row->columns; i += blockDim.x) {
        bp_put(x, i, form, gradient_of(bp_get(x, i, form), row, s->inverse));
    }
    __syncthreads();
    if (labelled) {
        bp_put(x, target, form, gradient_of(at_label, row, s->inverse) - s->label);
    }
    __syncthreads();
    if (among) {
        float share = bp_distill_share(&said->teacher, said->logps[j], s->inverse);
        float peak = said->tops[j] == said->label ? s->label : 0.0f;
        bp_put(x, column, form, gradient_of(at_said, row, s->inverse) - peak - s->teacher * share);
    }
}

/* The loss of a row, by one thread. */
BP_DEVICE float row_loss(const void *x, const row_slope *row, const float sums[2],
                         const bp_distill_slope *s, const row_said *said, uint32_t form)
{
    float log_sum = bp_logf(sums[1]), kl = 0.0f;
    uint64_t column;
#pragma unroll 1
    for (uint64_t j = 0; j < said->k; j++) {
        if (column_of(row, said->tops[j], &column)) {
            float student = (bp_get(x, column, form) - row->most) * s->inverse - log_sum;
            kl += bp_distill_term(&said->teacher, said->logps[j], s->inverse, student);
        }
    }
    float entropy = row->most + bp_logf(sums[0]) - bp_get(x, (uint64_t)said->label, form);
    return s->of_label * entropy + s->of_teacher * kl;
}

/* The row's sums, and its loss. */
BP_DEVICE void row_sums(const void *x, row_slope *row, const bp_distill_slope *s,
                        const row_said *said, float *loss, uint32_t form)
{
    float sums[2];
    row->most = row_most(x, row->columns, form);
    sums[0] = row_exp(x, row->columns, row->most, 1.0f, form);
    sums[1] = row_exp(x, row->columns, row->most, s->inverse, form);
    row->label = s->label / sums[0];
    row->teacher = s->teacher / sums[1];
    if (threadIdx.x == 0) {
        *loss = row_loss(x, row, sums, s, said, form);
    }
    __syncthreads();
}

/* Columns of a row from p.first on; all of them make statistics (3, rows; stride), which may be
 * absent, and losses; with p.part the statistics are there, and there are no losses. */
BP_KERNEL bp_distill(void *logits, float *losses, const int32_t *labels, const int32_t *tops,
                     const float *logps, const bp_step_block *step, const bp_control_block *control,
                     float *statistics, const bp_distill_parameters p)
{
    uint64_t r = blockIdx.x;
    if (r >= p.rows) {
        return;
    }
    float weight = p.scaled != 0 ? step->inverse_valid * control->scale : step->inverse_valid;
    const bp_distill_slope s = bp_distill_slope_of(weight, p.alpha, p.temperature);
    void *x = bp_to(logits, r * p.pitch, p.form);
    int32_t label = labels[r];
    row_slope row = {0.0f, 0.0f, 0.0f, p.first, p.columns};
    const row_said said = {tops + r * p.k, logps + r * p.k, p.k, label,
                           bp_distill_read(logps + r * p.k, p.k, s.inverse)};
    if (p.part != 0) {
        row.most = statistics[r];
        row.label = statistics[p.stride + r];
        row.teacher = statistics[2 * p.stride + r];
    } else if (label >= 0) {
        row_sums(x, &row, &s, &said, &losses[r], p.form);
    } else if (threadIdx.x == 0) {
        losses[r] = 0.0f;
    }
    if (p.part == 0 && statistics != NULL && threadIdx.x == 0) {
        statistics[r] = row.most;
        statistics[p.stride + r] = row.label;
        statistics[2 * p.stride + r] = row.teacher;
    }
    if (label >= 0) {
        row_gradient(x, &row, &s, &said, p.form);
        return;
    }
#pragma unroll 1
    for (uint64_t i = threadIdx.x; i < p.columns; i += blockDim.x) {
        bp_put(x, i, p.form, 0.0f);
    }
}

BP_KERNEL bp_top_logits(const void *logits, int32_t *tops, float *logps, uint64_t rows,
                        uint64_t vocabulary, uint64_t pitch, uint64_t k, uint32_t form)
{
    uint64_t r = blockIdx.x;
    if (r >= rows) {
        return;
    }
    const void *x = bp_at(logits, r * pitch, form);
    float most = row_most(x, vocabulary, form);
    float log_sum = bp_logf(row_exp(x, vocabulary, most, 1.0f, form));
    unsigned long long before = ~0ull;
#pragma unroll 1
    for (uint64_t j = 0; j < k; j++) {
        unsigned long long best = 0;
#pragma unroll 1
        for (uint64_t i = threadIdx.x; i < vocabulary; i += blockDim.x) {
            unsigned long long place = place_of(bp_get(x, i, form), i);
            best = place < before && place > best ? place : best;
        }
        before = block_most(best);
        if (threadIdx.x == 0) {
            uint32_t token = ~(uint32_t)before;
            tops[r * k + j] = (int32_t)token;
            logps[r * k + j] = (bp_get(x, token, form) - most) - log_sum;
        }
    }
}
