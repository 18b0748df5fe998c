/* SPDX-License-Identifier: MIT */
/* Which shorter sequences get programs of their own: where to cut lengths so that least padding is
 * expected. */
#ifndef BP_CORE_LENGTHS_H
#define BP_CORE_LENGTHS_H

#include "core/plan/spec.h"

#define BP_LENGTHS_CUTS 512 /* most lengths that are compared */
/* Most programs, the whole sequence's among them. */
#define BP_LENGTHS_MOST (BP_LENGTH_BUCKETS_MAX + 1)

/* Samples of which the lengths are asked, of more than 16384 so many at even distances. */
typedef struct bp_lengths_samples {
    /* The tokens of sample number `sample`, below `count`. */
    bp_status (*tokens)(const void *user, uint64_t sample, uint32_t *tokens);
    const void *user;
    uint64_t count;
    uint32_t together; /* samples that go through a program at a time */
} bp_lengths_samples;

/* Memory of the search, lent by the caller; nothing in it is kept. share[i] of all micro-batches,
 * rising from share[0] = 0 to 1, go into length number i. */
typedef struct bp_lengths_work {
    double share[BP_LENGTHS_CUTS + 1];
    double best[BP_LENGTHS_CUTS + 1];
    uint16_t from[BP_LENGTHS_MOST][BP_LENGTHS_CUTS + 1];
} bp_lengths_work;

/* Fills spec->lengths for at most `programs` programs, 1 to BP_LENGTHS_MOST; spec->sequence is
 * known. Of multiples of 8 (of a larger number where there would be more than BP_LENGTHS_CUTS)
 * those are chosen with which least tokens are expected to go through the programs: length L serves
 * the share P(L) - P(L before) of all micro-batches, where P(L) = (share of samples of at most L
 * tokens)^together. As few as do it. `samples` NULL, or none: at even distances. BP_ERR_USAGE: so
 * many programs cannot be; else the status of samples->tokens, and spec->length_count is 0. Cost:
 * programs * BP_LENGTHS_CUTS^2 / 2 steps. */
bp_status bp_lengths_find(bp_spec *spec, uint32_t programs, const bp_lengths_samples *samples,
                          bp_lengths_work *work) BP_MUST_CHECK;

#endif
