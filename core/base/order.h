/* SPDX-License-Identifier: MIT */
/* Ordering indices by what they point to, when the comparison needs a context. */
#ifndef BP_CORE_ORDER_H
#define BP_CORE_ORDER_H

#include "arena/base.h"

/* Whether element a comes before element b; `user` is the array they index. Must be a strict order
 * that never calls two different indices equal, so the result does not depend on the algorithm. */
typedef bool (*bp_before)(const void *user, uint32_t a, uint32_t b);

/* Orders indices[0..count-1] in place by heap sort: no recursion, no memory, n log n at worst. */
void bp_order(uint32_t *indices, uint32_t count, bp_before before, const void *user);

#endif
