/* SPDX-License-Identifier: MIT */
/* Sixteen floats as two 256-bit registers: the same words as vector_avx512.h, where they are
 * explained. */
#ifndef BP_DEVICE_HOST_VECTOR_AVX2_H
#define BP_DEVICE_HOST_VECTOR_AVX2_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/host/vector/accumulate.h"
#include "device/host/x86/half_avx2.h"
#include "device/host/x86/math_avx2.h"

#define BP_ISA(name) name##_avx2

#define BP_V 16

typedef struct bp_v {
    __m256 low;
    __m256 high;
} bp_v;

typedef struct bp_part {
    bool whole;
    uint32_t count;
    __m256i low;
    __m256i high;
} bp_part;

static inline bp_part bp_part_whole(void)
{
    return (bp_part){true, BP_V, _mm256_set1_epi32(-1), _mm256_set1_epi32(-1)};
}

static inline bp_part bp_part_first(uint64_t count)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i limit = _mm256_set1_epi32((int)count);
    return (bp_part){false, (uint32_t)count, _mm256_cmpgt_epi32(limit, lane),
                     _mm256_cmpgt_epi32(limit, _mm256_add_epi32(lane, _mm256_set1_epi32(8)))};
}

static inline bp_v bp_v_set(float x)
{
    return (bp_v){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline bp_v bp_v_load(const float *p, bp_part part)
{
    if (part.whole) {
        return (bp_v){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    }
    return (bp_v){_mm256_maskload_ps(p, part.low), _mm256_maskload_ps(p + 8, part.high)};
}

static inline void bp_v_store(float *p, bp_v x, bp_part part)
{
    if (part.whole) {
        _mm256_storeu_ps(p, x.low);
        _mm256_storeu_ps(p + 8, x.high);
    } else {
        _mm256_maskstore_ps(p, part.low, x.low);
        _mm256_maskstore_ps(p + 8, part.high, x.high);
    }
}

/* There is no masked load of 16-bit words: a last part goes through a copy. */
static inline bp_v bp_v_load16(const uint16_t *p, bp_dtype type, bp_part part)
{
    uint16_t copy[BP_V] = {0};
    if (!part.whole) {
        memcpy(copy, p, part.count * sizeof(*p));
        p = copy;
    }
    return (bp_v){
        bp_half_widen_avx2(_mm_loadu_si128((const __m128i *)(const void *)p), type),
        bp_half_widen_avx2(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)), type)};
}

static inline void bp_v_store16(uint16_t *p, bp_v x, bp_dtype type, bp_part part)
{
    uint16_t copy[BP_V];
    uint16_t *to = part.whole ? p : copy;
    _mm_storeu_si128((__m128i *)(void *)to, bp_half_narrow_avx2(x.low, type));
    _mm_storeu_si128((__m128i *)(void *)(to + 8), bp_half_narrow_avx2(x.high, type));
    if (!part.whole) {
        memcpy(p, copy, part.count * sizeof(*p));
    }
}

static inline bp_v bp_v_choose(bp_part part, bp_v x, bp_v y)
{
    if (part.whole) {
        return x;
    }
    return (bp_v){_mm256_blendv_ps(y.low, x.low, _mm256_castsi256_ps(part.low)),
                  _mm256_blendv_ps(y.high, x.high, _mm256_castsi256_ps(part.high))};
}

static inline bp_v bp_v_add(bp_v x, bp_v y)
{
    return (bp_v){_mm256_add_ps(x.low, y.low), _mm256_add_ps(x.high, y.high)};
}

static inline bp_v bp_v_sub(bp_v x, bp_v y)
{
    return (bp_v){_mm256_sub_ps(x.low, y.low), _mm256_sub_ps(x.high, y.high)};
}

static inline bp_v bp_v_mul(bp_v x, bp_v y)
{
    return (bp_v){_mm256_mul_ps(x.low, y.low), _mm256_mul_ps(x.high, y.high)};
}

static inline bp_v bp_v_div(bp_v x, bp_v y)
{
    return (bp_v){_mm256_div_ps(x.low, y.low), _mm256_div_ps(x.high, y.high)};
}

static inline bp_v bp_v_sqrt(bp_v x)
{
    return (bp_v){_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)};
}

static inline bp_v bp_v_fma(bp_v x, bp_v y, bp_v z)
{
    return (bp_v){_mm256_fmadd_ps(x.low, y.low, z.low), _mm256_fmadd_ps(x.high, y.high, z.high)};
}

static inline bp_v bp_v_fnma(bp_v x, bp_v y, bp_v z)
{
    return (bp_v){_mm256_fnmadd_ps(x.low, y.low, z.low), _mm256_fnmadd_ps(x.high, y.high, z.high)};
}

static inline bp_v bp_v_max(bp_v x, bp_v y)
{
    return (bp_v){_mm256_max_ps(x.low, y.low), _mm256_max_ps(x.high, y.high)};
}

static inline bp_v bp_v_min(bp_v x, bp_v y)
{
    return (bp_v){_mm256_min_ps(x.low, y.low), _mm256_min_ps(x.high, y.high)};
}

static inline bp_part bp_v_less(bp_v x, bp_v y)
{
    return (bp_part){false, BP_V, _mm256_castps_si256(_mm256_cmp_ps(x.low, y.low, _CMP_LT_OQ)),
                     _mm256_castps_si256(_mm256_cmp_ps(x.high, y.high, _CMP_LT_OQ))};
}

static inline bp_part bp_v_reaches(bp_v x, bp_v y)
{
    return (bp_part){false, BP_V, _mm256_castps_si256(_mm256_cmp_ps(x.low, y.low, _CMP_GE_OQ)),
                     _mm256_castps_si256(_mm256_cmp_ps(x.high, y.high, _CMP_GE_OQ))};
}

/* A choice takes three operations here, this one. */
static inline bp_v bp_v_clear(bp_part part, bp_v x)
{
    return (bp_v){_mm256_andnot_ps(_mm256_castsi256_ps(part.low), x.low),
                  _mm256_andnot_ps(_mm256_castsi256_ps(part.high), x.high)};
}

static inline bp_v bp_v_exp(bp_v x)
{
    return (bp_v){bp_exp_avx2(x.low), bp_exp_avx2(x.high)};
}

static inline bp_v bp_v_gelu(bp_v x)
{
    return (bp_v){bp_gelu_avx2(x.low), bp_gelu_avx2(x.high)};
}

static inline bp_v bp_v_gelu_slope(bp_v x)
{
    return (bp_v){bp_gelu_slope_avx2(x.low), bp_gelu_slope_avx2(x.high)};
}

static inline void bp_v_spill(bp_v x, float lanes[BP_V])
{
    _mm256_storeu_ps(lanes, x.low);
    _mm256_storeu_ps(lanes + 8, x.high);
}

static inline float bp_v_sum(bp_v x)
{
    return bp_half_sum(_mm256_add_ps(x.low, x.high));
}

static inline float bp_v_most(bp_v x)
{
    return bp_half_most(_mm256_max_ps(x.low, x.high));
}

typedef struct bp_v_double {
    __m256d quarter[4];
} bp_v_double;

static inline bp_v_double bp_v_double_zero(void)
{
    __m256d zero = _mm256_setzero_pd();
    return (bp_v_double){{zero, zero, zero, zero}};
}

/* Lanes that take no part hold 0, whose square leaves a sum of squares as it is. */
static inline bp_v_double bp_v_double_add_square(bp_v_double sum, bp_v x, bp_part part)
{
    (void)part;
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x.low));
    __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x.low, 1));
    __m256d c = _mm256_cvtps_pd(_mm256_castps256_ps128(x.high));
    __m256d d = _mm256_cvtps_pd(_mm256_extractf128_ps(x.high, 1));
    sum.quarter[0] = _mm256_fmadd_pd(a, a, sum.quarter[0]);
    sum.quarter[1] = _mm256_fmadd_pd(b, b, sum.quarter[1]);
    sum.quarter[2] = _mm256_fmadd_pd(c, c, sum.quarter[2]);
    sum.quarter[3] = _mm256_fmadd_pd(d, d, sum.quarter[3]);
    return sum;
}

static inline void bp_v_double_spill(bp_v_double x, double lanes[BP_V])
{
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_pd(lanes + 4 * i, x.quarter[i]);
    }
}

typedef struct bp_v_word {
    __m256i low;
    __m256i high;
} bp_v_word;

static inline bp_v_word bp_v_word_set(uint32_t x)
{
    return (bp_v_word){_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)};
}

static inline bp_v_word bp_v_word_count(void)
{
    return (bp_v_word){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                       _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}

static inline bp_v_word bp_v_word_add(bp_v_word x, bp_v_word y)
{
    return (bp_v_word){_mm256_add_epi32(x.low, y.low), _mm256_add_epi32(x.high, y.high)};
}

static inline bp_v_word bp_v_word_xor(bp_v_word x, bp_v_word y)
{
    return (bp_v_word){_mm256_xor_si256(x.low, y.low), _mm256_xor_si256(x.high, y.high)};
}

static inline __m256i bp_multiply_half(__m256i x, __m256i y, __m256i *high)
{
    __m256i even = _mm256_mul_epu32(x, y);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), y);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

static inline bp_v_word bp_v_word_multiply(bp_v_word x, uint32_t factor, bp_v_word *high)
{
    const __m256i y = _mm256_set1_epi32((int)factor);
    bp_v_word low;
    low.low = bp_multiply_half(x.low, y, &high->low);
    low.high = bp_multiply_half(x.high, y, &high->high);
    return low;
}

/* max(word, threshold) = word says that word >= threshold, unsigned. */
static inline bp_v bp_v_word_keep(bp_v_word word, uint32_t threshold, float factor)
{
    const __m256i limit = _mm256_set1_epi32((int)threshold);
    const __m256 kept = _mm256_set1_ps(factor);
    __m256i low = _mm256_cmpeq_epi32(_mm256_max_epu32(word.low, limit), word.low);
    __m256i high = _mm256_cmpeq_epi32(_mm256_max_epu32(word.high, limit), word.high);
    return (bp_v){_mm256_and_ps(_mm256_castsi256_ps(low), kept),
                  _mm256_and_ps(_mm256_castsi256_ps(high), kept)};
}

/* 32 floats: lanes 0 to 7 of four vectors. */
static inline void bp_interleave_half(float *p, __m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
    __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
    __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    const __m256d row[4] = {_mm256_unpacklo_pd(low01, low23), _mm256_unpackhi_pd(low01, low23),
                            _mm256_unpacklo_pd(high01, high23), _mm256_unpackhi_pd(high01, high23)};
    for (int i = 0; i < 4; i++) {
        __m256 r = _mm256_castpd_ps(row[i]);
        _mm_storeu_ps(p + 4 * i, _mm256_castps256_ps128(r));
        _mm_storeu_ps(p + 16 + 4 * i, _mm256_extractf128_ps(r, 1));
    }
}

static inline void bp_v_store_interleaved(float *p, const bp_v x[4])
{
    bp_interleave_half(p, x[0].low, x[1].low, x[2].low, x[3].low);
    bp_interleave_half(p + 32, x[0].high, x[1].high, x[2].high, x[3].high);
}

#endif
