/* SPDX-License-Identifier: MIT */
/* What is offloaded so that enough bytes are free, at the least cost. */
#ifndef BP_CORE_OFFLOAD_SELECT_H
#define BP_CORE_OFFLOAD_SELECT_H

#include "arena/base.h"

#define BP_OFFLOAD_CLASSES 16

/* Things of one size and one cost. */
typedef struct bp_offload_class {
    uint64_t bytes; /* that each of them frees; at least 1 */
    uint64_t cost;  /* of each: bytes that a step moves for it */
    uint32_t count; /* of them */
    uint32_t taken; /* out: how many of them are offloaded */
} bp_offload_class;

typedef struct bp_offload_selected {
    uint64_t cost;  /* of what is taken */
    uint64_t bound; /* no choice that frees as much costs less: `cost` where `exact` */
    uint64_t nodes; /* of the search */
    bool exact;     /* the search came to its end */
} bp_offload_selected;

/* Chooses how many of each class free `need` bytes together for the least sum of costs: branch and
 * bound over the classes, cheapest by the byte first, with the sum of fractions as its bound; after
 * `nodes` nodes the best one so far is taken. Of one class it is the least number that is enough,
 * found at once. At most BP_OFFLOAD_CLASSES classes; sums of bytes and costs below 2^53. False: all
 * of them are not enough, and all are taken. */
bool bp_offload_choose(bp_offload_class *classes, uint32_t count, uint64_t need, uint64_t nodes,
                       bp_offload_selected *out);

#endif
