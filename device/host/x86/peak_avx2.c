/* SPDX-License-Identifier: MIT */
/* The multiply-add bound of 256-bit registers. */
#include "device/host/peak.h"

#include <immintrin.h>

/* Twelve chains: more than the two units times four cycles of latency that must be covered. */
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS        12
#define UNROLLED      4
#define LANES         8

#define START(i) __m256 chain##i = _mm256_set1_ps((float)i);
#define STEP(i)  chain##i = _mm256_fmadd_ps(chain##i, half, one);
#define ADD(i)   sum = _mm256_add_ps(sum, chain##i);

uint64_t bp_peak_loop_avx2(uint64_t iterations, float *sink)
{
    const __m256 half = _mm256_set1_ps(0.5f);
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 sum = _mm256_setzero_ps();
    EACH_CHAIN(START)
    for (uint64_t round = 0; round < iterations; round++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(ADD)
    *sink = _mm256_cvtss_f32(sum);
    return iterations * UNROLLED * CHAINS * LANES * 2;
}
