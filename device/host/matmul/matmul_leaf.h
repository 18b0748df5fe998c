/* SPDX-License-Identifier: MIT */
/* The leaf functions of the matrix product besides its tile, in vectors, written once for the fast
 * forms. Included by matmul_<form>.c after it has said what a vector is:
 *
 *   ROWS, LANES                     rows of its tile, floats of its vectors
 *   leaf                            the vector type
 *   leaf_set, leaf_load, leaf_store, leaf_fma, leaf_gelu
 *   leaf_load_first(p, count), leaf_store_first(p, x, count)   the first count < LANES floats
 *   leaf_widen(p, type), leaf_narrow(p, x, type)               LANES elements of 16 bits
 *   leaf_split(pairs, low, high, type)     the halves of LANES pairs of 16-bit elements
 *   leaf_codes(pairs, table), leaf_bytes(codes), leaf_times(a, b)     of quantised weights
 *   leaf_columns4(column, from, pitch)     column[q] = element q of LANES rows, `pitch` bytes apart
 *   bp_transposed, bp_transpose_columns4            eight floats, and 8 rows x 4 columns transposed
 */
#ifndef BP_DEVICE_HOST_MATMUL_LEAF_H
#define BP_DEVICE_HOST_MATMUL_LEAF_H

#include "core/ops/fp8_element.h"
#include "device/host/vector/half.h"

/* Rows that are not there are row 0 again. The lines of the rows that come next are asked for: rows
 * side by side, and short, are no streams that the processor would follow. A store of a column of
 * eight spills over the tile's rows into the next column, which is stored after it. */
static void pack_rows(float *to, const float *from, int64_t pitch, int64_t rows, int64_t depth)
{
    const float *row[BP_TRANSPOSED];
    for (int64_t r = 0; r < BP_TRANSPOSED; r++) {
        row[r] = from + (r < rows ? r : 0) * pitch;
    }
    int64_t whole = depth - depth % 4;
    for (int64_t k = 0; k < whole; k += 4, to += 4 * ROWS) {
        bp_transposed column[4];
        for (int64_t r = 0; k % 16 == 0 && r < ROWS; r++) {
            __builtin_prefetch(from + (ROWS + r) * pitch + k);
        }
        bp_transpose_columns4(column, row, k);
        /* Not as a loop: where the four lie side by side, a compiler would join two at a time into
         * a longer vector by way of memory, which waits for what was just stored. */
        bp_transposed_store(to, column[0]);
        bp_transposed_store(to + ROWS, column[1]);
        bp_transposed_store(to + 2 * ROWS, column[2]);
        bp_transposed_store(to + 3 * ROWS, column[3]);
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
    for (; readable >= BP_TRANSPOSED && k < depth - 1; k++, to += ROWS, from += pitch) {
        bp_transposed_store(to, bp_transposed_load(from)); /* what spills over is stored next */
    }
    for (; k < depth; k++, to += ROWS, from += pitch) {
        for (int64_t r = 0; r < ROWS; r++) {
            to[r] = from[r < readable ? r : 0];
        }
    }
}

/* A whole panel of floats. */
static void load_panel(float *to, const float *from, int64_t pitch, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++, to += COLUMNS, from += pitch) {
        leaf x = leaf_load(from), y = leaf_load(from + LANES);
        leaf_store(to, x);
        leaf_store(to + LANES, y);
        if (COLUMNS > 2 * LANES) {
            leaf_store(to + 2 * LANES, leaf_load(from + 2 * LANES));
        }
    }
}

static void load(float *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t rows,
                 int64_t columns, bp_dtype type)
{
    int64_t whole = columns - columns % LANES;
    if (type == BP_F32 && columns == COLUMNS && to_pitch == COLUMNS) {
        load_panel(to, from, from_pitch, rows);
        return;
    }
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
            leaf_columns4(column, source + j, from_pitch * (int64_t)sizeof(float));
            for (int64_t q = 0; q < 4; q++) {
                leaf_store(to + (j + q) * to_pitch + i, column[q]);
            }
        }
        transpose_edge(to + whole * to_pitch + i, to_pitch, source + whole, from_pitch, LANES,
                       columns - whole);
    }
}

#define ROWS_AT_ONCE 4 /* rows of b that a sum takes between being loaded and stored */

static inline leaf leaf_of(const void *p, bp_dtype type)
{
    return type == BP_F32 ? leaf_load(p) : leaf_widen(p, type);
}

#define ROW_TERM(r) sum = leaf_fma(x##r, leaf_of(bp_element_at(b, r * pitch + j, type), type), sum);
#define ROW_ASK(r)  __builtin_prefetch(bp_element_at(b, (r + ROWS_AT_ONCE) * pitch + j, type));

/* Four rows of b through all columns: memory is read in the order in which it lies, which no
 * narrower strip of columns does, and is what limits this. */
static inline __attribute__((always_inline)) void rows_of(float *sums, const float *a,
                                                          const void *b, int64_t pitch,
                                                          int64_t columns, const bp_dtype type)
{
    const int64_t line = type == BP_F32 ? 16 : 32; /* elements of a cache line */
    leaf x0 = leaf_set(a[0]), x1 = leaf_set(a[1]), x2 = leaf_set(a[2]), x3 = leaf_set(a[3]);
    for (int64_t j = 0; j < columns; j += LANES) {
        leaf sum = leaf_load(sums + j);
        if (j % line == 0) {
            ROW_ASK(0) ROW_ASK(1) ROW_ASK(2) ROW_ASK(3)
        }
        ROW_TERM(0) ROW_TERM(1) ROW_TERM(2) ROW_TERM(3) leaf_store(sums + j, sum);
    }
}

static inline __attribute__((always_inline)) void row_of(float *sums, const float *a, const void *b,
                                                         int64_t pitch, int64_t depth,
                                                         int64_t columns, const bp_dtype type)
{
    const int64_t whole = columns - columns % LANES;
    const int64_t fours = depth - depth % ROWS_AT_ONCE;
    for (int64_t i = 0; i < fours; i += ROWS_AT_ONCE) {
        rows_of(sums, a + i, bp_element_at(b, i * pitch, type), pitch, whole, type);
    }
    for (int64_t i = fours; i < depth; i++) {
        for (int64_t j = 0; j < whole; j += LANES) {
            leaf y = leaf_of(bp_element_at(b, i * pitch + j, type), type);
            leaf_store(sums + j, leaf_fma(leaf_set(a[i]), y, leaf_load(sums + j)));
        }
    }
    for (int64_t i = 0; i < depth; i++) {
        for (int64_t j = whole; j < columns; j++) {
            sums[j] = fmaf(a[i], bp_element_load(b, (uint64_t)(i * pitch + j), type), sums[j]);
        }
    }
}

static void row(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                int64_t columns, bp_dtype type)
{
    if (type == BP_F32) {
        row_of(sums, a, b, pitch, depth, columns, BP_F32);
    } else if (type == BP_BF16) {
        row_of(sums, a, b, pitch, depth, columns, BP_BF16);
    } else {
        row_of(sums, a, b, pitch, depth, columns, BP_F16);
    }
}

/* Leftover columns of a row: b_ij at b + j * pitch + i. */
static void row_transposed_edge(float *sums, const float *a, const void *b, int64_t pitch,
                                const int64_t terms[2], int64_t columns, bp_dtype type)
{
    for (int64_t i = terms[0]; i < terms[1]; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sums[j] = fmaf(a[i], bp_element_load(b, (uint64_t)(j * pitch + i), type), sums[j]);
        }
    }
}

/* LANES columns by some terms: four terms transposed at once in registers, or four pairs of terms
 * of 16 bits, which are then split. */
static inline __attribute__((always_inline)) leaf
transposed_step(leaf sum, const float *a, const void *b, int64_t pitch, const bp_dtype type)
{
    const int64_t pair = type == BP_F32 ? 1 : 2;
    for (int64_t q = 0; q < LANES; q += 4 * pair) {
        leaf column[4];
        leaf_columns4(column, bp_element_at(b, q, type),
                      (const char *)bp_element_at(b, pitch, type) - (const char *)b);
        for (int64_t i = 0; i < 4; i++) {
            leaf low = column[i], high = low;
            if (type != BP_F32) {
                leaf_split(column[i], &low, &high, type);
            }
            sum = leaf_fma(leaf_set(a[q + i * pair]), low, sum);
            if (type != BP_F32) {
                sum = leaf_fma(leaf_set(a[q + i * pair + 1]), high, sum);
            }
        }
    }
    return sum;
}

/* Terms between asking for a line and using it: enough for memory, near enough for the first cache.
 */
#define TERMS_BEFORE 128

/* The chains of LANES columns that lie `apart` elements of b from each other. */
static inline __attribute__((always_inline)) void transposed_columns(float sum[LANES],
                                                                     const float *a, const void *b,
                                                                     int64_t apart, int64_t depth,
                                                                     const bp_dtype type)
{
    const int64_t line = type == BP_F32 ? 16 : 32; /* elements of a cache line */
    const int64_t whole = depth - depth % LANES;
    leaf sums = leaf_load(sum);
    for (int64_t i = 0; i < whole; i += LANES) {
        for (int64_t r = 0; i % line == 0 && r < LANES; r++) {
            __builtin_prefetch(bp_element_at(b, r * apart + i + TERMS_BEFORE, type));
        }
        sums = transposed_step(sums, a + i, bp_element_at(b, i, type), apart, type);
    }
    leaf_store(sum, sums);
    row_transposed_edge(sum, a, b, apart, (const int64_t[2]){whole, depth}, LANES, type);
}

/* The chains of LANES columns that lie a `part` of all columns from each other. */
static inline __attribute__((always_inline)) void transposed_apart(float *sums, const float *a,
                                                                   const void *b, int64_t pitch,
                                                                   int64_t part, int64_t depth,
                                                                   const bp_dtype type)
{
    float sum[LANES];
    for (int64_t r = 0; r < LANES; r++) {
        sum[r] = sums[r * part];
    }
    transposed_columns(sum, a, b, part * pitch, depth, type);
    for (int64_t r = 0; r < LANES; r++) {
        sums[r * part] = sum[r];
    }
}

#define TURNED_NEAR                                                                                \
    12288 /* elements of b that a first-level cache holds, and what fetches ahead with it */

/* A vector of columns at a time, each from a part of its own of all columns, so that memory is read
 * as LANES long runs: what fetches ahead of us follows those, not rows that end soon. A b that is
 * in the cache is read by neighbours, whose sums are a vector. */
static inline __attribute__((always_inline)) void row_transposed_of(float *sums, const float *a,
                                                                    const void *b, int64_t pitch,
                                                                    int64_t depth, int64_t columns,
                                                                    const bp_dtype type)
{
    const int64_t part = columns / LANES, all[2] = {0, depth};
    const bool near = columns * depth <= TURNED_NEAR;
    for (int64_t j = 0; j < part; j++) {
        if (near) {
            transposed_columns(sums + j * LANES, a, bp_element_at(b, j * LANES * pitch, type),
                               pitch, depth, type);
        } else {
            transposed_apart(sums + j, a, bp_element_at(b, j * pitch, type), pitch, part, depth,
                             type);
        }
    }
    row_transposed_edge(sums + part * LANES, a, bp_element_at(b, part * LANES * pitch, type), pitch,
                        all, columns - part * LANES, type);
}

static void row_transposed(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                           int64_t columns, bp_dtype type)
{
    if (type == BP_F32) {
        row_transposed_of(sums, a, b, pitch, depth, columns, BP_F32);
    } else if (type == BP_BF16) {
        row_transposed_of(sums, a, b, pitch, depth, columns, BP_BF16);
    } else {
        row_transposed_of(sums, a, b, pitch, depth, columns, BP_F16);
    }
}

#define NARROW_EACH(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define NARROW_LOAD(v)  leaf s##v = leaf_load(sums + v * LANES);
#define NARROW_STORE(v) leaf_store(sums + v * LANES, s##v);
#define NARROW_LOW(v)                                                                              \
    if (v < count) {                                                                               \
        s##v = leaf_fma(low, leaf_set(row[v]), s##v);                                              \
    }
#define NARROW_HIGH(v)                                                                             \
    if (v < count) {                                                                               \
        s##v = leaf_fma(high, leaf_set(row[BP_MATMUL_NARROW + v]), s##v);                          \
    }

static void narrow_edge(float *sums, const void *a, int64_t pitch, const float *b, int64_t rows,
                        int64_t depth, bp_dtype type)
{
    for (int64_t i = 0; i < depth; i++) {
        for (int64_t r = 0; r < rows; r++) {
            float x = bp_element_load(a, (uint64_t)(r * pitch + i), type);
            for (int64_t v = 0; v < BP_MATMUL_NARROW; v++) {
                float *sum = sums + v * LANES + r;
                *sum = fmaf(x, b[i * BP_MATMUL_NARROW + v], *sum);
            }
        }
    }
}

/* Four terms transposed at once in registers, or four pairs of terms of 16 bits, which are then
 * split. Of b's columns the first `count`, a constant where this is used, so that the tests vanish.
 * Lines are asked for TERMS_BEFORE terms before they are used, of the rows that come next at a
 * row's end: rows side by side confuse the processor's own look-ahead. */
static inline __attribute__((always_inline)) void narrow_of(float *sums, const void *a,
                                                            int64_t pitch, const float *b,
                                                            int64_t depth, const int64_t count,
                                                            const bp_dtype type)
{
    const int64_t pair = type == BP_F32 ? 1 : 2, whole = depth - depth % (4 * pair);
    const int64_t bytes = (const char *)bp_element_at(a, pitch, type) - (const char *)a;
    const int64_t line = type == BP_F32 ? 16 : 32; /* elements of a cache line */
    const float *row = b;
    NARROW_EACH(NARROW_LOAD)
    for (int64_t k = 0; k < whole; k += 4 * pair) {
        const int64_t later = k + TERMS_BEFORE;
        const int64_t at = later < depth ? later : LANES * pitch + later - depth;
        for (int64_t r = 0; k % line == 0 && r < LANES; r++) {
            __builtin_prefetch(bp_element_at(a, r * pitch + at, type));
        }
        leaf column[4];
        leaf_columns4(column, bp_element_at(a, k, type), bytes);
        for (int64_t i = 0; i < 4; i++) {
            leaf low = column[i], high = low;
            if (type != BP_F32) {
                leaf_split(column[i], &low, &high, type);
            }
            NARROW_EACH(NARROW_LOW)
            if (type != BP_F32) {
                NARROW_EACH(NARROW_HIGH)
            }
            row += pair * BP_MATMUL_NARROW;
        }
    }
    NARROW_EACH(NARROW_STORE)
    narrow_edge(sums, bp_element_at(a, whole, type), pitch, row, LANES, depth - whole, type);
}

static inline __attribute__((always_inline)) void narrow_type(float *sums, const void *a,
                                                              int64_t pitch, const float *b,
                                                              int64_t depth, const int64_t count,
                                                              bp_dtype type)
{
    if (type == BP_F32) {
        narrow_of(sums, a, pitch, b, depth, count, BP_F32);
    } else if (type == BP_BF16) {
        narrow_of(sums, a, pitch, b, depth, count, BP_BF16);
    } else {
        narrow_of(sums, a, pitch, b, depth, count, BP_F16);
    }
}

static void narrow(float *sums, const void *a, int64_t pitch, const float *b, int64_t rows,
                   int64_t depth, int64_t columns, bp_dtype type)
{
    if (rows < LANES) {
        narrow_edge(sums, a, pitch, b, rows, depth, type);
    } else if (columns <= 2) {
        narrow_type(sums, a, pitch, b, depth, 2, type);
    } else if (columns <= 4) {
        narrow_type(sums, a, pitch, b, depth, 4, type);
    } else {
        narrow_type(sums, a, pitch, b, depth, BP_MATMUL_NARROW, type);
    }
}

/* What a store and a load of this type would make of x. */
static inline leaf leaf_rounded(leaf x, bp_dtype type)
{
    uint16_t narrow[LANES];
    if (type == BP_F32) {
        return x;
    }
    leaf_narrow(narrow, x, type);
    return leaf_widen(narrow, type);
}

/* A piece of one block: 16 values, each already what the type holds, are looked up. */
static void dequantise_nf4(float *to, const bp_quantised_matrix *from, uint64_t first,
                           int64_t count, bp_dtype type)
{
    const float scale = bp_quantised_scale(from, first);
    const float *codebook = bp_quantised_codebook(from->form);
    const uint8_t *codes = from->codes;
    float table[16];
    for (int v = 0; v < 16; v += LANES) {
        leaf_store(table + v,
                   leaf_rounded(leaf_times(leaf_load(codebook + v), leaf_set(scale)), type));
    }
    int64_t i = 0;
    if (first % 2 != 0 && count > 0) {
        to[i++] = table[codes[first / 2] & 15];
    }
    for (; i + LANES <= count; i += LANES) {
        leaf_store(to + i, leaf_codes(codes + (first + (uint64_t)i) / 2, table));
    }
    for (; i < count; i++) {
        uint64_t at = first + (uint64_t)i;
        to[i] = table[at % 2 == 0 ? codes[at / 2] >> 4 : codes[at / 2] & 15];
    }
}

static void dequantise_int8(float *to, const bp_quantised_matrix *from, uint64_t first,
                            int64_t count, bp_dtype type)
{
    const leaf scale = leaf_set(bp_quantised_scale(from, first)), step = leaf_set(BP_INT8_STEP);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        leaf x = leaf_times(leaf_times(leaf_bytes(from->codes + first + i), scale), step);
        leaf_store(to + i, leaf_rounded(x, type));
    }
    for (; i < count; i++) {
        to[i] = bp_element_round(bp_quantised_value(from, first + (uint64_t)i), type);
    }
}

static void dequantise_fp8(float *to, const uint8_t *codes, uint64_t first, int64_t count,
                           bp_dtype type)
{
    while (count > 0) {
        const uint8_t *block = codes + bp_fp8_bytes(first / BP_FP8_BLOCK * BP_FP8_BLOCK);
        const uint64_t within = first % BP_FP8_BLOCK;
        const uint32_t byte = block[within / BP_FP8_GROUP];
        const int64_t left = (int64_t)(BP_FP8_GROUP - first % BP_FP8_GROUP);
        const int64_t some = count < left ? count : left;
        block += BP_FP8_HEADER + within;
        for (int64_t i = 0; i < some; i++) {
            to[i] = bp_tape_value(block[i], byte);
        }
        for (int64_t i = 0; i < some && type == BP_F16; i++) {
            to[i] = bp_element_round(to[i], type); /* other types hold it */
        }
        to += some;
        first += (uint64_t)some;
        count -= some;
    }
}

static void dequantise_blocks(float *to, const bp_quantised_matrix *from, uint64_t first,
                              int64_t count, bp_dtype type)
{
    int64_t i = 0;
    bp_packed_values(bp_packed_of_form(from->form), from->codes, first, (uint64_t)count, to);
    for (; type != BP_F32 && i + LANES <= count; i += LANES) {
        leaf_store(to + i, leaf_rounded(leaf_load(to + i), type));
    }
    for (; type != BP_F32 && i < count; i++) {
        to[i] = bp_element_round(to[i], type);
    }
}

static void dequantise(float *to, const bp_quantised_matrix *from, uint64_t first, int64_t count,
                       bp_dtype type)
{
    if (bp_quantised_packed(from->form)) {
        dequantise_blocks(to, from, first, count, type);
        return;
    }
    if (from->form == BP_QUANTISED_INT8) {
        dequantise_int8(to, from, first, count, type);
        return;
    }
    if (from->form == BP_QUANTISED_FP8) {
        dequantise_fp8(to, from->codes, first, count, type);
        return;
    }
    const uint64_t block = bp_quantised_block(from->form);
    while (count > 0) {
        int64_t left = (int64_t)(block - first % block);
        int64_t some = count < left ? count : left;
        dequantise_nf4(to, from, first, some, type);
        to += some;
        first += (uint64_t)some;
        count -= some;
    }
}

static void gelu(float *c, float *before, int64_t pitch, int64_t rows, int64_t columns)
{
    const int64_t whole = columns - columns % LANES, rest = columns - whole;
    for (int64_t i = 0; i < rows; i++, c += pitch) {
        for (int64_t j = 0; j < whole; j += LANES) {
            leaf x = leaf_load(c + j);
            if (before != NULL) {
                leaf_store(before + i * pitch + j, x);
            }
            leaf_store(c + j, leaf_gelu(x));
        }
        if (rest > 0) {
            leaf x = leaf_load_first(c + whole, rest);
            if (before != NULL) {
                leaf_store_first(before + i * pitch + whole, x, rest);
            }
            leaf_store_first(c + whole, leaf_gelu(x), rest);
        }
    }
}

#endif
