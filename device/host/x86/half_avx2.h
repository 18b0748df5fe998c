/* SPDX-License-Identifier: MIT */
/* Eight elements of 16 bits at once: the bits of half.h. */
#ifndef BP_DEVICE_HOST_HALF_AVX2_H
#define BP_DEVICE_HOST_HALF_AVX2_H

#include <immintrin.h>

#include "core/base/dtype.h"

/* type is BP_BF16 or BP_F16. A signalling half becomes quiet. */
static inline __m256 bp_half_widen_avx2(__m128i x, bp_dtype type)
{
    if (type == BP_BF16) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    }
    return _mm256_cvtph_ps(x);
}

static inline __m128i bp_half_narrow_avx2(__m256 x, bp_dtype type)
{
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    if (type == BP_BF16) {
        __m256i bits = _mm256_castps_si256(x);
        __m256i high = _mm256_srli_epi32(bits, 16);
        __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
        __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
        sum = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
        return _mm_packus_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    }
    __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m128i nan16 = _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
    __m128i quiet =
        _mm_or_si128(_mm_and_si128(half, _mm_set1_epi16((short)0x8000)), _mm_set1_epi16(0x7e00));
    return _mm_blendv_epi8(half, quiet, nan16);
}

#endif
