/* SPDX-License-Identifier: MIT */
/* The matrix product when c is one row: each element of b is used once, where it lies. */
#include "device/host/matmul/matmul_work.h"

/* sums += a b over the strip's columns; an a of 16 bits becomes floats a few terms at a time. */
static void strip_products(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_scalars *s = w->s;
    float floats[BP_MATMUL_STRIP];
    int64_t most = w->type == BP_F32 ? s->k : BP_MATMUL_STRIP;
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
        (s->transpose_b != 0 ? w->form->row_turned : w->form->row)(sums, a, place_b(w, k, first),
                                                                   s->ldb, run, columns, w->type);
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

/* What follows the chains of a strip; c_0 is the strip's first element. */
static void finish_strip(const matmul_work *w, float *sums, int64_t first, int64_t columns)
{
    const bp_matmul_form *form = w->form;
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

void bp_matmul_strip(const matmul_work *w, int64_t first, int64_t columns)
{
    const bp_matmul_scalars *s = w->s;
    float sums[BP_MATMUL_STRIP] = {0.0f};
    if (s->accumulate != 0) {
        w->form->load(sums, 0, bp_element_at(w->c, first, w->c_type), 0, 1, columns, w->c_type);
    }
    strip_products(w, sums, first, columns);
    finish_strip(w, sums, first, columns);
}
