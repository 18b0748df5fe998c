/* SPDX-License-Identifier: MIT */
/* Sixteen floats as one 512-bit register: the vector type in which the fast forms of the row and
 * element kernels are written once (the *_vector.h files). vector_avx2.h has the same words. */
#ifndef BP_DEVICE_HOST_VECTOR_AVX512_H
#define BP_DEVICE_HOST_VECTOR_AVX512_H

#include <stdbool.h>
#include <stdint.h>

#include "device/host/vector/accumulate.h"
#include "device/host/x86/half_avx512.h"
#include "device/host/x86/math_avx512.h"

/* The name of this form of something. */
#define BP_ISA(name) name##_avx512

#define BP_V 16 /* floats in a vector: the lanes of every row sum */

typedef __m512 bp_v;

/* Which lanes take part: all of them, or the first few. `whole` is a constant where it is used. */
typedef struct bp_part {
    bool whole;
    __mmask16 mask;
} bp_part;

static inline bp_part bp_part_whole(void)
{
    return (bp_part){true, 0xffff};
}

/* The first `count` lanes, 0 <= count < 16. */
static inline bp_part bp_part_first(uint64_t count)
{
    return (bp_part){false, (__mmask16)((1u << count) - 1u)};
}

static inline bp_v bp_v_set(float x)
{
    return _mm512_set1_ps(x);
}

/* Lanes that take no part read nothing and are 0. */
static inline bp_v bp_v_load(const float *p, bp_part part)
{
    return part.whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(part.mask, p);
}

static inline void bp_v_store(float *p, bp_v x, bp_part part)
{
    if (part.whole) {
        _mm512_storeu_ps(p, x);
    } else {
        _mm512_mask_storeu_ps(p, part.mask, x);
    }
}

/* The same with 16 bits in memory; type is BP_BF16 or BP_F16. */
static inline bp_v bp_v_load16(const uint16_t *p, bp_dtype type, bp_part part)
{
    __m256i x = part.whole ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                           : _mm256_maskz_loadu_epi16(part.mask, p);
    return bp_half_widen_avx512(x, type);
}

static inline void bp_v_store16(uint16_t *p, bp_v x, bp_dtype type, bp_part part)
{
    __m256i bits = bp_half_narrow_avx512(x, type);
    if (part.whole) {
        _mm256_storeu_si256((__m256i *)(void *)p, bits);
    } else {
        _mm256_mask_storeu_epi16(p, part.mask, bits);
    }
}

/* x in the lanes that take part, y in the others. */
static inline bp_v bp_v_choose(bp_part part, bp_v x, bp_v y)
{
    return part.whole ? x : _mm512_mask_mov_ps(y, part.mask, x);
}

static inline bp_v bp_v_add(bp_v x, bp_v y)
{
    return _mm512_add_ps(x, y);
}

static inline bp_v bp_v_sub(bp_v x, bp_v y)
{
    return _mm512_sub_ps(x, y);
}

static inline bp_v bp_v_mul(bp_v x, bp_v y)
{
    return _mm512_mul_ps(x, y);
}

static inline bp_v bp_v_div(bp_v x, bp_v y)
{
    return _mm512_div_ps(x, y);
}

static inline bp_v bp_v_sqrt(bp_v x)
{
    return _mm512_sqrt_ps(x);
}

/* x * y + z in one rounding. */
static inline bp_v bp_v_fma(bp_v x, bp_v y, bp_v z)
{
    return _mm512_fmadd_ps(x, y, z);
}

/* z - x * y in one rounding. */
static inline bp_v bp_v_fnma(bp_v x, bp_v y, bp_v z)
{
    return _mm512_fnmadd_ps(x, y, z);
}

/* x > y ? x : y. */
static inline bp_v bp_v_max(bp_v x, bp_v y)
{
    return _mm512_max_ps(x, y);
}

/* Of max and min: y where either is no number. */
static inline bp_v bp_v_min(bp_v x, bp_v y)
{
    return _mm512_min_ps(x, y);
}

/* The lanes where x < y; only bp_v_choose and bp_v_clear may be given them. */
static inline bp_part bp_v_less(bp_v x, bp_v y)
{
    return (bp_part){false, _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ)};
}

/* The lanes where x >= y, likewise. */
static inline bp_part bp_v_reaches(bp_v x, bp_v y)
{
    return (bp_part){false, _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ)};
}

/* x, but 0 in those lanes. */
static inline bp_v bp_v_clear(bp_part part, bp_v x)
{
    return _mm512_mask_mov_ps(x, part.mask, _mm512_setzero_ps());
}

static inline bp_v bp_v_exp(bp_v x)
{
    return bp_exp_avx512(x);
}

static inline bp_v bp_v_gelu(bp_v x)
{
    return bp_gelu_avx512(x);
}

static inline bp_v bp_v_gelu_slope(bp_v x)
{
    return bp_gelu_slope_avx512(x);
}

/* All 16 lanes in memory. */
static inline void bp_v_spill(bp_v x, float lanes[BP_V])
{
    _mm512_storeu_ps(lanes, x);
}

/* The lanes added pairwise at distance 8, 4, 2, 1 (bp_lanes_sum), and the largest of them, none of
 * which is a NaN. */
static inline float bp_v_sum(bp_v x)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    return bp_half_sum(half);
}

static inline float bp_v_most(bp_v x)
{
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    return bp_half_most(half);
}

/* Sixteen doubles. */
typedef struct bp_v_double {
    __m512d low;
    __m512d high;
} bp_v_double;

static inline bp_v_double bp_v_double_zero(void)
{
    return (bp_v_double){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

/* sum + x * x in the lanes that take part. The product of two floats is exact in double, so fusing
 * changes nothing. */
static inline bp_v_double bp_v_double_add_square(bp_v_double sum, bp_v x, bp_part part)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    sum.low = _mm512_mask3_fmadd_pd(low, low, sum.low, (__mmask8)part.mask);
    sum.high = _mm512_mask3_fmadd_pd(high, high, sum.high, (__mmask8)(part.mask >> 8));
    return sum;
}

static inline void bp_v_double_spill(bp_v_double x, double lanes[BP_V])
{
    _mm512_storeu_pd(lanes, x.low);
    _mm512_storeu_pd(lanes + 8, x.high);
}

/* Sixteen 32-bit words, for random numbers. */
typedef __m512i bp_v_word;

static inline bp_v_word bp_v_word_set(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

static inline bp_v_word bp_v_word_count(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline bp_v_word bp_v_word_add(bp_v_word x, bp_v_word y)
{
    return _mm512_add_epi32(x, y);
}

static inline bp_v_word bp_v_word_xor(bp_v_word x, bp_v_word y)
{
    return _mm512_xor_si512(x, y);
}

/* The 64-bit products x * factor: *high gets their upper halves, the lower ones are returned. */
static inline bp_v_word bp_v_word_multiply(bp_v_word x, uint32_t factor, bp_v_word *high)
{
    const __m512i y = _mm512_set1_epi32((int)factor);
    __m512i even = _mm512_mul_epu32(x, y);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), y);
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

/* 0 where word < threshold (unsigned), factor elsewhere. */
static inline bp_v bp_v_word_keep(bp_v_word word, uint32_t threshold, float factor)
{
    __mmask16 kept = _mm512_cmpge_epu32_mask(word, _mm512_set1_epi32((int)threshold));
    return _mm512_maskz_mov_ps(kept, _mm512_set1_ps(factor));
}

/* Writes lane 0 of the four vectors, then their lanes 1, and so on: 64 floats. */
static inline void bp_v_store_interleaved(float *p, const bp_v x[4])
{
    __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1]));
    __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1]));
    __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3]));
    __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    const __m512d row[4] = {_mm512_unpacklo_pd(low01, low23), _mm512_unpackhi_pd(low01, low23),
                            _mm512_unpacklo_pd(high01, high23), _mm512_unpackhi_pd(high01, high23)};
    for (int i = 0; i < 4; i++) {
        /* quarter q of row i holds group 4 q + i */
        __m512 r = _mm512_castpd_ps(row[i]);
        _mm_storeu_ps(p + 4 * i, _mm512_castps512_ps128(r));
        _mm_storeu_ps(p + 16 + 4 * i, _mm512_extractf32x4_ps(r, 1));
        _mm_storeu_ps(p + 32 + 4 * i, _mm512_extractf32x4_ps(r, 2));
        _mm_storeu_ps(p + 48 + 4 * i, _mm512_extractf32x4_ps(r, 3));
    }
}

#endif
