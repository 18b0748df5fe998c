/* SPDX-License-Identifier: MIT */
/* Ordering indices by what they point to, when the comparison needs a context. */
#ifndef BP_CORE_ORDER_H
#define BP_CORE_ORDER_H

#include "arena/sort.h"

/* Orders indices[0..count-1] in place by heap sort: no recursion, no memory, n log n at worst.
 * `user` is the array they index; `before` never calls two different indices equal, so the result
 * does not depend on the algorithm. */
void bp_order(uint32_t *indices, uint32_t count, bp_before before, const void *user);

#endif
