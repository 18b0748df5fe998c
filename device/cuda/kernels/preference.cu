/* SPDX-License-Identifier: MIT */
/* The loss over pairs of rows, a thread each, added up in their order by one of them; and a factor
 * for every row. */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/element.cuh"

/* core/ops/preference.h says `static inline`; here that means a device function. */
#define inline __forceinline__ __device__
#include "core/ops/preference.h"
#undef inline

#define THREADS 64

/* The rows. */
typedef struct tokens {
    uint64_t batch;
    uint64_t sequence;
    const float *losses;
    const int32_t *labels;
    const int32_t *sides;
} tokens;

BP_DEVICE bp_preference_row read_row(const tokens *p, uint64_t row)
{
    uint64_t at = row * p->sequence;
    return bp_preference_read(p->losses + at, p->labels + at, p->sides + row * BP_SIDE_WORDS,
                              p->sequence);
}

BP_DEVICE void put_weights(const tokens *p, float *weights, uint64_t row, double slope,
                           double whole)
{
    uint64_t at = row * p->sequence;
    int64_t first = p->sides[row * BP_SIDE_WORDS + 2];
#pragma unroll 1
    for (uint64_t t = 0; weights != NULL && t < p->sequence; t++) {
        float weight = (float)(whole - ((int64_t)t >= first ? slope : 0.0));
        weights[at + t] = p->labels[at + t] < 0 ? 0.0f : weight;
    }
}

/* What one pair has to say. */
typedef struct word {
    bp_preference_terms t;
    double all; /* of its chosen row */
    int32_t side;
} word;

/* z, or N and P, of all pairs, in all threads: one thread adds, in order. */
BP_DEVICE void add_facts(const tokens *p, double *z, double *each)
{
    __shared__ bp_preference_row rows[THREADS][2];
    __shared__ double facts[2];
    uint64_t pairs = 0, targets = 0, mismatched = 0;
    double sum = 0.0;
#pragma unroll 1
    for (uint64_t base = 0; base < p->batch; base += 2 * THREADS) {
        uint64_t mine = base + 2 * threadIdx.x;
#pragma unroll 1
        for (uint64_t i = 0; mine < p->batch && i < 2; i++) {
            rows[threadIdx.x][i] = read_row(p, mine + i);
        }
        __syncthreads();
        uint64_t end = threadIdx.x != 0 ? 0 : bp_least(THREADS, (p->batch - base) / 2);
#pragma unroll 1
        for (uint64_t i = 0; i < end; i++) {
            const bp_preference_row *a = &rows[i][0], *b = &rows[i][1];
            if (b->side == BP_SIDE_MISMATCHED && b->count > 0) {
                sum += b->sum - b->reference;
                mismatched++;
            } else if (a->side == BP_SIDE_CHOSEN && a->count > 0 && b->count > 0) {
                targets += a->all_count;
                pairs++;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sum = mismatched > 0 ? sum / (double)mismatched : 0.0;
        facts[0] = sum > 0.0 ? sum : 0.0;
        facts[1] = targets > 0 ? (double)pairs / (double)targets : 0.0;
    }
    __syncthreads();
    *z = facts[0];
    *each = facts[1];
}

BP_KERNEL bp_preference_loss(bp_result_block *result, float *weights, float *logps,
                             const float *losses, const int32_t *labels, const int32_t *sides,
                             uint64_t batch, uint64_t sequence, uint32_t kind, uint32_t accumulate,
                             double beta, double smoothing, double gamma, double nll,
                             double desirable, double undesirable)
{
    if (result == NULL) {
        return;
    }
    __shared__ word words[THREADS];
    __shared__ bp_preference_row rows[THREADS][2];
    const bp_preference_numbers numbers = {
        (int64_t)kind, beta, smoothing, gamma, {desirable, undesirable}};
    const tokens p = {batch, sequence, losses, labels, sides};
    const bool single = kind == BP_PREFERENCE_KTO;
    double z, each;
    add_facts(&p, &z, &each);
    if (threadIdx.x == 0 && accumulate == 0) {
        memset(result, 0, sizeof(*result));
    }
#pragma unroll 1
    for (uint64_t base = 0; base < batch; base += 2 * THREADS) {
        uint64_t row = base + 2 * threadIdx.x;
        if (row < batch) {
            bp_preference_row *two = rows[threadIdx.x];
#pragma unroll 1
            for (uint64_t i = 0; i < 2; i++) {
                two[i] = read_row(&p, row + i);
                if (logps != NULL) {
                    logps[row + i] = (float)two[i].sum;
                }
            }
            word *mine = &words[threadIdx.x];
            mine->t = bp_preference_pair(&numbers, z, &two[0], &two[1]);
            mine->all = two[0].all;
            mine->side = two[0].side;
#pragma unroll 1
            for (uint64_t i = 0; i < 2; i++) {
                double whole = mine->t.there && !single && i == 0 ? nll * each : 0.0;
                put_weights(&p, weights, row + i, mine->t.slope[i], whole);
            }
        }
        __syncthreads();
        uint64_t end = threadIdx.x != 0 ? 0 : bp_least(THREADS, (batch - base) / 2);
#pragma unroll 1
        for (uint64_t i = 0; i < end; i++) {
            const word *w = &words[i];
            double more = !w->t.there || single ? 0.0 : each * w->all;
            result->loss_sum += w->t.loss + nll * more;
            if (w->t.there) {
                bp_preference_tell(BP_PREFERENCE_METRICS(result), &w->t, w->side, single,
                                   single ? z : more);
            }
        }
        __syncthreads();
    }
}

/* A block has a row. */
BP_KERNEL bp_row_scale(void *x, const float *weights, uint64_t rows, uint64_t width, uint64_t pitch,
                       uint32_t form)
{
    uint64_t row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    x = bp_to(x, row * pitch, form);
    float weight = weights[row];
#pragma unroll 1
    for (uint64_t i = (uint64_t)threadIdx.x * 4; i < width; i += (uint64_t)blockDim.x * 4) {
        float v[4];
        bp_load4(x, i, width - i, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            v[e] = weight == 0.0f ? 0.0f : v[e] * weight;
        }
        bp_store4(x, i, width - i, form, v);
    }
}
