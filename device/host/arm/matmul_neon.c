/* SPDX-License-Identifier: MIT */
/* The matrix product's leaf functions in 128-bit registers: tiles of 6 rows x 16 columns of c, 24
 * registers of sums beside four of b and two of a. A leaf is a pair of registers. */
#include <string.h>

#include "device/host/cpu.h"
#include "device/host/isa.h"
#include "device/host/arm/half_neon.h"
#include "device/host/arm/math_neon.h"
#include "device/host/matmul/matmul_ask.h"
#include "device/host/matmul/matmul_experts.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/matmul/matmul_bf16.h"
#include "device/host/arm/matmul_sve.h"
#include "device/host/arm/matmul_tile_neon.h"
#include "device/host/arm/matmul_transpose_neon.h"

#define LANES 8
#define TERMS 256 /* panels of 16 KiB: half of the smaller first-level caches */
#define LEAD  2
#define BLOCK 256

/* Rows that are not there are row 0 again. */
#define ROW_OF(i) const float *a##i = t->a + (i < t->rows ? i : 0) * t->a_pitch;

#define MULTIPLY(i)                                                                                \
    c##i##0 = vfmaq_n_f32(c##i##0, b0, a##i[k]);                                                   \
    c##i##1 = vfmaq_n_f32(c##i##1, b1, a##i[k]);                                                   \
    c##i##2 = vfmaq_n_f32(c##i##2, b2, a##i[k]);                                                   \
    c##i##3 = vfmaq_n_f32(c##i##3, b3, a##i[k]);

/* A term of a row whose a is a lane of a vector. */
#define MULTIPLY_LANE(i, fma, x, lane)                                                             \
    c##i##0 = fma(c##i##0, b0, x, lane);                                                           \
    c##i##1 = fma(c##i##1, b1, x, lane);                                                           \
    c##i##2 = fma(c##i##2, b2, x, lane);                                                           \
    c##i##3 = fma(c##i##3, b3, x, lane);

/* A packed panel has all columns, whatever lies in those that are not there. */
#define TERM_PACKED                                                                                \
    {                                                                                              \
        const float32x4_t b0 = vld1q_f32(b), b1 = vld1q_f32(b + 4);                                \
        const float32x4_t b2 = vld1q_f32(b + 8), b3 = vld1q_f32(b + 12);                           \
        const float32x4_t first = vld1q_f32(a);                                                    \
        const float32x2_t last = vld1_f32(a + 4);                                                  \
        MULTIPLY_LANE(0, vfmaq_laneq_f32, first, 0)                                                \
        MULTIPLY_LANE(1, vfmaq_laneq_f32, first, 1)                                                \
        MULTIPLY_LANE(2, vfmaq_laneq_f32, first, 2)                                                \
        MULTIPLY_LANE(3, vfmaq_laneq_f32, first, 3)                                                \
        MULTIPLY_LANE(4, vfmaq_lane_f32, last, 0)                                                  \
        MULTIPLY_LANE(5, vfmaq_lane_f32, last, 1)                                                  \
        b += COLUMNS;                                                                              \
        a += ROWS;                                                                                 \
        k++;                                                                                       \
    }

#define TERM_PLAIN                                                                                 \
    {                                                                                              \
        FOUR(b, panel)                                                                             \
        EACH_ROW(MULTIPLY)                                                                         \
        panel += t->panel_pitch;                                                                   \
        k++;                                                                                       \
    }

/* Term depth + e belongs to the rows after e only. */
#define MULTIPLY_EXTRA(i)                                                                          \
    if (i > e && i < t->rows) {                                                                    \
        MULTIPLY(i)                                                                                \
    }

static inline __attribute__((always_inline)) void tile_of(const bp_matmul_tile *t, const bool whole,
                                                          const bool packed)
{
    const float *a = t->a, *b = t->panel, *panel = t->panel;
    const bp_matmul_asks *asks = t->walks.asks;
    int64_t k = 0;
    EACH_ROW(ROW_OF)
    EACH_ROW(DECLARE)
    if (t->from != NULL) {
        EACH_ROW(LOAD)
    }
    while (packed && k + BP_MATMUL_STRIDE <= t->depth) {
        BP_MATMUL_ASK
        TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED
            TERM_PACKED
    }
    while (packed && k < t->depth) {
        TERM_PACKED
    }
    while (!packed && k < t->depth) {
        TERM_PLAIN
    }
    for (int64_t e = 0; !packed && e < (t->rows - 1) * t->extra; e++) {
        FOUR(b, panel)
        EACH_ROW(MULTIPLY_EXTRA)
        panel += t->panel_pitch;
        k++;
    }
    FINISH
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

typedef bp_transposed leaf;

static inline leaf leaf_set(float x)
{
    return (leaf){vdupq_n_f32(x), vdupq_n_f32(x)};
}

static inline leaf leaf_load(const float *p)
{
    return bp_transposed_load(p);
}

static inline void leaf_store(float *p, leaf x)
{
    bp_transposed_store(p, x);
}

static inline leaf leaf_fma(leaf x, leaf y, leaf z)
{
    return (leaf){vfmaq_f32(z.low, x.low, y.low), vfmaq_f32(z.high, x.high, y.high)};
}

static inline leaf leaf_times(leaf x, leaf y)
{
    return (leaf){vmulq_f32(x.low, y.low), vmulq_f32(x.high, y.high)};
}

static inline leaf leaf_gelu(leaf x)
{
    return (leaf){bp_gelu_neon(x.low), bp_gelu_neon(x.high)};
}

static inline leaf leaf_load_first(const float *p, int64_t count)
{
    return (leaf){load_four(p, count), load_four(p + 4, count - 4)};
}

static inline void leaf_store_first(float *p, leaf x, int64_t count)
{
    store_four(p, x.low, count);
    store_four(p + 4, x.high, count - 4);
}

static inline leaf leaf_widen(const uint16_t *p, bp_dtype type)
{
    const uint16x8_t x = vld1q_u16(p);
    return (leaf){bp_half_widen_neon(vget_low_u16(x), type),
                  bp_half_widen_neon(vget_high_u16(x), type)};
}

static inline void leaf_narrow(uint16_t *p, leaf x, bp_dtype type)
{
    vst1q_u16(p, vcombine_u16(bp_half_narrow_neon(x.low, type), bp_half_narrow_neon(x.high, type)));
}

/* Pairs of 16-bit elements as two vectors. */
static inline void leaf_split(leaf pairs, leaf *low, leaf *high, bp_dtype type)
{
    const uint32x4_t x = vreinterpretq_u32_f32(pairs.low), y = vreinterpretq_u32_f32(pairs.high);
    *low = (leaf){bp_half_widen_neon(vmovn_u32(x), type), bp_half_widen_neon(vmovn_u32(y), type)};
    *high = (leaf){bp_half_widen_neon(vshrn_n_u32(x, 16), type),
                   bp_half_widen_neon(vshrn_n_u32(y, 16), type)};
}

static inline void leaf_columns4(leaf column[4], const void *from, int64_t pitch)
{
    const float *row[BP_TRANSPOSED];
    for (int64_t r = 0; r < BP_TRANSPOSED; r++) {
        row[r] = (const float *)(const void *)((const char *)from + r * pitch);
    }
    bp_transpose_columns4(column, row, 0);
}

/* The values of four bytes from number `at` of codes on, each below 16, out of a table of 64 bytes:
 * byte i of a value is number 4 code + i of the table. */
static inline float32x4_t four_values(uint8x16x4_t table, uint8x8_t codes, uint8_t at)
{
    static const uint8_t each[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const uint8x16_t lane = vaddq_u8(vld1q_u8(each), vdupq_n_u8(at));
    const uint8x16_t place = vreinterpretq_u8_u32(vdupq_n_u32(0x03020100));
    const uint8x16_t code = vqtbl1q_u8(vcombine_u8(codes, codes), lane);
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vorrq_u8(vshlq_n_u8(code, 2), place)));
}

static inline leaf eight_values(const float table[16], uint8x8_t codes)
{
    const uint8_t *bytes = (const uint8_t *)(const void *)table;
    const uint8x16x4_t registers = {
        {vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
    return (leaf){four_values(registers, codes, 0), four_values(registers, codes, 4)};
}

/* The values of 8 codes of four bits, 4 bytes of them. */
static inline leaf leaf_codes(const uint8_t *pairs, const float table[16])
{
    uint32_t word;
    memcpy(&word, pairs, sizeof word);
    const uint8x8_t both = vcreate_u8(word);
    return eight_values(table, vzip1_u8(vshr_n_u8(both, 4), vand_u8(both, vdup_n_u8(15))));
}

/* 8 signed bytes. */
static inline leaf leaf_bytes(const uint8_t *codes)
{
    const int16x8_t x = vmovl_s8(vreinterpret_s8_u8(vld1_u8(codes)));
    return (leaf){vcvtq_f32_s32(vmovl_s16(vget_low_s16(x))),
                  vcvtq_f32_s32(vmovl_s16(vget_high_s16(x)))};
}

/* The values of both halves of 8 bytes, the upper halves' first. */
static inline void leaf_nibbles(const uint8_t *codes, const float table[16], leaf *first,
                                leaf *second)
{
    const uint8x8_t both = vld1_u8(codes);
    *first = eight_values(table, vshr_n_u8(both, 4));
    *second = eight_values(table, vand_u8(both, vdup_n_u8(15)));
}

#include "device/host/matmul/matmul_leaf.h"
#include "device/host/matmul/matmul_sums.h"
#include "device/host/matmul/matmul_codes.h"

const bp_matmul_isa bp_matmul_isa_neon = {
    ROWS,  COLUMNS,      TERMS,     BLOCK,     LANES, LEAD,           tile,   load,
    store, pack_columns, pack_rows, transpose, row,   row_transposed, narrow, dequantise,
    gelu,  row_codes,    NULL,      NULL,      sum,   sum_transposed};

/* The same with products of bf16 by instructions of their own, where a processor has them. */
static const bp_matmul_isa form_bf16 = {ROWS,  COLUMNS,        TERMS,     BLOCK,
                                        LANES, LEAD,           tile,      load,
                                        store, pack_columns,   pack_rows, transpose,
                                        row,   row_transposed, narrow,    dequantise,
                                        gelu,  row_codes,      NULL,      &bp_matmul_pairs_neon,
                                        sum,   sum_transposed};

static uint64_t tasks(const void *scalars)
{
    return bp_matmul_tasks(scalars, &bp_matmul_isa_neon);
}

static void run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(bp_cpu_has_bf16() ? &form_bf16 : &bp_matmul_isa_neon, call, first, last, worker);
}

const bp_host_kernel bp_matmul_neon = {tasks, run, bp_matmul_workspace};

static void product(const bp_host_call *call, uint64_t bytes)
{
    bp_matmul_run_whole(bp_cpu_has_bf16() ? &form_bf16 : &bp_matmul_isa_neon, call, bytes);
}

static void coded_neon(const bp_host_call *call, const bp_quantised_matrix *codes,
                       const int64_t columns[2], uint64_t bytes)
{
    bp_matmul_run_coded(&bp_matmul_isa_neon, call, codes, columns, bytes);
}

BP_EXPERTS_KERNELS(neon, product, coded_neon)

static uint64_t quantised_tasks(const void *scalars)
{
    return bp_matmul_quantised_tasks(scalars, &bp_matmul_isa_neon);
}

static void quantised_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_quantised_run(&bp_matmul_isa_neon, call, first, last, worker);
}

const bp_host_kernel bp_matmul_quantised_neon = {quantised_tasks, quantised_run,
                                                 bp_matmul_quantised_workspace};

/* The same with wider registers where a processor has them. */
static const bp_matmul_isa form_sve = {
    ROWS,          COLUMNS,    TERMS,        BLOCK,     LANES,     LEAD, bp_matmul_tile_sve,
    load,          store,      pack_columns, pack_rows, transpose, row,  row_transposed,
    narrow,        dequantise, gelu,         row_codes, NULL,      NULL, sum,
    sum_transposed};

static const bp_matmul_isa form_sve_bf16 = {ROWS,
                                            COLUMNS,
                                            TERMS,
                                            BLOCK,
                                            LANES,
                                            LEAD,
                                            bp_matmul_tile_sve,
                                            load,
                                            store,
                                            pack_columns,
                                            pack_rows,
                                            transpose,
                                            row,
                                            row_transposed,
                                            narrow,
                                            dequantise,
                                            gelu,
                                            row_codes,
                                            NULL,
                                            &bp_matmul_pairs_sve,
                                            sum,
                                            sum_transposed};

static uint64_t sve_tasks(const void *scalars)
{
    return bp_matmul_tasks(scalars, &form_sve);
}

static void sve_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    bp_matmul_run(bp_cpu_has_sve_bf16() ? &form_sve_bf16 : &form_sve, call, first, last, worker);
}

const bp_host_kernel bp_matmul_sve = {sve_tasks, sve_run, bp_matmul_workspace};

static uint64_t sve_quantised_tasks(const void *scalars)
{
    return bp_matmul_quantised_tasks(scalars, &form_sve);
}

static void sve_quantised_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    bp_matmul_quantised_run(&form_sve, call, first, last, worker);
}

const bp_host_kernel bp_matmul_quantised_sve = {sve_quantised_tasks, sve_quantised_run,
                                                bp_matmul_quantised_workspace};
