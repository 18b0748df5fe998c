/* SPDX-License-Identifier: MIT */
/* What the ranks of a training run do together. One rank does it alone. */
#ifndef BP_BEDPLATE_TRAIN_RANKS_H
#define BP_BEDPLATE_TRAIN_RANKS_H

#include "tools/bedplate/runs/training.h"

/* Before any of them plans, so that a plan that differs is told by what it comes of: ranks_compare
 * of the run's facts. */
bp_status train_ranks_compare(training *t) BP_MUST_CHECK;

/* The step itself is what all ranks do at once. */
bp_status train_ranks_step(training *t, bp_outcome *outcome) BP_MUST_CHECK;

/* What ranks tell each other after a step. */
typedef struct train_ranks_word {
    uint64_t signal;
    uint64_t stop; /* service_stop */
    uint64_t save;
    uint64_t step;
    double loss;
} train_ranks_word;

/* What any rank is asked for all of them do after the same step; and a rank that is elsewhere, or
 * computed something else, is found: BP_ERR_FABRIC. */
bp_status train_ranks_agree(training *t, train_ranks_word *mine) BP_MUST_CHECK;

#endif
