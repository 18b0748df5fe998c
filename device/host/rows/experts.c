/* SPDX-License-Identifier: MIT */
/* Experts: the router's choice, and rows to and from their order. Their products are in
 * matmul/matmul_experts.c. */
#include <string.h>

#include "core/base/math_inline.h"
#include "core/ir/step.h"
#include "device/host/rows/route_order.h"
#include "device/host/vector/element.h"

/* The router. */

/* Whether expert a comes before b: by its logit, what is no number last, then by its number. */
static bool comes_before(const bp_element *logits, uint64_t a, uint64_t b)
{
    const float x = bp_get(logits, a), y = bp_get(logits, b);
    const bool number_x = x == x, number_y = y == y;
    if (number_x != number_y) {
        return number_x;
    }
    return x > y || (!(y > x) && a < b);
}

/* The first in that order of all that come after `last`; experts: of all. */
static uint64_t next_choice(const bp_element *logits, uint64_t experts, uint64_t last)
{
    uint64_t best = experts;
    for (uint64_t e = 0; e < experts; e++) {
        const bool after = last == experts || comes_before(logits, last, e);
        best = after && (best == experts || comes_before(logits, e, best)) ? e : best;
    }
    return best;
}

/* What a row's softmax divides by. */
typedef struct row_softmax {
    float most;
    double sum;
} row_softmax;

static row_softmax softmax_of(const bp_element *logits, uint64_t experts)
{
    row_softmax row = {-INFINITY, 0.0};
    for (uint64_t e = 0; e < experts; e++) {
        const float x = bp_get(logits, e);
        row.most = x > row.most ? x : row.most;
    }
    for (uint64_t e = 0; e < experts; e++) {
        row.sum += (double)bp_expf_inline(bp_get(logits, e) - row.most);
    }
    return row;
}

static float share_of(const row_softmax *row, const bp_element *logits, uint64_t expert)
{
    return (float)((double)bp_expf_inline(bp_get(logits, expert) - row->most) / row->sum);
}

static uint64_t route_choose_tasks(const void *scalars)
{
    const bp_route_choose_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void route_choose_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    (void)worker;
    const bp_route_choose_scalars *s = call->scalars;
    const bp_route_choose_pointers *p = call->pointers;
    const uint64_t experts = (uint64_t)s->experts, top = (uint64_t)s->top;
    for (uint64_t t = first; t < last; t++) {
        const bp_element *logits = (const bp_element *)p->logits + t * experts;
        int32_t *choice = (int32_t *)p->choice + t * top;
        float *weights = (float *)p->weights + t * top, sum = 0.0f;
        const row_softmax row = softmax_of(logits, experts);
        uint64_t at = experts;
        for (uint64_t j = 0; j < top; j++) {
            at = next_choice(logits, experts, at);
            choice[j] = (int32_t)at;
            weights[j] = share_of(&row, logits, at);
            sum += weights[j];
        }
        for (uint64_t j = 0; s->renormalise != 0 && j < top; j++) {
            weights[j] /= sum;
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_choose) = {route_choose_tasks, route_choose_run, NULL};

static uint64_t route_backward_tasks(const void *scalars)
{
    const bp_route_backward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* One token's. */
typedef struct route_row {
    const bp_element *logits;
    const int32_t *choice;
    const float *weights;
    const float *d_weights;
    bp_element *d_logits;
    uint64_t experts;
    uint64_t top;
} route_row;

/* The part of the other experts cancels: the renormalised shares are a softmax of those chosen. */
static void backward_renormalised(const route_row *r)
{
    double mean = 0.0;
    for (uint64_t j = 0; j < r->top; j++) {
        mean += (double)r->weights[j] * (double)r->d_weights[j];
    }
    for (uint64_t e = 0; e < r->experts; e++) {
        bp_put(r->d_logits, e, 0.0f);
    }
    for (uint64_t j = 0; j < r->top; j++) {
        const double d = (double)r->weights[j] * ((double)r->d_weights[j] - mean);
        bp_put(r->d_logits, (uint64_t)r->choice[j], (float)d);
    }
}

static void backward_plain(const route_row *r)
{
    const row_softmax row = softmax_of(r->logits, r->experts);
    double mean = 0.0;
    for (uint64_t j = 0; j < r->top; j++) {
        mean += (double)r->weights[j] * (double)r->d_weights[j];
    }
    for (uint64_t e = 0; e < r->experts; e++) {
        double d = 0.0;
        for (uint64_t j = 0; j < r->top; j++) {
            d = (uint64_t)r->choice[j] == e ? (double)r->d_weights[j] : d;
        }
        bp_put(r->d_logits, e, (float)((double)share_of(&row, r->logits, e) * (d - mean)));
    }
}

static void route_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_route_backward_scalars *s = call->scalars;
    const bp_route_backward_pointers *p = call->pointers;
    const uint64_t experts = (uint64_t)s->experts, top = (uint64_t)s->top;
    for (uint64_t t = first; t < last; t++) {
        const route_row row = {.logits = (const bp_element *)p->logits + t * experts,
                               .choice = (const int32_t *)p->choice + t * top,
                               .weights = (const float *)p->weights + t * top,
                               .d_weights = (const float *)p->d_weights + t * top,
                               .d_logits = (bp_element *)p->d_logits + t * experts,
                               .experts = experts,
                               .top = top};
        if (s->renormalise != 0) {
            backward_renormalised(&row);
        } else {
            backward_plain(&row);
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_backward) = {route_backward_tasks, route_backward_run,
                                                         NULL};

/* Routers of sigmoids. */

static float sigmoid_of(const bp_element *x, uint64_t at)
{
    return 1.0f / (1.0f + bp_expf_inline(-bp_get(x, at)));
}

/* A token's experts, each in a group. */
typedef struct scored_row {
    const bp_element *logits;
    const float *correction;
    uint64_t experts;
    uint64_t each;   /* of a group */
    uint64_t groups; /* those that may be chosen from, a bit each */
} scored_row;

static float score_of(const scored_row *r, uint64_t expert)
{
    return sigmoid_of(r->logits, expert) + r->correction[expert];
}

/* Whether x, of number a, comes before y, of number b; what is no number comes last. */
static bool score_before(float x, uint64_t a, float y, uint64_t b)
{
    const bool number_x = x == x, number_y = y == y;
    if (number_x != number_y) {
        return number_x;
    }
    return x > y || (!(y > x) && a < b);
}

/* The sum of a group's two largest scores. */
static float group_score(const scored_row *r, uint64_t group)
{
    float best[2] = {-INFINITY, -INFINITY};
    bool number = true;
    for (uint64_t e = group * r->each; e < (group + 1) * r->each; e++) {
        const float score = score_of(r, e);
        number = number && score == score;
        if (score > best[0]) {
            best[1] = best[0];
            best[0] = score;
        } else if (score > best[1]) {
            best[1] = score;
        }
    }
    return !number ? NAN : r->each > 1 ? best[0] + best[1] : best[0];
}

/* The first `kept` groups. */
static uint64_t groups_of(const scored_row *r, uint64_t groups, uint64_t kept)
{
    float scores[64];
    uint64_t chosen = 0;
    for (uint64_t g = 0; g < groups; g++) {
        scores[g] = group_score(r, g);
    }
    for (uint64_t k = 0; k < kept; k++) {
        uint64_t best = groups;
        for (uint64_t g = 0; g < groups; g++) {
            const bool free = (chosen >> g & 1) == 0;
            best = free && (best == groups || score_before(scores[g], g, scores[best], best))
                       ? g
                       : best;
        }
        chosen |= UINT64_C(1) << best;
    }
    return chosen;
}

/* The first of its groups that comes after `last`; experts: of all. */
static uint64_t next_scored(const scored_row *r, uint64_t last)
{
    const float before = last < r->experts ? score_of(r, last) : 0.0f;
    uint64_t best = r->experts;
    float most = 0.0f;
    for (uint64_t e = 0; e < r->experts; e++) {
        if ((r->groups >> e / r->each & 1) == 0) {
            continue;
        }
        const float score = score_of(r, e);
        const bool after = last == r->experts || score_before(before, last, score, e);
        if (after && (best == r->experts || score_before(score, e, most, best))) {
            best = e;
            most = score;
        }
    }
    return best;
}

static uint64_t scored_tasks(const void *scalars)
{
    const bp_route_choose_scored_scalars *s = scalars; /* both rows begin alike */
    return (uint64_t)s->rows;
}

static void route_choose_scored_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                    uint32_t worker)
{
    (void)worker;
    const bp_route_choose_scored_scalars *s = call->scalars;
    const bp_route_choose_scored_pointers *p = call->pointers;
    const uint64_t experts = (uint64_t)s->experts, top = (uint64_t)s->top;
    for (uint64_t t = first; t < last; t++) {
        scored_row row = {.logits = (const bp_element *)p->logits + t * experts,
                          .correction = p->correction,
                          .experts = experts,
                          .each = experts / (uint64_t)s->groups};
        int32_t *choice = (int32_t *)p->choice + t * top;
        float *weights = (float *)p->weights + t * top, sum = 0.0f;
        uint64_t at = experts;
        row.groups = groups_of(&row, (uint64_t)s->groups, (uint64_t)s->kept);
        for (uint64_t j = 0; j < top; j++) {
            at = next_scored(&row, at);
            choice[j] = (int32_t)at;
            weights[j] = sigmoid_of(row.logits, at);
            sum += weights[j];
        }
        const float by = s->renormalise != 0 ? sum + 1e-20f : 1.0f;
        for (uint64_t j = 0; j < top; j++) {
            weights[j] = weights[j] / by * (float)s->scale;
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_choose_scored) = {scored_tasks, route_choose_scored_run,
                                                              NULL};

static void route_scored_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                      uint32_t worker)
{
    (void)worker;
    const bp_route_scored_backward_scalars *s = call->scalars;
    const bp_route_scored_backward_pointers *p = call->pointers;
    const uint64_t experts = (uint64_t)s->experts, top = (uint64_t)s->top;
    for (uint64_t t = first; t < last; t++) {
        const bp_element *logits = (const bp_element *)p->logits + t * experts;
        const int32_t *choice = (const int32_t *)p->choice + t * top;
        const float *d_weights = (const float *)p->d_weights + t * top;
        bp_element *d_logits = (bp_element *)p->d_logits + t * experts;
        double sum = 0.0, mean = 0.0;
        for (uint64_t j = 0; j < top; j++) {
            const double share = (double)sigmoid_of(logits, (uint64_t)choice[j]);
            sum += share;
            mean += share * (double)d_weights[j];
        }
        sum = s->renormalise != 0 ? sum + 1e-20 : 1.0;
        mean = s->renormalise != 0 ? mean / sum : 0.0;
        for (uint64_t e = 0; e < experts; e++) {
            bp_put(d_logits, e, 0.0f);
        }
        for (uint64_t j = 0; j < top; j++) {
            const double share = (double)sigmoid_of(logits, (uint64_t)choice[j]);
            const double d = s->scale * ((double)d_weights[j] - mean) / sum;
            bp_put(d_logits, (uint64_t)choice[j], (float)(d * share * (1.0 - share)));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_scored_backward) = {scored_tasks,
                                                                route_scored_backward_run, NULL};

/* The balancing loss. */

/* Tokens of a sample that count. */
static uint64_t counted_of(const int32_t *lengths, uint64_t sample, uint64_t each)
{
    const uint64_t length =
        lengths == NULL || lengths[sample] < 0 ? each : (uint64_t)lengths[sample];
    return bp_least(length, each);
}

/* Experts first .. last - 1. */
static void balance_part(const bp_route_balance_scalars *s, const bp_route_balance_pointers *p,
                         const row_softmax *row, uint64_t t, double sums[2][BP_COLUMNS],
                         uint64_t first, uint64_t last)
{
    const uint64_t top = (uint64_t)s->top;
    const bp_element *logits = (const bp_element *)p->logits + t * (uint64_t)s->experts;
    const int32_t *choice = (const int32_t *)p->choice + t * top;
    for (uint64_t e = first; e < last; e++) {
        sums[1][e - first] += (double)share_of(row, logits, e);
    }
    for (uint64_t j = 0; j < top; j++) {
        const uint64_t e = (uint64_t)choice[j];
        if (e >= first && e < last) {
            sums[0][e - first] += 1.0;
        }
    }
}

/* A task is BP_COLUMNS experts. */
static uint64_t route_balance_tasks(const void *scalars)
{
    const bp_route_balance_scalars *s = scalars;
    return bp_size_ceil_div((uint64_t)s->experts, BP_COLUMNS);
}

static void route_balance_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_route_balance_scalars *s = call->scalars;
    const bp_route_balance_pointers *p = call->pointers;
    const uint64_t experts = (uint64_t)s->experts, each = (uint64_t)(s->rows / s->samples);
    for (uint64_t task = first; task < last; task++) {
        const uint64_t from = task * BP_COLUMNS, count = bp_least(experts - from, BP_COLUMNS);
        double sums[2][BP_COLUMNS] = {{0.0}};
        for (uint64_t t = 0; t < (uint64_t)s->rows; t++) {
            if (t % each < counted_of(p->lengths, t / each, each)) {
                const row_softmax row =
                    softmax_of((const bp_element *)p->logits + t * experts, experts);
                balance_part(s, p, &row, t, sums, from, from + count);
            }
        }
        for (uint64_t i = 0; i < count; i++) {
            ((float *)p->sums)[from + i] = (float)sums[0][i];
            ((float *)p->sums)[experts + from + i] = (float)sums[1][i];
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_balance) = {route_balance_tasks, route_balance_run,
                                                        NULL};

static uint64_t balance_backward_tasks(const void *scalars)
{
    const bp_route_balance_backward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

static void balance_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                 uint32_t worker)
{
    (void)worker;
    const bp_route_balance_backward_scalars *s = call->scalars;
    const bp_route_balance_backward_pointers *p = call->pointers;
    const bp_control_block *control = p->control;
    const float *slopes = p->slopes;
    const uint64_t experts = (uint64_t)s->experts, each = (uint64_t)(s->rows / s->samples);
    const double weight = s->scaled != 0 ? (double)control->scale : 1.0;
    for (uint64_t t = first; t < last; t++) {
        if (t % each >= counted_of(p->lengths, t / each, each)) {
            continue;
        }
        const bp_element *logits = (const bp_element *)p->logits + t * experts;
        bp_element *d_logits = (bp_element *)p->d_logits + t * experts;
        const row_softmax row = softmax_of(logits, experts);
        double mean = 0.0;
        for (uint64_t e = 0; e < experts; e++) {
            mean += (double)slopes[e] * (double)share_of(&row, logits, e);
        }
        for (uint64_t e = 0; e < experts; e++) {
            const double d = (double)share_of(&row, logits, e) * ((double)slopes[e] - mean);
            bp_put(d_logits, e, bp_get(d_logits, e) + (float)(weight * d));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_route_balance_backward) = {balance_backward_tasks,
                                                                 balance_backward_run, NULL};

/* Rows to their experts, and back. */

static uint64_t expert_rows_tasks(const void *scalars)
{
    const bp_expert_rows_scalars *s = scalars;
    return (uint64_t)s->rows * (uint64_t)s->top;
}

static void expert_rows_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_expert_rows_scalars *s = call->scalars;
    const bp_expert_rows_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const uint64_t token = (uint64_t)route.choices[r] / (uint64_t)s->top;
        memcpy((bp_element *)p->y + r * width, (const bp_element *)p->x + token * width,
               width * sizeof(bp_element));
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_rows) = {expert_rows_tasks, expert_rows_run, NULL};

static uint64_t expert_combine_tasks(const void *scalars)
{
    const bp_expert_combine_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* Elements first .. first + count - 1 of token t. */
static void combine_part(const bp_expert_combine_pointers *p, const bp_expert_combine_scalars *s,
                         uint64_t t, uint64_t first, uint64_t count)
{
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width, top = (uint64_t)s->top, at = t * width + first;
    float sum[BP_COLUMNS] = {0.0f};
    for (uint64_t j = 0; j < top; j++) {
        const uint64_t row = (uint64_t)route.rows[t * top + j];
        const bp_element *x = (const bp_element *)p->x + row * width + first;
        const float weight = p->weights != NULL ? ((const float *)p->weights)[t * top + j] : 1.0f;
        for (uint64_t i = 0; i < count; i++) {
            sum[i] = fmaf(weight, bp_get(x, i), sum[i]);
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        const float before = p->residual != NULL ? bp_get(p->residual, at + i) : 0.0f;
        bp_put((bp_element *)p->y, at + i, p->residual != NULL ? sum[i] + before : sum[i]);
    }
}

static void expert_combine_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_expert_combine_scalars *s = call->scalars;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t t = first; t < last; t++) {
        for (uint64_t i = 0; i < width; i += BP_COLUMNS) {
            combine_part(call->pointers, s, t, i, bp_least(width - i, BP_COLUMNS));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_combine) = {expert_combine_tasks, expert_combine_run,
                                                         NULL};

/* Of the weights. */

static uint64_t expert_weights_tasks(const void *scalars)
{
    const bp_expert_weights_backward_scalars *s = scalars;
    return (uint64_t)s->rows * (uint64_t)s->top;
}

static float row_product(const bp_element *x, const bp_element *g, uint64_t width)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i++) {
        lane[i % BP_LANES] = fmaf(bp_get(x, i), bp_get(g, i), lane[i % BP_LANES]);
    }
    return bp_lanes_sum(lane);
}

static void expert_weights_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_expert_weights_backward_scalars *s = call->scalars;
    const bp_expert_weights_backward_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const uint64_t choice = (uint64_t)route.choices[r];
        const float weight = ((const float *)p->weights)[choice];
        const bp_element *x = (const bp_element *)p->x + r * width;
        bp_element *g = (bp_element *)p->g + r * width;
        ((float *)p->d_weights)[choice] = row_product(x, g, width);
        for (uint64_t i = 0; i < width; i++) {
            bp_put(g, i, weight * bp_get(g, i));
        }
        for (uint64_t i = 0; p->scaled != NULL && i < width; i++) {
            bp_put((bp_element *)p->scaled + r * width, i, weight * bp_get(x, i));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_expert_weights_backward) = {expert_weights_tasks,
                                                                  expert_weights_run, NULL};

/* Gates of rows. */

static uint64_t row_gate_tasks(const void *scalars)
{
    const bp_row_gate_scalars *s = scalars; /* both rows have the same */
    return (uint64_t)s->rows;
}

static void row_gate_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_row_gate_scalars *s = call->scalars;
    const bp_row_gate_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const float gate = sigmoid_of(p->gate, r);
        for (uint64_t i = r * width; i < (r + 1) * width; i++) {
            bp_put((bp_element *)p->y, i, gate * bp_get(p->x, i));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_row_gate) = {row_gate_tasks, row_gate_run, NULL};

static void row_gate_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)worker;
    const bp_row_gate_backward_scalars *s = call->scalars;
    const bp_row_gate_backward_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const float gate = sigmoid_of(p->gate, r);
        const bp_element *x = (const bp_element *)p->x + r * width;
        const bp_element *d_y = (const bp_element *)p->d_y + r * width;
        bp_put((bp_element *)p->d_gate, r, gate * (1.0f - gate) * row_product(x, d_y, width));
        for (uint64_t i = 0; i < width; i++) {
            bp_put((bp_element *)p->d_x + r * width, i, gate * bp_get(d_y, i));
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_row_gate_backward) = {row_gate_tasks, row_gate_backward_run,
                                                            NULL};
