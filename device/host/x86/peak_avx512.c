/* SPDX-License-Identifier: MIT */
/* The multiply-add bound of 512-bit registers. */
#include "device/host/peak.h"

#include <immintrin.h>

/* Twelve chains: more than the two units times four cycles of latency that must be covered. */
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS        12
#define UNROLLED      4
#define LANES         16

#define START(i) __m512 chain##i = _mm512_set1_ps((float)i);
#define STEP(i)  chain##i = _mm512_fmadd_ps(chain##i, half, one);
#define ADD(i)   sum = _mm512_add_ps(sum, chain##i);

uint64_t bp_peak_loop_avx512(uint64_t iterations, float *sink)
{
    const __m512 half = _mm512_set1_ps(0.5f);
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 sum = _mm512_setzero_ps();
    EACH_CHAIN(START)
    for (uint64_t round = 0; round < iterations; round++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(ADD)
    *sink = _mm512_cvtss_f32(sum);
    return iterations * UNROLLED * CHAINS * LANES * 2;
}
