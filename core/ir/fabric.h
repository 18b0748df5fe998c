/* SPDX-License-Identifier: MIT */
/* bp_fabric: how ranks reach each other. A const table of functions over a caller-owned context,
 * one context per rank.
 *
 * Order of calls on every rank: open, agree, then any number of begins, each with its wait, and
 * close; between calls that have begun, all ranks may agree again. After the first agree nothing is
 * allocated. A fabric moves bytes and adds nothing: sums are made by
 * kernels in an order of their own, so the bits of a run do not depend on the fabric.
 *
 * Ranks are numbered 0 .. size - 1. A group of ranks is some of them, in ascending order, this one
 * among them; members count from 0 within it. Group 0 is all ranks; those of bp_fabric_options come
 * after. All ranks have the same number of groups, and the members of a group give it the same
 * number. Every member makes the same calls of a group in the same order. */
#ifndef BP_CORE_FABRIC_H
#define BP_CORE_FABRIC_H

#include "core/base/error.h"

typedef struct bp_fabric_group {
    const uint32_t *ranks;
    uint32_t count;
} bp_fabric_group;

typedef struct bp_fabric_options {
    void *world; /* what the ranks share; the fabric says of what type */
    uint32_t rank;
    uint32_t size;
    const bp_fabric_group *groups; /* numbers 1 .. group_count; they stay until close */
    uint32_t group_count;
    uint64_t patience_ms; /* longest wait for another rank; it is lost after that */
} bp_fabric_options;

typedef enum bp_fabric_call {
    BP_FABRIC_ALL_GATHER,
    BP_FABRIC_EXCHANGE,
    BP_FABRIC_BROADCAST
} bp_fabric_call;

/* A member's part of bytes that lie one behind the other, where parts differ in size. */
typedef struct bp_fabric_piece {
    uint64_t first;
    uint64_t bytes;
} bp_fabric_piece;

/* One call; kernels.def says what it does (all_gather_begin, exchange_begin, broadcast_begin). */
typedef struct bp_fabric_transfer {
    bp_fabric_call call;
    uint32_t request; /* names it to wait; not in use by another call of this rank */
    uint32_t group;
    uint32_t root;  /* BROADCAST: the member whose bytes they are */
    uint64_t bytes; /* of one piece; of this rank's own where there are `pieces` */
    /* ALL_GATHER, EXCHANGE: by member; they stay until the wait. Members have the same. NULL: all
     * are of `bytes`. */
    const bp_fabric_piece *pieces;
    void *to;
    const void *from;
} bp_fabric_transfer;

/* The piece for a member, from `from` on, and where the one of a member goes, from `to` on. */
bp_fabric_piece bp_fabric_piece_for(const bp_fabric_transfer *transfer, uint32_t member);
bp_fabric_piece bp_fabric_piece_of(const bp_fabric_transfer *transfer, uint32_t member);

/* What members of a call have alike: the bytes of a piece, or of the pieces of all. */
uint64_t bp_fabric_measure(const bp_fabric_transfer *transfer, uint32_t members);

/* Calls of a fabric that reaches a GPU's memory itself, as work of a stream: in its order, without
 * begin and wait, and recorded with it where it is captured as a graph. Handles are the driver's
 * own; its context is current. After the agreement of all ranks each attaches, queues the same
 * calls in the same order, and detaches. */
typedef struct bp_fabric_stream {
    /* Joins the ranks' GPUs and makes one call of each kind on the stream, in the arena, whose
     * contents are lost. mapped: the arena is one mapped segment, and is registered. Waits for all
     * ranks. */
    bp_status (*attach)(void *context, void *arena, uint64_t bytes, bool mapped, void *stream,
                        bp_error *error);
    /* Queues a call between addresses in the arena. */
    bp_status (*enqueue)(void *context, const bp_fabric_transfer *transfer, void *stream,
                         bp_error *error);
    /* Asked again and again by who has waited for a stream for so long: what has gone wrong. */
    bp_status (*poll)(void *context, uint64_t waited_ms, bp_error *error);
    /* Gives everything back; failed: what is queued ends, finished or not. Without attach
     * nothing. */
    void (*detach)(void *context, bool failed);
} bp_fabric_stream;

/* A call that fails says why in `error` (NULL: nowhere), with the rank it is about where one is
 * known; nothing is known then about what was being moved (pieces may come in until the fabric is
 * closed or the process ends: their memory stays until then), and every later begin and wait of any
 * rank fails too. BP_ERR_FABRIC: a rank is lost, or did not come in time. BP_ERR_USAGE: ranks do
 * not agree on what is to be done. */
typedef struct bp_fabric {
    const char *name; /* "threads" */

    /* Bytes of the caller-owned context that the other calls take. */
    size_t context_bytes;

    /* Most calls of one rank that may have begun and not been waited for. */
    uint32_t collectives;

    /* NULL: all addresses are the host's. Those of begin always are. */
    const bp_fabric_stream *stream;

    bp_status (*open)(void *context, const bp_fabric_options *options, bp_error *error);

    /* Waits for all ranks and compares the digests of what they are about to run, and their groups.
     * BP_ERR_USAGE on every rank when one differs. */
    bp_status (*agree)(void *context, uint64_t digest, bp_error *error);

    uint32_t (*rank)(const void *context);
    uint32_t (*size)(const void *context);
    /* Members of a group; 0 for a number that is none. */
    uint32_t (*members)(const void *context, uint32_t group);

    /* begin returns at once; from then to the return of wait nobody writes from or touches to.
     * They may be called from any thread, by one at a time. */
    bp_status (*begin)(void *context, const bp_fabric_transfer *transfer, bp_error *error);
    bp_status (*wait)(void *context, uint32_t request, bp_error *error);

    /* Whether anything is known to have gone wrong in any rank, or (threads) one has left; returns
     * at once. */
    bp_status (*check)(void *context, bp_error *error);

    /* This rank makes no more calls, for a reason of its own, `cause`: every call of any rank that
     * has begun, this rank's included, fails with it or with what failed before. Returns at once;
     * from any thread, also beside a wait; any number of times after open, after close nothing. For
     * a device that has failed and waits for work in which such a call stands. */
    void (*abandon)(void *context, const bp_error *cause);

    /* Leaves. Ranks that still wait for this one learn that it is gone. */
    void (*close)(void *context);
} bp_fabric;

#endif
