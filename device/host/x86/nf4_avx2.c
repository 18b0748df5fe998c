/* SPDX-License-Identifier: MIT */
/* Whole blocks in 4 bits: what core/ops/quantised.c counts by fifteen comparisons an element, by
 * four that halve the range, with the midpoints in registers. */
#include <immintrin.h>
#include <string.h>

#include "core/ops/quantised.h"
#include "device/host/isa.h"

/* The midpoints that a number of 3, 2, 1 and 0 bits, the code's upper ones so far, leaves to ask.
 */
typedef struct nf4_middle {
    __m256 ask[4];
    __m256i order; /* codes by the number of midpoints below, in both halves */
} nf4_middle;

static nf4_middle nf4_middles(int64_t form)
{
    nf4_middle m;
    float sorted[16];
    uint8_t order[16];
    bp_four_sorted(form, sorted, order);
    m.order = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)order));
    for (uint32_t bits = 0; bits < 4; bits++) {
        const uint32_t step = 8u >> bits;
        float ask[8];
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t at = (i & ((1u << bits) - 1)) * 2 * step + step - 1;
            ask[i] = (sorted[at] + sorted[at + 1]) / 2.0f;
        }
        m.ask[bits] = _mm256_loadu_ps(ask);
    }
    return m;
}

/* The largest magnitude of a block by its bits, those of a NaN included. */
static uint32_t nf4_largest(const float *values, uint64_t block)
{
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (uint64_t i = 0; i < block; i += 8) {
        const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(values + i));
        most = _mm256_max_epi32(most, _mm256_and_si256(bits, size));
    }
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(half);
}

/* The codes of eight values; a comparison that holds is -1. */
static inline __m256i nf4_codes(const nf4_middle *m, __m256 x)
{
    __m256i code = _mm256_castps_si256(_mm256_cmp_ps(m->ask[0], x, _CMP_LT_OQ));
    code = _mm256_sub_epi32(_mm256_setzero_si256(), code);
    for (uint32_t bits = 1; bits < 4; bits++) {
        const __m256 ask = _mm256_permutevar8x32_ps(m->ask[bits], code);
        const __m256i above = _mm256_castps_si256(_mm256_cmp_ps(ask, x, _CMP_LT_OQ));
        code = _mm256_sub_epi32(_mm256_add_epi32(code, code), above);
    }
    return code;
}

/* 32 codes as bytes, by halves: the first four of each vector, then the others. */
static inline __m256i nf4_bytes(const nf4_middle *m, const float *values, __m256 inverse)
{
    const __m256 one = _mm256_set1_ps(1.0f), minus = _mm256_set1_ps(-1.0f);
    __m256i code[4];
    for (uint32_t i = 0; i < 4; i++) {
        const __m256 x = _mm256_mul_ps(_mm256_loadu_ps(values + 8 * i), inverse);
        code[i] = nf4_codes(m, _mm256_min_ps(_mm256_max_ps(x, minus), one));
    }
    return _mm256_shuffle_epi8(m->order,
                               _mm256_packus_epi16(_mm256_packus_epi32(code[0], code[1]),
                                                   _mm256_packus_epi32(code[2], code[3])));
}

static void nf4_block(const nf4_middle *m, const float *values, uint64_t block, float scale,
                      uint8_t *codes)
{
    const float divisor = scale > BP_NF4_LEAST ? scale : BP_NF4_LEAST;
    const __m256 inverse = _mm256_set1_ps(1.0f / divisor);
    const __m256i pair = _mm256_set1_epi16(0x0110); /* the first of two times 16 */
    for (uint64_t i = 0; i < block; i += BP_BLOCK_LEAST) {
        const __m256i some = _mm256_maddubs_epi16(nf4_bytes(m, values + i, inverse), pair);
        const __m256i all = _mm256_packus_epi16(some, some);
        _mm_storeu_si128(
            (__m128i *)(void *)(codes + i / 2),
            _mm_unpacklo_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
    }
}

/* What is not finite goes the long way. */
void bp_four_blocks_avx2(int64_t form, const float *values, uint64_t blocks, float *scales,
                         uint8_t *codes)
{
    const nf4_middle middles = nf4_middles(form);
    const uint64_t block = bp_quantised_block(form);
    for (uint64_t b = 0; b < blocks; b++, values += block) {
        uint8_t *to = codes == NULL ? NULL : codes + b * (block / 2);
        const uint32_t bits = nf4_largest(values, block);
        if (bits >= 0x7f800000u) {
            bp_four_blocks(form, values, 1, scales + b, to);
            continue;
        }
        memcpy(scales + b, &bits, sizeof bits);
        if (to != NULL) {
            nf4_block(&middles, values, block, scales[b], to);
        }
    }
}
