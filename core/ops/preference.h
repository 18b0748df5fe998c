/* SPDX-License-Identifier: MIT */
/* Losses over pairs of rows, in double, as inline code of the host and of CUDA, so that both have
 * the same bits. The formulas are those of TRL's trainers:
 *   DPO    Rafailov et al., arXiv 2305.18290; smoothing as in Mitchell's cDPO note
 *   hinge  SLiC, arXiv 2305.10425;    IPO  Azar et al., arXiv 2310.12036, averages per token
 *   ORPO   Hong et al., arXiv 2403.07691;    SimPO  Meng et al., arXiv 2405.14734
 *   KTO    Ethayarajh et al., arXiv 2402.01306
 * Whoever includes this has bp_exp and bp_log of doubles. */
#ifndef BP_CORE_PREFERENCE_H
#define BP_CORE_PREFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/ops/storage_format.h"

/* The sums of a row of tokens. */
typedef struct bp_preference_row {
    double sum; /* log-probability of the completion, natural */
    double all; /* minus that of all targets */
    double reference;
    uint64_t count;     /* targets of the completion */
    uint64_t all_count; /* targets */
    int32_t side;
} bp_preference_row;

/* The numbers of a loss. */
typedef struct bp_preference_numbers {
    int64_t kind;
    double beta;
    double smoothing;
    double gamma;
    double weight[2]; /* KTO: of desirable and of undesirable rows */
} bp_preference_numbers;

/* What a pair adds to the loss, and how the loss moves with the rows' log-probabilities. */
typedef struct bp_preference_terms {
    double loss;
    double slope[2];
    double reward[2];
    double logp[2];
    bool there;
} bp_preference_terms;

/* losses (sequence): minus log-probabilities of targets, which are where labels are >= 0. The sum
 * is rounded as the reference's was: of the same model their difference is 0. */
static inline bp_preference_row bp_preference_read(const float *losses, const int32_t *labels,
                                                   const int32_t *sides, uint64_t sequence)
{
    bp_preference_row row = {0.0, 0.0, 0.0, 0, 0, sides[0]};
    float reference;
    memcpy(&reference, &sides[1], sizeof reference);
    row.reference = (double)reference;
    for (uint64_t t = 0; t < sequence; t++) {
        if (labels[t] < 0) {
            continue;
        }
        const double loss = (double)losses[t];
        row.all += loss;
        row.all_count++;
        if ((int64_t)t >= (int64_t)sides[2]) {
            row.sum -= loss;
            row.count++;
        }
    }
    row.sum = (double)(float)row.sum;
    return row;
}

/* 1 - e^a of a log-probability a, which is below 0. */
static inline double bp_one_less_exp(double a)
{
    a = a < -1e-12 ? a : -1e-12;
    return a > -1e-5 ? -(a + 0.5 * a * a) : 1.0 - bp_exp(a);
}

/* The score of a row that a kind compares, and the metrics of it. */
static inline double bp_preference_score(int64_t kind, const bp_preference_row *row,
                                         double *metrics)
{
    const bool averages = kind == BP_PREFERENCE_ORPO || kind == BP_PREFERENCE_SIMPO;
    const double own = averages ? row->sum / (double)row->count : row->sum - row->reference;
    *metrics = averages ? own : row->sum;
    return own;
}

/* From x to the loss: log(1 + e^-x) with its share of log(1 + e^x) where labels are smoothed, or,
 * of KTO, 1 - sigmoid(x). */
static inline double bp_preference_logistic(bool single, double x, double smoothing, double *slope)
{
    const double size = x < 0.0 ? -x : x;
    const double e = bp_exp(-size), small = e / (1.0 + e), large = 1.0 / (1.0 + e);
    const double up = x < 0.0 ? small : large, down = x < 0.0 ? large : small;
    if (single) {
        *slope = -up * down;
        return down;
    }
    *slope = smoothing * up - (1.0 - smoothing) * down;
    return bp_log(1.0 + e) + (x < 0.0 ? (1.0 - smoothing) * size : smoothing * size);
}

/* A chosen and a rejected row, or KTO's row alone (`chosen`), against z. A pair that lacks a
 * completion is not there. */
static inline bp_preference_terms bp_preference_pair(const bp_preference_numbers *n, double z,
                                                     const bp_preference_row *chosen,
                                                     const bp_preference_row *rejected)
{
    bp_preference_terms t = {0.0, {0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}, false};
    const bool single = n->kind == BP_PREFERENCE_KTO, odds = n->kind == BP_PREFERENCE_ORPO;
    const bool away = single && chosen->side == BP_SIDE_REJECTED;
    if (chosen->count == 0 || (!single && rejected->count == 0) ||
        (chosen->side != BP_SIDE_CHOSEN && !away)) {
        return t;
    }
    double score[2], by[2] = {1.0, -1.0}, slope, weight = 1.0, x;
    t.there = true;
    score[0] = bp_preference_score(n->kind, chosen, &t.logp[0]);
    score[1] = single ? z : bp_preference_score(n->kind, rejected, &t.logp[1]);
    t.reward[0] = n->beta * score[0];
    t.reward[1] = single ? 0.0 : n->beta * score[1];
    if (n->kind == BP_PREFERENCE_IPO) {
        score[0] /= (double)chosen->count;
        score[1] /= (double)rejected->count;
    }
    if (odds || n->kind == BP_PREFERENCE_IPO || n->kind == BP_PREFERENCE_SIMPO) {
        by[0] /= (double)chosen->count;
        by[1] /= (double)rejected->count;
    }
    x = n->beta * (score[0] - score[1]);
    if (n->kind == BP_PREFERENCE_HINGE) {
        t.loss = x < 1.0 ? 1.0 - x : 0.0;
        slope = x < 1.0 ? -n->beta : 0.0;
    } else if (n->kind == BP_PREFERENCE_IPO) {
        const double off = (score[0] - score[1]) - 1.0 / (2.0 * n->beta);
        t.loss = off * off;
        slope = 2.0 * off;
    } else {
        slope = n->beta;
        if (odds) {
            const double less[2] = {bp_one_less_exp(score[0]), bp_one_less_exp(score[1])};
            x = (score[0] - score[1]) + bp_log(less[1] / less[0]);
            by[0] /= less[0];
            by[1] /= less[1];
            weight = n->beta;
            slope = 1.0;
        } else if (single) {
            weight = away ? n->weight[1] : n->weight[0];
            x = away ? -x : x;
            slope = away ? -n->beta : n->beta;
        } else {
            x -= n->kind == BP_PREFERENCE_SIMPO ? n->gamma : 0.0;
        }
        double by_x;
        t.loss = weight * bp_preference_logistic(single, x, odds ? 0.0 : n->smoothing, &by_x);
        slope *= weight * by_x;
    }
    t.slope[0] = slope * by[0];
    t.slope[1] = single ? 0.0 : slope * by[1];
    return t;
}

/* Where a result block (core/ir/step.h) keeps the metrics, BP_METRIC_NUMBERS floats. */
#define BP_PREFERENCE_METRICS(result)                                                              \
    ((float *)(void *)((char *)(result) + offsetof(bp_result_block, metrics)))

/* Adds the metrics of a pair, or of KTO's row; `more` as BP_METRIC_MORE says. */
static inline void bp_preference_tell(float *metrics, const bp_preference_terms *t, int32_t side,
                                      bool single, double more)
{
    const int first = single && side == BP_SIDE_REJECTED ? 1 : 0;
    for (int i = 0; i < (single ? 1 : 2); i++) {
        metrics[BP_METRIC_REWARD + first + i] += (float)t->reward[i];
        metrics[BP_METRIC_LOGP + first + i] += (float)t->logp[i];
        metrics[BP_METRIC_COUNT + first + i] += 1.0f;
    }
    metrics[BP_METRIC_RIGHT] += !single && t->reward[0] > t->reward[1] ? 1.0f : 0.0f;
    metrics[BP_METRIC_MORE] += (float)more;
}

#endif
