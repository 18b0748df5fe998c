/* SPDX-License-Identifier: MIT */
/* Sums over words and normal variates on AVX2: bp_word_sum and bp_random_normals, to the bit. */
#include <immintrin.h>

#include "core/base/digest.h"
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx2

#include "device/host/elements/plain_normal.h"

/* Four words at a time: 32 x 64 bits modulo 2^64 are the low product and the high one, moved up. */
uint64_t bp_words_avx2(const void *bytes, size_t words, uint64_t from)
{
    const unsigned char *at = bytes;
    const size_t whole = words / 4 * 4;
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i step = _mm256_set1_epi64x((int64_t)(4 * BP_WORD_STEP));
    const uint64_t first = (from + 1) * BP_WORD_STEP;
    __m256i sum = _mm256_setzero_si256();
    __m256i multiple =
        _mm256_set_epi64x((int64_t)(first + 3 * BP_WORD_STEP), (int64_t)(first + 2 * BP_WORD_STEP),
                          (int64_t)(first + BP_WORD_STEP), (int64_t)first);
    for (size_t i = 0; i < whole; i += 4, at += 16) {
        const __m256i word =
            _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)at));
        const __m256i odd = _mm256_or_si256(multiple, one);
        const __m256i high = _mm256_mul_epu32(word, _mm256_srli_epi64(odd, 32));
        sum = _mm256_add_epi64(sum, _mm256_mul_epu32(word, odd));
        sum = _mm256_add_epi64(sum, _mm256_slli_epi64(high, 32));
        multiple = _mm256_add_epi64(multiple, step);
    }
    uint64_t part[4];
    _mm256_storeu_si256((__m256i *)(void *)part, sum);
    return part[0] + part[1] + part[2] + part[3] +
           bp_word_sum(at, (words - whole) * sizeof(uint32_t), from + whole);
}
