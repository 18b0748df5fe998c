/* SPDX-License-Identifier: MIT */
/* --metric-for-best-model: by which number of an evaluation the best one is found. */
#ifndef BP_BEDPLATE_METRIC_H
#define BP_BEDPLATE_METRIC_H

#include "tools/bedplate/runs/best.h"
#include "tools/bedplate/predict/predictions.h"
#include "tools/bedplate/app/settings.h"

typedef struct metric_choice {
    const char *name; /* as evaluations print it, without "eval_" */
    best_rule rule;
} metric_choice;

/* Whether the run counts tokens that a language model guesses right: it asks for that, or finds the
 * best model by it. Evaluations then keep logits. */
bool metric_counts_tokens(const settings *set);

/* BP_ERR_USAGE, printed, where evaluations of the task have no such number. */
bp_status metric_choose(const settings *set, const bp_spec *spec,
                        metric_choice *metric) BP_MUST_CHECK;

/* Its value in an evaluation of that mean loss. */
double metric_value(const metric_choice *metric, double loss, const predictions *made,
                    bp_task task);

#endif
