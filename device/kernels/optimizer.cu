/* SPDX-License-Identifier: MIT */
/* List kernels over all tensors in one launch: partial sums of the gradient norm, and AdamW.
 *
 * A record of the table (device/cuda/launch.h) says where a tensor's blocks end and, in bytes from
 * `base`, where its operands are; no pointer is ever read from memory. */
#include "device/kernels/master.cuh"
#include "device/kernels/philox.cuh"
#include "device/kernels/reduce.cuh"

#define RECORD_WORDS 20
#define KEY_ROUNDING 0x726f756e64696e67ull

/* The record that owns this block: the first whose blocks end beyond it. */
BP_DEVICE const uint64_t *my_record(const uint64_t *table, uint32_t tuples, uint64_t *first)
{
    uint32_t low = 0, high = tuples - 1;
#pragma unroll 1
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool beyond = table[(uint64_t)middle * RECORD_WORDS] > blockIdx.x;
        high = beyond ? middle : high;
        low = beyond ? low : middle + 1;
    }
    const uint64_t *record = table + (uint64_t)low * RECORD_WORDS;
    *first = low == 0 ? 0 : record[-RECORD_WORDS];
    return record;
}

/* A block is a chunk; squares in double are exact. */
BP_KERNEL bp_norm_partial(unsigned char *base, const uint64_t *table, uint32_t tuples)
{
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    uint64_t chunk = blockIdx.x - first, count = record[1], size = record[2];
    double *partials = (double *)(base + record[3]);
    const void *x = base + record[4];
    uint32_t form = (uint32_t)record[5];
    uint64_t end = bp_least(count, (chunk + 1) * size);
    double sum = 0.0;
    uint64_t i = chunk * size + threadIdx.x;
#pragma unroll 1
    for (; i + 3 * BP_RUN_THREADS < end; i += 4 * BP_RUN_THREADS) {
        float v[4];
        bp_load4_apart(x, i, BP_RUN_THREADS, form, v);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum += (double)v[e] * (double)v[e];
        }
    }
#pragma unroll 1
    for (; i < end; i += BP_RUN_THREADS) {
        double v = (double)bp_get(x, i, form);
        sum += v * v;
    }
    sum = bp_block_sum_double(sum);
    if (threadIdx.x == 0) {
        partials[chunk] = sum;
    }
}

/* What is the same for all elements of a tensor, as the host's bp_adamw_prepare has it. */
typedef struct adamw_factors {
    float clip;
    float keep;
    float m_gain;
    float v_keep;
    float v_gain;
    float v_scale;
    float epsilon;
    float rate;
} adamw_factors;

BP_DEVICE double real_of(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}

BP_DEVICE void adamw_prepare(adamw_factors *f, const unsigned char *base, const uint64_t *record,
                             const bp_control_block *control, const bp_step_block *step)
{
    double beta1 = real_of(record[8]), beta2 = real_of(record[9]);
    double rate = (double)step->learning_rate * real_of(record[12]);
    rate *= record[19] != UINT64_MAX ? (double)*(const float *)(base + record[19]) : 1.0;
    f->clip = control->clip;
    f->keep = (float)(1.0 - rate * real_of(record[11]));
    f->m_gain = (float)(1.0 - beta1);
    f->v_keep = (float)beta2;
    f->v_gain = (float)(1.0 - beta2);
    f->v_scale = (float)(1.0 / sqrt(control->correction2));
    f->epsilon = (float)real_of(record[10]);
    f->rate = (float)(rate / control->correction1);
}

/* core/random.h's bp_rounding_bits of elements `first` .. first + 3, a multiple of four. */
BP_DEVICE void rounding_bits(const bp_step_block *step, uint32_t stream, uint64_t first,
                             uint32_t random[4])
{
    uint64_t generator = first / 256 * 32 + first % 128 / 4;
    bp_philox((uint32_t)generator, (uint32_t)(generator >> 32), stream, (uint32_t)step->step,
              step->seed ^ KEY_ROUNDING, random);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        random[e] = (first & 128) != 0 ? random[e] >> 16 : random[e] & 0xffff;
    }
}

/* A block is 1024 elements of one tensor. */
BP_KERNEL bp_adamw(unsigned char *base, const uint64_t *table, uint32_t tuples)
{
    __shared__ adamw_factors shared;
    if (tuples == 0) {
        return;
    }
    uint64_t first;
    const uint64_t *record = my_record(table, tuples, &first);
    const bp_control_block *control = (const bp_control_block *)(base + record[6]);
    if (control->skip != 0) {
        return;
    }
    if (threadIdx.x == 0) {
        adamw_prepare(&shared, base, record, control, (const bp_step_block *)(base + record[7]));
    }
    __syncthreads();
    adamw_factors f = shared;
    uint64_t count = record[1];
    uint64_t i = (blockIdx.x - first) * (BP_RUN_THREADS * 4) + threadIdx.x * 4;
    if (i >= count) {
        return;
    }
    const bp_step_block *step = (const bp_step_block *)(base + record[7]);
    uint64_t places = record[2] | record[3] | record[4] | record[5];
    places |= record[15] != UINT64_MAX ? record[15] : 0;
    uint32_t wide = (places & 15) == 0 ? BP_WIDE : 0;
    uint32_t form_gradient = (uint32_t)record[14] | wide;
    const bp_weight weight = {base + record[2], base + record[15], (uint32_t)record[13] | wide,
                              (uint32_t)record[16]};
    void *m = base + record[3], *v = base + record[4];
    float w[4], a[4], b[4], g[4];
    bp_load_weight4(&weight, i, count - i, w);
    bp_load4_as(m, i, count - i, BP_SINGLE | wide, a);
    bp_load4_as(v, i, count - i, BP_SINGLE | wide, b);
    bp_load4(base + record[5], i, count - i, form_gradient, g);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float clipped = g[e] * f.clip;
        a[e] = fmaf(f.m_gain, clipped - a[e], a[e]);
        b[e] = fmaf(clipped * f.v_gain, clipped, b[e] * f.v_keep);
        float below = fmaf(sqrtf(b[e]), f.v_scale, f.epsilon);
        w[e] = fmaf(-f.rate, a[e] / below, w[e] * f.keep);
    }
    uint32_t random[4] = {0, 0, 0, 0};
    if (weight.kind == BP_MASTER_STOCHASTIC) {
        rounding_bits(step, (uint32_t)record[18], record[17] + i, random);
    }
    bp_store_weight4(&weight, i, count - i, random, w);
    bp_store4_as(m, i, count - i, BP_SINGLE | wide, a);
    bp_store4_as(v, i, count - i, BP_SINGLE | wide, b);
}
