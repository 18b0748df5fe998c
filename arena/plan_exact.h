/* SPDX-License-Identifier: MIT */
/* Inside the planner: several exact searches that take turns. */
#ifndef BP_ARENA_PLAN_EXACT_H
#define BP_ARENA_PLAN_EXACT_H

#include "arena/plan_search.h"

#define EXACT_ORDERS 3u /* static orders, each searched at the bound and at a roomier capacity */

typedef struct plan_exact {
    plan_work *work;
    search_tables tables;
    plan_search search[2 * EXACT_ORDERS]; /* the first half at the bound, the second at the aim */
    uint64_t aim;                         /* units: capacity of the second half */
    uint64_t least;                       /* units: every capacity below it is refuted */
    uint64_t nodes;                       /* placements tried, over all searches */
    uint64_t spent;                       /* of these, at the present aim */
    uint64_t patience;                    /* how many may be spent on one aim */
} plan_exact;

/* Takes the arrays of all searches for `count` buffers from the arena. */
void plan_exact_place(plan_exact *exact, bp_arena *memory, uint32_t count);

/* Improves on work's best layout with at most `limit` placements; work->items must be at most
 * SEARCH_ITEMS. Returns whether it is now known that no lower layout exists. */
bool plan_exact_run(plan_exact *exact, plan_work *work, uint64_t limit);

#endif
