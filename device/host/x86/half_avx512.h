/* SPDX-License-Identifier: MIT */
/* Sixteen elements of 16 bits at once: the bits of half.h. */
#ifndef BP_DEVICE_HOST_HALF_AVX512_H
#define BP_DEVICE_HOST_HALF_AVX512_H

#include <immintrin.h>

#include "core/base/dtype.h"

/* type is BP_BF16 or BP_F16. A signalling half becomes quiet. */
static inline __m512 bp_half_widen_avx512(__m256i x, bp_dtype type)
{
    if (type == BP_BF16) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
    }
    return _mm512_cvtph_ps(x);
}

static inline __m256i bp_half_narrow_avx512(__m512 x, bp_dtype type)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i high = _mm512_srli_epi32(bits, 16);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    if (type == BP_BF16) {
        __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
        __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        sum = _mm512_srli_epi32(sum, 16);
        sum = _mm512_mask_or_epi32(sum, nan, high, _mm512_set1_epi32(0x40));
        return _mm512_cvtepi32_epi16(sum);
    }
    __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i sign = _mm256_and_si256(half, _mm256_set1_epi16((short)0x8000));
    __m256i quiet = _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00));
    return _mm256_mask_blend_epi16(nan, half, quiet);
}

#endif
