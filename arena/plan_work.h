/* SPDX-License-Identifier: MIT */
/* Inside the planner: buffers in a canonical order over compressed time, and who works on them. */
#ifndef BP_ARENA_PLAN_WORK_H
#define BP_ARENA_PLAN_WORK_H

#include "arena/arena.h"
#include "arena/layout.h"
#include "arena/sort.h"

/* A buffer as the planner sees it. Time is cut into sections, one per distinct end of a lifetime:
 * between two ends the live set only grows, so its state just before each end is the only one that
 * can bind. Sizes and offsets are counted in units: the alignment times the greatest common divisor
 * of the sizes, so that every sum of sizes is an aligned offset and the search has few capacities
 * to try. */
typedef struct plan_item {
    uint64_t size;
    uint32_t first; /* sections [first, last) */
    uint32_t last;
    uint32_t width; /* of the life in program time */
    uint32_t row;   /* in the caller's array */
    bool hot;       /* laid out first */
    bool hangs;     /* outlives most of its contemporaries */
} plan_item;

#define PLAN_SLOTS 6u /* entries in the lists of blocks, per item */

/* Where an item lies and how long it lives, side by side: a first fit looks at all four of many. */
typedef struct plan_spot {
    uint64_t level;
    uint64_t top;
    uint32_t first;
    uint32_t last;
} plan_spot;

/* All scratch of one call. Items are sorted by (size descending, lower, upper), so whatever breaks
 * its ties by item index does not depend on the caller's row order. */
typedef struct plan_work {
    uint32_t items;
    uint32_t sections;
    uint64_t unit;        /* bytes */
    uint64_t base;        /* units: buffers that live in every section lie below all items */
    uint64_t bound;       /* units: largest section total */
    uint64_t best_height; /* units: top of the best layout so far */
    uint64_t capacity;    /* units: a layout this low ends the work */
    bool least;           /* the lowest layout is wanted, not one within a given capacity */
    bool floors;          /* some floor is not 0 */
    plan_item *item;
    uint64_t *total;  /* per section: sum of sizes */
    uint64_t *best;   /* per item: offset in the best layout so far */
    uint64_t *offset; /* per item: offset in the layout being made */
    uint64_t *floor;  /* per item: nothing lies lower than this */
    uint64_t *head;   /* per item: units that are taken above it, counted from the top */
    uint64_t *over;   /* per section: the same for whoever lives there */
    uint32_t *order;  /* per place: item */
    uint64_t *key;    /* per item: sort keys, or free for use between sorts */
    uint32_t *spare;  /* merge sort's second array; free for use between sorts */
    uint64_t *level;  /* free for use by one layout at a time, as are the next two */
    uint32_t *first;
    uint32_t *last;
    plan_spot *spot;    /* per item, of a first fit */
    uint32_t shift;     /* a block is 1 << shift sections */
    uint32_t blocks;    /* of time */
    uint32_t *start;    /* [blocks + 1]: where each block's list begins in slot[] */
    uint32_t *used;     /* [blocks]: entries of each list */
    uint32_t *cursor;   /* [blocks]: free for use by one search of a gap */
    uint32_t *slot;     /* [PLAN_SLOTS x items]: the lists */
    uint32_t *skip;     /* [blocks]: of a first fit, entries at each list's beginning that live in
                           all of the block without a gap below bottom[] */
    uint64_t *bottom;   /* [blocks] */
    uint64_t looked;    /* entries of lists that the greedy layouts looked at */
    const char *method; /* what made the best layout */
} plan_work;

/* The static orders of the dives and searches: keys compared one after another, all descending.
 * T largest section total over the item's life, W width of the life in program time, A area (size x
 * width). Every order ends with the item index, which alone is the order of sizes. */
typedef enum plan_rule {
    PLAN_TWA,
    PLAN_TAW,
    PLAN_WAT,
    PLAN_AREA, /* AZT, Z being the size */
    PLAN_SIZE,
    PLAN_HEAD, /* who has most above him or the lowest floor first, then TW */
    PLAN_RULE_COUNT
} plan_rule;

/* Finds what T looks at, the largest of the section totals in total[] over the lives of `count`
 * items: those of list[], or where it is NULL the first ones. It stays in work->key. */
void plan_peaks(plan_work *work, const uint64_t *total, const uint32_t *list, uint32_t count);

/* Sorts work->order[0, count) by a rule; plan_peaks comes first. */
void plan_order(plan_work *work, plan_rule rule, uint32_t count);

/* Cuts time into the shortest blocks for which the lists have room. Must be called before the
 * layouts below whenever the items have changed. */
void plan_block(plan_work *work);

/* First fit in two parts, of which the second may be repeated with what follows in another order.
 * plan_place takes the first `placed` of work->order, which stay where work->offset says, and keeps
 * its lists in those of `copy`, whose best_height becomes the height of these, with its skip and
 * bottom. plan_fit_rest places the others, each into the lowest gap that holds it. Returns the
 * height of all. */
void plan_place(plan_work *work, plan_work *copy, uint32_t placed);
uint64_t plan_fit_rest(plan_work *work, const plan_work *copy, uint32_t placed);

/* Dives and first fits in several orders, until one ends the work. */
void plan_attempts(plan_work *work);

/* Keeps work->offset if its height is the least so far. */
void plan_keep(plan_work *work, uint64_t height, const char *method);

/* Whether the best layout so far ends the work. */
bool plan_done(const plan_work *work);

#endif
