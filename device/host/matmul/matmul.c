/* SPDX-License-Identifier: MIT */
/* Matrix products in every transposition, with what follows them; plain form. */
#include "core/number/math_inline.h"
#include "device/host/vector/half.h"
#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/matmul/matmul_quantised.h"

#define TILE_ROWS    4
#define TILE_COLUMNS 16
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
} product;

/* Where a tile lies in c, and how far it reaches there. */
typedef struct tile {
    uint64_t row;
    uint64_t column;
    uint64_t rows;
    uint64_t columns;
} tile;

static float load_b(const product *x, uint64_t i)
{
    if (x->weights != NULL) {
        return bp_element_round(bp_quantised_value(x->weights, i), x->type);
    }
    return bp_element_load(x->p->b, i, x->type);
}

/* sum[r][q] = fma(a_rk, b_kq, sum[r][q]) for k in order; columns past the tile's end are zeros. */
static void tile_multiply(const product *x, const tile *at, float sum[TILE_ROWS][TILE_COLUMNS])
{
    const bp_matmul_scalars *s = x->s;
    uint64_t lda = (uint64_t)s->lda, ldb = (uint64_t)s->ldb;
    uint64_t a_row = s->transpose_a != 0 ? 1 : lda, a_step = s->transpose_a != 0 ? lda : 1;
    uint64_t b_column = s->transpose_b != 0 ? ldb : 1, b_step = s->transpose_b != 0 ? 1 : ldb;
    uint64_t a = at->row * a_row, b = at->column * b_column;
    float b_row[TILE_COLUMNS] = {0.0f};
    for (uint64_t k = 0; k < (uint64_t)s->k; k++) {
        for (uint64_t q = 0; q < at->columns; q++) {
            b_row[q] = load_b(x, b + k * b_step + q * b_column);
        }
        for (uint64_t r = 0; r < at->rows; r++) {
            float a_value = bp_element_load(x->p->a, a + k * a_step + r * a_row, x->type);
            for (uint64_t q = 0; q < TILE_COLUMNS; q++) {
                sum[r][q] = fmaf(a_value, b_row[q], sum[r][q]);
            }
        }
    }
}

/* What follows the sum: + bias, + residual, then GELU, one rounding each, and one to c's type. GELU
 * is of the value that `before` holds, whether that is kept or not: as when it is made again. */
static void tile_finish(const product *x, const tile *at, float sum[TILE_ROWS][TILE_COLUMNS])
{
    const bp_matmul_pointers *p = x->p;
    for (uint64_t r = 0; r < at->rows; r++) {
        uint64_t place = (at->row + r) * (uint64_t)x->s->ldc + at->column;
        for (uint64_t q = 0; q < at->columns; q++) {
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
    for (uint64_t r = 0; x->s->accumulate != 0 && r < at->rows; r++) {
        uint64_t place = (at->row + r) * (uint64_t)x->s->ldc + at->column;
        for (uint64_t q = 0; q < at->columns; q++) {
            sum[r][q] = bp_element_load(x->p->c, place + q, x->c);
        }
    }
    tile_multiply(x, at, sum);
    tile_finish(x, at, sum);
}

/* A task is a block of 32 x 64 elements of c, and those are cut into tiles. */
static void matmul_run_tasks(const product *x, uint64_t first, uint64_t last)
{
    uint64_t m = (uint64_t)x->s->m, n = (uint64_t)x->s->n;
    uint64_t across = bp_cut(x->s->n, TASK_COLUMNS);
    for (uint64_t task = first; task < last; task++) {
        uint64_t row = task / across * TASK_ROWS, column = task % across * TASK_COLUMNS;
        uint64_t row_end = bp_least(m, row + TASK_ROWS);
        uint64_t column_end = bp_least(n, column + TASK_COLUMNS);
        for (uint64_t i = row; i < row_end; i += TILE_ROWS) {
            for (uint64_t j = column; j < column_end; j += TILE_COLUMNS) {
                tile at = {i, j, bp_least(row_end - i, TILE_ROWS),
                           bp_least(column_end - j, TILE_COLUMNS)};
                tile_run(x, &at);
            }
        }
    }
}

static void matmul_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const product x = {call->scalars, call->pointers, bp_call_type(call, 0), bp_call_type(call, 2),
                       NULL};
    matmul_run_tasks(&x, first, last);
}

const bp_host_kernel bp_host_matmul = {matmul_tasks, matmul_run, NULL};

static uint64_t quantised_tasks(const void *scalars)
{
    const bp_matmul_scalars s = bp_matmul_as_plain(scalars);
    return matmul_tasks(&s);
}

static void quantised_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_matmul_scalars s = bp_matmul_as_plain(call->scalars);
    const bp_matmul_pointers p = bp_matmul_plain_pointers(call->pointers);
    const bp_quantised_matrix weights = bp_matmul_weights(call);
    const product x = {&s, &p, bp_call_type(call, 0), bp_call_type(call, 2), &weights};
    matmul_run_tasks(&x, first, last);
}

const bp_host_kernel bp_host_matmul_quantised = {quantised_tasks, quantised_run, NULL};
