/* SPDX-License-Identifier: MIT */
/* Inside the planner: buffers of one size that follow one another laid out as one. */
#ifndef BP_ARENA_PLAN_JOIN_H
#define BP_ARENA_PLAN_JOIN_H

#include "arena/plan_hot.h"

typedef struct plan_join {
    plan_item *item; /* [items]: joined; placed by the caller, as are the next three */
    uint64_t *total; /* [sections]: with what is taken between those that follow one another */
    uint64_t *best;  /* [items]: of the joined */
    uint32_t *of;    /* [items]: of an item, the joined one */
    uint64_t nodes;  /* placements that searches tried */
} plan_join;

void plan_join_place(plan_join *join, bp_arena *memory, uint64_t count);

/* Both improve on the best layout of hot->work, whose items were cut out of `buffers`. Its lists
 * have to be cut again afterwards (plan_block). */

/* Greedy layouts alone, for sets of which these take long: at the first pace, or at the others. */
void plan_join_greedy(plan_join *join, plan_hot *hot, const bp_interval *buffers, bool first);

/* Layouts around full sections, with `greedy` after greedy ones. Returns whether so many were
 * joined that the joined ones stand for all. */
bool plan_join_run(plan_join *join, plan_hot *hot, const bp_interval *buffers, bool greedy);

#endif
