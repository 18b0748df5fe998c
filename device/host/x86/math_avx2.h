/* SPDX-License-Identifier: MIT */
/* core/base/math_inline.h in 256-bit registers: line by line the same operations, so the same
 * bits. */
#ifndef BP_DEVICE_HOST_MATH_AVX2_H
#define BP_DEVICE_HOST_MATH_AVX2_H

#include <immintrin.h>

#include "core/base/math_inline.h"

/* e^r - 1 for |r| <= ln(2)/2. */
static inline __m256 bp_expm1_reduced_avx2(__m256 r)
{
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(BP_EXP_C4), r, _mm256_set1_ps(BP_EXP_C3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(BP_EXP_C2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(BP_EXP_C1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(BP_EXP_C0));
    return _mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r);
}

/* e^x. The constant comes first in max and min: they answer their second argument for a NaN. */
static inline __m256 bp_exp_avx2(__m256 x)
{
    const __m256 round = _mm256_set1_ps(BP_ROUND_F);
    const __m256i one = _mm256_set1_epi32(1);
    x = _mm256_max_ps(_mm256_set1_ps(BP_EXP_LOWEST), x);
    x = _mm256_min_ps(_mm256_set1_ps(BP_EXP_HIGHEST), x);
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(BP_LOG2_E_F), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-BP_LN2_HIGH_F), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-BP_LN2_LOW_F), r);
    __m256 p = _mm256_add_ps(_mm256_set1_ps(1.0f), bp_expm1_reduced_avx2(r));
    __m256i biased =
        _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)(BP_ROUND_F_BITS - 256)));
    __m256i half = _mm256_srli_epi32(biased, 1);
    __m256i first = _mm256_slli_epi32(_mm256_sub_epi32(half, one), 23);
    __m256i second = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_sub_epi32(biased, half), one), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

/* GELU, tanh form. */
static inline __m256 bp_gelu_avx2(__m256 x)
{
    __m256 w =
        _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(BP_GELU_B), _mm256_set1_ps(BP_GELU_A));
    __m256 e = bp_exp_avx2(_mm256_mul_ps(x, w));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

/* Its derivative. */
static inline __m256 bp_gelu_slope_avx2(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-BP_GELU_REACH), x);
    x = _mm256_min_ps(_mm256_set1_ps(BP_GELU_REACH), x);
    __m256 z = _mm256_mul_ps(x, x);
    __m256 w = _mm256_fmadd_ps(z, _mm256_set1_ps(BP_GELU_B), _mm256_set1_ps(BP_GELU_A));
    __m256 e = bp_exp_avx2(_mm256_mul_ps(x, w));
    __m256 s = _mm256_div_ps(_mm256_set1_ps(1.0f), _mm256_add_ps(_mm256_set1_ps(1.0f), e));
    __m256 slope = _mm256_fmadd_ps(z, _mm256_set1_ps(BP_GELU_SLOPE), _mm256_set1_ps(-BP_GELU_A));
    __m256 tail = _mm256_mul_ps(_mm256_mul_ps(e, s), s);
    return _mm256_fmadd_ps(_mm256_mul_ps(x, slope), tail, s);
}

#endif
