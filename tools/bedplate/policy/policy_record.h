/* SPDX-License-Identifier: MIT */
/* What a record has of the completions of a step, and rewards that are taken from there. */
#ifndef BP_BEDPLATE_POLICY_RECORD_H
#define BP_BEDPLATE_POLICY_RECORD_H

#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/runs/metric.h"

/* The members of a line `rollout` (docs/record.md) but the first, of the step that was prepared. */
void policy_record_put(json_line *line, const policy_run *policy);

/* The scores of the columns from `first` on of the member `rewards`, `digits` characters at text,
 * into scores (count, columns). BP_ERR_DATA: they are not so many, or no hexadecimal digits. */
bp_status policy_record_scores(const char *text, size_t digits, uint32_t count, uint32_t columns,
                               uint32_t first, double *scores, bp_error *error) BP_MUST_CHECK;

/* Members of an event: numbers of a step, then of its first prompt whose completions have different
 * rewards, else of the first, the best and the worst completion. Texts are cut. */
void policy_event_put(json_line *line, const policy_run *policy, const metric_list *list);

#endif
