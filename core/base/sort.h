/* SPDX-License-Identifier: MIT */
/* Sorting in place: no allocation and no recursion, which qsort promises neither of. */
#ifndef BP_CORE_SORT_H
#define BP_CORE_SORT_H

#include "arena/base.h"

/* Below zero when *a goes before *b, zero when either may, above zero otherwise. */
typedef int (*bp_compare)(const void *a, const void *b);

/* Heap sort of `count` elements of `size` bytes each: O(count log count), no extra memory, not
 * stable (equal elements come out in an order that depends on nothing but the input). */
void bp_heap_sort(void *elements, size_t count, size_t size, bp_compare compare);

#endif
