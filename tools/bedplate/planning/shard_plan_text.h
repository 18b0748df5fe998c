/* SPDX-License-Identifier: MIT */
/* Bytes of every rank, what each owns, what a step sends: lines of the plan's table and its JSON.
 */
#ifndef BP_BEDPLATE_SHARD_PLAN_TEXT_H
#define BP_BEDPLATE_SHARD_PLAN_TEXT_H

#include "tools/bedplate/app/output.h"
#include "tools/bedplate/planning/shard_plan.h"

/* Nothing where no ranks were asked for. with_map: the ranges that each owns as well. */
void shard_plan_json(output *out, const session *s, const shard_plan *plan);
void shard_plan_put(bp_text *text, const session *s, const shard_plan *plan, bool with_map);

/* A section of the plan's page: a bar for each rank, and the sum where they share a process. */
void shard_plan_page(bp_text *text, const session *s, const shard_plan *plan);

#endif
