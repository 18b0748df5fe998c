/* SPDX-License-Identifier: MIT */
/* Metrics of preferences: means, under the names of TRL's trainers. */
#ifndef BP_BEDPLATE_PREFERENCE_METRICS_H
#define BP_BEDPLATE_PREFERENCE_METRICS_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/output.h"

/* Sums (bp_metric), and what loss they are of. */
typedef struct preference_metrics {
    double of[BP_METRIC_NUMBERS];
    bp_preference_kind kind; /* NONE: nothing is told */
    bool chosen_losses;      /* the loss has the chosen rows' mean in it */
} preference_metrics;

void preference_metrics_begin(preference_metrics *sums, const bp_spec *spec);
void preference_metrics_add(preference_metrics *sums, const float told[BP_METRIC_NUMBERS]);
void preference_metrics_cut(preference_metrics *sums);

/* The index-th name, NULL past the last; and its value, NaN where the loss has no such number, or
 * nothing was counted. Of all of them greater is better, but for nll_loss. */
const char *preference_metrics_name(uint32_t index);
double preference_metrics_value(const preference_metrics *sums, uint32_t index);

/* Members PREFIX"rewards/chosen" .. of an object; ", rewards/chosen 0.1234 ..". */
void preference_metrics_json(const preference_metrics *sums, const char *prefix, output *out);
void preference_metrics_text(const preference_metrics *sums, bp_text *text);

#endif
