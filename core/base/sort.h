/* SPDX-License-Identifier: MIT */
/* Sorting in place: no allocation and no recursion, which qsort promises neither of.
 *
 * One algorithm for all that need no stable order: O(count log count) at worst, no extra memory,
 * and the result depends on nothing but the input. Where equals keep their order, or most is in
 * order before, arena/sort.h merges with as much memory again. */
#ifndef BP_CORE_SORT_H
#define BP_CORE_SORT_H

#include "arena/sort.h"

/* Below zero when *a goes before *b, zero when either may, above zero otherwise. */
typedef int (*bp_compare)(const void *a, const void *b);

/* Sorts `count` elements of `size` bytes each. Not stable. */
void bp_heap_sort(void *elements, size_t count, size_t size, bp_compare compare);

/* Sorts indices[0..count-1] by what they point to: `user` is the array they index; `before` never
 * calls two different indices equal, so the result does not depend on the algorithm. */
void bp_order(uint32_t *indices, uint32_t count, bp_before before, const void *user);

#endif
