/* SPDX-License-Identifier: MIT */
/* Quantised weights become floats tile by tile, on their way into a panel of the matrix product. */
#include "device/host/matmul/matmul_work.h"

/* Rows of b that run along k, transposed by way of the scratch. */
static void transpose_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                            int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    const int64_t ldb = w->s->ldb;
    for (int64_t j = 0; j < columns; j += STAGE_ROWS) {
        int64_t rows = least(STAGE_ROWS, columns - j);
        for (int64_t k = 0; k < block->terms; k += STAGE_TERMS) {
            int64_t run = least(STAGE_TERMS, block->terms - k);
            for (int64_t i = 0; i < rows; i++) {
                form->dequantise(w->scratch + i * STAGE_TERMS, w->weights,
                                 (uint64_t)((column + j + i) * ldb + block->term + k), run,
                                 w->type);
            }
            form->transpose(w->panel + k * form->columns + j, form->columns, w->scratch,
                            STAGE_TERMS, rows, run);
        }
    }
}

void bp_matmul_quantised_panel(const matmul_work *w, const matmul_block *block, int64_t column,
                               int64_t columns)
{
    if (w->s->transpose_b != 0) {
        transpose_panel(w, block, column, columns);
        return;
    }
    for (int64_t k = 0; k < block->terms; k++) {
        w->form->dequantise(w->panel + k * w->form->columns, w->weights,
                            (uint64_t)((block->term + k) * w->s->ldb + column), columns, w->type);
    }
}

/* The terms of a strip that are dequantised at once: `run` of them from number `term` on. */
static void strip_tile(const matmul_work *w, float *sums, const float *a, int64_t term, int64_t run,
                       int64_t first, int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    const int64_t ldb = w->s->ldb;
    float *tile = w->packed_a;
    if (w->s->transpose_b != 0) {
        for (int64_t j = 0; j < columns; j++) {
            form->dequantise(tile + j * STAGE_TERMS, w->weights,
                             (uint64_t)((first + j) * ldb + term), run, w->type);
        }
        form->row_transposed(sums, a, tile, STAGE_TERMS, run, columns, BP_F32);
        return;
    }
    for (int64_t k = 0; k < run; k++) {
        form->dequantise(tile + k * BP_MATMUL_STRIP, w->weights,
                         (uint64_t)((term + k) * ldb + first), columns, w->type);
    }
    form->row(sums, a, tile, BP_MATMUL_STRIP, run, columns, BP_F32);
}

/* As many columns of a transposed b as need no tile: their codes are used where they lie. */
static int64_t strip_codes(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_isa *form = w->form;
    const uint64_t ldb = (uint64_t)w->s->ldb;
    float *a = w->packed_a;
    int64_t did = columns;
    for (int64_t k = 0; did > 0 && k < w->s->k; k += BP_QUANTISED_STRIP) {
        int64_t run = least(BP_QUANTISED_STRIP, w->s->k - k);
        form->load(a, 0, bp_element_at(w->a, k, w->type), 0, 1, run, w->type);
        did = form->row_codes(sums, a, w->weights, (uint64_t)first * ldb + (uint64_t)k, ldb, run,
                              columns, w->type);
    }
    return did;
}

void bp_matmul_quantised_strip(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    float a[STAGE_TERMS];
    const int64_t form = w->weights->form;
    const uint64_t block = bp_quantised_four(form) ? bp_quantised_block(form) : BP_NF4_BLOCK;
    const bool codes =
        w->s->transpose_b != 0 && (uint64_t)w->s->k % block == 0 && bp_quantised_scaled(form);
    const int64_t did = codes ? strip_codes(w, sums, first, columns) : 0;
    if (did == columns) {
        return;
    }
    for (int64_t k = 0; k < w->s->k; k += STAGE_TERMS) {
        int64_t run = least(STAGE_TERMS, w->s->k - k);
        w->form->load(a, 0, bp_element_at(w->a, k, w->type), 0, 1, run, w->type);
        strip_tile(w, sums + did, a, k, run, first + did, columns - did);
    }
}
