/* SPDX-License-Identifier: MIT */
/* Inside the planner: the full sections laid out first, all other time left out. */
#ifndef BP_ARENA_PLAN_HOT_H
#define BP_ARENA_PLAN_HOT_H

#include "arena/plan_exact.h"

typedef struct plan_hot {
    plan_work *work;     /* the whole problem */
    plan_work inner;     /* the problem of the hot sections; its arrays are placed by the caller */
    plan_exact *exact;   /* for the inner problem; NULL to do without */
    uint32_t *map;       /* [sections + 1]: kept sections before each; placed by the caller */
    uint64_t *depth;     /* [sections]: how far down from the capacity hangs what hangs */
    bool *hot;           /* [sections]: which sections are to be full; placed by the caller */
    bool down;           /* the inner problem is upside down: level 0 is the capacity */
    uint32_t most;       /* the section in which most bytes die that live at the peak */
    uint32_t hanging;    /* items that hang, at the front of work->order */
    uint32_t placed;     /* items that have an offset, at the front of work->order */
    uint64_t effort;     /* placements that one search may try */
    uint64_t nodes;      /* placements that searches tried */
    uint32_t rounds;     /* first fits that may still be made */
    uint64_t look_limit; /* entries of lists that may be looked at for one set of buffers, its
                            joined ones included */
    uint64_t looked;     /* of these, by all calls so far */
} plan_hot;

/* Improves on work's best layout; work->items must not be 0. The work is bounded by a number of
 * rounds that depends on the count of items only. */
void plan_hot_run(plan_hot *hot);

#endif
