/* SPDX-License-Identifier: MIT */
/* What the files of the fast matrix product share: one call as its worker sees it. */
#ifndef BP_DEVICE_HOST_MATMUL_WORK_H
#define BP_DEVICE_HOST_MATMUL_WORK_H

#include "core/ops/quantised.h"
#include "device/host/fuse.h"
#include "device/host/matmul/matmul_pack.h"

#define STAGE_TERMS 64 /* terms transposed at once from 16 bits or fewer, */
#define STAGE_ROWS  16 /* and rows of them */

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t round_up(int64_t a, int64_t unit)
{
    return ceil_div(a, unit) * unit;
}

/* `total` in even pieces of at most `most`, each a multiple of `unit` (but for the last). */
static inline int64_t piece(int64_t total, int64_t most, int64_t unit)
{
    return round_up(ceil_div(total, ceil_div(total, most)), unit);
}

/* What a workspace has room for at least: sizes in elements. */
typedef struct matmul_cut {
    int64_t depth;   /* of a block of k */
    int64_t rows;    /* of a block of c */
    int64_t columns; /* of a block of c */
    int64_t a_count; /* elements of workspace for packed a, the panel and chains that wait */
    int64_t panel_count;
    int64_t c_count;
} matmul_cut;

/* A product of low rank whose chain is added to each finished element of c: c += op(a) op(b), with
 * the rounding of both where c has 16 bits. */
typedef struct matmul_epilogue {
    const bp_matmul_scalars *s;
    const void *a;
    const void *b;
    const bp_matmul_scalars *low_rank; /* makes a, in fp32, of the rows of w->a; NULL: a is there */
    const void *low_rank_b;
    float *u;                                             /* a, where it is made */
    float factor;                                         /* of its finished chains */
    float panel[BP_JOIN_RANK_MOST * BP_MATMUL_PANEL_MAX]; /* of b: the columns at hand */
} matmul_epilogue;

struct matmul_check;

/* One call as its worker sees it. */
typedef struct matmul_work {
    const bp_matmul_isa *form;
    const bp_matmul_pairs *pairs; /* how a and b are multiplied; NULL: as floats */
    const bp_matmul_scalars *s;
    bp_dtype type;   /* of a, b, bias, residual, before */
    bp_dtype c_type; /* of c: the same, or there are no bias, residual and before */
    const void *a;
    const void *b;
    const bp_quantised_matrix *weights; /* b, where it is quantised; else NULL */
    const void *bias;
    const void *residual;
    void *c;
    void *before;
    matmul_epilogue *epilogue;  /* NULL: nothing is added */
    struct matmul_check *check; /* NULL: nothing is checked */
    uint64_t bytes;             /* of this worker's workspace */
    float *work;                /* this worker's, with room for so many floats before the scratch */
    int64_t room;
    float *packed_a;
    float *panel;
    float *unfinished;
    float *scratch; /* (STAGE_TERMS * STAGE_ROWS): a stage of packing, or what surrounds a tile of
                       16-bit c */
    matmul_cut closest;
} matmul_work;

#define BP_MATMUL_OVERRUN 16 /* floats after packed a, at least what packing may write there */

/* A rectangle of c, later one block of it, and one block of k. */
typedef struct matmul_block {
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
    int64_t term;
    int64_t terms;
} matmul_block;

/* Where op(b)'s term `term` of column `column` lies. */
static inline const void *place_b(const matmul_work *w, int64_t term, int64_t column)
{
    if (w->s->transpose_b != 0) {
        return bp_element_at(w->b, column * w->s->ldb + term, w->type);
    }
    return bp_element_at(w->b, term * w->s->ldb + column, w->type);
}

/* Packs strips of a tile's rows, one after the other, each (terms, form's rows): those of the
 * block's rows and terms. */
void bp_matmul_pack_a(const matmul_work *w, const matmul_block *block, float *to);

/* Packs the panel of b that the tiles of these columns read, over the block's terms. */
void bp_matmul_pack_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                          int64_t columns);

/* A rectangle of c over all of k. */
void bp_matmul_rectangle(matmul_work *w, const matmul_block *all);

/* Columns first .. first + columns - 1 of a c of one row. */
void bp_matmul_strip(const matmul_work *w, int64_t first, int64_t columns);

/* Whether the rectangle `block` of c has so few rows, of a transposed b in memory, that packing b
 * would cost more than using it; and computes it. The chain of each element is that of other forms:
 * its terms one by one in order. */
bool bp_matmul_few_rows(const matmul_work *w, const matmul_block *block);
void bp_matmul_few_rows_run(const matmul_work *w, const matmul_block *block);

/* Computes the rectangle `block` of c if the product has a short side and nothing follows it;
 * false, with nothing done, otherwise. */
bool bp_matmul_narrow(const matmul_work *w, const matmul_block *block);

/* Takes the columns of the added product's b that the tiles of these columns of c need. */
void bp_matmul_epilogue_panel(const matmul_work *w, int64_t column, int64_t columns);

/* Adds it to a finished tile of c that begins at (row, column). Best not to the one that was stored
 * just now: its lines may still be on their way, and the processor would wait for them. */
void bp_matmul_epilogue_tile(const matmul_work *w, int64_t rows, int64_t columns, int64_t row,
                             int64_t column);

/* Takes the chains of w->then->u on by a part of k, of whose rows the packed a is: those of the
 * block. Uses w->panel. `ends`: k ends here. */
void bp_matmul_epilogue_low_rank(const matmul_work *w, const matmul_block *part,
                                 const float *packed_a, bool ends);

/* Packs the panel of a quantised b that the tiles of these columns read. */
void bp_matmul_quantised_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                               int64_t columns);

/* sums += a b over a strip of a quantised b; w->packed_a holds BP_QUANTISED_STRIP floats. */
#define BP_QUANTISED_STRIP (STAGE_TERMS * BP_MATMUL_STRIP)
void bp_matmul_quantised_strip(const matmul_work *w, float *sums, int64_t first, int64_t columns);

#endif
