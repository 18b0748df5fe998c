/* SPDX-License-Identifier: MIT */
/* The loss against a label and a teacher, and what a teacher says; plain form. */
#include <string.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"
#include "device/host/rows/distill_rows.h"

#include "core/ops/distill.h" /* which calls functions of the above */

static float row_max(const bp_element *x, uint64_t count)
{
    float most = -INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        float value = bp_get(x, i);
        most = value > most ? value : most;
    }
    return most;
}

static void distill_sums(const bp_element *x, uint64_t count, float most, float inverse,
                         float sums[2])
{
    float lane[BP_LANES] = {0.0f}, warm[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < count; i++) {
        const float d = bp_get(x, i) - most;
        lane[i % BP_LANES] += bp_expf_inline(d);
        warm[i % BP_LANES] += bp_expf_inline(d * inverse);
    }
    sums[0] = bp_lanes_sum(lane);
    sums[1] = bp_lanes_sum(warm);
}

static void distill_slopes(bp_element *x, uint64_t count, const bp_distill_factors *row,
                           float inverse)
{
    for (uint64_t i = 0; i < count; i++) {
        const float d = bp_get(x, i) - row->most;
        bp_put(x, i, bp_expf_inline(d) * row->label + bp_expf_inline(d * inverse) * row->teacher);
    }
}

static const bp_distill_loops plain_loops = {row_max, distill_sums, distill_slopes};

/* What a teacher says of the row, and where its columns begin. */
typedef struct distill_said {
    const int32_t *tops;
    const float *logps;
    uint64_t k;
    uint64_t first;
    int32_t label;
} distill_said;

/* Whether a token is among `columns` columns, and which of them it is. */
static bool distill_column(const distill_said *said, int64_t token, uint64_t columns,
                           uint64_t *column)
{
    *column = (uint64_t)token - said->first; /* of none, -1, more than any */
    return *column < columns;
}

/* Columns of logits become their gradient; those of the label and of the teacher's tokens, which
 * are kept before, get it less what the targets take. */
static void distill_gradient(bp_element *x, uint64_t columns, const bp_distill_factors *row,
                             const bp_distill_slope *slope, const distill_said *said,
                             const bp_distill_loops *loops)
{
    float kept[BP_DISTILL_MOST], target = 0.0f;
    uint64_t column, own;
    const bp_distill_teacher teacher = bp_distill_read(said->logps, said->k, slope->inverse);
    const bool labelled = distill_column(said, said->label, columns, &own);
    if (labelled) {
        target = bp_get(x, own);
    }
    for (uint64_t j = 0; j < said->k; j++) {
        kept[j] = distill_column(said, said->tops[j], columns, &column) ? bp_get(x, column) : 0.0f;
    }
    loops->slopes(x, columns, row, slope->inverse);
    if (labelled) {
        const float d = target - row->most;
        bp_put(x, own,
               bp_expf(d) * row->label + bp_expf(d * slope->inverse) * row->teacher - slope->label);
    }
    for (uint64_t j = 0; j < said->k; j++) {
        if (!distill_column(said, said->tops[j], columns, &column)) {
            continue;
        }
        const float d = kept[j] - row->most;
        const float share = bp_distill_share(&teacher, said->logps[j], slope->inverse);
        const float peak = said->tops[j] == said->label ? slope->label : 0.0f;
        bp_put(x, column,
               bp_expf(d) * row->label + bp_expf(d * slope->inverse) * row->teacher - peak -
                   slope->teacher * share);
    }
}

/* The loss of a row, whose sums are at 1 and at the temperature. */
static float distill_loss(const bp_element *x, uint64_t vocabulary, float most, const float sums[2],
                          const bp_distill_slope *slope, const distill_said *said)
{
    const bp_distill_teacher teacher = bp_distill_read(said->logps, said->k, slope->inverse);
    const float log_sum = bp_logf(sums[1]);
    float kl = 0.0f;
    uint64_t column;
    for (uint64_t j = 0; j < said->k; j++) {
        if (distill_column(said, said->tops[j], vocabulary, &column)) {
            const float student = (bp_get(x, column) - most) * slope->inverse - log_sum;
            kl += bp_distill_term(&teacher, said->logps[j], slope->inverse, student);
        }
    }
    const float entropy = (most + bp_logf(sums[0])) - bp_get(x, (uint64_t)said->label);
    return slope->of_label * entropy + slope->of_teacher * kl;
}

static void distill_keep(void *statistics, uint64_t row, uint64_t stride,
                         const bp_distill_factors *kept)
{
    float *to = statistics;
    if (to != NULL) {
        to[row] = kept->most;
        to[stride + row] = kept->label;
        to[2 * stride + row] = kept->teacher;
    }
}

static distill_said distill_hear(const void *tops, const void *logps, const void *labels, int64_t k,
                                 uint64_t row)
{
    return (distill_said){.tops = (const int32_t *)tops + row * (uint64_t)k,
                          .logps = (const float *)logps + row * (uint64_t)k,
                          .k = (uint64_t)k,
                          .label = ((const int32_t *)labels)[row]};
}

/* A task is a row. */
void BP_BUILT(bp_distill_whole)(const bp_host_call *call, uint64_t first, uint64_t last,
                                const bp_distill_loops *loops)
{
    const bp_distill_scalars *s = call->scalars;
    const bp_distill_pointers *p = call->pointers;
    const bp_distill_slope slope = bp_distill_slope_of(
        bp_loss_weight(p->step, p->control, s->scaled), s->alpha, s->temperature);
    const uint64_t vocabulary = (uint64_t)s->vocabulary;
    for (uint64_t r = first; r < last; r++) {
        bp_element *x = (bp_element *)p->logits + r * (uint64_t)s->pitch;
        const distill_said said = distill_hear(p->tops, p->logps, p->labels, s->k, r);
        bp_distill_factors row = {0.0f, 0.0f, 0.0f};
        float loss = 0.0f, sums[2];
        if (said.label < 0) {
            memset(x, 0, vocabulary * sizeof(*x));
        } else {
            row.most = loops->most(x, vocabulary);
            loops->sums(x, vocabulary, row.most, slope.inverse, sums);
            loss = distill_loss(x, vocabulary, row.most, sums, &slope, &said);
            row.label = slope.label / sums[0];
            row.teacher = slope.teacher / sums[1];
            distill_gradient(x, vocabulary, &row, &slope, &said, loops);
        }
        ((float *)p->losses)[r] = loss;
        distill_keep(p->statistics, r, (uint64_t)s->stride, &row);
    }
}

void BP_BUILT(bp_distill_part)(const bp_host_call *call, uint64_t first, uint64_t last,
                               const bp_distill_loops *loops)
{
    const bp_distill_columns_scalars *s = call->scalars;
    const bp_distill_columns_pointers *p = call->pointers;
    const bp_distill_slope slope = bp_distill_slope_of(
        bp_loss_weight(p->step, p->control, s->scaled), s->alpha, s->temperature);
    const uint64_t columns = (uint64_t)s->columns, stride = (uint64_t)s->stride;
    const float *statistics = p->statistics;
    for (uint64_t r = first; r < last; r++) {
        bp_element *x = (bp_element *)p->logits + r * (uint64_t)s->pitch;
        distill_said said = distill_hear(p->tops, p->logps, p->labels, s->k, r);
        const bp_distill_factors row = {statistics[r], statistics[stride + r],
                                        statistics[2 * stride + r]};
        said.first = (uint64_t)s->first;
        if (said.label < 0) {
            memset(x, 0, columns * sizeof(*x));
        } else {
            distill_gradient(x, columns, &row, &slope, &said, loops);
        }
    }
}

static uint64_t top_logits_tasks(const void *scalars)
{
    const bp_top_logits_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* The k largest of a row, largest first and of equal ones the first; k is at most count. */
static void pick_top(const bp_element *x, uint64_t count, uint64_t k, int32_t *tops, float *values)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        const float value = bp_get(x, i);
        if (found == k && !(value > values[k - 1])) {
            continue;
        }
        uint64_t at = found < k ? found++ : k - 1;
        for (; at > 0 && value > values[at - 1]; at--) {
            tops[at] = tops[at - 1];
            values[at] = values[at - 1];
        }
        tops[at] = (int32_t)i;
        values[at] = value;
    }
}

/* A task is a row. */
static void top_logits_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_top_logits_scalars *s = call->scalars;
    const bp_top_logits_pointers *p = call->pointers;
    const uint64_t vocabulary = (uint64_t)s->vocabulary, k = (uint64_t)s->k;
    for (uint64_t row = first; row < last; row++) {
        const bp_element *x = (const bp_element *)p->logits + row * (uint64_t)s->pitch;
        int32_t *tops = (int32_t *)p->tops + row * k;
        float *logps = (float *)p->logps + row * k, lane[BP_LANES] = {0.0f};
        pick_top(x, vocabulary, k, tops, logps);
        const float most = logps[0];
        for (uint64_t i = 0; i < vocabulary; i++) {
            lane[i % BP_LANES] += bp_expf_inline(bp_get(x, i) - most);
        }
        const float log_sum = bp_logf(bp_lanes_sum(lane));
        for (uint64_t j = 0; j < k; j++) {
            logps[j] = (logps[j] - most) - log_sum;
        }
    }
}

BP_DISTILL_KERNELS(plain_loops, bp_host_distill, bp_host_distill_columns)
const bp_host_kernel BP_BUILT(bp_host_top_logits) = {top_logits_tasks, top_logits_run, NULL};
