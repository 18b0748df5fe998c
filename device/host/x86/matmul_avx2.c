/* SPDX-License-Identifier: MIT */
/* The matrix product's leaf functions in 256-bit registers: tiles of 6 rows x 16 columns of c. */
#include <string.h>

#include "device/host/isa.h"
#include "device/host/x86/half_avx2.h"
#include "device/host/x86/math_avx2.h"
#include "device/host/matmul/matmul_ask.h"
#include "device/host/matmul/matmul_experts.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/matmul/matmul_transpose.h"

#define ROWS    6
#define LANES   8
#define COLUMNS 16
#define TERMS   512
#define LEAD    2
#define BLOCK   256

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* The lanes of a vector of which `left` columns remain, all bits set. */
static inline __m256i mask_of(int64_t left)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int32_t count = (int32_t)(left < 0 ? 0 : (left > LANES ? LANES : left));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
}

/* The tile's 12 vectors are variables c<row><vector>, so that they stay in registers. Rows that are
 * not there compute row 0 again and are not stored. */
#define DECLARE(i)                                                                                 \
    const float *a##i = t->a + (i < t->rows ? i : 0) * t->a_pitch;                                 \
    __m256 c##i##0 = _mm256_setzero_ps(), c##i##1 = c##i##0;

#define LOAD(i)                                                                                    \
    if (i < t->rows) {                                                                             \
        const float *from = t->from + i * t->from_pitch;                                           \
        c##i##0 = _mm256_maskload_ps(from, mask0);                                                 \
        c##i##1 = _mm256_maskload_ps(from + LANES, mask1);                                         \
    }

#define MULTIPLY(i)                                                                                \
    {                                                                                              \
        __m256 x = _mm256_broadcast_ss(packed ? a + i : a##i + k);                                 \
        c##i##0 = _mm256_fmadd_ps(x, b0, c##i##0);                                                 \
        c##i##1 = _mm256_fmadd_ps(x, b1, c##i##1);                                                 \
    }

#define LOAD_PANEL                                                                                 \
    __m256 b0 = whole ? _mm256_loadu_ps(b) : _mm256_maskload_ps(b, mask0);                         \
    __m256 b1 = whole ? _mm256_loadu_ps(b + LANES) : _mm256_maskload_ps(b + LANES, mask1);

#define TERM                                                                                       \
    {                                                                                              \
        LOAD_PANEL                                                                                 \
        EACH_ROW(MULTIPLY)                                                                         \
        b += packed ? COLUMNS : t->panel_pitch;                                                    \
        a += ROWS;                                                                                 \
        k++;                                                                                       \
    }

/* Term depth + e belongs to the rows after e only. */
#define MULTIPLY_EXTRA(i)                                                                          \
    if (i > e && i < t->rows) {                                                                    \
        MULTIPLY(i)                                                                                \
    }

#define ADD_BIAS(i)                                                                                \
    c##i##0 = _mm256_add_ps(c##i##0, b0);                                                          \
    c##i##1 = _mm256_add_ps(c##i##1, b1);

#define ADD_RESIDUAL(i)                                                                            \
    if (i < t->rows) {                                                                             \
        const float *r = t->residual + i * t->to_pitch;                                            \
        c##i##0 = _mm256_add_ps(c##i##0, _mm256_maskload_ps(r, mask0));                            \
        c##i##1 = _mm256_add_ps(c##i##1, _mm256_maskload_ps(r + LANES, mask1));                    \
    }

#define STORE(i)                                                                                   \
    if (i < t->rows) {                                                                             \
        float *to = t->to + i * t->to_pitch;                                                       \
        if (whole) {                                                                               \
            _mm256_storeu_ps(to, c##i##0);                                                         \
            _mm256_storeu_ps(to + LANES, c##i##1);                                                 \
        } else {                                                                                   \
            _mm256_maskstore_ps(to, mask0, c##i##0);                                               \
            _mm256_maskstore_ps(to + LANES, mask1, c##i##1);                                       \
        }                                                                                          \
    }

static inline __attribute__((always_inline)) void tile_of(const bp_matmul_tile *t, const bool whole,
                                                          const bool packed)
{
    const __m256i mask0 = mask_of(t->columns);
    const __m256i mask1 = mask_of(t->columns - LANES);
    const float *a = t->a, *b = t->panel;
    const int64_t stride = packed ? BP_MATMUL_STRIDE : BP_MATMUL_STRIDE / 2;
    const bp_matmul_asks *asks = t->walks.asks;
    int64_t k = 0;
    EACH_ROW(DECLARE)
    if (t->from != NULL) {
        EACH_ROW(LOAD)
    }
    while (k + stride <= t->depth) {
        if (packed) {
            BP_MATMUL_ASK
        }
        TERM TERM TERM TERM if (packed)
        {
            TERM TERM TERM TERM
        }
    }
    while (k < t->depth) {
        TERM
    }
    for (int64_t e = 0; !packed && e < (t->rows - 1) * t->extra; e++) {
        LOAD_PANEL
        EACH_ROW(MULTIPLY_EXTRA)
        b += t->panel_pitch;
        k++;
    }
    if (t->bias != NULL) {
        __m256 b0 = _mm256_maskload_ps(t->bias, mask0);
        __m256 b1 = _mm256_maskload_ps(t->bias + LANES, mask1);
        EACH_ROW(ADD_BIAS)
    }
    if (t->residual != NULL) {
        EACH_ROW(ADD_RESIDUAL)
    }
    EACH_ROW(STORE)
}

static void tile(const bp_matmul_tile *t)
{
    bool whole = t->columns == COLUMNS;
    if (t->packed && whole) {
        tile_of(t, true, true);
    } else if (t->packed) {
        tile_of(t, false, true);
    } else if (whole) {
        tile_of(t, true, false);
    } else {
        tile_of(t, false, false);
    }
}

typedef __m256 leaf;

static inline leaf leaf_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline leaf leaf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void leaf_store(float *p, leaf x)
{
    _mm256_storeu_ps(p, x);
}

static inline leaf leaf_fma(leaf x, leaf y, leaf z)
{
    return _mm256_fmadd_ps(x, y, z);
}

static inline leaf leaf_gelu(leaf x)
{
    return bp_gelu_avx2(x);
}

static inline leaf leaf_load_first(const float *p, int64_t count)
{
    return _mm256_maskload_ps(p, mask_of(count));
}

static inline void leaf_store_first(float *p, leaf x, int64_t count)
{
    _mm256_maskstore_ps(p, mask_of(count), x);
}

static inline leaf leaf_widen(const uint16_t *p, bp_dtype type)
{
    return bp_half_widen_avx2(_mm_loadu_si128((const __m128i *)(const void *)p), type);
}

static inline void leaf_narrow(uint16_t *p, leaf x, bp_dtype type)
{
    _mm_storeu_si128((__m128i *)(void *)p, bp_half_narrow_avx2(x, type));
}

/* Pairs of 16-bit elements as two vectors. */
static inline void leaf_split(leaf pairs, leaf *low, leaf *high, bp_dtype type)
{
    const __m256i first = _mm256_set1_epi32(0xffff);
    __m256i x = _mm256_castps_si256(pairs);
    if (type == BP_BF16) {
        *low = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
        *high = _mm256_castsi256_ps(_mm256_andnot_si256(first, x));
        return;
    }
    /* Packing works within the halves of a register: the quarters come out as low, high, low, high.
     */
    __m256i packed = _mm256_packus_epi32(_mm256_and_si256(x, first), _mm256_srli_epi32(x, 16));
    packed = _mm256_permute4x64_epi64(packed, 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1));
}

static inline void leaf_columns4(leaf column[4], const void *from, int64_t pitch)
{
    const float *row[BP_TRANSPOSED];
    for (int64_t r = 0; r < BP_TRANSPOSED; r++) {
        row[r] = (const float *)(const void *)((const char *)from + r * pitch);
    }
    bp_transpose_columns4(column, row, 0);
}

/* The values of 8 codes of four bits, 4 bytes of them, out of a table of two registers. */
static inline __m256 leaf_codes(const uint8_t *pairs, const float table[16])
{
    const __m128i mask = _mm_set1_epi8(15);
    int32_t word;
    memcpy(&word, pairs, sizeof word);
    __m128i both = _mm_cvtsi32_si128(word);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
    __m256i codes = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(high, _mm_and_si128(both, mask)));
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), codes);
    __m256 upper = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), codes);
    return _mm256_blendv_ps(low, upper, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
}

/* 8 signed bytes. */
static inline __m256 leaf_bytes(const uint8_t *codes)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes)));
}

static inline __m256 leaf_times(__m256 a, __m256 b)
{
    return _mm256_mul_ps(a, b);
}

/* Out of a table of two registers by the lower four bits. */
static inline __m256 nibble_values(__m256i x, __m256 low, __m256 high)
{
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, x), _mm256_permutevar8x32_ps(high, x),
                            _mm256_castsi256_ps(_mm256_slli_epi32(x, 28)));
}

/* The values of both halves of 8 bytes, the upper halves' first. */
static inline void leaf_nibbles(const uint8_t *codes, const float table[16], __m256 *first,
                                __m256 *second)
{
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes));
    const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + 8);
    *first = nibble_values(_mm256_srli_epi32(x, 4), low, high);
    *second = nibble_values(x, low, high);
}

#include "device/host/matmul/matmul_leaf.h"
#include "device/host/matmul/matmul_sums.h"
#include "device/host/matmul/matmul_codes.h"

const bp_matmul_isa bp_matmul_isa_avx2 = {
    ROWS,  COLUMNS,      TERMS,     BLOCK,     LANES, LEAD,           tile,   load,
    store, pack_columns, pack_rows, transpose, row,   row_transposed, narrow, dequantise,
    gelu,  row_codes,    NULL,      NULL,      sum,   sum_transposed};

static uint64_t tasks(const void *scalars)
{
    return bp_matmul_tasks(scalars, &bp_matmul_isa_avx2);
}

static void run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(&bp_matmul_isa_avx2, call, first, last, worker);
}

const bp_host_kernel bp_matmul_avx2 = {tasks, run, bp_matmul_workspace};

static void product(const bp_host_call *call, uint64_t bytes)
{
    bp_matmul_run_whole(&bp_matmul_isa_avx2, call, bytes);
}

static void coded_avx2(const bp_host_call *call, const bp_quantised_matrix *codes,
                       const int64_t columns[2], uint64_t bytes)
{
    bp_matmul_run_coded(&bp_matmul_isa_avx2, call, codes, columns, bytes);
}

BP_EXPERTS_KERNELS(avx2, product, coded_avx2)

static uint64_t quantised_tasks(const void *scalars)
{
    return bp_matmul_quantised_tasks(scalars, &bp_matmul_isa_avx2);
}

static void quantised_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_quantised_run(&bp_matmul_isa_avx2, call, first, last, worker);
}

const bp_host_kernel bp_matmul_quantised_avx2 = {quantised_tasks, quantised_run,
                                                 bp_matmul_quantised_workspace};
