/* SPDX-License-Identifier: MIT */
/* Eight lanes to one: what vector_avx2.h and vector_avx512.h end a row with. */
#ifndef BP_DEVICE_HOST_ACCUMULATE_H
#define BP_DEVICE_HOST_ACCUMULATE_H

#include <immintrin.h>

/* Adds pairwise at distance 4, 2, 1. */
static inline float bp_half_sum(__m256 x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

/* The largest. */
static inline float bp_half_most(__m256 x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

#endif
