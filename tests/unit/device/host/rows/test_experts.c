/* SPDX-License-Identifier: MIT */
/* The rows of mixtures of experts against plain loops in double, on every form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "core/ops/quantised.h"
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"

#define SEEDS           25
#define AT(c, row, arg) kernel_case_at((c), 0, OPERAND(row, arg))
#define MOST_EXPERTS    64

static void near(double got, double want, double scale)
{
    assert_true(fabs(got - want) <= 1e-5 * scale + 1e-6);
}

/* Where a case's choices go. */
typedef struct where {
    const int32_t *begins;
    const int32_t *choices;
    const int32_t *rows;
} where;

static where where_of(const void *order, const kernel_case *c)
{
    const bp_route_choose_scalars *s = (const void *)c->scalars; /* all rows begin alike */
    const int32_t *begins = order, *choices = begins + s->experts + 1;
    return (where){begins, choices, choices + s->rows * s->top};
}

static int64_t expert_of(const where *w, int64_t row)
{
    int64_t e = 0;
    while (w->begins[e + 1] <= row) {
        e++;
    }
    return e;
}

/* Shares of a token in double; infinite and absent numbers are for other tests. */
static void shares_of(const float *logits, int64_t experts, double shares[MOST_EXPERTS])
{
    double most = (double)logits[0], sum = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        most = fmax(most, (double)logits[e]);
    }
    for (int64_t e = 0; e < experts; e++) {
        shares[e] = exp((double)logits[e] - most);
        sum += shares[e];
    }
    for (int64_t e = 0; e < experts; e++) {
        shares[e] /= sum;
    }
}

static void the_largest_are_chosen_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_route_choose, seed);
        const bp_route_choose_scalars *s = (const void *)c.scalars;
        float *all = AT(&c, route_choose, logits);
        all[s->experts / 2] = all[0]; /* of equal ones the first comes first */
        kernel_case_run(&c, on);
        for (int64_t t = 0; t < s->rows; t++) {
            const float *logits = all + t * s->experts;
            const int32_t *choice = (int32_t *)AT(&c, route_choose, choice) + t * s->top;
            const float *weights = (float *)AT(&c, route_choose, weights) + t * s->top;
            double shares[MOST_EXPERTS], sum = 0.0;
            shares_of(logits, s->experts, shares);
            for (int64_t j = 0; j < s->top; j++) {
                int64_t before = 0;
                for (int64_t e = 0; e < s->experts; e++) {
                    const float x = logits[e], y = logits[choice[j]];
                    before += x > y || (!(x < y) && e < choice[j]) ? 1 : 0;
                }
                assert_int_equal(before, j);
                sum += shares[choice[j]];
            }
            for (int64_t j = 0; j < s->top; j++) {
                near((double)weights[j], shares[choice[j]] / (s->renormalise != 0 ? sum : 1.0),
                     1.0);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(the_largest_are_chosen)

/* Logits that are no numbers, or infinite, choose `top` different experts all the same. */
static void any_logits_choose_on(kernel_device *on)
{
    const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f};
    const bp_route_choose_scalars s = {.rows = 4 * 4 * 4 * 4, .top = 3, .experts = 4};
    kernel_case c;
    kernel_shaped_case(&c, on->device, BP_KERNEL_route_choose, &s, 0, 1);
    float *logits = AT(&c, route_choose, logits);
    for (int64_t i = 0; i < s.rows * 4; i++) {
        logits[i] = odd[i / 4 >> 2 * (i % 4) & 3];
    }
    kernel_case_run(&c, on);
    const int32_t *choice = AT(&c, route_choose, choice);
    const float *weights = AT(&c, route_choose, weights);
    for (int64_t t = 0; t < s.rows; t++) {
        uint32_t seen = 0;
        bool number = true;
        for (int64_t e = 0; e < 4; e++) {
            number = number && !isnan(logits[t * 4 + e]);
        }
        for (int64_t j = 0; j < 3; j++) {
            assert_in_range(choice[t * 3 + j], 0, 3);
            seen |= 1u << choice[t * 3 + j];
            assert_true(number || isnan(weights[t * 3 + j]));
        }
        assert_true(seen == 7 || seen == 11 || seen == 13 || seen == 14);
        assert_true(!isnan(logits[t * 4 + choice[t * 3]]) || !number);
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(any_logits_choose)

static void shares_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_route_backward, seed);
        const bp_route_backward_scalars *s = (const void *)c.scalars;
        float *weights = AT(&c, route_backward, weights);
        const float *all = AT(&c, route_backward, logits), *d = AT(&c, route_backward, d_weights);
        const int32_t *choice = AT(&c, route_backward, choice);
        double shares[MOST_EXPERTS];
        for (int64_t i = 0; i < s->rows * s->top; i++) {
            double sum = 0.0;
            shares_of(all + i / s->top * s->experts, s->experts, shares);
            for (int64_t j = i - i % s->top; j < i - i % s->top + s->top; j++) {
                sum += shares[choice[j]];
            }
            weights[i] = (float)(shares[choice[i]] / (s->renormalise != 0 ? sum : 1.0));
        }
        kernel_case_run(&c, on);
        const float *got = AT(&c, route_backward, d_logits);
        for (int64_t i = 0; i < s->rows * s->experts; i++) {
            const int64_t t = i / s->experts, e = i % s->experts, first = t * s->top;
            double chosen = 0.0, want = 0.0;
            shares_of(all + t * s->experts, s->experts, shares);
            for (int64_t j = first; j < first + s->top; j++) {
                chosen += shares[choice[j]];
            }
            for (int64_t j = first; j < first + s->top; j++) { /* d weight_j / d logit_e, summed */
                double slope = shares[choice[j]] * ((choice[j] == e ? 1.0 : 0.0) - shares[e]);
                for (int64_t k = first; s->renormalise != 0 && k < first + s->top; k++) {
                    const double other = shares[choice[k]];
                    slope -= shares[choice[j]] / chosen * other *
                             ((choice[k] == e ? 1.0 : 0.0) - shares[e]);
                }
                want += (double)d[j] * slope / (s->renormalise != 0 ? chosen : 1.0);
            }
            near((double)got[i], want, 4.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(shares_have_their_derivative)

/* Two routers of three tokens with four experts, of which two are chosen: transformers' loss, in
 * double, and what it adds to the first token's gradient. */
static const float balance_logits[2][12] = {{1, .5f, 0, -1, .1f, 2, 0, -.1f, .2f, 0, .1f, 3},
                                            {0, 1, 2, 3, 3, 2, 1, 0, .3f, .2f, .1f, 0}};

static void count_choices(kernel_device *on, int64_t counted, float sums[16])
{
    const bp_route_choose_scalars s = {.rows = 3, .top = 2, .experts = 4};
    const bp_route_balance_scalars of = {.rows = 3, .top = 2, .experts = 4, .samples = 1};
    for (uint32_t l = 0; l < 2; l++) {
        kernel_case c;
        int32_t choice[6];
        kernel_shaped_case(&c, on->device, BP_KERNEL_route_choose, &s, 0, 1);
        memcpy(AT(&c, route_choose, logits), balance_logits[l], sizeof balance_logits[l]);
        kernel_case_run(&c, on);
        memcpy(choice, AT(&c, route_choose, choice), sizeof choice);
        kernel_case_free(&c);
        kernel_shaped_case(&c, on->device, BP_KERNEL_route_balance, &of, 0, 1);
        memcpy(AT(&c, route_balance, logits), balance_logits[l], sizeof balance_logits[l]);
        memcpy(AT(&c, route_balance, choice), choice, sizeof choice);
        *(int32_t *)AT(&c, route_balance, lengths) = (int32_t)counted;
        kernel_case_run(&c, on);
        memcpy(sums + 8 * l, AT(&c, route_balance, sums), 8 * sizeof *sums);
        kernel_case_free(&c);
    }
}

static double balance_of(kernel_device *on, const float sums[16], double coefficient,
                         float slopes[4])
{
    const bp_route_balance_loss_scalars s = {
        .layers = 2, .top = 2, .experts = 4, .tells = 1, .coefficient = coefficient};
    kernel_case c;
    kernel_shaped_case(&c, on->device, BP_KERNEL_route_balance_loss, &s, 0, 1);
    memcpy(AT(&c, route_balance_loss, sums), sums, 16 * sizeof *sums);
    bp_step_block *step = AT(&c, route_balance_loss, step);
    bp_result_block *result = AT(&c, route_balance_loss, result);
    step->inverse_micros = 0.5f;
    step->inverse_valid = 0.25f;
    *result = (bp_result_block){.loss_sum = 7.0};
    kernel_case_run(&c, on);
    memcpy(slopes, AT(&c, route_balance_loss, slopes), 4 * sizeof *slopes);
    const double loss = 2.0 * (double)result->metrics[0];
    if (loss == loss) {
        near(result->loss_sum, 7.0 + coefficient * loss / 2.0 * 4.0, 10.0);
    } else {
        assert_true(isnan(result->loss_sum));
    }
    kernel_case_free(&c);
    return loss;
}

static void routers_are_balanced_on(kernel_device *on)
{
    static const double want[] = {.06200953, .00566736, -.05468640, -.01299048};
    const bp_route_balance_backward_scalars s = {.rows = 3, .top = 2, .experts = 4, .samples = 1};
    float sums[16], slopes[4];
    count_choices(on, 2, sums);
    near(balance_of(on, sums, 2.0, slopes), 2.2891533, 1.0);
    count_choices(on, 0, sums);
    near(balance_of(on, sums, 2.0, slopes), 0.0, 1.0);
    near((double)slopes[0], 0.0, 1.0);
    count_choices(on, 3, sums);
    near(balance_of(on, sums, 2.0, slopes), 2.1294460, 1.0);
    for (int32_t counted = 0; counted < 2; counted++) {
        kernel_case c;
        kernel_shaped_case(&c, on->device, BP_KERNEL_route_balance_backward, &s, 0, 1);
        memcpy(AT(&c, route_balance_backward, logits), balance_logits[0], sizeof balance_logits[0]);
        memcpy(AT(&c, route_balance_backward, slopes), slopes, sizeof slopes);
        *(int32_t *)AT(&c, route_balance_backward, lengths) = counted;
        float *d = AT(&c, route_balance_backward, d_logits);
        for (uint32_t i = 0; i < 12; i++) {
            d[i] = 1.0f;
        }
        kernel_case_run(&c, on);
        for (uint32_t i = 0; i < 12; i++) {
            near((double)d[i], counted > 0 && i < 4 ? 1.0 + want[i] : 1.0, 1.0);
        }
        kernel_case_free(&c);
    }
    sums[12] = NAN; /* as of a router with a logit that is no number */
    assert_true(isnan(balance_of(on, sums, 2.0, slopes)));
}
/* verifies device-3.0681 */
TEST_ON_HOST(routers_are_balanced)

static double scored_share(float logit)
{
    return 1.0 / (1.0 + exp(-(double)logit));
}

/* Among the experts of the groups that are kept, and with what weight. */
static void groups_are_chosen_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_route_choose_scored, seed);
        kernel_case_run(&c, on);
        const bp_route_choose_scored_scalars *s = (const void *)c.scalars;
        const float *all = AT(&c, route_choose_scored, logits);
        const float *correction = AT(&c, route_choose_scored, correction);
        const int64_t each = s->experts / s->groups;
        for (int64_t t = 0; t < s->rows; t++) {
            const float *logits = all + t * s->experts;
            const int32_t *choice = (int32_t *)AT(&c, route_choose_scored, choice) + t * s->top;
            const float *weights = (float *)AT(&c, route_choose_scored, weights) + t * s->top;
            double group[4], sum = 0.0;
            for (int64_t g = 0; g < s->groups; g++) {
                double best[2] = {-1e9, -1e9};
                for (int64_t e = g * each; e < (g + 1) * each; e++) {
                    const double score = scored_share(logits[e]) + (double)correction[e];
                    best[1] = fmax(best[1], fmin(best[0], score));
                    best[0] = fmax(best[0], score);
                }
                group[g] = best[0] + (each > 1 ? best[1] : 0.0);
            }
            for (int64_t j = 0; j < s->top; j++) {
                sum += scored_share(logits[choice[j]]);
            }
            for (int64_t j = 0; j < s->top; j++) {
                const int64_t g = choice[j] / each;
                const double score =
                    scored_share(logits[choice[j]]) + (double)correction[choice[j]];
                int64_t better = 0, before = 0;
                for (int64_t k = 0; k < s->groups; k++) {
                    better += group[k] > group[g] + 1e-6 ? 1 : 0;
                }
                for (int64_t e = g * each; e < (g + 1) * each; e++) {
                    bool taken = false;
                    for (int64_t k = 0; k < j; k++) {
                        taken = taken || choice[k] == e;
                    }
                    const double other = scored_share(logits[e]) + (double)correction[e];
                    before += !taken && other > score + 1e-6 ? 1 : 0;
                }
                assert_true(better < s->kept);
                assert_int_equal(before, 0);
                near((double)weights[j],
                     s->scale * scored_share(logits[choice[j]]) / (s->renormalise != 0 ? sum : 1.0),
                     2.0);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(groups_are_chosen)

static void scores_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_route_scored_backward, seed);
        kernel_case_run(&c, on);
        const bp_route_scored_backward_scalars *s = (const void *)c.scalars;
        const float *all = AT(&c, route_scored_backward, logits);
        const float *d = AT(&c, route_scored_backward, d_weights);
        const int32_t *choice = AT(&c, route_scored_backward, choice);
        const float *got = AT(&c, route_scored_backward, d_logits);
        for (int64_t i = 0; i < s->rows * s->experts; i++) {
            const int64_t t = i / s->experts, e = i % s->experts, first = t * s->top;
            double sum = 0.0, want = 0.0;
            for (int64_t j = first; j < first + s->top; j++) {
                sum += scored_share(all[t * s->experts + choice[j]]);
            }
            const double share = scored_share(all[i]), slope = share * (1.0 - share);
            for (int64_t j = first; j < first + s->top; j++) { /* d weight_j / d logit_e, summed */
                const double of = scored_share(all[t * s->experts + choice[j]]);
                bool chosen = false;
                for (int64_t k = first; k < first + s->top; k++) {
                    chosen = chosen || choice[k] == e;
                }
                const double own = choice[j] == e ? 1.0 : 0.0;
                const double by =
                    s->renormalise != 0 ? own / sum - (chosen ? of / sum / sum : 0.0) : own;
                want += s->scale * (double)d[j] * by * slope;
            }
            near((double)got[i], want, 8.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(scores_have_their_derivative)

/* Logits that are no numbers choose different experts all the same. */
static void any_scores_choose_on(kernel_device *on)
{
    const bp_route_choose_scored_scalars s = {
        .rows = 81, .top = 3, .experts = 4, .groups = 2, .kept = 2, .scale = 1.0};
    const float odd[] = {NAN, INFINITY, 0.0f};
    kernel_case c;
    kernel_shaped_case(&c, on->device, BP_KERNEL_route_choose_scored, &s, 0, 1);
    float *logits = AT(&c, route_choose_scored, logits);
    for (int64_t t = 0; t < s.rows; t++) {
        for (int64_t e = 0, rest = t; e < 4; e++, rest /= 3) {
            logits[t * 4 + e] = odd[rest % 3];
        }
    }
    kernel_case_run(&c, on);
    const int32_t *choice = AT(&c, route_choose_scored, choice);
    for (int64_t t = 0; t < s.rows; t++, choice += 3) {
        assert_in_range(choice[0], 0, 3);
        assert_in_range(choice[1], 0, 3);
        assert_in_range(choice[2], 0, 3);
        assert_true(choice[0] != choice[1] && choice[0] != choice[2] && choice[1] != choice[2]);
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(any_scores_choose)

static void rows_are_in_order_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_route_order, seed);
        kernel_case_run(&c, on);
        const bp_route_order_scalars *s = (const void *)c.scalars;
        const int32_t *choice = AT(&c, route_order, choice);
        const where w = where_of(AT(&c, route_order, order), &c);
        const int64_t count = s->rows * s->top;
        assert_int_equal(w.begins[0], 0);
        assert_int_equal(w.begins[s->experts], count);
        for (int64_t r = 0; r < count; r++) {
            assert_int_equal(choice[w.choices[r]], expert_of(&w, r));
            assert_int_equal(w.rows[w.choices[r]], r);
            const bool same = r > 0 && choice[w.choices[r]] == choice[w.choices[r - 1]];
            assert_true(!same || w.choices[r] > w.choices[r - 1]);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_are_in_order)

static void rows_go_and_come_back_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_expert_rows, seed);
        kernel_case_run(&c, on);
        const bp_expert_rows_scalars *s = (const void *)c.scalars;
        where w = where_of(AT(&c, expert_rows, order), &c);
        const float *x = AT(&c, expert_rows, x), *y = AT(&c, expert_rows, y);
        for (int64_t i = 0; i < s->rows * s->top * s->width; i++) {
            const int64_t token = w.choices[i / s->width] / s->top;
            near((double)y[i], (double)x[token * s->width + i % s->width], 0.0);
        }
        kernel_case_free(&c);
        kernel_random_case(&c, on->device, BP_KERNEL_expert_combine, seed);
        kernel_case_run(&c, on);
        s = (const void *)c.scalars; /* the same */
        w = where_of(AT(&c, expert_combine, order), &c);
        x = AT(&c, expert_combine, x);
        y = AT(&c, expert_combine, y);
        const float *weights = AT(&c, expert_combine, weights);
        const float *residual = AT(&c, expert_combine, residual);
        for (int64_t i = 0; i < s->rows * s->width; i++) {
            const int64_t t = i / s->width;
            double want = residual != NULL ? (double)residual[i] : 0.0;
            for (int64_t j = t * s->top; j < t * s->top + s->top; j++) {
                want += (weights != NULL ? (double)weights[j] : 1.0) *
                        (double)x[w.rows[j] * s->width + i % s->width];
            }
            near((double)y[i], want, 10.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_go_and_come_back)

static void weights_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_expert_weights_backward, seed);
        const bp_expert_weights_backward_scalars *s = (const void *)c.scalars;
        const int64_t count = s->rows * s->top;
        float *g = AT(&c, expert_weights_backward, g);
        float *before = malloc((size_t)(count * s->width) * sizeof *before);
        memcpy(before, g, (size_t)(count * s->width) * sizeof *before);
        kernel_case_run(&c, on);
        const where w = where_of(AT(&c, expert_weights_backward, order), &c);
        const float *x = AT(&c, expert_weights_backward, x);
        const float *weights = AT(&c, expert_weights_backward, weights);
        const float *got = AT(&c, expert_weights_backward, d_weights);
        const float *scaled = AT(&c, expert_weights_backward, scaled);
        for (int64_t r = 0; r < count; r++) {
            const double weight = (double)weights[w.choices[r]];
            double sum = 0.0;
            for (int64_t i = r * s->width; i < (r + 1) * s->width; i++) {
                sum += (double)x[i] * (double)before[i];
                near((double)g[i], weight * (double)before[i], 5.0);
                near(scaled != NULL ? (double)scaled[i] : 0.0,
                     scaled != NULL ? weight * (double)x[i] : 0.0, 5.0);
            }
            near((double)got[w.choices[r]], sum, 50.0);
        }
        free(before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(weights_have_their_derivative)

static void runs_are_multiplied_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_matmul_experts, seed);
        kernel_case_run(&c, on);
        const bp_matmul_experts_scalars *s = (const void *)c.scalars;
        const where w = where_of(AT(&c, matmul_experts, order), &c);
        const float *a = AT(&c, matmul_experts, a), *b = AT(&c, matmul_experts, b);
        const float *got = AT(&c, matmul_experts, c);
        const float *residual = AT(&c, matmul_experts, residual);
        const int64_t rows = s->rows * s->top;
        for (int64_t i = 0; i<rows * s->n; i += rows> 400 ? 7 : 1) {
            const int64_t r = i / s->n, j = i % s->n, e = expert_of(&w, r);
            double want = residual != NULL ? (double)residual[i] : 0.0;
            for (int64_t k = 0; k < s->k; k++) {
                const int64_t at = s->transpose_b != 0 ? j * s->k + k : k * s->n + j;
                want += (double)a[r * s->k + k] * (double)b[e * s->n * s->k + at];
            }
            near((double)got[i], want, 40.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(runs_are_multiplied)

/* The codes of one expert's matrix of such a case, n by n or k rows of its own. */
static bp_quantised_matrix codes_of(const kernel_case *c, int64_t expert)
{
    const bp_matmul_experts_quantised_scalars *s = (const void *)c->scalars;
    const uint64_t count = (uint64_t)(s->n * s->k), e = (uint64_t)expert;
    const int64_t rows = s->transpose_b != 0 ? s->n : s->k;
    const uint8_t *codes = AT(c, matmul_experts_quantised, codes);
    const uint8_t *scales = AT(c, matmul_experts_quantised, scales);
    const float *nested = AT(c, matmul_experts_quantised, nested);
    const uint64_t each = bp_quantised_scales((uint64_t)rows, count, s->form);
    return (bp_quantised_matrix){
        .form = s->form,
        .columns = (uint64_t)(s->transpose_b != 0 ? s->k : s->n),
        .codes = codes + e * bp_quantised_codes(count, s->form),
        .scales = scales != NULL ? scales + e * each : NULL,
        .nested = nested != NULL ? nested + e * bp_quantised_nested(count, s->form) : NULL};
}

/* Bit for bit: a chain over the values that the codes stand for, then the residual. */
static void coded_runs_are_multiplied_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_matmul_experts_quantised, seed);
        kernel_case_run(&c, on);
        const bp_matmul_experts_quantised_scalars *s = (const void *)c.scalars;
        const where w = where_of(AT(&c, matmul_experts_quantised, order), &c);
        const float *a = AT(&c, matmul_experts_quantised, a);
        const float *got = AT(&c, matmul_experts_quantised, c);
        const float *residual = AT(&c, matmul_experts_quantised, residual);
        const int64_t rows = s->rows * s->top;
        for (int64_t i = 0; i<rows * s->n; i += rows> 400 ? 11 : 1) {
            const int64_t r = i / s->n, j = i % s->n;
            const bp_quantised_matrix b = codes_of(&c, expert_of(&w, r));
            float want = 0.0f;
            for (int64_t k = 0; k < s->k; k++) {
                const int64_t at = s->transpose_b != 0 ? j * s->k + k : k * s->n + j;
                want = fmaf(a[r * s->k + k], bp_quantised_value(&b, (uint64_t)at), want);
            }
            want += residual != NULL ? residual[i] : 0.0f;
            assert_memory_equal(got + i, &want, sizeof want);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(coded_runs_are_multiplied)

static void runs_are_summed_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_matmul_experts_sums, seed);
        const bp_matmul_experts_sums_scalars *s = (const void *)c.scalars;
        const int64_t count = s->experts * s->m * s->n;
        float *got = AT(&c, matmul_experts_sums, c);
        float *before = malloc((size_t)count * sizeof *before);
        memcpy(before, got, (size_t)count * sizeof *before);
        kernel_case_run(&c, on);
        const where w = where_of(AT(&c, matmul_experts_sums, order), &c);
        const float *a = AT(&c, matmul_experts_sums, a), *b = AT(&c, matmul_experts_sums, b);
        for (int64_t i = 0; i < count; i += 5) {
            const int64_t e = i / (s->m * s->n), m = i / s->n % s->m, n = i % s->n;
            double want = s->accumulate != 0 ? (double)before[i] : 0.0;
            for (int64_t r = w.begins[e]; r < w.begins[e + 1]; r++) {
                want += (double)a[r * s->m + m] * (double)b[r * s->n + n];
            }
            near((double)got[i], want, 100.0);
        }
        free(before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(runs_are_summed)

/* In the rows of each expert its bias; and the sums of rows, by weight where there are weights. */
static void rows_have_biases_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_expert_bias, seed);
        kernel_case_run(&c, on);
        const bp_expert_bias_scalars *s = (const void *)c.scalars;
        where w = where_of(AT(&c, expert_bias, order), &c);
        const float *bias = AT(&c, expert_bias, bias), *y = AT(&c, expert_bias, y);
        for (int64_t r = 0; r < s->rows * s->top; r++) {
            assert_memory_equal(y + r * s->width, bias + expert_of(&w, r) * s->width,
                                (size_t)s->width * sizeof *y);
        }
        kernel_case_free(&c);
        kernel_random_case(&c, on->device, BP_KERNEL_expert_bias_backward, seed);
        const bp_expert_bias_backward_scalars *b = (const void *)c.scalars;
        const int64_t count = b->experts * b->width;
        float *got = AT(&c, expert_bias_backward, d_bias);
        float *before = malloc((size_t)count * sizeof *before);
        memcpy(before, got, (size_t)count * sizeof *before);
        kernel_case_run(&c, on);
        w = where_of(AT(&c, expert_bias_backward, order), &c);
        const float *d_y = AT(&c, expert_bias_backward, d_y);
        const float *weights = AT(&c, expert_bias_backward, weights);
        for (int64_t i = 0; i < count; i++) {
            const int64_t e = i / b->width;
            double want = b->accumulate != 0 ? (double)before[i] : 0.0;
            for (int64_t r = w.begins[e]; r < w.begins[e + 1]; r++) {
                want += (weights != NULL ? (double)weights[w.choices[r]] : 1.0) *
                        (double)d_y[r * b->width + i % b->width];
            }
            near((double)got[i], want, 100.0);
        }
        free(before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_have_biases)

static void weights_have_their_part_of_biases_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_expert_bias_weights, seed);
        const bp_expert_bias_weights_scalars *s = (const void *)c.scalars;
        const int64_t count = s->rows * s->top;
        float *got = AT(&c, expert_bias_weights, d_weights);
        float *before = malloc((size_t)count * sizeof *before);
        memcpy(before, got, (size_t)count * sizeof *before);
        kernel_case_run(&c, on);
        const where w = where_of(AT(&c, expert_bias_weights, order), &c);
        const float *d_y = AT(&c, expert_bias_weights, d_y);
        const float *bias = AT(&c, expert_bias_weights, bias);
        for (int64_t r = 0; r < count; r++) {
            double want = (double)before[w.choices[r]];
            for (int64_t i = 0; i < s->width; i++) {
                want +=
                    (double)bias[expert_of(&w, r) * s->width + i] * (double)d_y[r * s->width + i];
            }
            near((double)got[w.choices[r]], want, 50.0);
        }
        free(before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(weights_have_their_part_of_biases)

static double clamped(double gate, double up, double alpha, double limit)
{
    const double g = fmin(gate, limit), u = fmax(-limit, fmin(up, limit));
    return (u + 1.0) * g / (1.0 + exp(-alpha * g));
}

/* The values that transformers gives, and the gradients of differences of the formula in double. */
static void gates_are_clamped_on(kernel_device *on)
{
    const float pairs[] = {1.0f, 2.0f, 9.0f, 9.0f, -9.0f, -9.0f, 0.5f, -3.0f};
    const double right[] = {2.53738737, 55.9996262, 1.2019e-5, -0.70077687};
    const bp_clamped_forward_scalars four = {.count = 4, .alpha = 1.702, .limit = 7.0};
    kernel_case c;
    kernel_shaped_case(&c, on->device, BP_KERNEL_clamped_forward, &four, 0, 1);
    memcpy(AT(&c, clamped_forward, x), pairs, sizeof pairs);
    kernel_case_run(&c, on);
    for (int64_t i = 0; i < four.count; i++) {
        near((double)((const float *)AT(&c, clamped_forward, y))[i], right[i], 0.5);
    }
    kernel_case_free(&c);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_random_case(&c, on->device, BP_KERNEL_clamped_backward, seed);
        const bp_clamped_backward_scalars *s = (const void *)c.scalars;
        const size_t count = (size_t)s->count;
        float *x = malloc(2 * count * sizeof *x + 1);
        memcpy(x, AT(&c, clamped_backward, x), 2 * count * sizeof *x); /* d_x may lie there */
        kernel_case_run(&c, on);
        const float *d_y = AT(&c, clamped_backward, d_y), *d_x = AT(&c, clamped_backward, d_x);
        for (size_t i = 0; i < count; i++) {
            const double g = (double)x[2 * i], u = (double)x[2 * i + 1], h = 1e-6;
            const double by_gate =
                clamped(g + h, u, s->alpha, s->limit) - clamped(g - h, u, s->alpha, s->limit);
            const double by_up =
                clamped(g, u + h, s->alpha, s->limit) - clamped(g, u - h, s->alpha, s->limit);
            near((double)d_x[2 * i], (double)d_y[i] * by_gate / (2.0 * h), 10.0);
            near((double)d_x[2 * i + 1], (double)d_y[i] * by_up / (2.0 * h), 10.0);
        }
        free(x);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(gates_are_clamped)

static void rows_have_gates_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_row_gate, seed);
        kernel_case_run(&c, on);
        const bp_row_gate_scalars *s = (const void *)c.scalars;
        const float *x = AT(&c, row_gate, x), *y = AT(&c, row_gate, y), *z = AT(&c, row_gate, gate);
        for (int64_t i = 0; i < s->rows * s->width; i++) {
            near((double)y[i], (double)x[i] / (1.0 + exp(-(double)z[i / s->width])), 4.0);
        }
        kernel_case_free(&c);
        kernel_random_case(&c, on->device, BP_KERNEL_row_gate_backward, seed);
        kernel_case_run(&c, on);
        s = (const void *)c.scalars; /* the same */
        x = AT(&c, row_gate_backward, x);
        z = AT(&c, row_gate_backward, gate);
        const float *d_y = AT(&c, row_gate_backward, d_y), *d_x = AT(&c, row_gate_backward, d_x);
        const float *d_gate = AT(&c, row_gate_backward, d_gate);
        for (int64_t r = 0; r < s->rows; r++) {
            const double gate = 1.0 / (1.0 + exp(-(double)z[r]));
            double sum = 0.0;
            for (int64_t i = r * s->width; i < (r + 1) * s->width; i++) {
                sum += (double)x[i] * (double)d_y[i];
                near((double)d_x[i], gate * (double)d_y[i], 4.0);
            }
            near((double)d_gate[r], gate * (1.0 - gate) * sum, 100.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_have_gates)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_chosen),
        cmocka_unit_test(any_logits_choose),
        cmocka_unit_test(shares_have_their_derivative),
        cmocka_unit_test(routers_are_balanced),
        cmocka_unit_test(groups_are_chosen),
        cmocka_unit_test(scores_have_their_derivative),
        cmocka_unit_test(any_scores_choose),
        cmocka_unit_test(rows_have_biases),
        cmocka_unit_test(weights_have_their_part_of_biases),
        cmocka_unit_test(gates_are_clamped),
        cmocka_unit_test(rows_are_in_order),
        cmocka_unit_test(rows_go_and_come_back),
        cmocka_unit_test(weights_have_their_derivative),
        cmocka_unit_test(runs_are_multiplied),
        cmocka_unit_test(coded_runs_are_multiplied),
        cmocka_unit_test(runs_are_summed),
        cmocka_unit_test(rows_have_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
