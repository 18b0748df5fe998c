/* SPDX-License-Identifier: MIT */
/* The matrix product's leaf functions in 512-bit registers: tiles of 8 rows x 48 columns of c. */
#include "device/host/isa.h"
#include "device/host/x86/half_avx512.h"
#include "device/host/x86/math_avx512.h"
#include "device/host/matmul/matmul_amx.h"
#include "device/host/matmul/matmul_ask.h"
#include "device/host/matmul/matmul_experts.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/matmul/matmul_transpose.h"

#define ROWS    8
#define LANES   16
#define COLUMNS 48
#define TERMS   384
#define LEAD    1
#define BLOCK   384

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* The lanes of a vector of which `left` columns remain. */
static inline __mmask16 mask_of(int64_t left)
{
    if (left >= LANES) {
        return 0xffff;
    }
    return (__mmask16)((1u << (left > 0 ? left : 0)) - 1u);
}

/* The tile's 24 (or 16, or 8) vectors are variables c<row><vector>, so that they stay in
 * registers; `vectors` and `packed` are constants wherever this is used and the tests on them
 * vanish. Rows that are not there compute row 0 again and are not stored. */
#define DECLARE(i)                                                                                 \
    const float *a##i = t->a + (i < t->rows ? i : 0) * t->a_pitch;                                 \
    __m512 c##i##0 = _mm512_setzero_ps(), c##i##1 = c##i##0, c##i##2 = c##i##0;

#define LOAD(i)                                                                                    \
    if (i < t->rows) {                                                                             \
        const float *from = t->from + i * t->from_pitch;                                           \
        c##i##0 = _mm512_maskz_loadu_ps(mask0, from);                                              \
        if (vectors > 1) {                                                                         \
            c##i##1 = _mm512_maskz_loadu_ps(mask1, from + LANES);                                  \
        }                                                                                          \
        if (vectors > 2) {                                                                         \
            c##i##2 = _mm512_maskz_loadu_ps(mask2, from + 2 * LANES);                              \
        }                                                                                          \
    }

#define MULTIPLY(i)                                                                                \
    {                                                                                              \
        __m512 x = _mm512_set1_ps(packed ? a[i] : a##i[k]);                                        \
        c##i##0 = _mm512_fmadd_ps(x, b0, c##i##0);                                                 \
        if (vectors > 1) {                                                                         \
            c##i##1 = _mm512_fmadd_ps(x, b1, c##i##1);                                             \
        }                                                                                          \
        if (vectors > 2) {                                                                         \
            c##i##2 = _mm512_fmadd_ps(x, b2, c##i##2);                                             \
        }                                                                                          \
    }

/* The last vector is masked unless it is whole: that costs a unit that multiplies. */
#define LOAD_PANEL                                                                                 \
    __m512 b0, b1, b2;                                                                             \
    b0 = whole || vectors > 1 ? _mm512_loadu_ps(b) : _mm512_maskz_loadu_ps(mask0, b);              \
    b1 = b2 = b0;                                                                                  \
    if (vectors > 1) {                                                                             \
        b1 = whole || vectors > 2 ? _mm512_loadu_ps(b + LANES)                                     \
                                  : _mm512_maskz_loadu_ps(mask1, b + LANES);                       \
    }                                                                                              \
    if (vectors > 2) {                                                                             \
        b2 = whole ? _mm512_loadu_ps(b + 2 * LANES) : _mm512_maskz_loadu_ps(mask2, b + 2 * LANES); \
    }

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
    c##i##0 = _mm512_add_ps(c##i##0, b0);                                                          \
    c##i##1 = _mm512_add_ps(c##i##1, b1);                                                          \
    c##i##2 = _mm512_add_ps(c##i##2, b2);

#define ADD_RESIDUAL(i)                                                                            \
    if (i < t->rows) {                                                                             \
        const float *r = t->residual + i * t->to_pitch;                                            \
        c##i##0 = _mm512_add_ps(c##i##0, _mm512_maskz_loadu_ps(mask0, r));                         \
        if (vectors > 1) {                                                                         \
            c##i##1 = _mm512_add_ps(c##i##1, _mm512_maskz_loadu_ps(mask1, r + LANES));             \
        }                                                                                          \
        if (vectors > 2) {                                                                         \
            c##i##2 = _mm512_add_ps(c##i##2, _mm512_maskz_loadu_ps(mask2, r + 2 * LANES));         \
        }                                                                                          \
    }

#define STORE(i)                                                                                   \
    if (i < t->rows) {                                                                             \
        float *to = t->to + i * t->to_pitch;                                                       \
        store_vector(to, c##i##0, whole, mask0);                                                   \
        if (vectors > 1) {                                                                         \
            store_vector(to + LANES, c##i##1, whole, mask1);                                       \
        }                                                                                          \
        if (vectors > 2) {                                                                         \
            store_vector(to + 2 * LANES, c##i##2, whole, mask2);                                   \
        }                                                                                          \
    }

static inline __attribute__((always_inline)) void store_vector(float *to, __m512 x,
                                                               const bool whole, __mmask16 mask)
{
    if (whole) {
        _mm512_storeu_ps(to, x);
    } else {
        _mm512_mask_storeu_ps(to, mask, x);
    }
}

static inline __attribute__((always_inline)) void
tile_of(const bp_matmul_tile *t, const int vectors, const bool whole, const bool packed)
{
    const __mmask16 mask0 = mask_of(t->columns);
    const __mmask16 mask1 = mask_of(t->columns - LANES);
    const __mmask16 mask2 = mask_of(t->columns - 2 * LANES);
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
        __m512 b0 = _mm512_maskz_loadu_ps(mask0, t->bias);
        __m512 b1 = _mm512_maskz_loadu_ps(mask1, t->bias + LANES);
        __m512 b2 = _mm512_maskz_loadu_ps(mask2, t->bias + 2 * LANES);
        EACH_ROW(ADD_BIAS)
    }
    if (t->residual != NULL) {
        EACH_ROW(ADD_RESIDUAL)
    }
    EACH_ROW(STORE)
}

static inline __attribute__((always_inline)) void tile_with(const bp_matmul_tile *t,
                                                            const bool packed)
{
    if (t->columns == COLUMNS) {
        tile_of(t, 3, true, packed);
    } else if (t->columns > 2 * LANES) {
        tile_of(t, 3, false, packed);
    } else if (t->columns == 2 * LANES) {
        tile_of(t, 2, true, packed);
    } else if (t->columns > LANES) {
        tile_of(t, 2, false, packed);
    } else {
        tile_of(t, 1, false, packed);
    }
}

static void tile(const bp_matmul_tile *t)
{
    if (t->packed) {
        tile_with(t, true);
    } else {
        tile_with(t, false);
    }
}

typedef __m512 leaf;

static inline leaf leaf_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline leaf leaf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void leaf_store(float *p, leaf x)
{
    _mm512_storeu_ps(p, x);
}

static inline leaf leaf_fma(leaf x, leaf y, leaf z)
{
    return _mm512_fmadd_ps(x, y, z);
}

static inline leaf leaf_gelu(leaf x)
{
    return bp_gelu_avx512(x);
}

static inline leaf leaf_load_first(const float *p, int64_t count)
{
    return _mm512_maskz_loadu_ps(mask_of(count), p);
}

static inline void leaf_store_first(float *p, leaf x, int64_t count)
{
    _mm512_mask_storeu_ps(p, mask_of(count), x);
}

static inline leaf leaf_widen(const uint16_t *p, bp_dtype type)
{
    return bp_half_widen_avx512(_mm256_loadu_si256((const __m256i *)(const void *)p), type);
}

static inline void leaf_narrow(uint16_t *p, leaf x, bp_dtype type)
{
    _mm256_storeu_si256((__m256i *)(void *)p, bp_half_narrow_avx512(x, type));
}

/* Pairs of 16-bit elements as two vectors. */
static inline void leaf_split(leaf pairs, leaf *low, leaf *high, bp_dtype type)
{
    __m512i x = _mm512_castps_si512(pairs);
    if (type == BP_BF16) {
        *low = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
        *high = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
    } else {
        *low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
        *high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
    }
}

static inline __m128 four(const char *from)
{
    return _mm_loadu_ps((const float *)(const void *)from);
}

/* Four columns of rows r, r + 4, r + 8, r + 12 in the four quarters of a register. */
static inline __m512 quarters(const char *from, int64_t pitch)
{
    __m512 v = _mm512_castps128_ps512(four(from));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, four(from + 4 * pitch));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, four(from + 8 * pitch));
    return _mm512_mask_broadcast_f32x4(v, 0xf000, four(from + 12 * pitch));
}

/* 16 rows x 4 columns, 4 x 4 inside the quarters. */
static inline void leaf_columns4(__m512 column[4], const void *from, int64_t pitch)
{
    const char *row = from;
    __m512 r0 = quarters(row, pitch);
    __m512 r1 = quarters(row + pitch, pitch);
    __m512 r2 = quarters(row + 2 * pitch, pitch);
    __m512 r3 = quarters(row + 3 * pitch, pitch);
    __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
    __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
    __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
    __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
    column[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    column[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    column[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    column[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}

/* The values of 16 codes of four bits, 8 bytes of them, out of a table. */
static inline __m512 leaf_codes(const uint8_t *pairs, const float table[16])
{
    const __m128i mask = _mm_set1_epi8(15);
    __m128i both = _mm_loadl_epi64((const __m128i *)(const void *)pairs);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
    __m128i codes = _mm_unpacklo_epi8(high, _mm_and_si128(both, mask));
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), _mm512_loadu_ps(table));
}

/* 16 signed bytes. */
static inline __m512 leaf_bytes(const uint8_t *codes)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes)));
}

static inline __m512 leaf_times(__m512 a, __m512 b)
{
    return _mm512_mul_ps(a, b);
}

/* The values of both halves of 16 bytes, the upper halves' first. */
static inline void leaf_nibbles(const uint8_t *codes, const float table[16], __m512 *first,
                                __m512 *second)
{
    const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
    const __m512 values = _mm512_loadu_ps(table);
    *first = _mm512_permutexvar_ps(_mm512_srli_epi32(x, 4), values);
    *second = _mm512_permutexvar_ps(x, values); /* looks at four bits */
}

#include "device/host/matmul/matmul_leaf.h"
#include "device/host/matmul/matmul_sums.h"
#include "device/host/matmul/matmul_codes.h"

const bp_matmul_isa bp_matmul_isa_avx512 = {
    ROWS,  COLUMNS,      TERMS,     BLOCK,     LANES, LEAD,           tile,   load,
    store, pack_columns, pack_rows, transpose, row,   row_transposed, narrow, dequantise,
    gelu,  row_codes,    NULL,      NULL,      sum,   sum_transposed};

static uint64_t tasks(const void *scalars)
{
    return bp_matmul_tasks(scalars, &bp_matmul_isa_avx512);
}

static void run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(&bp_matmul_isa_avx512, call, first, last, worker);
}

const bp_host_kernel bp_matmul_avx512 = {tasks, run, bp_matmul_workspace};

static void product(const bp_host_call *call, uint64_t bytes)
{
    bp_matmul_run_whole(&bp_matmul_isa_avx512, call, bytes);
}

static void coded_avx512(const bp_host_call *call, const bp_quantised_matrix *codes,
                         const int64_t columns[2], uint64_t bytes)
{
    bp_matmul_run_coded(&bp_matmul_isa_avx512, call, codes, columns, bytes);
}

BP_EXPERTS_KERNELS(avx512, product, coded_avx512)

static uint64_t quantised_tasks(const void *scalars)
{
    return bp_matmul_quantised_tasks(scalars, &bp_matmul_isa_avx512);
}

static void quantised_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_quantised_run(&bp_matmul_isa_avx512, call, first, last, worker);
}

const bp_host_kernel bp_matmul_quantised_avx512 = {quantised_tasks, quantised_run,
                                                   bp_matmul_quantised_workspace};

/* The same with products of bf16 by AMX tiles. */
static const bp_matmul_isa amx_form = {
    ROWS,  COLUMNS,      TERMS,         BLOCK,     LANES, LEAD,           tile,   load,
    store, pack_columns, pack_rows,     transpose, row,   row_transposed, narrow, dequantise,
    gelu,  row_codes,    bp_matmul_amx, NULL,      sum,   sum_transposed};

static void amx_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(&amx_form, call, first, last, worker);
}

static void amx_quantised_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    bp_matmul_quantised_run(&amx_form, call, first, last, worker);
}

const bp_host_kernel bp_matmul_amx_kernel = {tasks, amx_run, bp_matmul_workspace};
const bp_host_kernel bp_matmul_amx_quantised_kernel = {quantised_tasks, amx_quantised_run,
                                                       bp_matmul_quantised_workspace};
