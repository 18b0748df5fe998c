/* SPDX-License-Identifier: MIT */
/* Whole programs on ranks that are threads: each rank has a device of its own and runs the same
 * program, copies, calls of the fabric and computing beside one another; the same by plain loops.
 */
#ifndef BP_TESTS_SUPPORT_RANKS_H
#define BP_TESTS_SUPPORT_RANKS_H

#include <pthread.h>

#include "device/fabric/nccl.h"
#include "device/fabric/threads.h"
#include "tests/support/hand_program.h"

#define RANKS_MOST      8
#define RANKS_COUNT     512    /* floats of a piece */
#define RANKS_LONG_WAIT 600000 /* ms: no test ends by it */

enum {
    RANKS_POISON = 1,
    RANKS_THREADS = 2,
    RANKS_GROUP = 4,
    RANKS_ODD_RANK = 8,
    RANKS_ABSENT = 16,
    RANKS_APART = 32 /* every rank on the GPU of its number */
};

typedef struct ranks_setup {
    const bp_device *device;
    const char *variant;
    uint32_t size;
    uint64_t seed;
    uint32_t form; /* poison, threads, two groups, a change of the plan, one that leaves */
    uint64_t patience_ms;
    const bp_nccl_library *nccl; /* that joins the GPUs; NULL: threads do */
} ranks_setup;

/* One rank: its program, its persistent buffers and what came of it. */
typedef struct ranks_player {
    uint32_t rank;
    const ranks_setup *setup;
    bp_fabric_group group;
    const bp_fabric *fabric; /* and this rank's context of it */
    void *context;
    hand_program h;
    bp_ref w, sums, root, ones;
    bp_status status;
    bp_error fabric_error;
    float state[RANKS_COUNT], sum[RANKS_COUNT], cast[RANKS_COUNT];
    pthread_t thread;
} ranks_player;

/* w is gathered from all members while it also goes to the host arena; the sum of the pieces is
 * exchanged slice by slice and gathered again, one member's w is broadcast from the host arena, and
 * w becomes the sum of slices. */
void ranks_program(ranks_player *p, int64_t group, int64_t ranks);

/* All ranks from open to close. */
void ranks_play(const ranks_setup *setup);

/* What became of one of them. */
const ranks_player *ranks_at(uint32_t rank);

/* Fails the test unless every rank has what loops over all members of its group give. */
void ranks_compare(const ranks_setup *setup);

#endif
