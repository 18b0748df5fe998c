/* SPDX-License-Identifier: MIT */
/* Kernels without an element type: poison, the sum of losses, the step's decision. */
#include "device/kernels/reduce.cuh"

/* y = the pattern of a signalling NaN; count in words. */
BP_KERNEL bp_poison(uint32_t *y, uint64_t count)
{
    uint64_t i = bp_run_first();
    uint64_t end = bp_least(count, i + 4);
#pragma unroll 1
    for (; i < end; i++) {
        y[i] = 0x7fa00000u;
    }
}

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

/* base^n by repeated squaring, as core/number/math.c has it. */
BP_DEVICE double power_integer(double base, uint64_t n)
{
    double power = 1.0;
#pragma unroll 1
    while (n != 0) {
        if ((n & 1) != 0) {
            power *= base;
        }
        base *= base;
        n >>= 1;
    }
    return power;
}

/* The dynamic loss scale after a step, as device/host/rows/norm.c moves it. */
BP_DEVICE void move_scale(bp_control_block *control, float growth, float backoff, float floor,
                          uint32_t interval, uint32_t hysteresis)
{
    if (control->skip == 0) {
        control->good_steps += 1;
        if (control->good_steps >= interval) {
            float grown = control->scale * growth;
            control->scale = fabsf(grown) < INFINITY ? grown : control->scale;
            control->good_steps = 0;
            control->bad_steps = 0;
        }
        return;
    }
    control->good_steps = 0;
    control->bad_steps += 1;
    if (control->bad_steps >= hysteresis) {
        float shrunk = control->scale * backoff;
        control->scale = shrunk > floor ? shrunk : floor;
    }
}

/* Number `percentile` of the latest norms in rising order, this one among them, in all threads: each
 * has one of them. */
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

/* One block: the partial sums are brought to shared memory together and added by thread 0 in order.
 */
BP_KERNEL bp_step_decide(bp_control_block *control, bp_result_block *result, float *norms,
                         const double *sums, uint64_t partials, double max_norm, double beta1,
                         double beta2, uint32_t scaling, float growth, float backoff, float floor,
                         uint32_t interval, uint32_t hysteresis, uint32_t later,
                         uint32_t percentile, uint32_t previous)
{
    __shared__ double part[BP_RUN_THREADS];
    __shared__ double shared_norm;
    if (control == NULL) {
        return;
    }
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
    double scale = scaling != 0 ? (double)control->scale : 1.0;
    if (threadIdx.x == 0) {
        shared_norm = sqrt(sum) / scale;
    }
    __syncthreads();
    double norm = shared_norm;
    double judged = previous != 0 ? (double)control->norm : norm;
    double clip = max_norm > 0.0 ? max_norm / (judged + 1e-6) : 1.0;
    clip = clip < 1.0 ? clip : 1.0;
    bool finite = norm < (double)INFINITY &&
                  (scaling != 0 || fabs(result->loss_sum) < (double)INFINITY);
    if (later == 0 && finite && norms != NULL && norm > 0.0) {
        double most = (double)percentile_of(norms, control->applied, (float)norm, percentile);
        clip = most / norm < clip ? most / norm : clip;
    }
    __syncthreads(); /* all have read the blocks that are written now */
    if (threadIdx.x != 0) {
        return;
    }
    control->skip = finite ? (later != 0 ? control->skip : 0) : 1;
    if (previous == 2 && control->skip == 0) {
        control->norm = (float)norm;
    }
    if (later != 0) {
        result->norm = (float)norm;
        result->skip = control->skip;
        return;
    }
    result->scale = (float)scale;
    control->clip = (float)(clip / scale);
    if (finite) {
        control->applied += 1;
        control->correction1 = 1.0 - power_integer(beta1, control->applied);
        control->correction2 = 1.0 - power_integer(beta2, control->applied);
    }
    if (scaling == 2) {
        move_scale(control, growth, backoff, floor, interval, hysteresis);
    }
    result->norm = (float)norm;
    result->clip = (float)clip;
    result->skip = control->skip;
    result->applied = control->applied;
}
