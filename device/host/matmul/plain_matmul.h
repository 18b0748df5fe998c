/* SPDX-License-Identifier: MIT */
/* Matrix products in every transposition, with what follows them; plain C. Compiled for any
 * processor, where fmaf may be a call (matmul.c), and for those that have its instruction
 * (x86/plain_matmul_avx2.c), which takes an eighth of the time. Included once for each, which
 * defines BP_PLAIN(name). */
#include "core/base/math_inline.h"
#include "device/host/vector/half.h"
#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/matmul/matmul_quantised.h"

#define TILE_ROWS    4
#define TILE_COLUMNS 16
#define TILE_TERMS   8 /* of elements that become floats */
#define TASK_ROWS    32
#define TASK_COLUMNS 64

static uint64_t matmul_tasks(const void *scalars)
{
    const bp_matmul_scalars *s = scalars;
    return bp_cut(s->m, TASK_ROWS) * bp_cut(s->n, TASK_COLUMNS);
}

/* One call, and the types of its operands: c's, and that of all others. */
typedef struct product {
    const bp_matmul_scalars *s;
    const bp_matmul_pointers *p;
    bp_dtype c;
    bp_dtype type;
    const bp_quantised_matrix *weights; /* b, where it is quantised; else NULL */
    /* Reads an element of these. A pointer, so that a program without the quantised kernel links no
     * codes. */
    float (*weight)(const bp_quantised_matrix *weights, size_t i, bp_dtype type);
} product;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Where a tile lies in c, and how far it reaches there. */
typedef struct tile {
    size_t row;
    size_t column;
    size_t rows;
    size_t columns;
} tile;

static float load_b(const product *x, size_t i)
{
    if (x->weights != NULL) {
        return x->weight(x->weights, i, x->type);
    }
    return bp_element_load(x->p->b, i, x->type);
}

/* A factor's floats: `at` is the first, `across` lies between its rows (of a) or columns (of b),
 * `step` between its terms. */
typedef struct factor {
    const float *at;
    size_t across;
    size_t step;
} factor;

#define FOUR(X) X(0) X(1) X(2) X(3)
#define FOUR_ROW(r)                                                                                \
    const float *a##r = a->at + (r < at->rows ? r * a->across : 0);                                \
    float *to##r = sum[r] + q;                                                                     \
    float c##r##0 = to##r[0], c##r##1 = to##r[1], c##r##2 = to##r[2], c##r##3 = to##r[3];
#define FOUR_COLUMN(i) const float *b##i = b->at + (q + i < at->columns ? q + i : q) * b->across;
#define FOUR_LOAD(i)                                                                               \
    const float y##i = *b##i;                                                                      \
    b##i += b->step;
#define FOUR_TERM(r)                                                                               \
    const float x##r = *a##r;                                                                      \
    a##r += a->step;                                                                               \
    c##r##0 = fmaf(x##r, y0, c##r##0), c##r##1 = fmaf(x##r, y1, c##r##1);                          \
    c##r##2 = fmaf(x##r, y2, c##r##2), c##r##3 = fmaf(x##r, y3, c##r##3);
#define FOUR_STORE(r)                                                                              \
    to##r[0] = c##r##0, to##r[1] = c##r##1, to##r[2] = c##r##2, to##r[3] = c##r##3;

/* sum[r][q] = fma(a_rk, b_kq, sum[r][q]) for k in order, of four rows and the four columns from q
 * on. The 16 chains are variables, so that they stay in registers. Rows and columns that are not
 * there compute another one again. */
static void four_multiply(const factor *a, const factor *b, size_t terms, const tile *at, size_t q,
                          float sum[TILE_ROWS][TILE_COLUMNS])
{
    FOUR(FOUR_ROW)
    FOUR(FOUR_COLUMN)
    for (; terms > 0; terms--) {
        FOUR(FOUR_LOAD)
        FOUR(FOUR_TERM)
    }
    FOUR(FOUR_STORE)
}

static void tile_terms(const factor *a, const factor *b, size_t terms, const tile *at,
                       float sum[TILE_ROWS][TILE_COLUMNS])
{
    for (size_t q = 0; q < at->columns; q += 4) {
        four_multiply(a, b, terms, at, q, sum);
    }
}

/* Floats are read where they lie; of other elements a few terms at a time become floats. */
static void tile_multiply(const product *x, const tile *at, float sum[TILE_ROWS][TILE_COLUMNS])
{
    const bp_matmul_scalars *s = x->s;
    size_t lda = (size_t)s->lda, ldb = (size_t)s->ldb, depth = (size_t)s->k;
    size_t a_row = s->transpose_a != 0 ? 1 : lda, a_step = s->transpose_a != 0 ? lda : 1;
    size_t b_column = s->transpose_b != 0 ? ldb : 1, b_step = s->transpose_b != 0 ? 1 : ldb;
    size_t a = at->row * a_row, b = at->column * b_column;
    if (x->type == BP_F32 && x->weights == NULL) {
        const factor all_a = {(const float *)x->p->a + a, a_row, a_step};
        const factor all_b = {(const float *)x->p->b + b, b_column, b_step};
        tile_terms(&all_a, &all_b, depth, at, sum);
        return;
    }
    float a_terms[TILE_TERMS][TILE_ROWS], b_terms[TILE_TERMS][TILE_COLUMNS];
    const factor some_a = {a_terms[0], 1, TILE_ROWS}, some_b = {b_terms[0], 1, TILE_COLUMNS};
    for (size_t k = 0; k < depth; k += TILE_TERMS) {
        const size_t terms = least(depth - k, TILE_TERMS);
        for (size_t t = 0; t < terms; t++) {
            for (size_t r = 0; r < at->rows; r++) {
                size_t i = a + (k + t) * a_step + r * a_row;
                a_terms[t][r] = bp_element_load(x->p->a, i, x->type);
            }
            for (size_t q = 0; q < at->columns; q++) {
                b_terms[t][q] = load_b(x, b + (k + t) * b_step + q * b_column);
            }
        }
        tile_terms(&some_a, &some_b, terms, at, sum);
    }
}

/* What follows the sum: + bias, + residual, then GELU, one rounding each, and one to c's type. GELU
 * is of the value that `before` holds, whether that is kept or not: as when it is made again. */
static void tile_finish(const product *x, const tile *at, float sum[TILE_ROWS][TILE_COLUMNS])
{
    const bp_matmul_pointers *p = x->p;
    for (size_t r = 0; r < at->rows; r++) {
        size_t place = (at->row + r) * (size_t)x->s->ldc + at->column;
        for (size_t q = 0; q < at->columns; q++) {
            float value = sum[r][q];
            if (p->bias != NULL) {
                value += bp_element_load(p->bias, at->column + q, x->type);
            }
            if (p->residual != NULL) {
                value += bp_element_load(p->residual, place + q, x->type);
            }
            if (p->before != NULL) {
                bp_element_store(p->before, place + q, value, x->type);
            }
            if (x->s->gelu != 0) {
                value = bp_gelu_inline(bp_element_round(value, x->type));
            }
            bp_element_store(p->c, place + q, value, x->c);
        }
    }
}

static void tile_run(const product *x, const tile *at)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0.0f}};
    for (size_t r = 0; x->s->accumulate != 0 && r < at->rows; r++) {
        size_t place = (at->row + r) * (size_t)x->s->ldc + at->column;
        for (size_t q = 0; q < at->columns; q++) {
            sum[r][q] = bp_element_load(x->p->c, place + q, x->c);
        }
    }
    tile_multiply(x, at, sum);
    tile_finish(x, at, sum);
}

/* A task is a block of 32 x 64 elements of c, and those are cut into tiles. */
static void matmul_run_tasks(const product *x, uint64_t first, uint64_t last)
{
    size_t m = (size_t)x->s->m, n = (size_t)x->s->n;
    size_t across = bp_cut(x->s->n, TASK_COLUMNS);
    for (size_t task = first; task < last; task++) {
        size_t row = task / across * TASK_ROWS, column = task % across * TASK_COLUMNS;
        size_t row_end = least(m, row + TASK_ROWS);
        size_t column_end = least(n, column + TASK_COLUMNS);
        for (size_t i = row; i < row_end; i += TILE_ROWS) {
            for (size_t j = column; j < column_end; j += TILE_COLUMNS) {
                tile at = {i, j, least(row_end - i, TILE_ROWS),
                           least(column_end - j, TILE_COLUMNS)};
                tile_run(x, &at);
            }
        }
    }
}

static void matmul_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const product x = {.s = call->scalars,
                       .p = call->pointers,
                       .c = bp_call_type(call, 0),
                       .type = bp_call_type(call, 2)};
    matmul_run_tasks(&x, first, last);
}

const bp_host_kernel BP_PLAIN(matmul) = {matmul_tasks, matmul_run, NULL};

static uint64_t quantised_tasks(const void *scalars)
{
    const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
    return matmul_tasks(&s);
}

static float quantised_weight(const bp_quantised_matrix *weights, size_t i, bp_dtype type)
{
    return bp_element_round(bp_quantised_value(weights, i), type);
}

static void quantised_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_matmul_scalars s = bp_matmul_as_plain(call->scalars);
    const bp_matmul_pointers p = bp_matmul_plain_pointers(call->pointers);
    const bp_quantised_matrix weights = bp_matmul_weights(call);
    const product x = {.s = &s,
                       .p = &p,
                       .c = bp_call_type(call, 0),
                       .type = bp_call_type(call, 2),
                       .weights = &weights,
                       .weight = quantised_weight};
    matmul_run_tasks(&x, first, last);
}

const bp_host_kernel BP_PLAIN(matmul_quantised) = {quantised_tasks, quantised_run, NULL};
