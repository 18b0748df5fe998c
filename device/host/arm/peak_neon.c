/* SPDX-License-Identifier: MIT */
/* The multiply-add bound of 128-bit registers. */
#include "device/host/peak.h"

#include <arm_neon.h>

/* Four units times four cycles of latency, which no core of today exceeds by more than a half. */
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH_CHAIN(X)                                                                              \
    TWELVE(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define CHAINS   24
#define UNROLLED 2
#define LANES    4

#define START(i) float32x4_t chain##i = vdupq_n_f32((float)i);
#define STEP(i)  chain##i = vfmaq_f32(one, chain##i, half);
#define ADD(i)   sum = vaddq_f32(sum, chain##i);

uint64_t bp_peak_loop_neon(uint64_t iterations, float *sink)
{
    const float32x4_t half = vdupq_n_f32(0.5f);
    const float32x4_t one = vdupq_n_f32(1.0f);
    float32x4_t sum = vdupq_n_f32(0.0f);
    EACH_CHAIN(START)
    for (uint64_t round = 0; round < iterations; round++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(STEP)
    }
    EACH_CHAIN(ADD)
    *sink = vgetq_lane_f32(sum, 0);
    return iterations * UNROLLED * CHAINS * LANES * 2;
}
