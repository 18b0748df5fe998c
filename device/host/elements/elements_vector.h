/* SPDX-License-Identifier: MIT */
/* GELU, dropout and bias gradients in vectors: the operations of gelu.c, dropout.c and bias.c.
 * Included after a vector header, once per form and working type. */
#include "core/ir/step.h"
#include "device/host/vector/element_vector.h"
#include "device/host/isa.h"
#include "device/host/vector/lanes.h"
#include "device/host/elements/mask_vector.h"

/* A stretch of elements that a range of tasks covers. */
typedef struct stretch {
    uint64_t first;
    uint64_t last;
} stretch;

static stretch megabatch_of(int64_t count, uint64_t first, uint64_t last)
{
    return (stretch){first * BP_RUN_ELEMENTS, bp_least((uint64_t)count, last * BP_RUN_ELEMENTS)};
}

static uint64_t gelu_forward_tasks(const void *scalars)
{
    const bp_gelu_forward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void gelu_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_gelu_forward_scalars *s = call->scalars;
    const bp_gelu_forward_pointers *p = call->pointers;
    const bp_element *x = p->x;
    bp_element *y = p->y;
    stretch at = megabatch_of(s->count, first, last);
    for (; at.first + BP_V <= at.last; at.first += BP_V) {
        bp_part whole = bp_part_whole();
        bp_v_put(y + at.first, bp_v_gelu(bp_v_get(x + at.first, whole)), whole);
    }
    bp_part rest = bp_part_first(at.last - at.first);
    bp_v_put(y + at.first, bp_v_gelu(bp_v_get(x + at.first, rest)), rest);
}

static uint64_t gelu_backward_tasks(const void *scalars)
{
    const bp_gelu_backward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static inline void gelu_backward_step(const bp_gelu_backward_pointers *p, uint64_t i, bp_part part)
{
    bp_v_ask((const bp_element *)p->x + i);
    bp_v_ask((const bp_element *)p->d_y + i);
    bp_v slope = bp_v_gelu_slope(bp_v_get((const bp_element *)p->x + i, part));
    bp_v d_y = bp_v_get((const bp_element *)p->d_y + i, part);
    bp_v_put((bp_element *)p->d_x + i, bp_v_mul(d_y, slope), part);
}

static void gelu_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_gelu_backward_scalars *s = call->scalars;
    stretch at = megabatch_of(s->count, first, last);
    for (; at.first + BP_V <= at.last; at.first += BP_V) {
        gelu_backward_step(call->pointers, at.first, bp_part_whole());
    }
    gelu_backward_step(call->pointers, at.first, bp_part_first(at.last - at.first));
}

static uint64_t dropout_tasks(const void *scalars)
{
    const bp_dropout_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static inline void dropout_step(const bp_dropout_pointers *p, uint64_t i, const float *factor,
                                bp_part part)
{
    bp_v x = bp_v_get((const bp_element *)p->x + i, part);
    bp_v kept = bp_v_load(factor, part);
    bp_v y = bp_v_mul(x, kept);
    if (p->residual != NULL) {
        y = bp_v_fma(x, kept, bp_v_get((const bp_element *)p->residual + i, part));
    }
    bp_v_put((bp_element *)p->y + i, y, part);
}

/* A block of masks never crosses into the next sample. */
static void dropout_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_dropout_scalars *s = call->scalars;
    const bp_dropout_pointers *p = call->pointers;
    uint64_t per_sample = (uint64_t)s->per_sample;
    stretch at = megabatch_of(s->count, first, last);
    while (at.first < at.last) {
        float factor[BP_MASK_RUN];
        const uint64_t place = (uint64_t)s->first + at.first, element = place % per_sample;
        uint64_t count = bp_least(bp_least(at.last - at.first, BP_MASK_RUN), per_sample - element);
        bp_mask mask = bp_mask_make(p->step, place / per_sample, s->site, s->dropout);
        bp_mask_row(&mask, element, count, factor);
        uint64_t i = 0;
        for (; i + BP_V <= count; i += BP_V) {
            dropout_step(p, at.first + i, factor + i, bp_part_whole());
        }
        dropout_step(p, at.first + i, factor + i, bp_part_first(count - i));
        at.first += count;
    }
}

static uint64_t bias_tasks(const void *scalars)
{
    const bp_bias_backward_scalars *s = scalars;
    return bp_cut(s->n, BP_COLUMNS);
}

/* What the columns' sums start from. */
static inline bp_v bias_start(const bp_host_call *call, uint64_t column, bp_part part)
{
    const bp_bias_backward_scalars *s = call->scalars;
    const bp_bias_backward_pointers *p = call->pointers;
    return s->accumulate != 0 ? bp_v_load_as(p->d_bias, column, bp_call_type(call, 0), part)
                              : bp_v_set(0.0f);
}

/* A vector of columns: rows are added in order. */
static inline void bias_columns(const bp_host_call *call, uint64_t column, bp_part part)
{
    const bp_bias_backward_scalars *s = call->scalars;
    const bp_bias_backward_pointers *p = call->pointers;
    uint64_t pitch = (uint64_t)s->pitch;
    const bp_element *d_y = (const bp_element *)p->d_y + column;
    bp_v sum = bias_start(call, column, part);
    for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
        sum = bp_v_add(sum, bp_v_get(d_y + row * pitch, part));
    }
    bp_v_store_as(p->d_bias, column, sum, bp_call_type(call, 0), part);
}

/* Four vectors of columns at once: a whole cache line run of every row. */
static inline void bias_slice(const bp_host_call *call, uint64_t column)
{
    const bp_bias_backward_scalars *s = call->scalars;
    const bp_bias_backward_pointers *p = call->pointers;
    uint64_t pitch = (uint64_t)s->pitch;
    const bp_element *d_y = (const bp_element *)p->d_y + column;
    const bp_part whole = bp_part_whole();
    bp_v sum[4];
    for (uint64_t i = 0; i < 4; i++) {
        sum[i] = bias_start(call, column + i * BP_V, whole);
    }
    for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
        for (int i = 0; i < 4; i++) {
            sum[i] = bp_v_add(sum[i], bp_v_get(d_y + row * pitch + i * BP_V, whole));
        }
    }
    for (uint64_t i = 0; i < 4; i++) {
        bp_v_store_as(p->d_bias, column + i * BP_V, sum[i], bp_call_type(call, 0), whole);
    }
}

static void bias_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_bias_backward_scalars *s = call->scalars;
    uint64_t column = first * BP_COLUMNS, end = bp_least((uint64_t)s->n, last * BP_COLUMNS);
    for (; column + BP_COLUMNS <= end; column += BP_COLUMNS) {
        bias_slice(call, column);
    }
    for (; column + BP_V <= end; column += BP_V) {
        bias_columns(call, column, bp_part_whole());
    }
    bias_columns(call, column, bp_part_first(end - column));
}

const bp_host_kernel BP_BUILT(BP_ISA(bp_gelu_forward)) = {gelu_forward_tasks, gelu_forward_run,
                                                          NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_gelu_backward)) = {gelu_backward_tasks, gelu_backward_run,
                                                           NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_dropout)) = {dropout_tasks, dropout_run, NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_bias_backward)) = {bias_tasks, bias_run, NULL};
