/* SPDX-License-Identifier: MIT */
/* Matrix products in every transposition, with what follows them, and bias gradients; plain form.
 */
#include "core/math_inline.h"
#include "device/host/kernel.h"
#include "device/host/lanes.h"
#include "device/host/matmul_pack.h"

#define TILE_ROWS    4
#define TILE_COLUMNS 16
#define TASK_ROWS    32
#define TASK_COLUMNS 64

static uint64_t matmul_tasks(const void *scalars)
{
    const bp_matmul_scalars *s = scalars;
    return bp_cut(s->m, TASK_ROWS) * bp_cut(s->n, TASK_COLUMNS);
}

/* Where a tile lies in c, and how far it reaches there. */
typedef struct tile {
    uint64_t row;
    uint64_t column;
    uint64_t rows;
    uint64_t columns;
} tile;

/* sum[r][q] = fma(a_rk, b_kq, sum[r][q]) for k in order; columns past the tile's end are zeros. */
static void tile_multiply(const bp_matmul_scalars *s, const bp_matmul_pointers *p, const tile *at,
                          float sum[TILE_ROWS][TILE_COLUMNS])
{
    uint64_t lda = (uint64_t)s->lda, ldb = (uint64_t)s->ldb;
    uint64_t a_row = s->transpose_a != 0 ? 1 : lda, a_step = s->transpose_a != 0 ? lda : 1;
    uint64_t b_column = s->transpose_b != 0 ? ldb : 1, b_step = s->transpose_b != 0 ? 1 : ldb;
    const float *a = (const float *)p->a + at->row * a_row;
    const float *b = (const float *)p->b + at->column * b_column;
    float b_row[TILE_COLUMNS] = {0.0f};
    for (uint64_t k = 0; k < (uint64_t)s->k; k++) {
        for (uint64_t q = 0; q < at->columns; q++) {
            b_row[q] = b[k * b_step + q * b_column];
        }
        for (uint64_t r = 0; r < at->rows; r++) {
            float a_value = a[k * a_step + r * a_row];
            for (uint64_t q = 0; q < TILE_COLUMNS; q++) {
                sum[r][q] = fmaf(a_value, b_row[q], sum[r][q]);
            }
        }
    }
}

/* What follows the sum: + bias, + residual, then GELU, one rounding each. */
static void tile_finish(const bp_matmul_scalars *s, const bp_matmul_pointers *p, const tile *at,
                        float sum[TILE_ROWS][TILE_COLUMNS])
{
    const float *bias = p->bias, *residual = p->residual;
    float *c = p->c, *before = p->before;
    for (uint64_t r = 0; r < at->rows; r++) {
        uint64_t place = (at->row + r) * (uint64_t)s->ldc + at->column;
        for (uint64_t q = 0; q < at->columns; q++) {
            float value = sum[r][q];
            if (bias != NULL) {
                value += bias[at->column + q];
            }
            if (residual != NULL) {
                value += residual[place + q];
            }
            if (before != NULL) {
                before[place + q] = value;
            }
            c[place + q] = s->gelu != 0 ? bp_gelu_inline(value) : value;
        }
    }
}

static void tile_run(const bp_matmul_scalars *s, const bp_matmul_pointers *p, const tile *at)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0.0f}};
    const float *c = p->c;
    for (uint64_t r = 0; s->accumulate != 0 && r < at->rows; r++) {
        for (uint64_t q = 0; q < at->columns; q++) {
            sum[r][q] = c[(at->row + r) * (uint64_t)s->ldc + at->column + q];
        }
    }
    tile_multiply(s, p, at, sum);
    tile_finish(s, p, at, sum);
}

/* A task is a block of 32 x 64 elements of c, and those are cut into tiles. */
static void matmul_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_matmul_scalars *s = call->scalars;
    const bp_matmul_pointers *p = call->pointers;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n;
    uint64_t across = bp_cut(s->n, TASK_COLUMNS);
    for (uint64_t task = first; task < last; task++) {
        uint64_t row = task / across * TASK_ROWS, column = task % across * TASK_COLUMNS;
        uint64_t row_end = bp_least(m, row + TASK_ROWS);
        uint64_t column_end = bp_least(n, column + TASK_COLUMNS);
        for (uint64_t i = row; i < row_end; i += TILE_ROWS) {
            for (uint64_t j = column; j < column_end; j += TILE_COLUMNS) {
                tile at = {i, j, bp_least(row_end - i, TILE_ROWS),
                           bp_least(column_end - j, TILE_COLUMNS)};
                tile_run(s, p, &at);
            }
        }
    }
}

static uint64_t bias_tasks(const void *scalars)
{
    const bp_bias_backward_scalars *s = scalars;
    return bp_cut(s->n, BP_COLUMNS);
}

/* A task is a slice of 64 columns: rows are added in order. */
static void bias_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_bias_backward_scalars *s = call->scalars;
    const bp_bias_backward_pointers *p = call->pointers;
    uint64_t n = (uint64_t)s->n;
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_COLUMNS;
        uint64_t count = bp_least(n - column, BP_COLUMNS);
        float *d_bias = (float *)p->d_bias + column;
        for (uint64_t i = 0; s->accumulate == 0 && i < count; i++) {
            d_bias[i] = 0.0f;
        }
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const float *d_y = (const float *)p->d_y + row * n + column;
            for (uint64_t i = 0; i < count; i++) {
                d_bias[i] += d_y[i];
            }
        }
    }
}

const bp_host_kernel bp_host_matmul = {matmul_tasks, matmul_run, bp_matmul_workspace};
const bp_host_kernel bp_host_bias_backward = {bias_tasks, bias_run, NULL};
