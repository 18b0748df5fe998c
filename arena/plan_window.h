/* SPDX-License-Identifier: MIT */
/* Inside the planner: the tight part of the time laid out first. */
#ifndef BP_ARENA_PLAN_WINDOW_H
#define BP_ARENA_PLAN_WINDOW_H

#include "arena/plan_exact.h"

typedef struct plan_window {
    plan_work *work;   /* the whole problem */
    plan_work inner;   /* the problem inside the window; its arrays are placed by the caller */
    plan_exact *exact; /* for the inner problem; NULL to do without */
    uint32_t first;    /* the window's sections [first, last) */
    uint32_t last;
    const char *name; /* of the layouts that are made */
    uint64_t nodes;   /* placements that searches tried */
    uint32_t rounds;  /* first fits that may still be made */
} plan_window;

/* Improves on work's best layout; work->items must not be 0. The work is bounded by a number of
 * rounds that depends on the count of items only. */
void plan_window_run(plan_window *window);

#endif
