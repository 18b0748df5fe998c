/* SPDX-License-Identifier: MIT */
/* Eight rows transposed into columns in 256-bit registers, and sixteen bytes in one of 128: the
 * words of matmul_leaf.h and matmul_codes.h. matmul_transpose_neon.h has the same. */
#ifndef BP_DEVICE_HOST_MATMUL_TRANSPOSE_H
#define BP_DEVICE_HOST_MATMUL_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

#define BP_TRANSPOSED 8 /* rows that turn at once */

typedef __m256 bp_transposed; /* eight floats */

static inline bp_transposed bp_transposed_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void bp_transposed_store(float *p, bp_transposed x)
{
    _mm256_storeu_ps(p, x);
}

/* Four columns of rows r and r + 4 in the halves of a register. */
static inline __m256 bp_transpose_halves(const float *const row[BP_TRANSPOSED], int64_t r,
                                         int64_t j)
{
    __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(row[r] + j));
    return _mm256_insertf128_ps(v, _mm_loadu_ps(row[r + 4] + j), 1);
}

/* 8 rows x 4 columns: after the 4 x 4 transposes inside the halves, column[q] is column j + q. */
static inline void bp_transpose_columns4(__m256 column[4], const float *const row[BP_TRANSPOSED],
                                         int64_t j)
{
    __m256 r0 = bp_transpose_halves(row, 0, j);
    __m256 r1 = bp_transpose_halves(row, 1, j);
    __m256 r2 = bp_transpose_halves(row, 2, j);
    __m256 r3 = bp_transpose_halves(row, 3, j);
    __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
    __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
    __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
    __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
    column[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
    column[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
    column[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
    column[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
}

typedef __m128i bp_bytes; /* sixteen bytes */

static inline bp_bytes bp_bytes_load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline void bp_bytes_store(uint8_t *p, bp_bytes x)
{
    _mm_storeu_si128((__m128i *)(void *)p, x);
}

/* The first eight of them, and the others. */
static inline void bp_bytes_store_low(uint8_t *p, bp_bytes x)
{
    _mm_storel_epi64((__m128i *)(void *)p, x);
}

static inline void bp_bytes_store_high(uint8_t *p, bp_bytes x)
{
    _mm_storel_epi64((__m128i *)(void *)p, _mm_srli_si128(x, 8));
}

/* x's and y's by turns: of their first eight, and of the others. */
static inline bp_bytes bp_bytes_zip_low(bp_bytes x, bp_bytes y)
{
    return _mm_unpacklo_epi8(x, y);
}

static inline bp_bytes bp_bytes_zip_high(bp_bytes x, bp_bytes y)
{
    return _mm_unpackhi_epi8(x, y);
}

/* x's first eight and then y's, and the others. */
static inline bp_bytes bp_bytes_join_low(bp_bytes x, bp_bytes y)
{
    return _mm_unpacklo_epi64(x, y);
}

static inline bp_bytes bp_bytes_join_high(bp_bytes x, bp_bytes y)
{
    return _mm_unpackhi_epi64(x, y);
}

#endif
