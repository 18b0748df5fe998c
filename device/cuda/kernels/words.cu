/* SPDX-License-Identifier: MIT */
/* Kernels without an element type: the sum of losses, the step's decision. */
#include "device/cuda/kernels/parameters.h"
#include "device/cuda/kernels/reduce.cuh"

/* result.loss_sum (+)= sum of losses in double: thread t adds losses t, t + 256, ..., then the
 * threads' sums are added as bp_block_sum_double says. One block. */
BP_KERNEL bp_loss_sum(bp_result_block *result, const float *losses, uint64_t rows,
                      uint32_t accumulate)
{
    if (result == NULL) {
        return;
    }
    double sum = 0.0;
    for (uint64_t i = threadIdx.x; i < rows; i += BP_RUN_THREADS) {
        sum += (double)losses[i];
    }
    sum = bp_block_sum_double(sum);
    if (threadIdx.x != 0) {
        return;
    }
    if (accumulate == 0) {
        memset(result, 0, sizeof(*result));
        result->loss_sum = sum;
    } else {
        result->loss_sum += sum;
    }
}

/* result.loss_sum = the tree over the losses of a power of two of lanes, as a binary counter has
 * it. */
BP_KERNEL bp_loss_tree(bp_result_block *result, const bp_result_block *blocks, uint32_t lanes)
{
    if (result == NULL) {
        return;
    }
    __shared__ double stack[11];
    double sum;
    uint32_t lane = 0;
#pragma unroll 1
    do {
        sum = blocks[lane].loss_sum;
        double *at = stack;
#pragma unroll 1
        for (uint32_t left = lane; (left & 1) != 0; left >>= 1) {
            sum = *at++ + sum;
        }
        *at = sum;
    } while (++lane < lanes);
    memset(result, 0, sizeof(*result));
    result->loss_sum = sum;
}

/* base^n by repeated squaring, as core/base/math.c has it; the last square is of no use. */
BP_DEVICE double power_integer(double base, uint64_t n)
{
    double power = 1.0;
#pragma unroll 1
    do {
        if ((n & 1) != 0) {
            power *= base;
        }
        base *= base;
        n >>= 1;
    } while (n != 0);
    return power;
}

/* The dynamic loss scale after a step, as device/host/rows/norm.c moves it. */
BP_DEVICE void move_scale(bp_control_block *control, const bp_step_decide_parameters *p)
{
    if (control->skip == 0) {
        control->good_steps += 1;
        if (control->good_steps >= p->interval) {
            float grown = control->scale * p->growth;
            control->scale = fabsf(grown) < INFINITY ? grown : control->scale;
            control->good_steps = 0;
            control->bad_steps = 0;
        }
        return;
    }
    control->good_steps = 0;
    control->bad_steps += 1;
    if (control->bad_steps >= p->hysteresis) {
        float shrunk = control->scale * p->backoff;
        control->scale = shrunk > p->floor ? shrunk : p->floor;
    }
}

/* Number `percentile` of the latest norms in rising order, this one among them, in all threads:
 * each has one of them. */
BP_DEVICE float percentile_of(float *norms, uint64_t applied, float norm, uint32_t percentile)
{
    __shared__ float known[BP_NORM_HISTORY];
    __shared__ float found;
    uint32_t slot = threadIdx.x;
    bool mine = slot < BP_NORM_HISTORY;
    if (mine) {
        bool taken = slot == applied % BP_NORM_HISTORY || norms[slot] == 0.0f;
        known[slot] = taken ? norm : norms[slot];
        norms[slot] = known[slot];
    }
    if (slot == 0) {
        found = norm;
    }
    __syncthreads();
    if (mine) {
        uint32_t below = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < BP_NORM_HISTORY; i++) {
            below += known[i] < known[slot] || (known[i] == known[slot] && i < slot) ? 1 : 0;
        }
        if (below == percentile) {
            found = known[slot];
        }
    }
    __syncthreads();
    return found;
}

/* The norm of the gradients in all threads: the partial sums are brought to shared memory together
 * and added by thread 0 in order. */
BP_DEVICE double norm_of(const double *sums, uint64_t partials, double scale)
{
    __shared__ double part[BP_RUN_THREADS];
    __shared__ double shared_norm;
    double sum = 0.0;
    for (uint64_t from = 0; from < partials; from += BP_RUN_THREADS) {
        uint64_t count = bp_least(BP_RUN_THREADS, partials - from);
        __syncthreads();
        if (threadIdx.x < count) {
            part[threadIdx.x] = sums[from + threadIdx.x];
        }
        __syncthreads();
        for (uint64_t i = 0; threadIdx.x == 0 && i < count; i++) {
            sum += part[i];
        }
    }
    if (threadIdx.x == 0) {
        shared_norm = sqrt(sum) / scale;
    }
    __syncthreads();
    return shared_norm;
}

/* What a step that was taken moves, and the clipping that its updates read. */
BP_DEVICE void decide(bp_control_block *control, bp_result_block *result,
                      const bp_step_decide_parameters *p, double clip, double scale)
{
    result->scale = (float)scale;
    control->clip = (float)(clip / scale);
    if (control->skip == 0) {
        control->applied += 1;
        control->correction1 = 1.0 - power_integer(p->beta1, control->applied);
        control->correction2 = 1.0 - power_integer(p->beta2, control->applied);
    }
    if (p->scaling == 2) {
        move_scale(control, p);
    }
    result->clip = (float)clip;
    result->applied = control->applied;
}

/* One block. */
BP_KERNEL bp_step_decide(bp_control_block *control, bp_result_block *result, float *norms,
                         const double *sums, const bp_step_decide_parameters p)
{
    if (control == NULL) {
        return;
    }
    double scale = p.scaling != 0 ? (double)control->scale : 1.0;
    double norm = norm_of(sums, p.partials, scale);
    double judged = p.previous != 0 ? (double)control->norm : norm;
    double clip = p.max_norm > 0.0 ? p.max_norm / (judged + 1e-6) : 1.0;
    clip = clip < 1.0 ? clip : 1.0;
    bool finite =
        norm < (double)INFINITY && (p.scaling != 0 || fabs(result->loss_sum) < (double)INFINITY);
    if (p.later == 0 && finite && norms != NULL && norm > 0.0) {
        double most = (double)percentile_of(norms, control->applied, (float)norm, p.percentile);
        clip = most / norm < clip ? most / norm : clip;
    }
    __syncthreads(); /* all have read the blocks that are written now */
    if (threadIdx.x != 0) {
        return;
    }
    control->skip = finite ? (p.later != 0 ? control->skip : 0) : 1;
    if (p.previous == 2 && control->skip == 0) {
        control->norm = (float)norm;
    }
    if (p.later == 0) {
        decide(control, result, &p, clip, scale);
    }
    result->norm = (float)norm;
    result->skip = control->skip;
}

/* One thread; as device/host/rows/norm.c does it. */
BP_KERNEL bp_average_step(bp_control_block *control, const bp_step_block *step, uint64_t power)
{
    if (control == NULL || control->skip != 0) {
        return;
    }
    float peak = control->average_peak;
    peak = peak > step->learning_rate ? peak : step->learning_rate;
    double weight = power_integer((double)peak, power);
    double sum = control->average_sum + weight;
    control->average_peak = peak;
    control->average_sum = sum;
    control->average_mix = sum > 0.0 ? (float)(weight / sum) : 0.0f;
}

BP_BLOCK_REDUCTION(word_block_sum, unsigned long long, a + b, 0)

/* partial[block] = bp_word_sum (core/base/digest.h) over this block's words of `bytes` bytes:
 * integers, so the order in which they are added does not matter. */
BP_KERNEL bp_word_sum(const void *at, uint64_t bytes, uint64_t from, unsigned long long *partial)
{
    const uint32_t *words = (const uint32_t *)at;
    const uint8_t *single = (const uint8_t *)at;
    if (bytes == 0) {
        return;
    }
    unsigned long long sum = 0;
    const uint64_t stride = (uint64_t)gridDim.x * BP_RUN_THREADS;
#pragma unroll 1
    for (uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x; 4 * i < bytes;
         i += stride) {
        uint32_t word = 0;
        if (4 * i + 4 <= bytes) {
            word = words[i];
        } else {
#pragma unroll 1
            for (uint64_t b = 4 * i; b < bytes; b++) {
                word |= (uint32_t)single[b] << 8 * (b - 4 * i);
            }
        }
        sum += word * ((from + i + 1) * 0x9e3779b97f4a7c15ull | 1);
    }
    sum = word_block_sum(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}
