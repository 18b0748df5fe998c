/* SPDX-License-Identifier: MIT */
/* bp_tier: the second tier of memory, storage for what is offloaded. A const table of functions
 * over a caller-owned context that is open. What lives there is one run of bytes of the size that
 * the plan says (report.offload.arena_bytes).
 *
 * Ops that copy to or from it run on two threads of the device, one that reads and one that writes;
 * between runs the caller reads and writes. Each of the three goes by a way of its own, so that
 * none waits for another's room. */
#ifndef BP_CORE_TIER_H
#define BP_CORE_TIER_H

#include "core/base/error.h"

/* Who asks. */
typedef enum bp_tier_way {
    BP_TIER_HAND,  /* the caller, between runs: any few bytes, best one after the other */
    BP_TIER_READ,  /* the thread that reads: large pieces that begin with a page */
    BP_TIER_WRITE, /* the thread that writes: likewise */
    BP_TIER_WAYS
} bp_tier_way;

/* Calls of one way come from one thread at a time; those of two ways never touch the same page at
 * one time. A call that fails says why in `error`, with BP_ERR_STORE. */
typedef struct bp_tier {
    const char *name;

    /* Bytes [offset, offset + bytes) to or from the caller's memory. */
    bp_status (*read)(void *context, bp_tier_way way, uint64_t offset, void *to, uint64_t bytes,
                      bp_error *error);
    bp_status (*write)(void *context, bp_tier_way way, uint64_t offset, const void *from,
                       uint64_t bytes, bp_error *error);

    /* The caller's hands are off: what they wrote is there for the two threads, and the other way
     * round. Before every run. */
    bp_status (*resolve)(void *context, bp_error *error);

    /* What was written so far is on the medium when this returns. The caller's, between runs. NULL:
     * nothing lasts there. */
    bp_status (*sync)(void *context, bp_error *error);
} bp_tier;

#endif
