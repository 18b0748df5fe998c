/* SPDX-License-Identifier: MIT */
/* Inside the planner: the exact search for a layout within a capacity, one placement at a time. */
#ifndef BP_ARENA_PLAN_SEARCH_H
#define BP_ARENA_PLAN_SEARCH_H

#include "arena/plan_work.h"

/* Larger sets are left to the greedy layouts: the tables below grow with the square of this. */
#define SEARCH_ITEMS 2048u
/* Changes that a search can remember, per item; a search that needs more gives up. */
#define SEARCH_LOG  128u
#define SEARCH_NONE UINT32_MAX

/* What all searches of one set share. Bit i of a row stands for item i. */
typedef struct search_tables {
    uint32_t words;     /* of 64 bits in a row */
    uint64_t *conflict; /* a row per item: who shares a section with it, itself not */
    uint64_t *member;   /* a row per section: who lives there */
    uint32_t *twin;     /* per item: the next of a ring of items of one size and one life */
    uint64_t *reach;    /* per item: free for use within one placement */
    uint32_t *touched;  /* per section: free for use within one placement */
    bool *marked;       /* per section: false between placements */
} search_tables;

/* One placement on the way to a layout, and the part of the problem that it belongs to: the
 * sections [first, last) and the unplaced items pool[from, to), which no lifetime connects with
 * anything else that is unplaced. After its placement the rest may fall into smaller parts, which
 * are solved one after another; all of them must succeed. */
typedef struct search_frame {
    uint32_t first;
    uint32_t last;
    uint32_t from;
    uint32_t to;
    uint32_t item;         /* placed by this frame and then kept at pool[to - 1]; SEARCH_NONE */
    uint32_t mark;         /* length of the log before the placement */
    uint32_t next_section; /* where the parts not yet solved begin, after the placement */
    uint32_t next_pool;
    uint32_t tried_rank; /* candidates up to and including this (level, rank) are done with */
    uint64_t tried_level;
    uint64_t end_level; /* candidates after this (level, rank) are dominated */
    uint32_t end_rank;
    bool opened; /* end_level and end_rank are valid */
} search_frame;

typedef enum search_state {
    SEARCH_RUNNING,
    SEARCH_SOLVED,
    SEARCH_REFUTED,
    SEARCH_GAVE_UP
} search_state;

/* A depth-first search that can be left and resumed at any node. Placed items lie at their level.
 */
typedef struct plan_search {
    plan_work *work;
    const search_tables *tables;
    plan_rule rule;
    uint64_t capacity; /* units: no top may be above it */
    search_state state;
    uint32_t depth; /* of the current frame */
    uint32_t log_used;
    uint32_t log_size;
    uint64_t *level;   /* per item: lowest offset above all placed items that it conflicts with */
    uint64_t *lowest;  /* per section: least level among its unplaced items; UINT64_MAX if none */
    uint64_t *total;   /* per section: sum of the sizes of its unplaced items */
    uint64_t *live;    /* bit row: who is unplaced */
    uint64_t *log_old; /* the log: values before each change, to be put back */
    uint32_t *log_what;
    uint32_t *cut;  /* per section: unplaced items that live in it and in the section before */
    uint32_t *pool; /* items, the unplaced ones of each part side by side */
    uint32_t *rank; /* per item: its place in the static order of its part */
    search_frame *frame;
} plan_search;

/* Bytes of the tables, and of one search, for that many items (at most SEARCH_ITEMS). */
void search_tables_place(search_tables *tables, bp_arena *memory, uint32_t items);
void search_place(plan_search *search, bp_arena *memory, uint32_t items);

/* Fills the tables for work's items. */
void search_tables_fill(search_tables *tables, const plan_work *work);

/* Starts the search over at its root. */
void search_start(plan_search *search, plan_rule rule, uint64_t capacity);

/* Tries up to `nodes` more placements and returns how many it tried. On SEARCH_SOLVED search->level
 * holds the offsets. SEARCH_REFUTED means that no layout fits the capacity. */
uint64_t search_run(plan_search *search, uint64_t nodes);

/* Index of the lowest bit that is set; bits != 0. */
uint32_t search_bit(uint64_t bits);

/* Places an item of the part at its level and updates everything that follows from it; false if the
 * rest can then be seen not to fit. The frame's item is still in the pool. Every change is logged.
 */
bool search_put(plan_search *search, const search_frame *frame, uint32_t item);

/* Takes back every change since the log had that length. */
void search_undo(plan_search *search, uint32_t mark);

/* Gives the items pool[from, to) new ranks by the rule, on what is unplaced now. */
void search_rank(plan_search *search, uint32_t from, uint32_t to);

#endif
