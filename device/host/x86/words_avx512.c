/* SPDX-License-Identifier: MIT */
/* Sums over words and normal variates on AVX-512: bp_word_sum and bp_random_normals, to the bit. */
#include <immintrin.h>

#include "core/base/digest.h"
#include "device/host/isa.h"

#define BP_PLAIN(name) bp_##name##_avx512

#include "device/host/elements/plain_normal.h"

/* Eight words at a time. */
uint64_t bp_words_avx512(const void *bytes, size_t words, uint64_t from)
{
    const unsigned char *at = bytes;
    const size_t whole = words / 8 * 8;
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i step = _mm512_set1_epi64((int64_t)(8 * BP_WORD_STEP));
    const __m512i place = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    __m512i sum = _mm512_setzero_si512();
    __m512i multiple =
        _mm512_add_epi64(_mm512_set1_epi64((int64_t)((from + 1) * BP_WORD_STEP)),
                         _mm512_mullo_epi64(place, _mm512_set1_epi64((int64_t)BP_WORD_STEP)));
    for (size_t i = 0; i < whole; i += 8, at += 32) {
        const __m512i word =
            _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)at));
        sum = _mm512_add_epi64(sum, _mm512_mullo_epi64(word, _mm512_or_si512(multiple, one)));
        multiple = _mm512_add_epi64(multiple, step);
    }
    uint64_t part[8]; /* the compiler's own reduction adds with signs, and overflows */
    _mm512_storeu_si512(part, sum);
    uint64_t all = bp_word_sum(at, (words - whole) * sizeof(uint32_t), from + whole);
    for (size_t i = 0; i < 8; i++) {
        all += part[i];
    }
    return all;
}
