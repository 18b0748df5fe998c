/* SPDX-License-Identifier: MIT */
/* Sums of what losses over pairs count, for the metrics of runs/metric.c. */
#ifndef BP_BEDPLATE_PREFERENCE_METRICS_H
#define BP_BEDPLATE_PREFERENCE_METRICS_H

#include "core/plan/spec.h"

/* Sums (bp_metric), and what loss they are of. */
typedef struct preference_metrics {
    double of[BP_METRIC_NUMBERS];
    bp_preference_kind kind; /* NONE: nothing is told */
    bool chosen_losses;      /* the loss has the chosen rows' mean in it */
    bool balances;           /* of[0] adds up balancing losses instead, of so many steps; the */
    uint64_t steps;          /* result blocks of virtual ranks do not say them */
} preference_metrics;

void preference_metrics_begin(preference_metrics *sums, const bp_spec *spec);
void preference_metrics_add(preference_metrics *sums, const float told[BP_METRIC_NUMBERS]);
void preference_metrics_cut(preference_metrics *sums);

#endif
