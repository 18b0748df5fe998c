/* SPDX-License-Identifier: MIT */
/* What is told of pairs of rows: means, under the names of TRL's trainers. */
#ifndef BP_BEDPLATE_TOLD_H
#define BP_BEDPLATE_TOLD_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/output.h"

/* Sums (bp_told), and what loss they are of. */
typedef struct told_sums {
    double of[BP_TOLD_NUMBERS];
    bp_preference_kind kind; /* NONE: nothing is told */
    bool chosen_losses;      /* the loss has the chosen rows' mean in it */
} told_sums;

void told_begin(told_sums *sums, const bp_spec *spec);
void told_add(told_sums *sums, const float told[BP_TOLD_NUMBERS]);
void told_cut(told_sums *sums);

/* The index-th name, NULL past the last; and its value, NaN where the loss has no such number, or
 * nothing was counted. Of all of them greater is better, but for nll_loss. */
const char *told_name(uint32_t index);
double told_value(const told_sums *sums, uint32_t index);

/* Members PREFIX"rewards/chosen" .. of an object; ", rewards/chosen 0.1234 ..". */
void told_json(const told_sums *sums, const char *prefix, output *out);
void told_text(const told_sums *sums, bp_text *text);

#endif
