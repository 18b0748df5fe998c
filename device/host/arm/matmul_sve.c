/* SPDX-License-Identifier: MIT */
/* The matrix product's tile in SVE's registers, whatever their width: 6 rows x 16 columns of c, a
 * row in four vectors of 128 bits, two of 256, one of 512 or more. Everything else of the form is
 * NEON's (matmul_neon.c), and so are the panels. */
#include <arm_sve.h>

#include "device/host/matmul/matmul_ask.h"
#include "device/host/arm/matmul_sve.h"
#include "device/host/arm/matmul_tile_sve.h"

/* Rows that are not there are row 0 again. */
#define ROW_OF(i) const float *a##i = t->a + (i < t->rows ? i : 0) * t->a_pitch;

#define PANEL_ONE(p, v) b##v = svld1_vnum_f32(there##v, p, v);

/* A term of a row whose a is a lane of a vector that repeats every 128 bits. */
#define LANE_ONE(i, v)   c##i##v = svmla_lane_f32(c##i##v, b##v, LANE_OF_##i);
#define MULTIPLY_LANE(i) EACH_VECTOR(LANE_ONE, i)
#define LANE_OF_0        first, 0
#define LANE_OF_1        first, 1
#define LANE_OF_2        first, 2
#define LANE_OF_3        first, 3
#define LANE_OF_4        last, 0
#define LANE_OF_5        last, 1

#define MULTIPLY_ONE(i, v) c##i##v = svmla_n_f32_x(all, c##i##v, b##v, a##i[k]);
#define MULTIPLY(i)        EACH_VECTOR(MULTIPLY_ONE, i)

#define TERM_PACKED                                                                                \
    {                                                                                              \
        EACH_VECTOR(PANEL_ONE, b)                                                                  \
        const svfloat32_t first = svld1rq_f32(all, a), last = svld1rq_f32(two, a + 4);             \
        EACH_ROW(MULTIPLY_LANE)                                                                    \
        b += COLUMNS;                                                                              \
        a += ROWS;                                                                                 \
        k++;                                                                                       \
    }

/* Two terms of rows whose vectors are COLUMNS wide together: b's are counted from the middle of
 * eight terms, as far as a load's constant reaches, and a's twelve numbers are three whole
 * quadwords. The next loads stay behind these products: a lane is only multiplied out of registers
 * 0 to 7, and what is loaded ahead overflows these and is moved once more before it is used. */
#define QUAD(n)            svld1rq_f32(all, a_middle + 4 * (n)-16)
#define EXACT_ONE(term, v) b##v = svld1_vnum_f32(all, b_middle, (term)*count + v - 4 * count);
#define FIRST_OF_0         q0, 0
#define FIRST_OF_1         q0, 1
#define FIRST_OF_2         q0, 2
#define FIRST_OF_3         q0, 3
#define FIRST_OF_4         q1, 0
#define FIRST_OF_5         q1, 1
#define SECOND_OF_0        q1, 2
#define SECOND_OF_1        q1, 3
#define SECOND_OF_2        q2, 0
#define SECOND_OF_3        q2, 1
#define SECOND_OF_4        q2, 2
#define SECOND_OF_5        q2, 3
#define FIRST_ONE(i, v)    c##i##v = svmla_lane_f32(c##i##v, b##v, FIRST_OF_##i);
#define SECOND_ONE(i, v)   c##i##v = svmla_lane_f32(c##i##v, b##v, SECOND_OF_##i);
#define MULTIPLY_FIRST(i)  EACH_VECTOR(FIRST_ONE, i)
#define MULTIPLY_SECOND(i) EACH_VECTOR(SECOND_ONE, i)

#define TWO_TERMS(pair)                                                                            \
    {                                                                                              \
        const svfloat32_t q0 = QUAD(3 * (pair)), q1 = QUAD(3 * (pair) + 1);                        \
        const svfloat32_t q2 = QUAD(3 * (pair) + 2);                                               \
        EACH_VECTOR(EXACT_ONE, 2 * (pair))                                                         \
        EACH_ROW(MULTIPLY_FIRST)                                                                   \
        EACH_VECTOR(EXACT_ONE, 2 * (pair) + 1)                                                     \
        EACH_ROW(MULTIPLY_SECOND)                                                                  \
        __asm__ volatile("" : : : "memory");                                                       \
    }

/* Term depth + e belongs to the rows after e only. */
#define MULTIPLY_EXTRA(i)                                                                          \
    if (i > e && i < t->rows) {                                                                    \
        MULTIPLY(i)                                                                                \
    }

static inline __attribute__((always_inline)) void
tile_of(const bp_matmul_tile *tile, const int count, const bool packed, const bool exact)
{
    const bp_matmul_tile here = *tile, *const t = &here; /* in registers */
    const float *a = t->a, *b = t->panel, *panel = t->panel;
    const bp_matmul_asks *asks = t->walks.asks;
    const int64_t lanes = (int64_t)svcntw();
    const svbool_t all = svptrue_b32(), two = svwhilelt_b32(INT64_C(0), INT64_C(2));
    WHAT_IS_THERE
    svfloat32_t b0 = svdup_f32(0.0f), b1 = b0, b2 = b0, b3 = b0;
    int64_t k = 0;
    EACH_ROW(ROW_OF)
    EACH_ROW(DECLARE)
    if (t->from != NULL) {
        EACH_ROW(LOAD)
    }
    while (packed && exact && k + BP_MATMUL_STRIDE <= t->depth) {
        const float *a_middle = a + 16, *b_middle = b + 4 * COLUMNS;
        BP_MATMUL_ASK
        TWO_TERMS(0) TWO_TERMS(1) TWO_TERMS(2) TWO_TERMS(3) a += BP_MATMUL_STRIDE * ROWS;
        b += BP_MATMUL_STRIDE * COLUMNS;
        k += BP_MATMUL_STRIDE;
    }
    while (packed && !exact && k + BP_MATMUL_STRIDE <= t->depth) {
        BP_MATMUL_ASK
        TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED TERM_PACKED
            TERM_PACKED
    }
    while (packed && k < t->depth) {
        TERM_PACKED
    }
    for (; !packed && k < t->depth; k++) {
        EACH_VECTOR(PANEL_ONE, panel)
        EACH_ROW(MULTIPLY)
        panel += t->panel_pitch;
    }
    for (int64_t e = 0; !packed && e < (t->rows - 1) * t->extra; e++, k++) {
        EACH_VECTOR(PANEL_ONE, panel)
        EACH_ROW(MULTIPLY_EXTRA)
        panel += t->panel_pitch;
    }
    FINISH
}

/* Widths between these, and those above, load less than a vector at the end of a row. */
#define TILE(count)                                                                                \
    {                                                                                              \
        const bool exact = lanes * (count) == COLUMNS;                                             \
        t->packed ? exact ? tile_of(t, count, true, true) : tile_of(t, count, true, false)         \
                  : tile_of(t, count, false, false);                                               \
        return;                                                                                    \
    }

void bp_matmul_tile_sve(const bp_matmul_tile *t)
{
    const uint64_t lanes = svcntw();
    if (lanes >= COLUMNS) {
        TILE(1)
    }
    if (lanes >= COLUMNS / 2) {
        TILE(2)
    }
    TILE(4)
}
