/* SPDX-License-Identifier: MIT */
/* Sorting of indices without recursion and without an allocator. */
#ifndef BP_ARENA_SORT_H
#define BP_ARENA_SORT_H

#include "arena/base.h"

/* Whether index a must come before index b: a strict total order. (libc's qsort may allocate, and
 * leaves the order of equal elements open.) */
typedef bool (*bp_before)(const void *context, uint32_t a, uint32_t b);

/* Sorts `count` indices at `order` by merging; `spare` has room for as many. Stable.
 * O(n log n) comparisons. */
void bp_sort(uint32_t *order, uint32_t *spare, uint32_t count, bp_before before,
             const void *context);

#endif
