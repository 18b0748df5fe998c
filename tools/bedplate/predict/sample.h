/* SPDX-License-Identifier: MIT */
/* Choosing the next token from logits: what transformers' logits processors do, in its order. */
#ifndef BP_BEDPLATE_SAMPLE_H
#define BP_BEDPLATE_SAMPLE_H

#include <stdint.h>

typedef struct sampling {
    double temperature;        /* 0: always the likeliest (the first of equals) */
    uint64_t top_k;            /* 0: all */
    double top_p;              /* 1: all */
    double min_p;              /* 0: all */
    double repetition_penalty; /* 1: none */
    uint64_t seed;
} sampling;

/* RepetitionPenaltyLogitsProcessor: in `scores`, a copy of `logits`, those of the tokens in
 * ids[0 .. length) become the logit times the penalty where it is below zero, else the logit
 * divided by it, in fp32. Ids are below the number of logits. */
void sample_penalise(const sampling *how, const float *logits, float *scores, const int32_t *ids,
                     uint32_t length);

/* TemperatureLogitsWarper, TopK, TopP and MinP, one after the other: order[0 .. n) become the
 * tokens that may follow, and n is returned, at least 1. Their chances are proportional to
 * exp(score / temperature). top_p keeps the likeliest whose mass reaches it, min_p what is at least
 * min_p times as likely as the likeliest. Of equals at top_k's border the first are kept. With a
 * temperature of 0 the one likeliest. `order` has room for `count` numbers. count > 0. */
uint32_t sample_narrow(const sampling *how, const float *scores, uint32_t count, uint32_t *order);

/* The token chosen as number `position` of sequence number `sequence`: a function of its arguments
 * alone; sequences draw from streams of their own. `order` has room for `count` numbers. Scores
 * that are not numbers are never chosen. count > 0. */
uint32_t sample_token(const sampling *how, const float *scores, uint32_t count, uint32_t sequence,
                      uint64_t position, uint32_t *order);

#endif
