/* SPDX-License-Identifier: MIT */
/* The planner: buffers with lifetimes in, an offset for each of them out, with a certificate. */
/* Installed as part of <bedplate/layout.h>. */
#ifndef BP_ARENA_PLAN_H
#define BP_ARENA_PLAN_H

#include "arena/base.h"

/* A buffer that lives from program time `lower` up to but not including `upper`. Two buffers
 * conflict when both have bytes and their lifetimes share a point; only then must their addresses
 * differ. A size of zero and an empty lifetime are legal: such a buffer gets offset 0. */
typedef struct bp_interval {
    uint64_t size; /* bytes */
    uint32_t lower;
    uint32_t upper;
    uint64_t offset; /* out: bytes from the arena's start, a multiple of the alignment */
} bp_interval;

/* All zero is legal: alignment 1, no capacity, no exact search. */
typedef struct bp_layout_options {
    uint64_t alignment;  /* of every offset and, by rounding up, of every size; 0 means 1 */
    uint64_t capacity;   /* planning ends as soon as a layout needs no more bytes; 0: the least */
    uint64_t node_limit; /* placements that the exact search of a set of up to 320 buffers may try;
                            larger sets get fewer, by the square of their number; 0: greedy only */
    uint64_t look_limit; /* placed buffers that first fits around full sections may look at; large
                            sets end there with the best layout found; 0: BP_LAYOUT_LOOKS_DEFAULT */
} bp_layout_options;

/* Enough placements for the hardest public instances: about ten seconds when even they find
 * nothing, whatever the number of buffers. */
#define BP_LAYOUT_NODES_DEFAULT 1000000u

/* About a second: what searches over many plans give each of them. Public sets of 18,000 to 62,000
 * buffers need up to five times as much to reach their bounds. */
#define BP_LAYOUT_LOOKS_DEFAULT UINT64_C(500000000)

/* The certificate. No layout can need less than lower_bound, the largest sum of rounded sizes that
 * live at one time, so waste 0 proves a layout optimal. */
typedef struct bp_layout_report {
    uint64_t bytes;       /* the least arena that holds the layout */
    uint64_t lower_bound; /* reached at peak_time, both counted on rounded sizes */
    uint64_t waste;       /* bytes - lower_bound */
    uint32_t peak_time;   /* the first program time at which lower_bound bytes live; 0 if none */
    bool optimal;         /* no layout needs less: waste is 0, or the exact search has shown it */
    bool fits;            /* no capacity was given, or bytes is within it */
    uint64_t nodes;       /* placements that the exact search tried */
    const char *method;   /* what found the layout: a static word, never NULL */
} bp_layout_report;

/* Bytes of scratch memory that bp_layout_solve needs for `count` buffers, with the exact search and
 * (when node_limit is 0) without; SIZE_MAX on overflow. */
size_t bp_layout_scratch(uint32_t count);
size_t bp_layout_scratch_greedy(uint32_t count);

/* Gives every buffer an offset and fills the report. Greedy layouts in several orders come first,
 * then layouts of large sets in which buffers of one size that follow one another lie in one place
 * (arena/plan_join.c), then layouts that place those who live in the full sections of time alone,
 * if need be by exact search, and fit the rest around them (arena/plan_hot.c); the best one is kept
 * and the work ends when the bound (or the capacity) is reached. Then an exact search runs within
 * node_limit, for sets of up to 2,048 buffers that do not live all the time. options may be NULL.
 * scratch needs no alignment and is free again afterwards; buffers may be NULL when count is 0.
 *
 * The result is a function of the set of buffers alone: rows in another order get the same offsets
 * (identical buffers may swap theirs), on any machine.
 *
 * BP_ERR_USAGE: a lifetime ends before it begins. BP_ERR_OVERFLOW: the rounded sizes add up to
 * 2^62 bytes or more. BP_ERR_FIT: scratch_bytes is below what bp_layout_scratch says. The offsets
 * are undefined after an error. A capacity that is not met is not an error: see report->fits.
 *
 * Cost: O(n^2) steps of a few instructions for each greedy order at worst, and much less where most
 * lives are short: about a millisecond for 600 buffers and thirty for 20,000, of which up to some
 * hundred are made; then some microseconds per node of the search.
 */
bp_status bp_layout_solve(bp_interval *buffers, uint32_t count, const bp_layout_options *options,
                          void *scratch, size_t scratch_bytes,
                          bp_layout_report *report) BP_MUST_CHECK;

#endif
