/* SPDX-License-Identifier: MIT */
/* A row times a transposed quantised matrix, in vectors: a lane is a column of the product, a row
 * of what is stored, so chains run along the lanes and no float is transposed, only codes. Included
 * by matmul_<form>.c behind matmul_leaf.h, which says what a vector is, and after
 *
 *   leaf_nibbles(codes, table, first, second)   of LANES bytes the values of both halves
 */
#ifndef BP_DEVICE_HOST_MATMUL_CODES_H
#define BP_DEVICE_HOST_MATMUL_CODES_H

#define CODES_TRANSPOSED 16 /* bytes of a row that are transposed at once */
#define CODES_LINE       64 /* bytes of a cache line */

/* One of three steps that interleave the rows i and i + 4; written out so that all stay in
 * registers. */
#define TURN_STEP(r, s)                                                                            \
    s##0 = bp_bytes_zip_low(r##0, r##4), s##1 = bp_bytes_zip_high(r##0, r##4);                     \
    s##2 = bp_bytes_zip_low(r##1, r##5), s##3 = bp_bytes_zip_high(r##1, r##5);                     \
    s##4 = bp_bytes_zip_low(r##2, r##6), s##5 = bp_bytes_zip_high(r##2, r##6);                     \
    s##6 = bp_bytes_zip_low(r##3, r##7), s##7 = bp_bytes_zip_high(r##3, r##7);

#define EACH_PAIR(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define TURN_LOAD(i) bp_bytes r##i = bp_bytes_load(from + i * pitch);
#define TURN_KEEP(i) pair[i] = s##i;

/* The bytes of eight rows, byte by byte: the halves of pair[i] are bytes 2 i and 2 i + 1 of each.
 */
static inline __attribute__((always_inline)) void
transpose_bytes(bp_bytes pair[BP_TRANSPOSED], const uint8_t *from, uint64_t pitch)
{
    bp_bytes s0, s1, s2, s3, s4, s5, s6, s7;
    EACH_PAIR(TURN_LOAD)
    TURN_STEP(r, s)
    TURN_STEP(s, r)
    TURN_STEP(r, s)
    EACH_PAIR(TURN_KEEP)
}

/* Asks for the lines of the rows that come after these. */
static inline void ask_codes(const uint8_t *from, uint64_t pitch)
{
    for (uint64_t r = LANES; r < 2 * LANES; r++) {
        __builtin_prefetch(from + r * pitch);
    }
}

#define TURN_HALF(i)                                                                               \
    bp_bytes_store_low(to + 2 * i * LANES, low[i]);                                                \
    bp_bytes_store_high(to + (2 * i + 1) * LANES, low[i]);
#define TURN_BOTH(i)                                                                               \
    bp_bytes_store(to + 2 * i * LANES, bp_bytes_join_low(low[i], high[i]));                        \
    bp_bytes_store(to + (2 * i + 1) * LANES, bp_bytes_join_high(low[i], high[i]));

/* to + q * LANES: byte q of LANES rows. What is stored at once is loaded at once. */
static inline void transpose_codes(uint8_t to[CODES_TRANSPOSED * LANES], const uint8_t *from,
                                   uint64_t pitch)
{
    bp_bytes low[BP_TRANSPOSED], high[BP_TRANSPOSED];
    transpose_bytes(low, from, pitch);
    if (LANES == BP_TRANSPOSED) {
        EACH_PAIR(TURN_HALF)
    } else {
        transpose_bytes(high, from + BP_TRANSPOSED * pitch, pitch);
        EACH_PAIR(TURN_BOTH)
    }
}

/* The scales of LANES rows at one place of theirs. */
static inline leaf lane_scales(const bp_quantised_matrix *from, uint64_t first, uint64_t pitch)
{
    float scale[LANES];
    for (uint64_t r = 0; r < LANES; r++) {
        scale[r] = bp_quantised_scale(from, first + r * pitch);
    }
    return leaf_load(scale);
}

/* Two blocks' halves of codes: 32 terms a turn. */
static inline __attribute__((always_inline)) leaf nf4_chains(leaf sum, const float *a,
                                                             const bp_quantised_matrix *from,
                                                             uint64_t first, uint64_t pitch,
                                                             int64_t depth, const bp_dtype type)
{
    uint8_t codes[CODES_TRANSPOSED * LANES];
    const float *codebook = bp_quantised_codebook(from->form);
    const int64_t block = (int64_t)bp_quantised_block(from->form);
    leaf scale = leaf_set(0.0f);
    for (int64_t k = 0; k < depth; k += 2 * CODES_TRANSPOSED) {
        const uint64_t at = first + (uint64_t)k;
        if (k % block == 0) {
            scale = lane_scales(from, at, pitch);
        }
        if (k % (2 * CODES_LINE) == 0) {
            ask_codes(from->codes + at / 2, pitch / 2);
        }
        transpose_codes(codes, from->codes + at / 2, pitch / 2);
        for (int64_t q = 0; q < CODES_TRANSPOSED; q++) {
            leaf even, odd;
            leaf_nibbles(codes + q * LANES, codebook, &even, &odd);
            even = leaf_rounded(leaf_times(even, scale), type);
            odd = leaf_rounded(leaf_times(odd, scale), type);
            sum = leaf_fma(leaf_set(a[k + 2 * q]), even, sum);
            sum = leaf_fma(leaf_set(a[k + 2 * q + 1]), odd, sum);
        }
    }
    return sum;
}

static inline __attribute__((always_inline)) leaf int8_chains(leaf sum, const float *a,
                                                              const bp_quantised_matrix *from,
                                                              uint64_t first, uint64_t pitch,
                                                              int64_t depth, const bp_dtype type)
{
    uint8_t codes[CODES_TRANSPOSED * LANES];
    const leaf scale = lane_scales(from, first, pitch), step = leaf_set(BP_INT8_STEP);
    for (int64_t k = 0; k < depth; k += CODES_TRANSPOSED) {
        if (k % CODES_LINE == 0) {
            ask_codes(from->codes + first + (uint64_t)k, pitch);
        }
        transpose_codes(codes, from->codes + first + (uint64_t)k, pitch);
        for (int64_t q = 0; q < CODES_TRANSPOSED; q++) {
            leaf x = leaf_times(leaf_times(leaf_bytes(codes + q * LANES), scale), step);
            sum = leaf_fma(leaf_set(a[k + q]), leaf_rounded(x, type), sum);
        }
    }
    return sum;
}

/* Whole vectors of columns; `depth` and `pitch` are multiples of a block, and so is where they
 * begin. */
static inline __attribute__((always_inline)) void
row_codes_of(float *sums, const float *a, const bp_quantised_matrix *from, uint64_t first,
             uint64_t pitch, int64_t depth, int64_t columns, const bp_dtype type)
{
    for (int64_t j = 0; j < columns; j += LANES, first += LANES * pitch) {
        leaf sum = leaf_load(sums + j);
        if (from->form == BP_QUANTISED_INT8) {
            sum = int8_chains(sum, a, from, first, pitch, depth, type);
        } else {
            sum = nf4_chains(sum, a, from, first, pitch, depth, type);
        }
        leaf_store(sums + j, sum);
    }
}

static int64_t row_codes(float *sums, const float *a, const bp_quantised_matrix *from,
                         uint64_t first, uint64_t pitch, int64_t depth, int64_t columns,
                         bp_dtype type)
{
    const int64_t whole = columns - columns % LANES;
    const uint64_t block =
        bp_quantised_four(from->form) ? bp_quantised_block(from->form) : BP_NF4_BLOCK;
    if (first % block != 0 || pitch % block != 0 || (uint64_t)depth % block != 0) {
        return 0;
    }
    if (type == BP_F32) {
        row_codes_of(sums, a, from, first, pitch, depth, whole, BP_F32);
    } else {
        row_codes_of(sums, a, from, first, pitch, depth, whole, type);
    }
    return whole;
}

#endif
