/* SPDX-License-Identifier: MIT */
/* Plans of all ranks, none of which has to exist: bytes of each, what it owns, what a step sends.
 */
#ifndef BP_BEDPLATE_SHARD_PLAN_H
#define BP_BEDPLATE_SHARD_PLAN_H

#include "core/plan/search/share.h"
#include "tools/bedplate/session/session.h"

/* The values of --shard, in the order of bp_sharing, and `auto` (core/plan/search/share.h). */
#define SHARD_WORDS "none|optimizer|gradients|parameters|auto"

typedef struct shard_plan {
    uint32_t ranks;      /* 0: not asked for */
    bp_share_rank *rank; /* [ranks] */
    bp_wire wire;
} shard_plan;

/* --fabric threads:N of a plan: --ranks N, which share the processors as in the run. */
void shard_plan_here(settings *set);

/* BP_ERR_USAGE for a --fabric whose ranks are not known, or another number of ranks in --ranks. */
bp_status shard_plan_check(const settings *set, bp_error *error) BP_MUST_CHECK;

/* --ranks and --shard become the spec's; of `auto`, nothing is shared yet. */
void shard_resolve(const settings *set, bp_spec *spec);
bool shard_automatic(const settings *set);

/* --bandwidth, --latency and --ranks-per-host for wire->ranks. BP_ERR_USAGE where they make no
 * sense. */
bp_status shard_plan_links(const settings *set, bp_wire *wire, bp_error *error) BP_MUST_CHECK;

/* Plans every rank; s is planned as rank 0. BP_ERR_USAGE for options that make no sense. Takes
 * memory, which shard_plan_end gives back. Cost: a plan for each rank where state is shared. */
bp_status shard_plan_find(session *s, shard_plan *plan) BP_MUST_CHECK;
void shard_plan_end(shard_plan *plan);

#endif
