/* SPDX-License-Identifier: MIT */
/* Products of bf16 by BFMLALB and BFMLALT: the product of two bf16, which is exact, added to a
 * float with one rounding, as the registers for floats say it (FPCR): what FMLA makes of the two
 * widened. So the bits are those of every other form; BFDOT and BFMMLA, which round otherwise, are
 * not used. One of the two takes the lower halves of words, the other the upper ones, by a third
 * number: two terms of a column are such a word, so that chains are not taken apart. */
#include <arm_neon.h>

#include "device/host/matmul/matmul_ask.h"
#include "device/host/matmul/matmul_bf16.h"
#include "device/host/arm/matmul_tile_neon.h"
#include "device/host/matmul/matmul_work.h"

/* A term of a row: by which instruction, and where its a is, a half of one of the first 16
 * registers. The compiler's own names for these do not keep to them (gcc 12). */
#define MULTIPLY_ONE(c, by, b, x, at)                                                              \
    __asm__(by " %0.4s, %1.8h, %2.h[" #at "]" : "+w"(c) : "w"(b), "x"(x));
#define MULTIPLY(i, by, x, at)                                                                     \
    MULTIPLY_ONE(c##i##0, by, b0, x, at)                                                           \
    MULTIPLY_ONE(c##i##1, by, b1, x, at)                                                           \
    MULTIPLY_ONE(c##i##2, by, b2, x, at)                                                           \
    MULTIPLY_ONE(c##i##3, by, b3, x, at)

#define EARLIER                                                                                    \
    MULTIPLY(0, "bfmlalb", first, 0)                                                               \
    MULTIPLY(1, "bfmlalb", first, 2)                                                               \
    MULTIPLY(2, "bfmlalb", first, 4)                                                               \
    MULTIPLY(3, "bfmlalb", first, 6)                                                               \
    MULTIPLY(4, "bfmlalb", last, 0)                                                                \
    MULTIPLY(5, "bfmlalb", last, 2)

#define LATER                                                                                      \
    MULTIPLY(0, "bfmlalt", first, 1)                                                               \
    MULTIPLY(1, "bfmlalt", first, 3)                                                               \
    MULTIPLY(2, "bfmlalt", first, 5)                                                               \
    MULTIPLY(3, "bfmlalt", first, 7)                                                               \
    MULTIPLY(4, "bfmlalt", last, 1)                                                                \
    MULTIPLY(5, "bfmlalt", last, 3)

/* Two terms, or of an odd depth the last one. Two words more than there are of a are read. */
#define TERMS_OF(later)                                                                            \
    {                                                                                              \
        const uint32x4_t b0 = vld1q_u32(b), b1 = vld1q_u32(b + 4);                                 \
        const uint32x4_t b2 = vld1q_u32(b + 8), b3 = vld1q_u32(b + 12);                            \
        const uint32x4_t first = vld1q_u32(a), last = vld1q_u32(a + 4);                            \
        EARLIER later b += COLUMNS;                                                                \
        a += ROWS;                                                                                 \
    }

static inline __attribute__((always_inline)) void tile_of(const bp_matmul_tile *t, const bool whole)
{
    const uint32_t *a = (const void *)t->a, *b = (const void *)t->panel;
    const bp_matmul_asks *asks = t->walks.asks;
    int64_t k = 0;
    EACH_ROW(DECLARE)
    if (t->from != NULL) {
        EACH_ROW(LOAD)
    }
    for (; k + BP_MATMUL_STRIDE <= t->depth; k += BP_MATMUL_STRIDE) {
        BP_MATMUL_ASK
        TERMS_OF(LATER) TERMS_OF(LATER) TERMS_OF(LATER) TERMS_OF(LATER)
    }
    for (; k + 2 <= t->depth; k += 2) {
        TERMS_OF(LATER)
    }
    if (k < t->depth) {
        TERMS_OF()
    }
    FINISH
}

static void tile(const bp_matmul_tile *t)
{
    if (t->columns == COLUMNS) {
        tile_of(t, true);
    } else {
        tile_of(t, false);
    }
}

/* Four words of four rows, transposed. */
static inline void transpose_words(uint32_t *to, int64_t pitch, const uint16_t *const row[4],
                                   int64_t k)
{
    const uint32x4_t r0 = vreinterpretq_u32_u16(vld1q_u16(row[0] + k));
    const uint32x4_t r1 = vreinterpretq_u32_u16(vld1q_u16(row[1] + k));
    const uint32x4_t r2 = vreinterpretq_u32_u16(vld1q_u16(row[2] + k));
    const uint32x4_t r3 = vreinterpretq_u32_u16(vld1q_u16(row[3] + k));
    const uint64x2_t even01 = vreinterpretq_u64_u32(vtrn1q_u32(r0, r1));
    const uint64x2_t odd01 = vreinterpretq_u64_u32(vtrn2q_u32(r0, r1));
    const uint64x2_t even23 = vreinterpretq_u64_u32(vtrn1q_u32(r2, r3));
    const uint64x2_t odd23 = vreinterpretq_u64_u32(vtrn2q_u32(r2, r3));
    vst1q_u32(to, vreinterpretq_u32_u64(vzip1q_u64(even01, even23)));
    vst1q_u32(to + pitch, vreinterpretq_u32_u64(vzip1q_u64(odd01, odd23)));
    vst1q_u32(to + 2 * pitch, vreinterpretq_u32_u64(vzip2q_u64(even01, even23)));
    vst1q_u32(to + 3 * pitch, vreinterpretq_u32_u64(vzip2q_u64(odd01, odd23)));
}

/* Four words of two rows, transposed. */
static inline void transpose_two(uint32_t *to, int64_t pitch, const uint16_t *const row[2],
                                 int64_t k)
{
    const uint32x4_t r0 = vreinterpretq_u32_u16(vld1q_u16(row[0] + k));
    const uint32x4_t r1 = vreinterpretq_u32_u16(vld1q_u16(row[1] + k));
    const uint32x4_t low = vzip1q_u32(r0, r1), high = vzip2q_u32(r0, r1);
    vst1_u32(to, vget_low_u32(low));
    vst1_u32(to + pitch, vget_high_u32(low));
    vst1_u32(to + 2 * pitch, vget_low_u32(high));
    vst1_u32(to + 3 * pitch, vget_high_u32(high));
}

/* Rows that are not there are row 0 again. Those that come next are asked for, as where floats are
 * packed (matmul_leaf.h). */
static inline __attribute__((always_inline)) void pack_along(uint32_t *to, const uint16_t *from,
                                                             int64_t pitch, int64_t count,
                                                             int64_t depth, const int64_t wide)
{
    const int64_t whole = depth - depth % 8, line = BP_MATMUL_LINE / (int64_t)sizeof(*from);
    const uint16_t *row[COLUMNS];
    for (int64_t r = 0; r < wide; r++) {
        row[r] = from + (r < count ? r : 0) * pitch;
    }
    for (int64_t k = 0; k < whole; k += 8, to += 4 * wide) {
        for (int64_t r = 0; k % line == 0 && r < wide; r++) {
            __builtin_prefetch(from + (wide + r) * pitch + k);
        }
        for (int64_t r = 0; r + 4 <= wide; r += 4) {
            transpose_words(to + r, wide, row + r, k);
        }
        if (wide % 4 != 0) {
            transpose_two(to + wide - 2, wide, row + wide - 2, k);
        }
    }
    for (int64_t k = whole; k < depth; k += 2, to += wide) {
        for (int64_t r = 0; r < wide; r++) {
            to[r] = row[r][k] | (k + 1 < depth ? (uint32_t)row[r][k + 1] << 16 : 0);
        }
    }
}

/* Of `readable` columns. Eight words are stored at a time, which may spill over into what comes
 * next or, of rows of a, lies behind them and is packed later. */
static inline __attribute__((always_inline)) void pack_across(uint32_t *to, const uint16_t *from,
                                                              int64_t pitch, int64_t readable,
                                                              int64_t depth, const int64_t wide)
{
    for (int64_t k = 0; k < depth; k += 2, to += wide, from += 2 * pitch) {
        const bool both = k + 1 < depth;
        int64_t r = 0;
        for (; both && r < wide && r + 8 <= readable; r += 8) {
            const uint16x8_t x = vld1q_u16(from + r), y = vld1q_u16(from + pitch + r);
            vst1q_u32(to + r, vreinterpretq_u32_u16(vzip1q_u16(x, y)));
            vst1q_u32(to + r + 4, vreinterpretq_u32_u16(vzip2q_u16(x, y)));
        }
        for (; r < wide; r++) {
            const int64_t at = r < readable ? r : 0;
            to[r] = from[at] | (both ? (uint32_t)from[pitch + at] << 16 : 0);
        }
    }
}

void bp_matmul_pairs_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                           int64_t columns)
{
    const uint16_t *from = place_b(w, block->term, column);
    uint32_t *to = (void *)w->panel;
    if (w->s->transpose_b != 0) {
        pack_along(to, from, w->s->ldb, columns, block->terms, COLUMNS);
    } else {
        pack_across(to, from, w->s->ldb, columns, block->terms, COLUMNS);
    }
}

static void pack_rows(const matmul_work *w, const matmul_block *block, float *to)
{
    const uint16_t *from = (const uint16_t *)w->a + block->row * w->s->lda + block->term;
    for (int64_t i = 0; i < block->rows; i += ROWS) {
        pack_along((void *)(to + i * block->terms), from + i * w->s->lda, w->s->lda,
                   least(ROWS, block->rows - i), block->terms, ROWS);
    }
}

/* A few terms at a time, as floats are packed (matmul_pack.c). */
static void pack_columns(const matmul_work *w, const matmul_block *block, float *to)
{
    const int64_t lda = w->s->lda;
    for (int64_t k = 0; k < block->terms; k += STAGE_ROWS) {
        const int64_t run = least(STAGE_ROWS, block->terms - k);
        for (int64_t i = 0; i < block->rows; i += ROWS) {
            const int64_t row = block->row + i;
            uint32_t *strip = (void *)(to + i * block->terms);
            pack_across(strip + k / 2 * ROWS,
                        (const uint16_t *)w->a + (block->term + k) * lda + row, lda, w->s->m - row,
                        run, ROWS);
        }
    }
}

void bp_matmul_pairs_pack_a(const matmul_work *w, const matmul_block *block, float *to)
{
    if (w->s->transpose_a != 0) {
        pack_columns(w, block, to);
    } else {
        pack_rows(w, block, to);
    }
}

const bp_matmul_pairs bp_matmul_pairs_neon = {tile, bp_matmul_pairs_panel, bp_matmul_pairs_pack_a};
