/* SPDX-License-Identifier: MIT */
/* Layer normalisation and cross-entropy in vectors: the operations of layernorm.c and loss.c. A row
 * sum is one vector, whose lanes are the 16 lanes of lanes.h. Included after a vector header, once
 * per form and working type. */
#include <string.h>

#include "core/base/math.h"
#include "core/ir/step.h"
#include "device/host/vector/element_vector.h"
#include "device/host/isa.h"
#include "device/host/rows/distill_rows.h"
#include "device/host/rows/loss.h"
#include "device/host/rows/row_vector.h"

static inline bp_v add_step(const bp_element *x, bp_v sum, bp_part part)
{
    return bp_v_choose(part, bp_v_add(sum, bp_v_get(x, part)), sum);
}

static inline bp_v square_step(const bp_element *x, bp_v mean, bp_v sum, bp_part part)
{
    bp_v d = bp_v_sub(bp_v_get(x, part), mean);
    return bp_v_choose(part, bp_v_fma(d, d, sum), sum);
}

static float row_sum(const bp_element *x, uint64_t width)
{
    bp_v sum = bp_v_set(0.0f);
#define STEP(part) sum = add_step(x + i, sum, part);
    BP_FOR_VECTORS(i, width, STEP)
#undef STEP
    return bp_v_sum(sum);
}

static float row_squares(const bp_element *x, uint64_t width, float mean)
{
    bp_v sum = bp_v_set(0.0f), average = bp_v_set(mean);
#define STEP(part) sum = square_step(x + i, average, sum, part);
    BP_FOR_VECTORS(i, width, STEP)
#undef STEP
    return bp_v_sum(sum);
}

/* One row's operands and statistics. */
typedef struct norm_row {
    const bp_element *x;
    const bp_element *d_y;
    const bp_element *weight;
    const bp_element *bias;
    const bp_element *residual; /* or NULL */
    bp_element *out;
    bp_v mean;
    bp_v rstd;
    bp_v a;
    bp_v b;
} norm_row;

static inline bp_v normalised(const norm_row *row, uint64_t i, bp_part part)
{
    return bp_v_mul(bp_v_sub(bp_v_get(row->x + i, part), row->mean), row->rstd);
}

static inline void forward_step(const norm_row *row, uint64_t i, bp_part part)
{
    bp_v y = bp_v_fma(normalised(row, i, part), bp_v_get(row->weight + i, part),
                      bp_v_get(row->bias + i, part));
    bp_v_put(row->out + i, y, part);
}

static uint64_t layernorm_forward_tasks(const void *scalars)
{
    const bp_layernorm_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void layernorm_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)worker;
    const bp_layernorm_forward_scalars *s = call->scalars;
    const bp_layernorm_forward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const bp_element *x = (const bp_element *)p->x + r * width;
        float mean = row_sum(x, width) / (float)width;
        float variance = row_squares(x, width, mean) / (float)width;
        float rstd = 1.0f / sqrtf(variance + (float)s->epsilon);
        norm_row row = {.x = x,
                        .weight = p->weight,
                        .bias = p->bias,
                        .out = (bp_element *)p->y + r * width,
                        .mean = bp_v_set(mean),
                        .rstd = bp_v_set(rstd)};
#define STEP(part) forward_step(&row, i, part);
        BP_FOR_VECTORS(i, width, STEP)
#undef STEP
        if (p->mean != NULL) {
            ((float *)p->mean)[r] = mean;
        }
        if (p->rstd != NULL) {
            ((float *)p->rstd)[r] = rstd;
        }
    }
}

static uint64_t layernorm_input_tasks(const void *scalars)
{
    const bp_layernorm_backward_input_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static inline bp_v weighted(const norm_row *row, uint64_t i, bp_part part)
{
    return bp_v_mul(bp_v_get(row->d_y + i, part), bp_v_get(row->weight + i, part));
}

static inline void input_sums_step(norm_row *row, uint64_t i, bp_part part)
{
    bp_v g = weighted(row, i, part);
    row->a = bp_v_choose(part, bp_v_add(row->a, g), row->a);
    row->b = bp_v_choose(part, bp_v_fma(g, normalised(row, i, part), row->b), row->b);
}

static inline void input_step(const norm_row *row, uint64_t i, bp_part part)
{
    bp_v t = bp_v_sub(weighted(row, i, part), row->a);
    t = bp_v_fnma(normalised(row, i, part), row->b, t);
    if (row->residual != NULL) {
        t = bp_v_fma(row->rstd, t, bp_v_get(row->residual + i, part));
    } else {
        t = bp_v_mul(row->rstd, t);
    }
    bp_v_put(row->out + i, t, part);
}

static void layernorm_input_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    (void)worker;
    const bp_layernorm_backward_input_scalars *s = call->scalars;
    const bp_layernorm_backward_input_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        norm_row row = {.x = (const bp_element *)p->x + r * width,
                        .d_y = (const bp_element *)p->d_y + r * width,
                        .weight = p->weight,
                        .out = (bp_element *)p->d_x + r * width,
                        .mean = bp_v_set(((const float *)p->mean)[r]),
                        .rstd = bp_v_set(((const float *)p->rstd)[r]),
                        .a = bp_v_set(0.0f),
                        .b = bp_v_set(0.0f)};
        row.residual = p->residual != NULL ? (const bp_element *)p->residual + r * width : NULL;
        {
#define STEP(part) input_sums_step(&row, i, part);
            BP_FOR_VECTORS(i, width, STEP)
#undef STEP
        }
        row.a = bp_v_set(bp_v_sum(row.a) / (float)width);
        row.b = bp_v_set(bp_v_sum(row.b) / (float)width);
#define STEP(part) input_step(&row, i, part);
        BP_FOR_VECTORS(i, width, STEP)
#undef STEP
    }
}

static uint64_t layernorm_parameters_tasks(const void *scalars)
{
    const bp_layernorm_backward_parameters_scalars *s = scalars;
    return bp_cut(s->width, BP_COLUMNS);
}

#define SLICE     4 /* vectors of columns at once, where there are so many */
#define ROWS_NEXT 8 /* rows between asking for a slice's lines and adding them */

/* Vectors of columns: rows are added in order. */
static inline __attribute__((always_inline)) void
parameters_columns(const bp_host_call *call, uint64_t column, bp_part part, const int vectors)
{
    const bp_layernorm_backward_parameters_scalars *s = call->scalars;
    const bp_layernorm_backward_parameters_pointers *p = call->pointers;
    bp_dtype weight_type = bp_call_type(call, 0), bias_type = bp_call_type(call, 1);
    uint64_t width = (uint64_t)s->width;
    const bp_element *d_y = (const bp_element *)p->d_y + column;
    const bp_element *x = (const bp_element *)p->x + column;
    bp_v weight[SLICE], bias[SLICE];
    for (int i = 0; i < vectors; i++) {
        const uint64_t at = column + (uint64_t)i * BP_V;
        weight[i] = bias[i] = bp_v_set(0.0f);
        if (s->accumulate != 0) {
            weight[i] = bp_v_load_as(p->d_weight, at, weight_type, part);
            bias[i] = bp_v_load_as(p->d_bias, at, bias_type, part);
        }
    }
    for (uint64_t r = 0; r < (uint64_t)s->rows; r++, d_y += width, x += width) {
        bp_v mean = bp_v_set(((const float *)p->mean)[r]);
        bp_v rstd = bp_v_set(((const float *)p->rstd)[r]);
        for (int i = 0; i < vectors; i++) {
            bp_v g = bp_v_get(d_y + i * BP_V, part), of = bp_v_get(x + i * BP_V, part);
            __builtin_prefetch(d_y + ROWS_NEXT * width + i * BP_V);
            __builtin_prefetch(x + ROWS_NEXT * width + i * BP_V);
            weight[i] = bp_v_fma(g, bp_v_mul(bp_v_sub(of, mean), rstd), weight[i]);
            bias[i] = bp_v_add(bias[i], g);
        }
    }
    for (int i = 0; i < vectors; i++) {
        const uint64_t at = column + (uint64_t)i * BP_V;
        bp_v_store_as(p->d_weight, at, weight[i], weight_type, part);
        bp_v_store_as(p->d_bias, at, bias[i], bias_type, part);
    }
}

static void layernorm_parameters_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                     uint32_t worker)
{
    (void)worker;
    const bp_layernorm_backward_parameters_scalars *s = call->scalars;
    uint64_t column = first * BP_COLUMNS, end = bp_least((uint64_t)s->width, last * BP_COLUMNS);
    for (; column + SLICE * BP_V <= end; column += SLICE * BP_V) {
        parameters_columns(call, column, bp_part_whole(), SLICE);
    }
    for (; column + BP_V <= end; column += BP_V) {
        parameters_columns(call, column, bp_part_whole(), 1);
    }
    parameters_columns(call, column, bp_part_first(end - column), 1);
}

static inline bp_v max_step(const bp_element *x, bp_v most, bp_part part)
{
    return bp_v_choose(part, bp_v_max(bp_v_get(x, part), most), most);
}

static float row_max(const bp_element *x, uint64_t count)
{
    bp_v most = bp_v_set(-INFINITY);
#define STEP(part) most = max_step(x + i, most, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_most(most);
}

/* sum += e^(x - most). */
static inline bp_v exp_step(const bp_element *x, bp_v most, bp_v sum, bp_part part)
{
    return bp_v_choose(part, bp_v_add(sum, bp_v_exp(bp_v_sub(bp_v_get(x, part), most))), sum);
}

static float row_exp_sum(const bp_element *x, uint64_t count, float most)
{
    bp_v sum = bp_v_set(0.0f), top = bp_v_set(most);
#define STEP(part) sum = exp_step(x + i, top, sum, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_sum(sum);
}

/* The same; x becomes e^(x - most) where it can hold that exactly. */
static inline bp_v keep_step(bp_element *x, bp_v most, bp_v sum, bp_part part)
{
    bp_v e = bp_v_exp(bp_v_sub(bp_v_get(x, part), most));
    if (BP_ELEMENT_EXACT) {
        bp_v_put(x, e, part);
    }
    return bp_v_choose(part, bp_v_add(sum, e), sum);
}

/* x = e^(x - most) * factor + shift. */
static inline void softmax_step(bp_element *x, bp_v most, bp_v factor, bp_v shift, bp_part part)
{
    bp_v e = bp_v_exp(bp_v_sub(bp_v_get(x, part), most));
    bp_v_put(x, bp_v_add(bp_v_mul(e, factor), shift), part);
}

/* The same from what keep_step left. */
static inline void slope_step(bp_element *x, bp_v most, bp_v factor, bp_v shift, bp_part part)
{
    if (BP_ELEMENT_EXACT) {
        bp_v_put(x, bp_v_add(bp_v_mul(bp_v_get(x, part), factor), shift), part);
    } else {
        softmax_step(x, most, factor, shift, part);
    }
}

/* What smoothing adds to a row's loss. */
static float row_smoothing(const bp_element *x, uint64_t count, uint64_t label, double smoothing)
{
    return (float)smoothing * (bp_get(x, label) - row_sum(x, count) / (float)count);
}

/* A row of logits becomes its gradient; kept gets the largest logit and the factor of the
 * exponentials. Returns the loss. */
static float row_gradient(bp_element *x, uint64_t vocabulary, uint64_t label,
                          const bp_loss_slope *slope, float kept[2])
{
    float target = bp_get(x, label), most = row_max(x, vocabulary);
    bp_v sums = bp_v_set(0.0f), top = bp_v_set(most);
    {
#define STEP(part) sums = keep_step(x + i, top, sums, part);
        BP_FOR_VECTORS(i, vocabulary, STEP)
#undef STEP
    }
    float sum = bp_v_sum(sums), scale = slope->weight / sum;
    bp_v factor = bp_v_set(scale), shift = bp_v_set(slope->shift);
#define STEP(part) slope_step(x + i, top, factor, shift, part);
    BP_FOR_VECTORS(i, vocabulary, STEP)
#undef STEP
    bp_put(x, label, (bp_expf_inline(target - most) * scale + slope->shift) - slope->peak);
    kept[0] = most;
    kept[1] = scale;
    return (most + bp_logf(sum)) - target;
}

static uint64_t cross_entropy_tasks(const void *scalars)
{
    const bp_cross_entropy_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void cross_entropy_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_scalars *s = call->scalars;
    const bp_cross_entropy_pointers *p = call->pointers;
    const bp_loss_slope slope = bp_loss_slope_of(bp_loss_weight(p->step, p->control, s->scaled),
                                                 s->smoothing, s->vocabulary);
    uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        float kept[2] = {0.0f, 0.0f};
        if (label < 0) {
            *loss = 0.0f;
            memset(x, 0, vocabulary * sizeof(*x));
        } else {
            const float more = s->smoothing > 0.0
                                   ? row_smoothing(x, vocabulary, (uint64_t)label, s->smoothing)
                                   : 0.0f;
            *loss = row_gradient(x, vocabulary, (uint64_t)label, &slope, kept) + more;
        }
        bp_loss_keep(p->statistics, row, (uint64_t)s->stride, kept[0], kept[1]);
    }
}

static uint64_t cross_entropy_columns_tasks(const void *scalars)
{
    const bp_cross_entropy_columns_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void cross_entropy_columns_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                      uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_columns_scalars *s = call->scalars;
    const bp_cross_entropy_columns_pointers *p = call->pointers;
    const bp_loss_slope slope = bp_loss_slope_of(bp_loss_weight(p->step, p->control, s->scaled),
                                                 s->smoothing, s->vocabulary);
    uint64_t columns = (uint64_t)s->columns;
    const float *statistics = p->statistics;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->logits + row * (uint64_t)s->pitch;
        int32_t label = ((const int32_t *)p->labels)[row];
        uint64_t place = (uint64_t)label - (uint64_t)s->first;
        if (label < 0) {
            memset(x, 0, columns * sizeof(*x));
            continue;
        }
        float most = statistics[row], scale = statistics[(uint64_t)s->stride + row];
        float target = place < columns ? bp_get(x, place) : 0.0f;
        bp_v top = bp_v_set(most), factor = bp_v_set(scale), shift = bp_v_set(slope.shift);
#define STEP(part) softmax_step(x + i, top, factor, shift, part);
        BP_FOR_VECTORS(i, columns, STEP)
#undef STEP
        if (place < columns) {
            bp_put(x, place, (bp_expf_inline(target - most) * scale + slope.shift) - slope.peak);
        }
    }
}

static uint64_t cross_entropy_forward_tasks(const void *scalars)
{
    const bp_cross_entropy_forward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void cross_entropy_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                      uint32_t worker)
{
    (void)worker;
    const bp_cross_entropy_forward_scalars *s = call->scalars;
    const bp_cross_entropy_forward_pointers *p = call->pointers;
    uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *x = (const bp_element *)p->logits + row * (uint64_t)s->pitch;
        float *loss = (float *)p->losses + row;
        int32_t label = ((const int32_t *)p->labels)[row];
        if (label < 0) {
            *loss = 0.0f;
            continue;
        }
        float most = row_max(x, vocabulary);
        float sum = row_exp_sum(x, vocabulary, most);
        const float more =
            s->smoothing > 0.0 ? row_smoothing(x, vocabulary, (uint64_t)label, s->smoothing) : 0.0f;
        *loss = (most + bp_logf(sum)) - bp_get(x, (uint64_t)label) + more;
    }
}

/* The same sum, and warm += e^((x - most) inverse). */
static inline bp_v warm_step(const bp_element *x, bp_v most, bp_v inverse, bp_v warm, bp_part part)
{
    bp_v d = bp_v_mul(bp_v_sub(bp_v_get(x, part), most), inverse);
    return bp_v_choose(part, bp_v_add(warm, bp_v_exp(d)), warm);
}

static void distill_sums(const bp_element *x, uint64_t count, float most, float inverse,
                         float sums[2])
{
    bp_v sum = bp_v_set(0.0f), warm = sum, top = bp_v_set(most), by = bp_v_set(inverse);
#define STEP(part)                                                                                 \
    sum = exp_step(x + i, top, sum, part);                                                         \
    warm = warm_step(x + i, top, by, warm, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    sums[0] = bp_v_sum(sum);
    sums[1] = bp_v_sum(warm);
}

/* The row's numbers, in every lane. */
typedef struct distill_virtual_ranks {
    bp_v most, inverse, label, teacher;
} distill_virtual_ranks;

static inline void distill_step(bp_element *x, const distill_virtual_ranks *row, bp_part part)
{
    bp_v d = bp_v_sub(bp_v_get(x, part), row->most);
    bp_v label = bp_v_mul(bp_v_exp(d), row->label);
    bp_v teacher = bp_v_mul(bp_v_exp(bp_v_mul(d, row->inverse)), row->teacher);
    bp_v_put(x, bp_v_add(label, teacher), part);
}

static void distill_slopes(bp_element *x, uint64_t count, const bp_distill_factors *row,
                           float inverse)
{
    const distill_virtual_ranks lanes = {bp_v_set(row->most), bp_v_set(inverse),
                                         bp_v_set(row->label), bp_v_set(row->teacher)};
#define STEP(part) distill_step(x + i, &lanes, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
}

const bp_host_kernel BP_BUILT(BP_ISA(bp_layernorm_forward)) = {layernorm_forward_tasks,
                                                               layernorm_forward_run, NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_layernorm_backward_input)) = {layernorm_input_tasks,
                                                                      layernorm_input_run, NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_layernorm_backward_parameters)) = {
    layernorm_parameters_tasks, layernorm_parameters_run, NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_cross_entropy)) = {cross_entropy_tasks, cross_entropy_run,
                                                           NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_cross_entropy_columns)) = {cross_entropy_columns_tasks,
                                                                   cross_entropy_columns_run, NULL};
const bp_host_kernel BP_BUILT(BP_ISA(bp_cross_entropy_forward)) = {cross_entropy_forward_tasks,
                                                                   cross_entropy_forward_run, NULL};

static const bp_distill_loops distill_loops = {row_max, distill_sums, distill_slopes};
BP_DISTILL_KERNELS(distill_loops, BP_ISA(bp_distill), BP_ISA(bp_distill_columns))
