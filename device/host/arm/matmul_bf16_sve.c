/* SPDX-License-Identifier: MIT */
/* The tile of matmul_bf16_neon.c in SVE's registers, whatever their width; panels are the same. */
#include <arm_sve.h>

#include "device/host/matmul/matmul_ask.h"
#include "device/host/matmul/matmul_bf16.h"
#include "device/host/arm/matmul_tile_sve.h"

/* Two terms of a column of b, or of four rows of a. */
#define WORDS(there, p, v)  svreinterpret_bf16_u32(svld1_vnum_u32(there, p, v))
#define QUAD(p)             svreinterpret_bf16_u32(svld1rq_u32(all, p))
#define PANEL_ONE(p, v)     b##v = WORDS(there##v, p, v);
#define EARLIER_ONE(i, v)   c##i##v = svbfmlalb_lane_f32(c##i##v, b##v, LANE_OF_##i(0));
#define LATER_ONE(i, v)     c##i##v = svbfmlalt_lane_f32(c##i##v, b##v, LANE_OF_##i(1));
#define MULTIPLY_EARLIER(i) EACH_VECTOR(EARLIER_ONE, i)
#define MULTIPLY_LATER(i)   EACH_VECTOR(LATER_ONE, i)
#define LANE_OF_0(half)     first, 0 + (half)
#define LANE_OF_1(half)     first, 2 + (half)
#define LANE_OF_2(half)     first, 4 + (half)
#define LANE_OF_3(half)     first, 6 + (half)
#define LANE_OF_4(half)     last, 0 + (half)
#define LANE_OF_5(half)     last, 2 + (half)

/* Two terms, or of an odd depth the last one. Two words more than there are of a are read. */
#define TERMS_OF(later)                                                                            \
    {                                                                                              \
        const svbfloat16_t first = QUAD(a), last = QUAD(a + 4);                                    \
        EACH_VECTOR(PANEL_ONE, b)                                                                  \
        EACH_ROW(MULTIPLY_EARLIER) later b += COLUMNS;                                             \
        a += ROWS;                                                                                 \
        k += 2;                                                                                    \
    }
#define LATER EACH_ROW(MULTIPLY_LATER)

/* Four terms of rows whose vectors are COLUMNS wide together: a's twelve words are three whole
 * quadwords, b's are counted from the middle of eight terms. As in matmul_sve.c the next loads stay
 * behind these products. */
#define EXACT_ONE(word, v)      b##v = WORDS(all, b_middle, (word)*count + v - 2 * count);
#define FIRST_EARLIER_ONE(i, v) c##i##v = svbfmlalb_lane_f32(c##i##v, b##v, FIRST_OF_##i(0));
#define FIRST_LATER_ONE(i, v)   c##i##v = svbfmlalt_lane_f32(c##i##v, b##v, FIRST_OF_##i(1));
#define NEXT_EARLIER_ONE(i, v)  c##i##v = svbfmlalb_lane_f32(c##i##v, b##v, NEXT_OF_##i(0));
#define NEXT_LATER_ONE(i, v)    c##i##v = svbfmlalt_lane_f32(c##i##v, b##v, NEXT_OF_##i(1));
#define FIRST_EARLIER(i)        EACH_VECTOR(FIRST_EARLIER_ONE, i)
#define FIRST_LATER(i)          EACH_VECTOR(FIRST_LATER_ONE, i)
#define NEXT_EARLIER(i)         EACH_VECTOR(NEXT_EARLIER_ONE, i)
#define NEXT_LATER(i)           EACH_VECTOR(NEXT_LATER_ONE, i)
#define FIRST_OF_0(half)        q0, 0 + (half)
#define FIRST_OF_1(half)        q0, 2 + (half)
#define FIRST_OF_2(half)        q0, 4 + (half)
#define FIRST_OF_3(half)        q0, 6 + (half)
#define FIRST_OF_4(half)        q1, 0 + (half)
#define FIRST_OF_5(half)        q1, 2 + (half)
#define NEXT_OF_0(half)         q1, 4 + (half)
#define NEXT_OF_1(half)         q1, 6 + (half)
#define NEXT_OF_2(half)         q2, 0 + (half)
#define NEXT_OF_3(half)         q2, 2 + (half)
#define NEXT_OF_4(half)         q2, 4 + (half)
#define NEXT_OF_5(half)         q2, 6 + (half)

#define FOUR_TERMS(words)                                                                          \
    {                                                                                              \
        const svbfloat16_t q0 = QUAD(a + 6 * (words)), q1 = QUAD(a + 6 * (words) + 4);             \
        const svbfloat16_t q2 = QUAD(a + 6 * (words) + 8);                                         \
        EACH_VECTOR(EXACT_ONE, words)                                                              \
        EACH_ROW(FIRST_EARLIER)                                                                    \
        EACH_ROW(FIRST_LATER)                                                                      \
        EACH_VECTOR(EXACT_ONE, (words) + 1)                                                        \
        EACH_ROW(NEXT_EARLIER) EACH_ROW(NEXT_LATER) __asm__ volatile("" : : : "memory");           \
    }

static inline __attribute__((always_inline)) void tile_of(const bp_matmul_tile *tile,
                                                          const int count, const bool exact)
{
    const bp_matmul_tile here = *tile, *const t = &here; /* in registers */
    const uint32_t *a = (const void *)t->a, *b = (const void *)t->panel;
    const bp_matmul_asks *asks = t->walks.asks;
    const int64_t lanes = (int64_t)svcntw();
    const svbool_t all = svptrue_b32();
    WHAT_IS_THERE
    svbfloat16_t b0 = svreinterpret_bf16_u32(svdup_u32(0)), b1 = b0, b2 = b0, b3 = b0;
    int64_t k = 0;
    EACH_ROW(DECLARE)
    if (t->from != NULL) {
        EACH_ROW(LOAD)
    }
    while (exact && k + BP_MATMUL_STRIDE <= t->depth) {
        const uint32_t *b_middle = b + 2 * COLUMNS;
        BP_MATMUL_ASK
        FOUR_TERMS(0) FOUR_TERMS(2) a += BP_MATMUL_STRIDE / 2 * ROWS;
        b += BP_MATMUL_STRIDE / 2 * COLUMNS;
        k += BP_MATMUL_STRIDE;
    }
    while (!exact && k + BP_MATMUL_STRIDE <= t->depth) {
        BP_MATMUL_ASK
        TERMS_OF(LATER) TERMS_OF(LATER) TERMS_OF(LATER) TERMS_OF(LATER)
    }
    while (k + 2 <= t->depth) {
        TERMS_OF(LATER)
    }
    if (k < t->depth) {
        TERMS_OF()
    }
    FINISH
}

static void tile(const bp_matmul_tile *t)
{
    const int64_t lanes = (int64_t)svcntw();
    if (lanes == COLUMNS) {
        tile_of(t, 1, true);
    } else if (lanes > COLUMNS) {
        tile_of(t, 1, false);
    } else if (lanes == COLUMNS / 2) {
        tile_of(t, 2, true);
    } else if (lanes > COLUMNS / 2) {
        tile_of(t, 2, false);
    } else if (lanes == COLUMNS / 4) {
        tile_of(t, 4, true);
    } else {
        tile_of(t, 4, false);
    }
}

const bp_matmul_pairs bp_matmul_pairs_sve = {tile, bp_matmul_pairs_panel, bp_matmul_pairs_pack_a};
