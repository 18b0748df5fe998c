/* SPDX-License-Identifier: MIT */
/* Leaf functions of checked products (matmul_check.h), included by matmul_<form>.c behind
 * matmul_leaf.h, which says what a vector is: what `row` and `row_transposed` compute, faster,
 * because these sums are compared and need no order. */
#ifndef BP_DEVICE_HOST_MATMUL_SUMS_H
#define BP_DEVICE_HOST_MATMUL_SUMS_H

#define SUM_AHEAD 4 /* rows from asking for a line to using it */

#define SUM_LOAD(v) leaf even##v = leaf_load(sums + j + v * LANES), odd##v = leaf_set(0.0f);
#define SUM_STEP(v)                                                                                \
    even##v =                                                                                      \
        leaf_fma(x, leaf_of(bp_element_at(b, i * pitch + j + v * LANES, type), type), even##v);    \
    odd##v = leaf_fma(y, leaf_of(bp_element_at(b, (i + 1) * pitch + j + v * LANES, type), type),   \
                      odd##v);
#define SUM_STORE(v) leaf_store(sums + j + v * LANES, leaf_fma(leaf_set(1.0f), odd##v, even##v));

/* All terms of some vectors of columns, even and odd ones apart, in registers. */
#define SUM_COLUMNS(EACH)                                                                          \
    EACH(SUM_LOAD)                                                                                 \
    for (int64_t i = 0; i < whole; i += 2) {                                                       \
        const leaf x = leaf_set(a[i]), y = leaf_set(a[i + 1]);                                     \
        EACH(SUM_STEP)                                                                             \
    }                                                                                              \
    EACH(SUM_STORE)
#define SUM_ONE(X)   X(0)
#define SUM_THREE(X) X(0) X(1) X(2)

static inline __attribute__((always_inline)) void sum_of(float *sums, const float *a, const void *b,
                                                         int64_t pitch, int64_t depth,
                                                         int64_t columns, const bp_dtype type)
{
    const int64_t whole = depth - depth % 2;
    int64_t j = 0;
    for (; j + 3 * LANES <= columns; j += 3 * LANES) {
        SUM_COLUMNS(SUM_THREE)
    }
    for (; j + LANES <= columns; j += LANES) {
        SUM_COLUMNS(SUM_ONE)
    }
    row_of(sums + j, a, bp_element_at(b, j, type), pitch, depth, columns - j, type);
    if (whole < depth && j > 0) {
        row_of(sums, a + whole, bp_element_at(b, whole * pitch, type), pitch, 1, j, type);
    }
}

static void sum(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                int64_t columns, bp_dtype type)
{
    if (type == BP_F32) {
        sum_of(sums, a, b, pitch, depth, columns, BP_F32);
    } else if (type == BP_BF16) {
        sum_of(sums, a, b, pitch, depth, columns, BP_BF16);
    } else {
        sum_of(sums, a, b, pitch, depth, columns, BP_F16);
    }
}

/* sums[j] += what lies in the lanes of vector j. */
static inline void sum_lanes(float sums[LANES], const float lanes[LANES * LANES])
{
    const leaf one = leaf_set(1.0f);
    leaf total = leaf_load(sums);
    for (int64_t q = 0; q < LANES; q += 4) {
        leaf column[4];
        leaf_columns4(column, lanes + q, LANES * (int64_t)sizeof(float));
        for (int64_t i = 0; i < 4; i++) {
            total = leaf_fma(one, column[i], total);
        }
    }
    leaf_store(sums, total);
}

#define SUM_ROW(r)                                                                                 \
    sum##r = leaf_fma(x, leaf_of(bp_element_at(b, (j + r) * pitch + i, type), type), sum##r);

/* Rows run along the terms: a vector of terms at a time of four rows, and at the end the lanes of
 * each are added up. */
static inline __attribute__((always_inline)) void sum_transposed_of(float *sums, const float *a,
                                                                    const void *b, int64_t pitch,
                                                                    int64_t depth, int64_t columns,
                                                                    const bp_dtype type)
{
    const int64_t whole = depth - depth % LANES, most = columns - columns % LANES;
    const int64_t all[2] = {0, depth}, rest[2] = {whole, depth};
    for (int64_t first = 0; first < most; first += LANES) {
        float lanes[LANES * LANES];
        for (int64_t j = first; j < first + LANES; j += 4) {
            leaf sum0 = leaf_set(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
            for (int64_t i = 0; i < whole; i += LANES) {
                const leaf x = leaf_load(a + i);
                SUM_ROW(0) SUM_ROW(1) SUM_ROW(2) SUM_ROW(3)
            }
            leaf_store(lanes + (j - first) * LANES, sum0);
            leaf_store(lanes + (j - first + 1) * LANES, sum1);
            leaf_store(lanes + (j - first + 2) * LANES, sum2);
            leaf_store(lanes + (j - first + 3) * LANES, sum3);
        }
        sum_lanes(sums + first, lanes);
    }
    row_transposed_edge(sums, a, b, pitch, rest, most, type);
    row_transposed_edge(sums + most, a, bp_element_at(b, most * pitch, type), pitch, all,
                        columns - most, type);
}

static void sum_transposed(float *sums, const float *a, const void *b, int64_t pitch, int64_t depth,
                           int64_t columns, bp_dtype type)
{
    if (type == BP_F32) {
        sum_transposed_of(sums, a, b, pitch, depth, columns, BP_F32);
    } else if (type == BP_BF16) {
        sum_transposed_of(sums, a, b, pitch, depth, columns, BP_BF16);
    } else {
        sum_transposed_of(sums, a, b, pitch, depth, columns, BP_F16);
    }
}

#endif
