/* SPDX-License-Identifier: MIT */
/* Two versions of what lives in a tier: what was committed last stays whole while the next is
 * written, so that a run whose power fails finds the tier as it was at its last commit.
 *
 * A tier over another one. Bytes in the ranges that are kept have two copies in the lower tier; a
 * page that is written goes to the copy that the last commit does not have, and is read from there
 * from then on. A commit syncs what was written, and then writes one record that says of every page
 * which copy it is in; two records take turns, so that one that is torn leaves the other. Bytes
 * outside the ranges have one copy. Nothing is written beside what is written anyway, but for that
 * record: a bit for each page. */
#ifndef BP_CORE_TIER_VERSIONS_H
#define BP_CORE_TIER_VERSIONS_H

#include "core/ir/tier.h"

#define BP_VERSIONS_PAGE ((uint64_t)4096)

/* Bytes [first, first + bytes), both multiples of a page. */
typedef struct bp_tier_range {
    uint64_t first;
    uint64_t bytes;
    uint64_t pages; /* of the ranges before it; filled in by open */
} bp_tier_range;

/* The caller owns it and what it points to; it must not move while it is open. */
typedef struct bp_tier_versions {
    const bp_tier *lower;
    void *lower_context;
    uint64_t bytes; /* of the tier itself, as the plan says */
    uint64_t plan;  /* what a record has to say to be of this tier */
    bp_tier_range *ranges;
    uint32_t count;
    uint64_t pages;   /* in all ranges */
    uint8_t *current; /* a bit for each: the copy that the last commit has */
    uint8_t *fresh;   /* a bit for each: written since, so it is read from the other one */
    uint8_t *page;    /* two rooms of a page: of the caller's hands, of the thread that writes */
    uint64_t sequence;
    uint32_t next;    /* the record that is written next: 0 or 1 */
    bool unconfirmed; /* a commit is */
} bp_tier_versions;

extern const bp_tier bp_tier_versions_table;

/* Bytes of the lower tier for `bytes` bytes of which those in the ranges have two copies, and of
 * the memory for the bits. BP_SIZE_INVALID where they are no size. */
uint64_t bp_tier_versions_bytes(uint64_t bytes, const bp_tier_range *ranges, uint32_t count);
uint64_t bp_tier_versions_memory(const bp_tier_range *ranges, uint32_t count);

/* Over a lower tier that is open, whose table can sync. The ranges are in order and apart; memory
 * is bp_tier_versions_memory bytes at a multiple of a page. Nothing is read or written yet, and
 * nothing may be until bp_tier_versions_begin or bp_tier_versions_take. */
void bp_tier_versions_open(bp_tier_versions *versions, const bp_tier *lower, void *context,
                           uint64_t bytes, uint64_t plan, bp_tier_range *ranges, uint32_t count,
                           void *memory);

/* Forgets what was committed there before, and begins anew. */
bp_status bp_tier_versions_begin(bp_tier_versions *versions, bp_error *error) BP_MUST_CHECK;

/* Goes on from what was committed as number `step`: BP_ERR_STORE where there is no whole record of
 * it. What is written before bp_tier_versions_back is dropped by that. */
bp_status bp_tier_versions_take(bp_tier_versions *versions, uint64_t step,
                                bp_error *error) BP_MUST_CHECK;

/* Everything is again as it was committed last. */
bp_status bp_tier_versions_back(bp_tier_versions *versions, bp_error *error) BP_MUST_CHECK;

/* What is there now is written down as the version of `step`, beside the one before, which can
 * still be taken: until bp_tier_versions_confirm both are whole. A commit that is not confirmed is
 * made void by the next one. After a failure there is one of the two, or both. */
bp_status bp_tier_versions_commit(bp_tier_versions *versions, uint64_t step,
                                  bp_error *error) BP_MUST_CHECK;

/* Nobody needs the version before the last commit any more: what is written next takes its place.
 */
void bp_tier_versions_confirm(bp_tier_versions *versions);

#endif
