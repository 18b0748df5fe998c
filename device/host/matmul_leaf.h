/* SPDX-License-Identifier: MIT */
/* The leaf functions of the matrix product besides its tile, in vectors, written once for the fast
 * forms. Included by matmul_<form>.c after it has said what a vector is:
 *
 *   ROWS, LANES                     rows of its tile, floats of its vectors
 *   leaf                            the vector type
 *   leaf_set, leaf_load, leaf_store, leaf_fma, leaf_gelu
 *   leaf_load_first(p, count), leaf_store_first(p, x, count)   the first count < LANES floats
 *   leaf_widen(p, type), leaf_narrow(p, x, type)               LANES elements of 16 bits
 *   leaf_columns4(column, row, j)   column[q] = elements j + q of LANES rows */
#ifndef BP_DEVICE_HOST_MATMUL_LEAF_H
#define BP_DEVICE_HOST_MATMUL_LEAF_H

#include "device/host/half.h"
#include "device/host/matmul_turn.h"

/* Rows that are not there are row 0 again. A store of a column of eight spills over the tile's rows
 * into the next column, which is stored after it. */
static void pack_rows(float *to, const float *from, int64_t pitch, int64_t rows, int64_t depth)
{
    const float *row[BP_TURNED];
    for (int64_t r = 0; r < BP_TURNED; r++) {
        row[r] = from + (r < rows ? r : 0) * pitch;
    }
    int64_t whole = depth - depth % 4;
    for (int64_t k = 0; k < whole; k += 4, to += 4 * ROWS) {
        __m256 column[4];
        bp_turn_columns4(column, row, k);
        for (int64_t q = 0; q < 4; q++) {
            _mm256_storeu_ps(to + q * ROWS, column[q]);
        }
    }
    for (int64_t k = whole; k < depth; k++, to += ROWS) {
        for (int64_t r = 0; r < ROWS; r++) {
            to[r] = row[r][k];
        }
    }
}

static void pack_columns(float *to, const float *from, int64_t pitch, int64_t readable,
                         int64_t depth)
{
    int64_t k = 0;
    for (; readable >= BP_TURNED && k < depth - 1; k++, to += ROWS, from += pitch) {
        _mm256_storeu_ps(to, _mm256_loadu_ps(from)); /* what spills over is stored next */
    }
    for (; k < depth; k++, to += ROWS, from += pitch) {
        for (int64_t r = 0; r < ROWS; r++) {
            to[r] = from[r < readable ? r : 0];
        }
    }
}

static void load(float *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t rows,
                 int64_t columns, bp_dtype type)
{
    int64_t whole = columns - columns % LANES;
    for (int64_t i = 0; i < rows; i++, to += to_pitch) {
        const void *row = bp_element_at(from, i * from_pitch, type);
        if (type == BP_F32) {
            const float *x = row;
            for (int64_t j = 0; j < whole; j += LANES) {
                leaf_store(to + j, leaf_load(x + j));
            }
            if (whole < columns) {
                leaf_store_first(to + whole, leaf_load_first(x + whole, columns - whole),
                                 columns - whole);
            }
            continue;
        }
        for (int64_t j = 0; j < whole; j += LANES) {
            leaf_store(to + j, leaf_widen((const uint16_t *)row + j, type));
        }
        for (int64_t j = whole; j < columns; j++) {
            to[j] = bp_element_load(row, (uint64_t)j, type);
        }
    }
}

static void store(void *to, int64_t to_pitch, const float *from, int64_t from_pitch, int64_t rows,
                  int64_t columns, bp_dtype type)
{
    int64_t whole = columns - columns % LANES;
    for (int64_t i = 0; i < rows; i++, from += from_pitch) {
        uint16_t *row = (uint16_t *)to + i * to_pitch;
        for (int64_t j = 0; j < whole; j += LANES) {
            leaf_narrow(row + j, leaf_load(from + j), type);
        }
        for (int64_t j = whole; j < columns; j++) {
            bp_element_store(row, (uint64_t)j, from[j], type);
        }
    }
}

static void transpose_edge(float *to, int64_t to_pitch, const float *from, int64_t from_pitch,
                           int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            to[j * to_pitch + i] = from[i * from_pitch + j];
        }
    }
}

static void transpose(float *to, int64_t to_pitch, const float *from, int64_t from_pitch,
                      int64_t rows, int64_t columns)
{
    int64_t whole = columns - columns % 4;
    for (int64_t i = 0; i < rows; i += LANES) {
        const float *source = from + i * from_pitch;
        int64_t left = rows - i;
        if (left < LANES) {
            transpose_edge(to + i, to_pitch, source, from_pitch, left, columns);
            return;
        }
        for (int64_t j = 0; j < whole; j += 4) {
            leaf column[4];
            leaf_columns4(column, source + j, from_pitch);
            for (int64_t q = 0; q < 4; q++) {
                leaf_store(to + (j + q) * to_pitch + i, column[q]);
            }
        }
        transpose_edge(to + whole * to_pitch + i, to_pitch, source + whole, from_pitch, LANES,
                       columns - whole);
    }
}

/* Leftover columns of a row: b_ij at b + i * step + j * apart. */
static void row_edge(float *sums, const float *a, const float *b, int64_t step, int64_t apart,
                     int64_t depth, int64_t columns)
{
    for (int64_t i = 0; i < depth; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sums[j] = fmaf(a[i], b[i * step + j * apart], sums[j]);
        }
    }
}

#define STRIP       (8 * LANES) /* columns whose sums stay in registers */
#define ROWS_BEFORE 12          /* rows of b between asking for one and using it */

#define SUM_LOAD(v)  leaf s##v = leaf_load(sums + v * LANES);
#define SUM_STORE(v) leaf_store(sums + v * LANES, s##v);
#define SUM_TERM(v)                                                                                \
    _mm_prefetch((const char *)(b + ROWS_BEFORE * pitch + v * LANES), _MM_HINT_T0);                \
    s##v = leaf_fma(x, leaf_load(b + v * LANES), s##v);

#define EACH_VECTOR(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

static void row(float *sums, const float *a, const float *b, int64_t pitch, int64_t depth,
                int64_t columns)
{
    for (; columns >= STRIP; columns -= STRIP, sums += STRIP) {
        const float *next = b + STRIP;
        EACH_VECTOR(SUM_LOAD)
        for (int64_t i = 0; i < depth; i++) {
            leaf x = leaf_set(a[i]);
            EACH_VECTOR(SUM_TERM)
            b += pitch;
        }
        EACH_VECTOR(SUM_STORE)
        b = next;
    }
    row_edge(sums, a, b, pitch, 1, depth, columns);
}

/* A vector of columns at a time, four terms turned in registers; the lines of the columns that come
 * next are asked for as these are used. */
static void row_turned(float *sums, const float *a, const float *b, int64_t pitch, int64_t depth,
                       int64_t columns)
{
    int64_t whole = depth - depth % LANES;
    for (; columns >= LANES; columns -= LANES, sums += LANES, b += LANES * pitch) {
        leaf sum = leaf_load(sums);
        for (int64_t i = 0; i < whole; i += LANES) {
            for (int64_t r = 0; r < LANES; r++) {
                _mm_prefetch((const char *)(b + (LANES + r) * pitch + i), _MM_HINT_T0);
            }
            for (int64_t q = 0; q < LANES; q += 4) {
                leaf column[4];
                leaf_columns4(column, b + i + q, pitch);
                sum = leaf_fma(leaf_set(a[i + q]), column[0], sum);
                sum = leaf_fma(leaf_set(a[i + q + 1]), column[1], sum);
                sum = leaf_fma(leaf_set(a[i + q + 2]), column[2], sum);
                sum = leaf_fma(leaf_set(a[i + q + 3]), column[3], sum);
            }
        }
        leaf_store(sums, sum);
        row_edge(sums, a + whole, b + whole, 1, pitch, depth - whole, LANES);
    }
    row_edge(sums, a, b, 1, pitch, depth, columns);
}

static void gelu(float *c, float *before, int64_t pitch, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t at = i * pitch + j, left = columns - j;
            leaf x = leaf_load_first(c + at, left);
            if (before != NULL) {
                leaf_store_first(before + at, x, left);
            }
            leaf_store_first(c + at, leaf_gelu(x), left);
        }
    }
}

#endif
