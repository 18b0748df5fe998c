/* SPDX-License-Identifier: MIT */
/* Losses of a policy against TRL's own, computed in float64, and against difference quotients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tools/bedplate/policy/policy_loss.c"

#define TOKENS 10

static const struct oracle_case {
    const char *rule;
    double epsilon, epsilon_high, delta, beta;
    int corrected;
    double loss;
    double metrics[6]; /* -1: TRL has no such number */
    double slopes[TOKENS];
} cases[] = {
#include "tests/unit/tools/bedplate/policy/oracle.def"
};
#define CASES (sizeof cases / sizeof cases[0])

static const uint32_t first[] = {0, 4, 6, 9, 10};
static const double x[] = {-.5, -1.2, -.1, -2., -.9, -.3, -2.5, -.05, -.7, -1.1};
static const double old[] = {-.7, -1.0, -.1, -1.5, -.6, -.9, -2.0, -.06, -1.4, -1.6};
static const double ref[] = {-.6, -1.1, -.3, -2.2, -.8, -.4, -2.4, -.1, -.9, -1.0};
static const double rewards[] = {1.0, 0.0, 0.25, 0.75};

static void near(double got, double right, double tolerance)
{
    if (!(fabs(got - right) <= tolerance)) {
        fail_msg("%.17g, not %.17g", got, right);
    }
}

/* The oracle's advantages are those of double, ours are rounded once; the loss is linear in them.
 */
static double case_loss(const struct oracle_case *c, const double *at, const float *advantages,
                        double *slopes, policy_loss_metrics *metrics)
{
    const policy_numbers numbers = {.rule = policy_rule_find(c->rule),
                                    .epsilon = c->epsilon,
                                    .epsilon_high = c->epsilon_high,
                                    .delta = c->delta,
                                    .beta = c->beta,
                                    .corrected = c->corrected != 0,
                                    .longest = 8};
    const policy_rows rows = {.count = 4,
                              .first = first,
                              .x = at,
                              .old = old,
                              .ref = c->beta > 0 ? ref : NULL,
                              .advantages = advantages};
    policy_loss(&numbers, &rows, slopes, metrics);
    return metrics->loss;
}

/* A and -A of each group: loss and slopes are linear in both. */
static void linear(const struct oracle_case *c, double *loss, double *slopes)
{
    static const double right[] = {.7070067953266834, .7069068377390945};
    static const float signs[][4] = {{1, -1, 0, 0}, {0, 0, -1, 1}, {0, 0, 0, 0}};
    double of[3], by[3][TOKENS];
    policy_loss_metrics metrics;
    for (int i = 0; i < 3; i++) {
        of[i] = case_loss(c, x, signs[i], by[i], &metrics);
    }
    *loss = of[2];
    memcpy(slopes, by[2], sizeof by[2]);
    for (int i = 0; i < 2; i++) {
        *loss += right[i] * (of[i] - of[2]);
        for (int t = 0; t < TOKENS; t++) {
            slopes[t] += right[i] * (by[i][t] - by[2][t]);
        }
    }
}

/* verifies policy-1.0031 */
static void losses_and_slopes_are_those_of_trl(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        double loss, slopes[TOKENS];
        linear(&cases[i], &loss, slopes);
        near(loss, cases[i].loss, 1e-12);
        for (int t = 0; t < TOKENS; t++) {
            near(slopes[t], cases[i].slopes[t], 1e-12);
        }
    }
}

/* verifies policy-1.0031 */
static void clipping_and_divergence_are_counted_as_by_trl(void **state)
{
    static const float advantages[] = {.707f, -.707f, -.707f, .707f};
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        double slopes[TOKENS];
        policy_loss_metrics t;
        const double *right = cases[i].metrics;
        case_loss(&cases[i], x, advantages, slopes, &t);
        const double got[] = {t.kl, t.low_mean, t.low_min, t.high_mean, t.high_max, t.region_mean};
        for (int k = 0; k < 6; k++) {
            if (right[k] >= 0) {
                near(got[k], right[k], 1e-7);
            }
        }
    }
}

/* verifies policy-1.0031 */
static void slopes_are_difference_quotients(void **state)
{
    static const float advantages[] = {.707f, -.707f, -.707f, .707f};
    static const struct oracle_case more[] = {
        {"rloo", .2, .2, 0, 0, 0, 0, {0}, {0}},
        {"gspo", .2, .2, 0, .04, 1, 0, {0}, {0}},
        {"reinforce_plus_plus", .2, .2, 0, .04, 0, 0, {0}, {0}},
    };
    (void)state;
    for (size_t i = 0; i < CASES + 3; i++) {
        const struct oracle_case *c = i < CASES ? &cases[i] : &more[i - CASES];
        double slopes[TOKENS], unused[TOKENS], at[TOKENS];
        policy_loss_metrics metrics;
        if (policy_rule_find(c->rule)->form == POLICY_CISPO) {
            continue; /* the ratio is a constant there */
        }
        case_loss(c, x, advantages, slopes, &metrics);
        for (int t = 0; t < TOKENS; t++) {
            memcpy(at, x, sizeof at);
            at[t] = x[t] + 1e-6;
            const double up = case_loss(c, at, advantages, unused, &metrics);
            at[t] = x[t] - 1e-6;
            const double down = case_loss(c, at, advantages, unused, &metrics);
            if (x[t] != old[t]) { /* SAPO and the clips have their kinks elsewhere */
                near((up - down) / 2e-6, slopes[t], 1e-9);
            }
        }
    }
}

/* Made with TRL 1.16's _compute_loss and get_high_entropy_mask, as oracle.def was. */
static const struct entropy_case {
    const char *rule;
    double top, epsilon_high, beta, loss;
    int dull[TOKENS];
    double slopes[TOKENS];
} entropy_cases[] = {
    {"dapo",
     0.2,
     0.2,
     0,
     0.013670417220046754,
     {1, 1, 1, 0, 1, 1, 0, 1, 1, 1},
     {0, 0, 0, -0.042882129799, 0, 0, 0, 0, 0, 0}},
    {"dapo",
     0.5,
     0.2,
     0,
     0.15469969609192424,
     {1, 0, 1, 0, 0, 1, 0, 1, 0, 1},
     {0, -0.057884820597, 0, -0.042882129799, 0, 0, 0, 0, 0.142353555843, 0}},
    {"grpo",
     0.3,
     0.2,
     0.04,
     -0.015462834247436432,
     {1, 0, 1, 0, 1, 1, 0, 1, 1, 1},
     {0.00030535069, -0.036382695561, 0.0005, -0.026498065795, -0.00037040911, 0.0009110594,
      -0.000202176887, 0.000168341695, 0.001342501805, -0.001648721271}},
    {"gspo",
     0.7,
     0.2,
     0,
     0.0026575659254550743,
     {0, 0, 1, 0, 0, 0, 0, 1, 0, 0},
     {-0.029246780015, -0.029246780015, -0.029246780015, -0.029246780015, 0.102678088082,
      0.102678088082, 0.042120187048, 0.042120187048, 0.042120187048, 0}},
    {"luspo",
     0.5,
     0.2,
     0,
     0.2724722061018652,
     {1, 0, 1, 0, 0, 1, 0, 1, 0, 1},
     {-0.077991413373, -0.077991413373, -0.077991413373, -0.077991413373, 0.102678088082,
      0.102678088082, 0.126360561143, 0.126360561143, 0.126360561143, 0}},
    {"cispo",
     0.6,
     5.0,
     0,
     -0.05557332639636324,
     {0, 0, 1, 0, 0, 1, 0, 1, 0, 1},
     {-0.086354004985, -0.057884820597, 0, -0.042882129799, 0.052376351612, 0, 0.042876067065, 0,
      0.142353555843, 0}},
    {"dr_grpo",
     0.0,
     0.2,
     0,
     0.017672670943477364,
     {1, 1, 1, 1, 1, 1, 0, 1, 1, 1},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"dapo",
     0.9,
     0.2,
     0,
     0.04315441796822203,
     {0, 0, 0, 0, 0, 0, 0, 1, 0, 0},
     {0, -0.057884820597, -0.070700679533, -0.042882129799, 0, 0.128825037377, 0, 0, 0.142353555843,
      0}},
    {"dapo",
     0.2222222222222222,
     0.2,
     0,
     -0.04421440337685986,
     {1, 0, 1, 0, 1, 1, 0, 1, 1, 1},
     {0, -0.057884820597, 0, -0.042882129799, 0, 0, 0, 0, 0, 0}},
    {"sapo",
     0.7,
     0.2,
     0,
     -0.07538376124141966,
     {0, 0, 1, 0, 0, 0, 0, 1, 0, 0},
     {-0.053315212771, -0.035882443693, 0, -0.025790189072, 0.064273050943, 0.134400138166,
      0.034247739606, 0, 0.090484264994, -0.262746422434}},
};

/* verifies policy-7.8fa0 */
static void tokens_of_low_entropy_do_not_count(void **state)
{
    static const float entropies[] = {.875f, 1.75f,  .25f,  2.25f,  1.375f,
                                      .75f,  2.875f, .125f, 1.125f, .75f};
    static const float signs[][4] = {{1, -1, 0, 0}, {0, 0, -1, 1}, {0, 0, 0, 0}};
    static const double right[] = {.7070067953266834, .7069068377390945};
    uint32_t order[TOKENS], spare[TOKENS];
    bool dull[TOKENS];
    (void)state;
    for (size_t i = 0; i < sizeof entropy_cases / sizeof entropy_cases[0]; i++) {
        const struct entropy_case *c = &entropy_cases[i];
        const policy_numbers numbers = {.rule = policy_rule_find(c->rule),
                                        .epsilon = .2,
                                        .epsilon_high = c->epsilon_high,
                                        .beta = c->beta,
                                        .corrected = true,
                                        .longest = 8};
        policy_rows rows = {.count = 4, .first = first, .x = x, .old = old, .dull = dull};
        double of[3], by[3][TOKENS];
        policy_loss_metrics metrics;
        rows.ref = c->beta > 0 ? ref : NULL;
        policy_entropy_mask(&rows, entropies, c->top, order, spare, dull);
        for (int k = 0; k < 3; k++) { /* linear in the advantages, as above */
            rows.advantages = signs[k];
            policy_loss(&numbers, &rows, by[k], &metrics);
            of[k] = metrics.loss;
        }
        near(of[2] + right[0] * (of[0] - of[2]) + right[1] * (of[1] - of[2]), c->loss, 1e-12);
        for (int t = 0; t < TOKENS; t++) {
            assert_int_equal(dull[t], c->dull[t]);
            near(by[2][t] + right[0] * (by[0][t] - by[2][t]) + right[1] * (by[1][t] - by[2][t]),
                 c->slopes[t], 1e-12);
        }
    }
}

/* verifies policy-7.8fa0 */
static void entropies_of_masked_completions_have_no_place(void **state)
{
    static const float entropies[] = {1, 2, 3, 4, 9, 9, 5, 6, 7, 8};
    static const bool masked[] = {false, true, false, false}, all[] = {true, true, true, true};
    policy_rows rows = {.count = 4, .first = first, .masked = masked};
    uint32_t order[TOKENS], spare[TOKENS];
    bool dull[TOKENS];
    (void)state;
    policy_entropy_mask(&rows, entropies, 0.5, order, spare, dull);
    for (uint32_t t = 0; t < TOKENS; t++) {
        assert_int_equal(dull[t], entropies[t] < 4.5f);
    }
    rows.masked = all;
    policy_entropy_mask(&rows, entropies, 0.5, order, spare, dull);
    assert_false(dull[0]);
}

/* Made with the lines of TRL 1.16's OnlineDPOTrainer from the sums to the loss, in float64. */
static const struct pair_case {
    const char *rule;
    double beta, loss, slopes[TOKENS];
} pair_cases[] = {
    {"online_dpo",
     .1,
     0.6895362353767794,
     {-0.0245000666560017, -0.0245000666560017, -0.0245000666560017, -0.0245000666560017,
      0.0245000666560017, 0.0245000666560017, 0.0253124837249755, 0.0253124837249755,
      0.0253124837249755, -0.0253124837249755}},
    {"online_dpo",
     .7,
     0.6736928821116965,
     {-0.15065882162127, -0.15065882162127, -0.15065882162127, -0.15065882162127, 0.15065882162127,
      0.15065882162127, 0.190273540532978, 0.190273540532978, 0.190273540532978,
      -0.190273540532978}},
    {"online_ipo", .1, 24.36125, {-4.6, -4.6, -4.6, -4.6, 4.6, 4.6, 5.25, 5.25, 5.25, -5.25}},
    {"online_ipo",
     .7,
     0.5143112244897958,
     {-0.314285714285714, -0.314285714285714, -0.314285714285714, -0.314285714285714,
      0.314285714285714, 0.314285714285714, 0.964285714285714, 0.964285714285714, 0.964285714285714,
      -0.964285714285714}},
};

/* verifies policy-8.bec6 */
static void losses_of_pairs_are_those_of_trl(void **state)
{
    float advantages[4];
    double centered[4];
    policy_spread spread;
    (void)state;
    for (size_t i = 0; i < sizeof pair_cases / sizeof pair_cases[0]; i++) {
        const struct pair_case *c = &pair_cases[i];
        const policy_numbers numbers = {
            .rule = policy_rule_find(c->rule), .beta = c->beta, .longest = 8, .each = 2};
        const policy_rows rows = {
            .count = 4, .first = first, .x = x, .old = old, .ref = ref, .advantages = advantages};
        double slopes[TOKENS];
        policy_loss_metrics metrics;
        policy_advantages(numbers.rule, POLICY_SCALE_GROUP, rewards, 2, 2, centered, advantages,
                          &spread);
        assert_true(advantages[0] == 1 && advantages[1] == -1);
        assert_true(advantages[2] == -1 && advantages[3] == 1);
        policy_loss(&numbers, &rows, slopes, &metrics);
        near(metrics.loss, c->loss, 1e-12);
        for (int t = 0; t < TOKENS; t++) {
            near(slopes[t], c->slopes[t], 1e-12);
        }
        assert_int_equal(metrics.pairs, 2);
        near(metrics.chosen, c->beta * (.4 - .1) / 2, 1e-12);
        near(metrics.rejected, c->beta * (0 + .15) / 2, 1e-12);
        near(metrics.right, 0.5, 0);
    }
}

/* verifies policy-8.bec6 */
static void pairs_are_the_best_and_the_worst(void **state)
{
    static const double some[] = {.5, 1, 1, .5, 2, 2, 2, 2, (double)NAN, 3, 1, (double)NAN};
    static const float right[] = {0, 1, 0, -1, 0, 0, 0, 0, 0, 1, -1, 0};
    static const bool masked[] = {true, false, false, false};
    static const float pairs[] = {1, -1, -1, 1};
    const policy_rule *rule = policy_rule_find("online_dpo");
    const policy_numbers numbers = {.rule = rule, .beta = .1, .each = 2};
    const policy_rows rows = {
        .count = 4, .first = first, .x = x, .ref = ref, .advantages = pairs, .masked = masked};
    float a[12];
    double slopes[TOKENS], centered[12];
    policy_spread spread;
    policy_loss_metrics metrics;
    (void)state;
    policy_advantages(rule, POLICY_SCALE_GROUP, some, 3, 4, centered, a, &spread);
    assert_memory_equal(a, right, sizeof a);
    near(spread.flat_groups, 1.0 / 3, 1e-15);
    policy_loss(&numbers, &rows, slopes, &metrics); /* a pair that lacks a completion */
    assert_int_equal(metrics.pairs, 1);
    assert_true(slopes[0] == 0 && slopes[5] == 0 && slopes[6] != 0 && slopes[9] != 0);
}

/* verifies policy-2.1ec5 */
static void on_policy_the_slope_is_the_advantage(void **state)
{
    static const float advantages[] = {1.5f, -0.5f, 0.25f, 0.0f};
    static const bool masked[] = {false, true, false, false};
    const policy_numbers numbers = {policy_rule_find("dapo"), .2, .2, 0, 0, true, 8, 2};
    const policy_rows rows = {
        .count = 4, .first = first, .x = x, .advantages = advantages, .masked = masked};
    double slopes[TOKENS];
    policy_loss_metrics metrics;
    (void)state;
    policy_loss(&numbers, &rows, slopes, &metrics);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t t = first[i]; t < first[i + 1]; t++) {
            near(slopes[t], masked[i] ? 0.0 : -(double)advantages[i] / 8, 0.0);
        }
    }
    near(metrics.loss, -(4 * 1.5 + 3 * 0.25) / 8, 1e-15);
    near(metrics.region_mean, 0, 0);
}

/* verifies policy-2.1ec5 */
static void advantages_are_spread_as_asked(void **state)
{
    static const double some[] = {1, 0, (double)NAN, 0.5, 0.5, 0.5, (double)NAN, (double)NAN, 3};
    const policy_rule *grpo = policy_rule_find("grpo"), *rloo = policy_rule_find("rloo");
    float a[9];
    double centered[9];
    policy_spread s;
    (void)state;
    policy_advantages(grpo, POLICY_SCALE_GROUP, rewards, 2, 2, centered, a, &s);
    assert_true(a[0] == (float).7070067953266834 && a[1] == (float)-.7070067953266834);
    assert_true(a[2] == (float)-.7069068377390945 && a[3] == (float).7069068377390945);
    policy_advantages(grpo, POLICY_SCALE_BATCH, rewards, 2, 2, centered, a, &s);
    assert_true(a[0] == (float)(0.5 / (0.4564354645876384 + 1e-4)));
    policy_advantages(grpo, POLICY_SCALE_NONE, some, 3, 3, centered, a, &s);
    assert_true(a[0] == 0.5f && a[1] == -0.5f && a[2] == 0 && a[3] == 0 && a[8] == 0);
    assert_int_equal(s.unscored, 3);
    near(s.flat_groups, 2.0 / 3, 1e-15);
    policy_advantages(rloo, POLICY_SCALE_NONE, rewards, 1, 4, centered, a, &s);
    near((double)a[0], 1 - 1.0 / 3, 1e-7);
    near((double)a[1], -2.0 / 3, 1e-7);
}

/* The first completion has rewards of tokens 1 - 0.5 * (sums of x - ref from the end), the second
 * 0 - those; mean and deviation by hand, over the six tokens that count. The third is masked, the
 * fourth without a reward. */
/* verifies policy-2.1ec5 */
static void tokens_have_returns_of_their_own(void **state)
{
    static const uint32_t at[] = {0, 3, 6, 8, 9};
    static const double here[] = {-1, -2, -3, -1, -1, -1, -5, -5, -4};
    static const double there[] = {-2, -2, -1, -1.5, -2, -1, -1, -1, -1};
    static const double of[] = {1, 0, 7, (double)NAN};
    static const bool hidden[] = {false, false, true, false};
    /* x - ref: 1 0 -2 | .5 1 0; from the end: -1 -2 -2 | 1.5 1 0 */
    static const double right[] = {1.5, 2, 2, -.75, -.5, 0};
    const policy_rows rows = {.count = 4, .first = at, .x = here, .ref = there, .masked = hidden};
    double room[9], mean, sum = 0, squares = 0;
    float to[9];
    (void)state;
    for (int i = 0; i < 6; i++) {
        sum += right[i] / 6;
    }
    for (int i = 0; i < 6; i++) {
        squares += (right[i] - sum) * (right[i] - sum);
    }
    policy_token_advantages(POLICY_SCALE_NONE, &rows, 2, 0.5, of, room, to, &mean);
    for (int i = 0; i < 6; i++) {
        near((double)to[i], right[i] - sum, 1e-6);
    }
    assert_true(to[6] == 0 && to[7] == 0 && to[8] == 0);
    near(mean, (1 - 2 + 1.5 + (-4 + 1)) / 7, 1e-15); /* the fourth's token counts as one */
    policy_token_advantages(POLICY_SCALE_BATCH, &rows, 2, 0.5, of, room, to, &mean);
    near((double)to[1], (2 - sum) / (sqrt(squares / 5) + 1e-4), 1e-6);
    policy_token_advantages(POLICY_SCALE_GROUP, &rows, 2, 0.5, of, room, to, &mean);
    near((double)to[4], (-.5 - sum) / (sqrt(squares / 5) + 1e-4), 1e-6);
}

/* The loss takes them, and so do its slopes: a ratio of 1 has the slope -A / tokens. */
/* verifies policy-2.1ec5 */
static void returns_are_learned(void **state)
{
    static const float of[] = {1, -2, 3, 0, .5f, 1, 1, 2, 4, -1}, none[] = {0, 0, 0, 0};
    const policy_numbers numbers = {.rule = policy_rule_find("reinforce_plus_plus"),
                                    .epsilon = .2,
                                    .epsilon_high = .2,
                                    .longest = 8};
    const policy_rows rows = {
        .count = 4, .first = first, .x = x, .advantages = none, .returns = of};
    double slopes[TOKENS];
    policy_loss_metrics metrics;
    (void)state;
    policy_loss(&numbers, &rows, slopes, &metrics);
    for (int t = 0; t < TOKENS; t++) {
        near(slopes[t], -(double)of[t] / TOKENS, 1e-15);
    }
}

static const struct trl_loss {
    const char *rule;
    double epsilon, epsilon_high, delta, beta;
    int off, masked; /* whether another policy sampled; bits of completions */
    double loss;
    double metrics[7]; /* -1: TRL has no such number */
    double slopes[TOKENS];
} trl_losses[] = {
#include "tests/unit/tools/bedplate/policy/trl_losses.def"
};

/* verifies policy-1.0031 */
static void every_loss_type_is_that_of_trl(void **state)
{
    static const float advantages[] = {.75f, -.5f, -1.25f, 1.5f};
    (void)state;
    for (size_t i = 0; i < sizeof trl_losses / sizeof trl_losses[0]; i++) {
        const struct trl_loss *c = &trl_losses[i];
        const policy_numbers numbers = {.rule = policy_rule_find(c->rule),
                                        .epsilon = c->epsilon,
                                        .epsilon_high = c->epsilon_high,
                                        .delta = c->delta,
                                        .beta = c->beta,
                                        .corrected = true,
                                        .longest = 8};
        bool masked[4];
        double slopes[TOKENS];
        policy_loss_metrics t;
        for (int k = 0; k < 4; k++) {
            masked[k] = (c->masked >> k & 1) != 0;
        }
        const policy_rows rows = {.count = 4,
                                  .first = first,
                                  .x = x,
                                  .old = c->off ? old : NULL,
                                  .ref = c->beta > 0 ? ref : NULL,
                                  .advantages = advantages,
                                  .masked = masked};
        policy_loss(&numbers, &rows, slopes, &t);
        near(t.loss, c->loss, 1e-12);
        for (int k = 0; k < TOKENS; k++) {
            near(slopes[k], c->slopes[k], 1e-12);
        }
        const double got[] = {t.kl,       t.low_mean,    t.low_min, t.high_mean,
                              t.high_max, t.region_mean, t.cispo};
        for (int k = 0; k < 7; k++) { /* TRL counts in fp32 */
            if (c->metrics[k] >= 0) {
                near(got[k], c->metrics[k], 1e-7);
            }
        }
    }
}

static const struct trl_advantages {
    const char *rule;
    policy_scale scale;
    uint32_t groups, each;
    double beta;
    double rewards[12], right[12];
    double divergence;
} trl_advantages[] = {
#include "tests/unit/tools/bedplate/policy/trl_advantages.def"
};

/* verifies policy-2.1ec5 */
static void advantages_are_those_of_trl(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trl_advantages / sizeof trl_advantages[0]; i++) {
        const struct trl_advantages *c = &trl_advantages[i];
        const uint32_t count = c->groups * c->each;
        float got[12];
        double centered[12], compared[12], mean = 0.0;
        policy_spread spread;
        const policy_rows rows = {.count = 4, .first = first, .x = old, .ref = ref};
        memcpy(compared, c->rewards, sizeof compared);
        if (c->beta > 0) {
            policy_charge_divergence(&rows, c->beta, c->rewards, compared, &mean);
        }
        policy_advantages(policy_rule_find(c->rule), c->scale, compared, c->groups, c->each,
                          centered, got, &spread);
        for (uint32_t k = 0; k < count; k++) {
            near((double)got[k], c->right[k], 2e-7 * (1 + fabs(c->right[k])));
        }
        near(mean, c->divergence, 1e-15);
    }
}

/* verifies policy-2.1ec5 */
static void loss_types_have_the_scale_of_their_trainers(void **state)
{
    (void)state;
    assert_int_equal(policy_rule_find("dapo")->scale, POLICY_SCALE_GROUP);
    assert_int_equal(policy_rule_find("rloo")->scale, POLICY_SCALE_NONE);
    assert_int_equal(policy_rule_find("reinforce_plus_plus")->scale, POLICY_SCALE_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_slopes_are_those_of_trl),
        cmocka_unit_test(clipping_and_divergence_are_counted_as_by_trl),
        cmocka_unit_test(slopes_are_difference_quotients),
        cmocka_unit_test(tokens_of_low_entropy_do_not_count),
        cmocka_unit_test(entropies_of_masked_completions_have_no_place),
        cmocka_unit_test(losses_of_pairs_are_those_of_trl),
        cmocka_unit_test(pairs_are_the_best_and_the_worst),
        cmocka_unit_test(on_policy_the_slope_is_the_advantage),
        cmocka_unit_test(advantages_are_spread_as_asked),
        cmocka_unit_test(tokens_have_returns_of_their_own),
        cmocka_unit_test(returns_are_learned),
        cmocka_unit_test(every_loss_type_is_that_of_trl),
        cmocka_unit_test(advantages_are_those_of_trl),
        cmocka_unit_test(loss_types_have_the_scale_of_their_trainers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
