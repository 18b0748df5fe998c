/* SPDX-License-Identifier: MIT */
/* Which of many gaps in time are filled, where each stretch of time has room for so many bytes. */
#ifndef BP_CORE_RESIDENT_CHOOSE_H
#define BP_CORE_RESIDENT_CHOOSE_H

#include "arena/base.h"

/* `bytes` bytes that could stay through the sections [from, to). */
typedef struct bp_resident_gap {
    uint64_t bytes; /* at least 1 */
    uint32_t from;
    uint32_t to;   /* above `from` */
    uint32_t name; /* the caller's */
    bool kept;     /* out */
} bp_resident_gap;

typedef struct bp_resident_chosen {
    uint64_t bytes; /* of what is kept */
    uint64_t most;  /* no choice keeps more: `bytes` where `exact` */
    bool exact;     /* every search came to its end */
} bp_resident_chosen;

/* Bytes of scratch for so many gaps and sections, at a multiple of 8. */
uint64_t bp_resident_choose_scratch(uint64_t gaps, uint64_t sections);

/* Chooses the gaps whose bytes are the most together, of all sets that have room in each section:
 * where everything is divisible, what ends last is cut wherever there is too much, which is the
 * most for that; branch and bound with it as the bound makes it whole, apart for gaps that never
 * compete. Where sizes are equal nothing has to be searched. A search looks at `work` gaps
 * altogether, and then takes the best found. room[sections]; sums stay below 2^62. */
void bp_resident_choose(bp_resident_gap *gaps, uint32_t count, const uint64_t *room,
                        uint32_t sections, uint64_t work, void *scratch, bp_resident_chosen *out);

#endif
