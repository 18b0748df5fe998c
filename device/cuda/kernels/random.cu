/* SPDX-License-Identifier: MIT */
/* Random weights: the host's normal variates (core/base/random.c), a pair per thread, with their
 * masters. */
#include "device/cuda/kernels/double.cuh"
#include "device/cuda/kernels/master.cuh"
#include "device/cuda/kernels/philox.cuh"

#define KEY_NORMAL 0x6e6f726d616c0000ull

BP_DEVICE double uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
    return (double)bits * 0x1p-53;
}

BP_KERNEL bp_random_normal(void *y, void *master, const bp_step_block *step,
                           const bp_control_block *control, uint64_t count, uint32_t stream,
                           double deviation, uint64_t interval, uint32_t kind, uint32_t form)
{
    uint64_t pair = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (2 * pair >= count) {
        return;
    }
    uint32_t words[4];
    uint64_t seed = step->seed;
    if (interval > 0 && control != NULL) { /* bp_interval_key of core/base/random.h */
        uint64_t number = (control->applied > 0 ? control->applied - 1 : 0) / interval;
        seed ^= 0x70726f6a656374ull ^ number * 0x9e3779b97f4a7c15ull;
    }
    bp_philox((uint32_t)pair, (uint32_t)(pair >> 32), stream, 0, seed ^ KEY_NORMAL, words);
    double radius = sqrt(-2.0 * bp_log(1.0 - uniform(words[0], words[1])));
    double angle = 0x1.921fb54442d18p+2 * uniform(words[2], words[3]);
    double sine, cosine;
    bp_sin_cos(angle, &sine, &cosine);
    uint64_t end = bp_least(count, 2 * pair + 2);
#pragma unroll 1
    for (uint64_t i = 2 * pair; i < end; i++) {
        double part = (i & 1) == 0 ? cosine : sine;
        bp_store_master(y, master, i, form, kind, (float)(deviation * (radius * part)));
    }
}
