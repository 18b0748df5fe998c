/* SPDX-License-Identifier: MIT */
/* Plans and fits in memory of the size that was counted for them. */
#ifndef BP_BEDPLATE_DRY_RUN_H
#define BP_BEDPLATE_DRY_RUN_H

#include "core/plan/search/choice.h"
#include "tools/bedplate/app/memory.h"

/* Counts what a plan of the spec needs and takes it, rounded up to whole pages of 4096 bytes, with
 * `extra` bytes behind it. What is wrong with the spec goes to plan->error, what is wrong with
 * the memory to `error`. */
bp_status dry_run_take(bp_plan *plan, const bp_spec *spec, uint64_t extra, memory_block *memory,
                       bp_error *error) BP_MUST_CHECK;

/* What searches borrow of the heap, whole pages. */
extern const bp_lender dry_run_lender;

/* What the plan of a spec says, made in memory that is given back at once, and the arena alone; as
 * bp_plan_measure says it, so that beyond `limit` (0: there is none) the arena is a bound. */
bp_status dry_run_report(const bp_spec *spec, uint64_t limit, bp_report *report,
                         bp_error *error) BP_MUST_CHECK;
bp_status dry_run_arena(const bp_spec *spec, uint64_t limit, uint64_t *arena_bytes,
                        bp_error *error) BP_MUST_CHECK;

/* The arena of a spec, laid out, and bp_graph_digest of its plan. */
bp_status dry_run_digest(const bp_spec *spec, uint64_t *arena_bytes, uint64_t *digest,
                         bp_error *error) BP_MUST_CHECK;

/* Planning that takes longer than a second says so on stderr, where `quiet` is false: a line that
 * is drawn again on a terminal, elsewhere one every ten seconds. Plans made here advance it, and so
 * does each call of dry_run_advance; while one plan takes longer its seconds go on (SIGALRM).
 * dry_run_wipe ends that, and removes the line before others print. */
void dry_run_watch(bool quiet);
void dry_run_advance(void);
void dry_run_wipe(void);

/* Bytes of plan memory that dry_run_take has put before `extra`. */
uint64_t dry_run_bytes(const bp_plan *plan);

#endif
