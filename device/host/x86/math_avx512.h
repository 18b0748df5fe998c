/* SPDX-License-Identifier: MIT */
/* core/base/math_inline.h in 512-bit registers: line by line the same operations, so the same
 * bits. */
#ifndef BP_DEVICE_HOST_MATH_AVX512_H
#define BP_DEVICE_HOST_MATH_AVX512_H

#include <immintrin.h>

#include "core/base/math_inline.h"

/* e^r - 1 for |r| <= ln(2)/2. */
static inline __m512 bp_expm1_reduced_avx512(__m512 r)
{
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(BP_EXP_C4), r, _mm512_set1_ps(BP_EXP_C3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(BP_EXP_C2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(BP_EXP_C1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(BP_EXP_C0));
    return _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r);
}

/* e^x. The constant comes first in max and min: they answer their second argument for a NaN. */
static inline __m512 bp_exp_avx512(__m512 x)
{
    const __m512 round = _mm512_set1_ps(BP_ROUND_F);
    const __m512i one = _mm512_set1_epi32(1);
    x = _mm512_max_ps(_mm512_set1_ps(BP_EXP_LOWEST), x);
    x = _mm512_min_ps(_mm512_set1_ps(BP_EXP_HIGHEST), x);
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(BP_LOG2_E_F), round);
    __m512 n = _mm512_sub_ps(t, round);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-BP_LN2_HIGH_F), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-BP_LN2_LOW_F), r);
    __m512 p = _mm512_add_ps(_mm512_set1_ps(1.0f), bp_expm1_reduced_avx512(r));
    __m512i biased =
        _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)(BP_ROUND_F_BITS - 256)));
    __m512i half = _mm512_srli_epi32(biased, 1);
    __m512i first = _mm512_slli_epi32(_mm512_sub_epi32(half, one), 23);
    __m512i second = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_sub_epi32(biased, half), one), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(first)), _mm512_castsi512_ps(second));
}

/* GELU, tanh form. */
static inline __m512 bp_gelu_avx512(__m512 x)
{
    __m512 w =
        _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(BP_GELU_B), _mm512_set1_ps(BP_GELU_A));
    __m512 e = bp_exp_avx512(_mm512_mul_ps(x, w));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

/* Its derivative. */
static inline __m512 bp_gelu_slope_avx512(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-BP_GELU_REACH), x);
    x = _mm512_min_ps(_mm512_set1_ps(BP_GELU_REACH), x);
    __m512 z = _mm512_mul_ps(x, x);
    __m512 w = _mm512_fmadd_ps(z, _mm512_set1_ps(BP_GELU_B), _mm512_set1_ps(BP_GELU_A));
    __m512 e = bp_exp_avx512(_mm512_mul_ps(x, w));
    __m512 s = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_add_ps(_mm512_set1_ps(1.0f), e));
    __m512 slope = _mm512_fmadd_ps(z, _mm512_set1_ps(BP_GELU_SLOPE), _mm512_set1_ps(-BP_GELU_A));
    __m512 tail = _mm512_mul_ps(_mm512_mul_ps(e, s), s);
    return _mm512_fmadd_ps(_mm512_mul_ps(x, slope), tail, s);
}

#endif
