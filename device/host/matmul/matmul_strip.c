/* SPDX-License-Identifier: MIT */
/* The matrix product when c is one row: each element of b is used once, where it lies. */
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
