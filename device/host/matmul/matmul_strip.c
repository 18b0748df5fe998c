/* SPDX-License-Identifier: MIT */
/* The matrix product when c is one row or few: b, which is large, is read once, where it lies. */
#include <string.h>

#include "device/host/matmul/matmul_work.h"

/* sums += a b over the strip's columns; an a of 16 bits becomes floats, of which there is room for
 * many: short runs of terms would read short runs of a transposed b. */
static void strip_products(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_scalars *s = w->s;
    float floats[BP_MATMUL_WIDE];
    int64_t most = w->type == BP_F32 ? s->k : BP_MATMUL_WIDE;
    if (w->weights != NULL) {
        bp_matmul_quantised_strip(w, sums, first, columns);
        return;
    }
    for (int64_t k = 0; k < s->k; k += most) {
        int64_t run = least(most, s->k - k);
        const float *a = w->a;
        if (w->type != BP_F32) {
            w->form->load(floats, 0, bp_element_at(w->a, k, w->type), 0, 1, run, w->type);
            a = floats;
        }
        (s->transpose_b != 0 ? w->form->row_transposed : w->form->row)(
            sums, a, place_b(w, k, first), s->ldb, run, columns, w->type);
    }
}

static void store_strip(const matmul_work *w, void *to, int64_t first, const float *from,
                        int64_t columns, bp_dtype type)
{
    if (type == BP_F32) {
        w->form->load((float *)to + first, 0, from, 0, 1, columns, BP_F32);
    } else {
        w->form->store((uint16_t *)to + first, 0, from, 0, 1, columns, type);
    }
}

/* What follows the chains of at most BP_MATMUL_STRIP columns. */
static void finish_strip(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    float other[BP_MATMUL_STRIP];
    if (w->bias != NULL) {
        form->load(other, 0, bp_element_at(w->bias, first, w->type), 0, 1, columns, w->type);
        for (int64_t j = 0; j < columns; j++) {
            sums[j] += other[j];
        }
    }
    if (w->residual != NULL) {
        form->load(other, 0, bp_element_at(w->residual, first, w->type), 0, 1, columns, w->type);
        for (int64_t j = 0; j < columns; j++) {
            sums[j] += other[j];
        }
    }
    if (w->s->gelu != 0) {
        for (int64_t j = 0; j < columns; j++) {
            sums[j] = bp_element_round(sums[j], w->type);
        }
        form->gelu(sums, other, 0, 1, columns);
        if (w->before != NULL) {
            store_strip(w, w->before, first, other, columns, w->type);
        }
    }
    store_strip(w, w->c, first, sums, columns, w->c_type);
}

/* `sums` may be c's own floats. */
static void sum_strip(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_scalars *s = w->s;
    const void *c = bp_element_at(w->c, first, w->c_type);
    if (s->accumulate == 0) {
        memset(sums, 0, (size_t)columns * sizeof *sums);
    } else if (c != sums) {
        w->form->load(sums, 0, c, 0, 1, columns, w->c_type);
    }
    strip_products(w, sums, first, columns);
    for (int64_t j = 0; j < columns; j += BP_MATMUL_STRIP) {
        finish_strip(w, sums + j, first + j, least(BP_MATMUL_STRIP, columns - j));
    }
}

/* The sums of a c that cannot hold them. */
static void wide_strip(const matmul_work *w, int64_t first, int64_t columns)
{
    float sums[BP_MATMUL_WIDE];
    for (int64_t j = 0; j < columns; j += BP_MATMUL_WIDE) {
        sum_strip(w, sums, first + j, least(BP_MATMUL_WIDE, columns - j));
    }
}

void bp_matmul_strip(const matmul_work *w, int64_t first, int64_t columns)
{
    if (w->weights != NULL) {
        float sums[BP_MATMUL_STRIP];
        for (int64_t j = 0; j < columns; j += BP_MATMUL_STRIP) {
            sum_strip(w, sums, first + j, least(BP_MATMUL_STRIP, columns - j));
        }
    } else if (w->c_type == BP_F32 && w->residual != w->c && w->before != w->c) {
        sum_strip(w, (float *)w->c + first, first, columns);
    } else {
        wide_strip(w, first, columns);
    }
}

#define FEW_COLUMNS 256  /* of c whose sums wait, */
#define FEW_TERMS   1024 /* while so many terms of a lie in the cache */
#define FEW_LEAST   16   /* fewer terms do not pay for this */

bool bp_matmul_few_rows(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_scalars *s = w->s;
    return block->rows > 1 && block->rows <= BP_MATMUL_NARROW && s->transpose_a == 0 &&
           s->transpose_b != 0 && w->weights == NULL && w->epilogue == NULL && s->k >= FEW_LEAST &&
           block->columns >= w->form->lanes && w->room >= BP_MATMUL_NARROW * FEW_LEAST;
}

/* a's terms as (terms, BP_MATMUL_NARROW) floats, with zeros for the rows that are not there. */
static void few_pack(const matmul_work *w, const matmul_block *block, int64_t term, int64_t terms,
                     float *to)
{
    float floats[BP_MATMUL_NARROW * FEW_LEAST];
    memset(floats, 0, sizeof floats);
    for (int64_t k = 0; k < terms; k += FEW_LEAST) {
        const int64_t run = least(FEW_LEAST, terms - k);
        w->form->load(floats, FEW_LEAST,
                      bp_element_at(w->a, block->row * w->s->lda + term + k, w->type), w->s->lda,
                      block->rows, run, w->type);
        for (int64_t i = 0; i < run; i++) {
            for (int64_t r = 0; r < BP_MATMUL_NARROW; r++) {
                to[(k + i) * BP_MATMUL_NARROW + r] = floats[r * FEW_LEAST + i];
            }
        }
    }
}

/* The call as row `row` of c sees it. */
static matmul_work few_row(const matmul_work *w, int64_t row)
{
    const int64_t at = row * w->s->ldc;
    matmul_work one = *w;
    one.c = (char *)w->c + at * (int64_t)bp_dtype_bytes(w->c_type);
    one.residual = w->residual != NULL ? bp_element_at(w->residual, at, w->type) : NULL;
    one.before =
        w->before != NULL ? (char *)w->before + at * (int64_t)bp_dtype_bytes(w->type) : NULL;
    return one;
}

/* Columns from `first` on of all rows. Sums of a vector of them lie together, (BP_MATMUL_NARROW,
 * lanes), as the form makes them: rows of b stand in its lanes. */
static void few_rows_columns(const matmul_work *w, const matmul_block *block, int64_t first,
                             int64_t columns)
{
    const int64_t lanes = w->form->lanes, k = w->s->k;
    float sums[BP_MATMUL_NARROW * FEW_COLUMNS], row[FEW_COLUMNS];
    memset(sums, 0, sizeof sums);
    for (int64_t r = 0; w->s->accumulate != 0 && r < block->rows; r++) {
        const matmul_work one = few_row(w, block->row + r);
        w->form->load(row, 0, bp_element_at(one.c, first, w->c_type), 0, 1, columns, w->c_type);
        for (int64_t j = 0; j < columns; j++) {
            sums[j / lanes * lanes * BP_MATMUL_NARROW + r * lanes + j % lanes] = row[j];
        }
    }
    const int64_t most = least(FEW_TERMS, w->room / BP_MATMUL_NARROW);
    for (int64_t term = 0; term < k; term += most) {
        const int64_t terms = least(most, k - term);
        few_pack(w, block, term, terms, w->work);
        for (int64_t j = 0; j < columns; j += lanes) {
            w->form->narrow(sums + j * BP_MATMUL_NARROW, place_b(w, term, first + j), w->s->ldb,
                            w->work, least(lanes, columns - j), terms, block->rows, w->type);
        }
    }
    for (int64_t r = 0; r < block->rows; r++) {
        const matmul_work one = few_row(w, block->row + r);
        for (int64_t j = 0; j < columns; j++) {
            row[j] = sums[j / lanes * lanes * BP_MATMUL_NARROW + r * lanes + j % lanes];
        }
        for (int64_t j = 0; j < columns; j += BP_MATMUL_STRIP) {
            finish_strip(&one, row + j, first + j, least(BP_MATMUL_STRIP, columns - j));
        }
    }
}

void bp_matmul_few_rows_run(const matmul_work *w, const matmul_block *block)
{
    for (int64_t j = 0; j < block->columns; j += FEW_COLUMNS) {
        few_rows_columns(w, block, block->column + j, least(FEW_COLUMNS, block->columns - j));
    }
}
