/* SPDX-License-Identifier: MIT */
/* The table of --loss-type and its arithmetic. */
#include "tools/bedplate/policy/policy_loss.h"

#include <math.h>
#include <string.h>

#include "arena/sort.h"
#include "core/base/math.h"
#include "core/ops/preference.h"

#define BY_GROUP POLICY_SCALE_GROUP
#define BY_BATCH POLICY_SCALE_BATCH
#define BY_NONE  POLICY_SCALE_NONE

static const policy_rule rules[] = {
    {"dapo", POLICY_CLIPPED, POLICY_TOKEN, POLICY_BY_TOKENS, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"grpo", POLICY_CLIPPED, POLICY_TOKEN, POLICY_BY_ROW, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"dr_grpo", POLICY_CLIPPED, POLICY_TOKEN, POLICY_BY_LONGEST, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"bnpo", POLICY_CLIPPED, POLICY_TOKEN, POLICY_BY_TOKENS, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"gspo", POLICY_CLIPPED, POLICY_SEQUENCE, POLICY_BY_ROW, POLICY_GROUP, BY_GROUP, 3e-4, 4e-4},
    {"cispo", POLICY_CISPO, POLICY_TOKEN, POLICY_BY_TOKENS, POLICY_GROUP, BY_GROUP, 0.2, 5},
    {"sapo", POLICY_SAPO, POLICY_TOKEN, POLICY_BY_ROW, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"luspo", POLICY_CLIPPED, POLICY_SEQUENCE, POLICY_BY_ROWS, POLICY_GROUP, BY_GROUP, 0.2, 0},
    {"rloo", POLICY_CLIPPED, POLICY_SUM, POLICY_BY_ROW, POLICY_OTHERS, BY_NONE, 0.2, 0},
    {"reinforce_plus_plus", POLICY_CLIPPED, POLICY_TOKEN, POLICY_BY_TOKENS, POLICY_ALL, BY_BATCH,
     0.2, 0},
    {"online_dpo", POLICY_PAIR_DPO, POLICY_TOKEN, POLICY_BY_ROWS, POLICY_BEST, BY_GROUP, 0.2, 0},
    {"online_ipo", POLICY_PAIR_IPO, POLICY_TOKEN, POLICY_BY_ROWS, POLICY_BEST, BY_GROUP, 0.2, 0},
};

bool policy_rule_pairs(const policy_rule *rule)
{
    return rule->form == POLICY_PAIR_DPO || rule->form == POLICY_PAIR_IPO;
}

unsigned policy_rule_reads(const policy_rule *rule)
{
    const unsigned bounds = POLICY_READS_EPSILON | POLICY_READS_EPSILON_HIGH;
    return policy_rule_pairs(rule)           ? 0
           : rule->form == POLICY_SAPO       ? POLICY_READS_SCALE
           : rule->form == POLICY_CISPO      ? POLICY_READS_EPSILON_HIGH | POLICY_READS_SCALE
           : rule->baseline == POLICY_OTHERS ? bounds | POLICY_READS_SCALE
                                             : bounds | POLICY_READS_DELTA | POLICY_READS_SCALE;
}

bool policy_rule_rewards_divergence(const policy_rule *rule)
{
    return rule->baseline == POLICY_OTHERS || rule->baseline == POLICY_ALL;
}

const policy_rule *policy_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

/* Tokens of a completion that count. */
static uint32_t row_tokens(const policy_rows *rows, uint32_t i)
{
    const bool masked = rows->masked != NULL && rows->masked[i];
    return masked ? 0 : rows->first[i + 1] - rows->first[i];
}

/* 1 / what a token of completion i is divided by. */
static double row_share(const policy_numbers *n, const policy_rows *rows, uint32_t i,
                        uint64_t tokens)
{
    const double count = rows->count, own = row_tokens(rows, i);
    return n->rule->divisor == POLICY_BY_ROW       ? 1.0 / (count * own)
           : n->rule->divisor == POLICY_BY_TOKENS  ? 1.0 / (double)tokens
           : n->rule->divisor == POLICY_BY_LONGEST ? 1.0 / (count * n->longest)
                                                   : 1.0 / count;
}

/* l of a token, and its derivative by the logarithm of rho. */
static double clipped(const policy_numbers *n, double a, double rho, double *slope)
{
    const double low = 1.0 - n->epsilon, high = 1.0 + n->epsilon_high;
    const bool bounded = n->delta > 0.0 && rho > n->delta;
    const bool inside = rho >= low && rho <= high;
    const double first = (bounded ? n->delta : rho) * a;
    const double second = (rho < low ? low : rho > high ? high : rho) * a;
    /* Equal ones share the slope, as torch.min has it. */
    const double of_first = first < second ? 1.0 : first > second ? 0.0 : 0.5;
    *slope = -rho * a * ((bounded ? 0.0 : of_first) + (inside ? 1.0 - of_first : 0.0));
    return -(first < second ? first : second);
}

static double token_loss(const policy_numbers *n, double a, double rho, double x, double *slope)
{
    if (n->rule->form == POLICY_CLIPPED) {
        return clipped(n, a, rho, slope);
    }
    if (n->rule->form == POLICY_CISPO) {
        const double bound = rho < n->epsilon_high ? rho : n->epsilon_high;
        *slope = -bound * a;
        return -bound * a * x;
    }
    const double t = a > 0.0 ? 1.0 : (double)1.05f; /* TRL's is fp32 */
    const double q = 1.0 / (1.0 + bp_exp(-t * (rho - 1.0)));
    *slope = -4.0 * a * rho * q * (1.0 - q);
    return -a * (4.0 / t) * q;
}

/* rho of the whole completion, and by how much its logarithm moves with one token's. */
static double sequence_ratio(const policy_numbers *n, const policy_rows *rows, uint32_t i,
                             double *moves)
{
    double sum = 0.0;
    const uint32_t count = row_tokens(rows, i);
    *moves = n->rule->level == POLICY_SEQUENCE ? 1.0 / count : 1.0;
    for (uint32_t t = rows->first[i]; rows->old != NULL && t < rows->first[i + 1]; t++) {
        sum += rows->x[t] - rows->old[t];
    }
    return bp_exp(sum * *moves);
}

/* The divergence of a token from the reference, and its derivatives by x and by log rho. */
static double divergence(const policy_numbers *n, double x, double ref, double rho, double slope[2])
{
    const double d = ref - x, e = bp_exp(d), k3 = e - d - 1.0;
    const double by = n->corrected ? rho : 1.0;
    slope[0] = by * (1.0 - e);
    slope[1] = n->corrected ? rho * k3 : 0.0;
    return by * k3;
}

/* Behind the second bound, as TRL counts. */
static void note_clipping(const policy_numbers *n, double a, double rho, double *low, double *high,
                          policy_loss_metrics *metrics)
{
    rho = n->delta > 0.0 && rho > n->delta ? n->delta : rho;
    *low += rho < 1.0 - n->epsilon && a < 0.0 ? 1.0 : 0.0;
    *high += rho > 1.0 + n->epsilon_high && a > 0.0 ? 1.0 : 0.0;
    metrics->cispo += rho > n->epsilon_high && a > 0.0 ? 1.0 : 0.0;
}

/* One completion: adds up to metrics, whose means are sums until the end. */
static void row_loss(const policy_numbers *n, const policy_rows *rows, uint32_t i, double share,
                     double *slopes, policy_loss_metrics *metrics)
{
    const uint32_t first = rows->first[i], count = row_tokens(rows, i);
    const bool whole = n->rule->level != POLICY_TOKEN;
    double moves = 1.0, low = 0.0, high = 0.0, together = 0.0;
    double rho = whole ? sequence_ratio(n, rows, i, &moves) : 1.0;
    for (uint32_t t = first; t < first + count; t++) {
        const double x = rows->x[t];
        const double a = (double)(rows->returns != NULL ? rows->returns[t] : rows->advantages[i]);
        double of_rho, of_kl[2] = {0.0, 0.0}, kl = 0.0;
        if (!whole) {
            rho = rows->old != NULL ? bp_exp(x - rows->old[t]) : 1.0;
        }
        double l = token_loss(n, a, rho, x, &of_rho);
        if (rows->dull != NULL && rows->dull[t]) {
            l = of_rho = 0.0;
        }
        if (rows->ref != NULL && n->beta > 0.0) {
            kl = divergence(n, x, rows->ref[t], rho, of_kl);
        }
        metrics->loss += share * (l + n->beta * kl);
        metrics->kl += kl;
        /* At the sequence level each token moves the ratio of all. */
        const double by_ratio = share * (of_rho + n->beta * of_kl[1]);
        together += by_ratio;
        slopes[t] = share * n->beta * of_kl[0] + (whole ? 0.0 : by_ratio);
        note_clipping(n, a, rho, &low, &high, metrics);
    }
    for (uint32_t t = first; whole && t < first + count; t++) {
        slopes[t] += together * moves;
    }
    const double of = count > 0 ? count : 1.0;
    metrics->low_min = low / of < metrics->low_min ? low / of : metrics->low_min;
    metrics->high_max = high / of > metrics->high_max ? high / of : metrics->high_max;
    metrics->low_mean += whole ? low / of : low;
    metrics->high_mean += whole ? high / of : high;
}

/* A completion as a loss of pairs reads it; TRL's IPO is over sums, so its count is 1. */
static bp_preference_row pair_row(const policy_numbers *n, const policy_rows *rows, uint32_t i,
                                  int32_t side)
{
    bp_preference_row row = {.side = side, .count = row_tokens(rows, i)};
    for (uint32_t t = rows->first[i]; row.count > 0 && t < rows->first[i + 1]; t++) {
        row.sum += rows->x[t];
        row.reference += rows->ref[t];
    }
    row.count = n->rule->form == POLICY_PAIR_IPO && row.count > 0 ? 1 : row.count;
    return row;
}

static void pair_loss(const policy_numbers *n, const policy_rows *rows, const uint32_t of[2],
                      double *slopes, policy_loss_metrics *metrics)
{
    const bool ipo = n->rule->form == POLICY_PAIR_IPO;
    const double share = 1.0 / (rows->count / n->each); /* groups */
    const bp_preference_numbers numbers = {.kind = ipo ? BP_PREFERENCE_IPO : BP_PREFERENCE_SIGMOID,
                                           .beta = n->beta};
    const bp_preference_row chosen = pair_row(n, rows, of[0], BP_SIDE_CHOSEN);
    const bp_preference_row rejected = pair_row(n, rows, of[1], BP_SIDE_REJECTED);
    const bp_preference_terms terms = bp_preference_pair(&numbers, 0.0, &chosen, &rejected);
    if (!terms.there) {
        return;
    }
    metrics->loss += share * terms.loss;
    metrics->pairs++;
    metrics->chosen += terms.reward[0];
    metrics->rejected += terms.reward[1];
    metrics->right += terms.reward[0] > terms.reward[1] ? 1.0 : 0.0;
    for (int k = 0; k < 2; k++) {
        for (uint32_t t = rows->first[of[k]]; t < rows->first[of[k] + 1]; t++) {
            slopes[t] = share * terms.slope[k];
        }
    }
}

static void pair_losses(const policy_numbers *n, const policy_rows *rows, double *slopes,
                        policy_loss_metrics *metrics)
{
    uint64_t tokens = 0;
    memset(slopes, 0, rows->first[rows->count] * sizeof *slopes);
    for (uint32_t begin = 0; begin < rows->count; begin += n->each) {
        uint32_t of[2] = {begin, begin};
        for (uint32_t i = begin; i < begin + n->each; i++) {
            of[0] = rows->advantages[i] > 0.0f ? i : of[0];
            of[1] = rows->advantages[i] < 0.0f ? i : of[1];
            tokens += row_tokens(rows, i);
            for (uint32_t k = 0; k < row_tokens(rows, i); k++) {
                const uint32_t t = rows->first[i] + k;
                double unused[2];
                metrics->kl += divergence(n, rows->x[t], rows->ref[t], 1.0, unused);
            }
        }
        if (of[0] != of[1]) {
            pair_loss(n, rows, of, slopes, metrics);
        }
    }
    const double pairs = metrics->pairs > 0 ? metrics->pairs : 1.0;
    metrics->chosen /= pairs;
    metrics->rejected /= pairs;
    metrics->right /= pairs;
    metrics->kl /= tokens > 0 ? (double)tokens : 1.0;
    metrics->low_min = 0.0;
}

void policy_loss(const policy_numbers *numbers, const policy_rows *rows, double *slopes,
                 policy_loss_metrics *metrics)
{
    uint64_t tokens = 0;
    uint32_t counted = 0;
    *metrics = (policy_loss_metrics){.low_min = 1.0};
    if (policy_rule_pairs(numbers->rule)) {
        pair_losses(numbers, rows, slopes, metrics);
        return;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        tokens += row_tokens(rows, i);
        counted += row_tokens(rows, i) > 0 ? 1 : 0;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        const uint32_t first = rows->first[i], all = rows->first[i + 1] - first;
        if (row_tokens(rows, i) > 0) {
            row_loss(numbers, rows, i, row_share(numbers, rows, i, tokens), slopes, metrics);
        } else {
            memset(slopes + first, 0, all * sizeof *slopes);
        }
    }
    const double of_tokens = tokens > 0 ? (double)tokens : 1.0;
    /* The ratio of a masked completion is 1 at the sequence level, and not clipped. */
    const bool whole = numbers->rule->level != POLICY_TOKEN;
    const double of = whole ? rows->count : of_tokens;
    metrics->kl /= of_tokens;
    metrics->cispo /= of_tokens;
    metrics->low_mean /= of;
    metrics->high_mean /= of;
    metrics->region_mean = metrics->low_mean + metrics->high_mean;
    metrics->low_min = counted == 0 || (whole && counted < rows->count) ? 0.0 : metrics->low_min;
}

static bool entropy_before(const void *context, uint32_t a, uint32_t b)
{
    const float *entropies = context;
    return entropies[a] < entropies[b];
}

void policy_entropy_mask(const policy_rows *rows, const float *entropies, double top,
                         uint32_t *order, uint32_t *spare, bool *dull)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        for (uint32_t k = 0; k < row_tokens(rows, i); k++) {
            order[count++] = rows->first[i] + k;
        }
    }
    memset(dull, 0, rows->first[rows->count] * sizeof *dull);
    if (count == 0) {
        return;
    }
    bp_sort(order, spare, count, entropy_before, entropies);
    const float rank = (float)(1.0 - top) * (float)(count - 1);
    const uint32_t below = (uint32_t)rank, above = below + 1 < count ? below + 1 : below;
    const float share = rank - (float)below, low = entropies[order[below]];
    const float step = entropies[order[above]] - low;
    const float threshold =
        share < 0.5f ? low + share * step : entropies[order[above]] - step * (1.0f - share);
    for (uint32_t t = 0; t < rows->first[rows->count]; t++) {
        dull[t] = entropies[t] < threshold;
    }
}

void policy_mean(const double *values, uint32_t count, uint32_t pitch, double *mean, double *std)
{
    double sum = 0.0, squares = 0.0;
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double value = values[(size_t)i * pitch];
        sum += isnan(value) ? 0.0 : value;
        there += isnan(value) ? 0 : 1;
    }
    *mean = there > 0 ? sum / there : 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double value = values[(size_t)i * pitch];
        squares += isnan(value) ? 0.0 : (value - *mean) * (value - *mean);
    }
    *std = there > 1 ? sqrt(squares / (there - 1)) : 0.0;
}

static double baseline_of(policy_baseline kind, double all, double group, double reward,
                          uint32_t scored)
{
    return kind == POLICY_ALL     ? all
           : kind == POLICY_GROUP ? group
           : scored > 1           ? (group * scored - reward) / (scored - 1)
                                  : (double)NAN; /* there is no other */
}

/* 1 and -1 of a group's best and worst; what has no reward is neither. */
static void best_and_worst(const double *rewards, uint32_t each, float *advantages)
{
    uint32_t best = each, worst = each;
    for (uint32_t i = 0; i < each; i++) {
        advantages[i] = 0.0f;
        if (!isnan(rewards[i])) {
            best = best == each || rewards[i] > rewards[best] ? i : best;
            worst = worst == each || rewards[i] <= rewards[worst] ? i : worst;
        }
    }
    if (best < each && rewards[best] > rewards[worst]) {
        advantages[best] = 1.0f;
        advantages[worst] = -1.0f;
    }
}

void policy_charge_divergence(const policy_rows *rows, double beta, const double *rewards,
                              double *charged, double *mean)
{
    double all = 0.0;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        const uint32_t first = rows->first[i], count = row_tokens(rows, i);
        double sum = 0.0;
        for (uint32_t t = first; t < first + count; t++) {
            sum += rows->x[t] - rows->ref[t];
        }
        charged[i] = rewards[i] - beta * sum;
        all += sum;
        tokens += count;
    }
    *mean = tokens > 0 ? all / (double)tokens : 0.0;
}

void policy_token_advantages(policy_scale scale, const policy_rows *rows, uint32_t each,
                             double beta, const double *rewards, double *returns, float *to,
                             double *mean)
{
    double all = 0.0, middle, batch, std, unused;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        const uint32_t first = rows->first[i], count = row_tokens(rows, i);
        double rest = 0.0;
        for (uint32_t t = rows->first[i + 1]; t-- > first;) {
            rest += rows->x[t] - rows->ref[t];
            returns[t] = count > 0 ? rewards[i] - beta * rest : (double)NAN;
        }
        all += count > 0 ? rest : 0.0;
        tokens += count;
    }
    policy_mean(returns, rows->first[rows->count], 1, &middle, &batch);
    for (uint32_t i = 0; i < rows->count; i += each) {
        const uint32_t begin = rows->first[i], end = rows->first[i + each];
        policy_mean(returns + begin, end - begin, 1, &unused, &std);
        const double by = scale == POLICY_SCALE_NONE    ? 1.0
                          : scale == POLICY_SCALE_BATCH ? batch + 1e-4
                                                        : std + 1e-4;
        for (uint32_t t = begin; t < end; t++) {
            to[t] = isnan(returns[t]) ? 0.0f : (float)((returns[t] - middle) / by);
        }
    }
    *mean = tokens > 0 ? all / (double)tokens : 0.0;
}

/* Rewards of a group less what they are compared with; the number that are there. */
static uint32_t center(const policy_rule *rule, const double *rewards, uint32_t each, double all,
                       double *centered)
{
    double mean, std;
    uint32_t scored = 0;
    policy_mean(rewards, each, 1, &mean, &std);
    for (uint32_t i = 0; i < each; i++) {
        scored += isnan(rewards[i]) ? 0 : 1;
    }
    for (uint32_t i = 0; i < each; i++) {
        centered[i] = rewards[i] - baseline_of(rule->baseline, all, mean, rewards[i], scored);
    }
    return scored;
}

void policy_advantages(const policy_rule *rule, policy_scale scale, const double *rewards,
                       uint32_t groups, uint32_t each, double *centered, float *advantages,
                       policy_spread *spread)
{
    uint32_t flat = 0;
    const uint32_t count = groups * each;
    double batch, all, unused;
    spread->unscored = 0;
    policy_mean(rewards, count, 1, &all, &batch);
    for (uint32_t g = 0; g < groups; g++) {
        const size_t at = (size_t)g * each;
        spread->unscored += each - center(rule, rewards + at, each, all, centered + at);
    }
    if (rule->baseline == POLICY_OTHERS) { /* TRL's RLOO takes the spread of advantages */
        policy_mean(centered, count, 1, &unused, &batch);
    }
    for (uint32_t g = 0; g < groups; g++) {
        const size_t at = (size_t)g * each;
        double std;
        policy_mean(rewards + at, each, 1, &unused, &std);
        const double by = scale == POLICY_SCALE_NONE    ? 1.0
                          : scale == POLICY_SCALE_BATCH ? batch + 1e-4
                                                        : std + 1e-4;
        for (uint32_t i = 0; i < each; i++) {
            advantages[at + i] = isnan(centered[at + i]) ? 0.0f : (float)(centered[at + i] / by);
        }
        if (rule->baseline == POLICY_BEST) {
            best_and_worst(rewards + at, each, advantages + at);
        }
        flat += std < 1e-8 ? 1 : 0;
    }
    spread->flat_groups = groups > 0 ? (double)flat / groups : 0.0;
}
