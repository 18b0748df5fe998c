/* SPDX-License-Identifier: MIT */
/* The simplest fabric: ranks are threads of one process that share a world.
 *
 * A call is a meeting: every member of the group posts where its bytes are, each copies what it is
 * to get from the others once all have posted, and a rank's wait returns when all have copied. */
#ifndef BP_DEVICE_FABRIC_THREADS_H
#define BP_DEVICE_FABRIC_THREADS_H

#include <pthread.h>

#include "core/ir/fabric.h"

#define BP_THREADS_RANKS_MAX   16
#define BP_THREADS_GROUPS_MAX  8 /* of one rank, the group of all included */
#define BP_THREADS_FLIGHTS_MAX 8 /* calls of one rank between begin and wait */

/* Calls that can be under way: each rank's are different ones at worst. */
#define BP_THREADS_MEETINGS_MAX (BP_THREADS_RANKS_MAX * BP_THREADS_FLIGHTS_MAX)

typedef struct bp_threads_meeting {
    bool used;
    uint32_t group;
    uint32_t leader;   /* the group's first rank: tells groups of one number apart */
    uint64_t sequence; /* which call of the group it is */
    uint32_t count;    /* members */
    uint32_t left;     /* members that are through with it */
    bool has_posted[BP_THREADS_RANKS_MAX]; /* by member */
    bool has_copied[BP_THREADS_RANKS_MAX];
    bp_fabric_transfer post[BP_THREADS_RANKS_MAX];
} bp_threads_meeting;

typedef struct bp_threads_member {
    bool present;       /* open */
    bool gone;          /* was open */
    uint64_t rounds;    /* calls of agree */
    uint64_t digest[2]; /* of the odd and the even ones: nobody is two calls ahead of another */
    const bp_fabric_group *groups;
    uint32_t group_count;
} bp_threads_member;

/* What is done to one message, for tests of who finds it. */
typedef enum bp_threads_fault {
    BP_THREADS_WHOLE,
    BP_THREADS_DROPPED,    /* it does not arrive */
    BP_THREADS_DUPLICATED, /* the one before it arrives again in its place */
    BP_THREADS_CORRUPTED   /* a bit of it is another */
} bp_threads_fault;

/* What the ranks share. A plain record owned by the caller; it must not move while it is open. */
typedef struct bp_threads_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t size;
    uint64_t seed;
    bp_threads_fault
        fault;           /* set before any rank opens: of the messages that rank fault_rank gets */
    uint32_t fault_rank; /* from others, number fault_at */
    uint64_t fault_at;
    /* under the lock: */
    bp_status failed; /* why nothing goes on; BP_OK while all is well */
    bp_error cause;
    uint32_t copying; /* ranks that look at the memory of others */
    bp_threads_member members[BP_THREADS_RANKS_MAX];
    bp_threads_meeting meetings[BP_THREADS_MEETINGS_MAX];
} bp_threads_world;

/* Before any rank opens. With a seed other than 0 ranks are held up, their messages cut into pieces
 * and taken in another order, all as the seed says; the bytes are the same. BP_ERR_USAGE for a size
 * of 0 or above BP_THREADS_RANKS_MAX. */
bp_status bp_threads_world_open(bp_threads_world *world, uint32_t size,
                                uint64_t seed) BP_MUST_CHECK;

/* After every rank has closed. */
void bp_threads_world_close(bp_threads_world *world);

/* bp_fabric_options.world is a bp_threads_world. open: BP_ERR_USAGE for a rank or groups that make
 * no sense, and a rank that is there already. A rank that closes with calls under way ends those of
 * its peers; close returns when nobody looks at this rank's memory any more. */
extern const bp_fabric bp_fabric_threads;

#endif
