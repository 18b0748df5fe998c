/* SPDX-License-Identifier: MIT */
/* SHA-256's blocks by the instructions for it, which work on four words a register: a b e f and
 * c d g h of the standard, highest first, and four words of the schedule. */
#include <immintrin.h>

#include "device/host/sha256.h"

/* Four rounds, and four words of the schedule for those sixteen rounds on. */
#define ROUNDS(i, w0)                                                                              \
    {                                                                                              \
        const __m128i k =                                                                          \
            _mm_loadu_si128((const __m128i *)(const void *)(bp_sha256_round + 4 * (i)));           \
        const __m128i t = _mm_add_epi32(w0, k);                                                    \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, t);                                               \
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(t, 0x0e));                      \
    }
#define SCHEDULE(w0, w1, w2, w3)                                                                   \
    w0 = _mm_sha256msg2_epu32(                                                                     \
        _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4)), w3);
#define SIXTEEN(i)                                                                                 \
    ROUNDS(4 * (i), a)                                                                             \
    SCHEDULE(a, b, c, d)                                                                           \
    ROUNDS(4 * (i) + 1, b)                                                                         \
    SCHEDULE(b, c, d, a)                                                                           \
    ROUNDS(4 * (i) + 2, c)                                                                         \
    SCHEDULE(c, d, a, b)                                                                           \
    ROUNDS(4 * (i) + 3, d)                                                                         \
    SCHEDULE(d, a, b, c)

/* Big-endian words. */
static inline __m128i load_words(const unsigned char *at)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)at), order);
}

void bp_sha256_blocks_avx2(uint32_t state[8], const unsigned char *at, size_t blocks)
{
    const __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    const __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (size_t i = 0; i < blocks; i++, at += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i a = load_words(at), b = load_words(at + 16);
        __m128i c = load_words(at + 32), d = load_words(at + 48);
        SIXTEEN(0)
        SIXTEEN(1)
        SIXTEEN(2)
        ROUNDS(12, a)
        ROUNDS(13, b)
        ROUNDS(14, c)
        ROUNDS(15, d)
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
