/* SPDX-License-Identifier: MIT */
/* Lengths of the rows of adapted weights, written once and compiled for every form: plain C in
 * blocks of 16 lanes. Included once per form, which defines BP_PLAIN(name). */
#include "core/ops/quantised.h"
#include "device/host/elements/plain.h"

static uint64_t weight_norms_tasks(const void *scalars)
{
    const bp_weight_norms_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static bp_quantised_matrix weight_norms_codes(const bp_host_call *call)
{
    const bp_weight_norms_scalars *s = call->scalars;
    const bp_weight_norms_pointers *p = call->pointers;
    return (bp_quantised_matrix){.form = s->form,
                                 .columns = (uint64_t)s->columns,
                                 .codes = p->codes,
                                 .scales = p->scales,
                                 .nested = p->nested};
}

/* `count` elements of row `row` from column `column` on; the other lanes are 0. */
static bp_plain_block weight_norms_block(const bp_host_call *call, const bp_quantised_matrix *codes,
                                         uint64_t row, uint64_t column, uint64_t count)
{
    const bp_weight_norms_scalars *s = call->scalars;
    const bp_weight_norms_pointers *p = call->pointers;
    const uint64_t columns = (uint64_t)s->columns;
    const bp_element *weight = p->weight;
    bp_plain_block w = {{0.0f}};
    if (s->form == 0 && s->transposed == 0) {
        return bp_plain_load(weight + row * columns + column, count);
    }
    for (uint64_t l = 0; l < count; l++) {
        const uint64_t at = s->transposed != 0 ? (column + l) * (uint64_t)s->rows + row
                                               : row * columns + column + l;
        w.lane[l] = s->form == 0 ? bp_get(weight, at)
                                 : bp_element_round(bp_quantised_value(codes, at), BP_ELEMENT);
    }
    return w;
}

/* Sixteen columns of the low-rank product's row. */
static inline bp_plain_block weight_norms_product(const bp_weight_norms_scalars *s,
                                                  const bp_element *a, const bp_element *b,
                                                  uint64_t column, uint64_t count)
{
    bp_plain_block sum = {{0.0f}};
    for (uint64_t k = 0; k < (uint64_t)s->rank; k++) {
        const bp_plain_block from = bp_plain_load(a + k * (uint64_t)s->columns + column, count);
        const float by = bp_get(b, k);
        for (int l = 0; l < BP_LANES; l++) {
            sum.lane[l] = fmaf(by, from.lane[l], sum.lane[l]);
        }
    }
    return sum;
}

/* A task is a row. */
static void weight_norms_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_weight_norms_scalars *s = call->scalars;
    const bp_weight_norms_pointers *p = call->pointers;
    const bp_quantised_matrix codes = weight_norms_codes(call);
    const uint64_t columns = (uint64_t)s->columns;
    const float factor = (float)s->factor;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *b = (const bp_element *)p->b + row * (uint64_t)s->rank;
        float lane[BP_LANES] = {0.0f};
        for (uint64_t column = 0; column < columns; column += BP_LANES) {
            const uint64_t count = bp_least(columns - column, BP_LANES);
            const bp_plain_block w = weight_norms_block(call, &codes, row, column, count);
            const bp_plain_block low = weight_norms_product(s, p->a, b, column, count);
            for (int l = 0; l < BP_LANES; l++) {
                const float v = fmaf(factor, low.lane[l], w.lane[l]);
                lane[l] = fmaf(v, v, lane[l]);
            }
        }
        ((float *)p->norms)[row] = sqrtf(bp_lanes_sum(lane));
    }
}

const bp_host_kernel BP_PLAIN(weight_norms) = {weight_norms_tasks, weight_norms_run, NULL};
