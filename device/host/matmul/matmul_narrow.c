/* SPDX-License-Identifier: MIT */
/* Matrix products with one short side: an adapter's rank, the classes of a head. What is long is
 * read once, where it lies; only what is short is packed. The chain of each element of c is that of
 * every other form: its terms one by one in order, from c where it is added to. */
#include "device/host/matmul/matmul_work.h"

#include <string.h>

#define THIN_MOST 64 /* rows of the thin factor */
#define THIN_TERMS                                                                                 \
    32                 /* terms between two visits of the sums, so that rows are read in a stream  \
                        */
#define LANES_MOST  16 /* of a form's vectors */
#define TERMS_LEAST 16 /* fewer do not pay for this */

/* c (m, n) of few columns: LANES rows of a at a time stand in the lanes of a vector per column. */
static bool few_columns(const matmul_work *w)
{
    const bp_matmul_scalars *s = w->s;
    return s->n <= BP_MATMUL_NARROW && s->transpose_a == 0 && s->m >= 2 * LANES_MOST &&
           s->k >= TERMS_LEAST && BP_MATMUL_NARROW * s->k <= w->room;
}

/* to (columns, rows; to_pitch) = transpose of from (rows, columns; pitch) of the call's type. */
static void transpose_in(const matmul_work *w, float *to, int64_t to_pitch, const void *from,
                         int64_t pitch, int64_t rows, int64_t columns)
{
    if (w->type == BP_F32) {
        w->form->transpose(to, to_pitch, from, pitch, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows; i += STAGE_ROWS) {
        int64_t some = least(STAGE_ROWS, rows - i);
        for (int64_t j = 0; j < columns; j += STAGE_TERMS) {
            int64_t run = least(STAGE_TERMS, columns - j);
            w->form->load(w->scratch, STAGE_TERMS, bp_element_at(from, i * pitch + j, w->type),
                          pitch, some, run, w->type);
            w->form->transpose(to + j * to_pitch + i, to_pitch, w->scratch, STAGE_TERMS, some, run);
        }
    }
}

/* b as (k, BP_MATMUL_NARROW) floats, with zeros for the columns that are not there. */
static void pack_short(const matmul_work *w, float *to)
{
    const bp_matmul_scalars *s = w->s;
    if (s->n < BP_MATMUL_NARROW) {
        memset(to, 0, (size_t)(BP_MATMUL_NARROW * s->k) * sizeof(float));
    }
    if (s->transpose_b != 0) {
        transpose_in(w, to, BP_MATMUL_NARROW, w->b, s->ldb, s->n, s->k);
    } else {
        w->form->load(to, BP_MATMUL_NARROW, w->b, s->ldb, s->k, s->n, w->type);
    }
}

/* Sums of a vector's rows, (BP_MATMUL_NARROW, lanes), from the rows of c, or to them. */
static void move_lanes(const matmul_work *w, float *sums, int64_t row, int64_t rows, bool store)
{
    for (int64_t r = 0; r < rows; r++) {
        void *c = (char *)w->c + (row + r) * w->s->ldc * (int64_t)bp_dtype_bytes(w->c_type);
        for (int64_t j = 0; j < w->s->n; j++) {
            float *sum = sums + j * w->form->lanes + r;
            if (!store) {
                *sum = bp_element_load(c, (uint64_t)j, w->c_type);
            } else if (w->c_type == BP_F32) {
                ((float *)c)[j] = *sum;
            } else {
                bp_element_store(c, (uint64_t)j, *sum, w->c_type);
            }
        }
    }
}

static void few_columns_run(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_scalars *s = w->s;
    float sums[BP_MATMUL_NARROW * LANES_MOST];
    float *b = w->work;
    pack_short(w, b);
    for (int64_t i = 0; i < block->rows; i += w->form->lanes) {
        int64_t rows = least(w->form->lanes, block->rows - i);
        memset(sums, 0, sizeof sums);
        if (s->accumulate != 0) {
            move_lanes(w, sums, block->row + i, rows, false);
        }
        w->form->narrow(sums, bp_element_at(w->a, (block->row + i) * s->lda, w->type), s->lda, b,
                        rows, s->k, s->n, w->type);
        move_lanes(w, sums, block->row + i, rows, true);
    }
}

/* c or its transpose (thin, wide) = the sum over k of thin (k, thin) x wide (k, wide). */
typedef struct matmul_thin {
    const matmul_work *w;
    const void *thin;
    const void *wide;
    int64_t thin_pitch;
    int64_t wide_pitch;
    int64_t rows;    /* of the thin factor */
    int64_t row;     /* their first */
    int64_t column;  /* of the wide one */
    bool transposed; /* c is (wide, thin) */
    float *sums;     /* (rows, columns of a chunk) */
} matmul_thin;

static bool thin_factor(const matmul_work *w)
{
    const bp_matmul_scalars *s = w->s;
    int64_t thin = least(s->m, s->n);
    return s->transpose_a != 0 && s->transpose_b == 0 && s->k >= TERMS_LEAST && thin <= THIN_MOST &&
           2 * thin <= s->m + s->n - thin && thin * BP_MATMUL_PANEL_MAX <= w->room;
}

/* Rows of floats of (rows, columns; pitch) from elements of c's type (c_pitch), or to them. */
static void move_rows(const matmul_work *w, float *floats, int64_t pitch, void *c, int64_t c_pitch,
                      const int64_t size[2], bool store)
{
    if (!store) {
        w->form->load(floats, pitch, c, c_pitch, size[0], size[1], w->c_type);
    } else if (w->c_type == BP_F32) {
        w->form->load(c, c_pitch, floats, pitch, size[0], size[1], BP_F32);
    } else {
        w->form->store(c, c_pitch, floats, pitch, size[0], size[1], w->c_type);
    }
}

/* The chunk's sums from c, or to it. */
static void move_sums(const matmul_thin *t, int64_t column, int64_t columns, bool store)
{
    const matmul_work *w = t->w;
    const int64_t ldc = w->s->ldc, bytes = (int64_t)bp_dtype_bytes(w->c_type);
    float transposed[STAGE_TERMS * STAGE_ROWS];
    column += t->column;
    if (!t->transposed) {
        move_rows(w, t->sums, columns, (char *)w->c + (t->row * ldc + column) * bytes, ldc,
                  (const int64_t[2]){t->rows, columns}, store);
        return;
    }
    for (int64_t j = 0; j < columns; j += STAGE_ROWS) {
        const int64_t size[2] = {least(STAGE_ROWS, columns - j), t->rows};
        void *c = (char *)w->c + ((column + j) * ldc + t->row) * bytes;
        if (store) {
            w->form->transpose(transposed, THIN_MOST, t->sums + j, columns, size[1], size[0]);
            move_rows(w, transposed, THIN_MOST, c, ldc, size, true);
        } else {
            move_rows(w, transposed, THIN_MOST, c, ldc, size, false);
            w->form->transpose(t->sums + j, columns, transposed, THIN_MOST, size[0], size[1]);
        }
    }
}

/* Asks for what the tiles of these columns read of the next terms. Where c is transposed, wide is
 * the gradient that was made just now, and near. */
static void thin_ahead(const matmul_thin *t, int64_t term, int64_t column, int64_t columns)
{
    const bp_dtype type = t->w->type;
    const int64_t end = t->transposed ? 0 : least(term + 2 * THIN_TERMS, t->w->s->k);
    const int64_t bytes = columns * (int64_t)bp_dtype_bytes(type);
    for (int64_t k = term + THIN_TERMS; k < end; k++) {
        const char *row = bp_element_at(t->wide, k * t->wide_pitch + column, type);
        for (int64_t at = 0; at < bytes; at += BP_MATMUL_LINE) {
            __builtin_prefetch(row + at, 0, 2);
        }
    }
}

/* Some terms of all tiles of a chunk. `a` is the thin factor's (rows, THIN_TERMS). */
static void thin_terms(const matmul_thin *t, const float *a, int64_t term, int64_t terms,
                       int64_t column, int64_t columns)
{
    const matmul_work *w = t->w;
    const bp_matmul_isa *form = w->form;
    float panel[THIN_TERMS * BP_MATMUL_PANEL_MAX];
    for (int64_t j = 0; j < columns; j += form->columns) {
        int64_t here = least(form->columns, columns - j);
        const void *from =
            bp_element_at(t->wide, term * t->wide_pitch + t->column + column + j, w->type);
        bp_matmul_tile tile = {.columns = here,
                               .depth = terms,
                               .a_pitch = THIN_TERMS,
                               .panel = from,
                               .panel_pitch = t->wide_pitch,
                               .from_pitch = columns,
                               .to_pitch = columns};
        thin_ahead(t, term, t->column + column + j, here);
        if (w->type != BP_F32) {
            form->load(panel, form->columns, from, t->wide_pitch, terms, here, w->type);
            tile.panel = panel;
            tile.panel_pitch = form->columns;
        }
        for (int64_t i = 0; i < t->rows; i += form->rows) {
            tile.rows = least(form->rows, t->rows - i);
            tile.a = a + i * THIN_TERMS;
            tile.from = tile.to = t->sums + i * columns + j;
            form->tile(&tile);
        }
    }
}

static void thin_run(matmul_thin *t, int64_t columns)
{
    const matmul_work *w = t->w;
    const int64_t unit = w->form->columns, k = w->s->k;
    float a[THIN_MOST * THIN_TERMS];
    int64_t most = w->room / t->rows / unit * unit;
    most = most < unit ? unit : most;
    for (int64_t j = 0; j < columns; j += most) {
        int64_t some = least(most, columns - j);
        memset(t->sums, 0, (size_t)(t->rows * some) * sizeof(float));
        if (w->s->accumulate != 0) {
            move_sums(t, j, some, false);
        }
        for (int64_t term = 0; term < k; term += THIN_TERMS) {
            int64_t terms = least(THIN_TERMS, k - term);
            const void *from = bp_element_at(t->thin, term * t->thin_pitch + t->row, w->type);
            transpose_in(w, a, THIN_TERMS, from, t->thin_pitch, terms, t->rows);
            thin_terms(t, a, term, terms, j, some);
        }
        move_sums(t, j, some, true);
    }
}

static void thin_factor_run(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_scalars *s = w->s;
    matmul_thin t = {.w = w, .sums = w->work, .transposed = s->m > s->n};
    t.thin = t.transposed ? w->b : w->a;
    t.wide = t.transposed ? w->a : w->b;
    t.thin_pitch = t.transposed ? s->ldb : s->lda;
    t.wide_pitch = t.transposed ? s->lda : s->ldb;
    t.row = t.transposed ? block->column : block->row;
    t.rows = t.transposed ? block->columns : block->rows;
    t.column = t.transposed ? block->row : block->column;
    thin_run(&t, t.transposed ? block->rows : block->columns);
}

bool bp_matmul_narrow(const matmul_work *w, const matmul_block *block)
{
    bool plain = w->weights == NULL && w->epilogue == NULL && w->bias == NULL &&
                 w->residual == NULL && w->before == NULL && w->s->gelu == 0;
    if (plain && few_columns(w)) {
        few_columns_run(w, block);
        return true;
    }
    if (plain && thin_factor(w)) {
        thin_factor_run(w, block);
        return true;
    }
    return false;
}
