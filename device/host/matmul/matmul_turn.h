/* SPDX-License-Identifier: MIT */
/* Eight rows turned into columns in 256-bit registers. */
#ifndef BP_DEVICE_HOST_MATMUL_TURN_H
#define BP_DEVICE_HOST_MATMUL_TURN_H

#include <immintrin.h>
#include <stdint.h>

#define BP_TURNED 8 /* rows that turn at once in 256-bit registers */

/* Four columns of rows r and r + 4 in the halves of a register. */
static inline __m256 bp_turn_halves(const float *const row[BP_TURNED], int64_t r, int64_t j)
{
    __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(row[r] + j));
    return _mm256_insertf128_ps(v, _mm_loadu_ps(row[r + 4] + j), 1);
}

/* 8 rows x 4 columns: after the 4 x 4 transposes inside the halves, column[q] is column j + q. */
static inline void bp_turn_columns4(__m256 column[4], const float *const row[BP_TURNED], int64_t j)
{
    __m256 r0 = bp_turn_halves(row, 0, j);
    __m256 r1 = bp_turn_halves(row, 1, j);
    __m256 r2 = bp_turn_halves(row, 2, j);
    __m256 r3 = bp_turn_halves(row, 3, j);
    __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
    __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
    __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
    __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
    column[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
    column[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
    column[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
    column[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
}

#endif
