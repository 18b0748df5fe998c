/* SPDX-License-Identifier: MIT */
/* What evaluations have said so far: which step was best, and since when none was better. Part of
 * a checkpoint, so that a resumed run decides as one that was never stopped. */
#ifndef BP_BEDPLATE_BEST_H
#define BP_BEDPLATE_BEST_H

#include "arena/base.h"

#define BEST_TEXT 96 /* bytes that hold best_put's text */

typedef struct best_state {
    uint64_t judged;   /* step of the last evaluation; 0: none */
    uint64_t step;     /* of the best one; 0: none */
    double value;      /* the metric's, of the best one */
    uint64_t patience; /* evaluations in a row that were not better */
} best_state;

/* What better means. */
typedef struct best_rule {
    bool greater;     /* greater is better; else less is */
    double threshold; /* patience: better by no more than this counts as not better */
} best_rule;

/* Takes the metric of an evaluation into account. True when it is better than all before; a value
 * that is no number never is. A step that was judged is not judged again. Patience is counted as
 * transformers' EarlyStoppingCallback does it: against the best value so far. */
bool best_judge(best_state *state, const best_rule *rule, uint64_t step, double value);

/* The state as text of one length, terminated; and back, false for anything else. */
void best_put(const best_state *state, char text[BEST_TEXT]);
bool best_parse(const char *text, best_state *state);

#endif
