/* SPDX-License-Identifier: MIT */
/* Whole trainings on ranks that are threads: each plans, trains some steps and adds up the state.
 */
#ifndef BP_TESTS_SUPPORT_CREW_H
#define BP_TESTS_SUPPORT_CREW_H

#include <pthread.h>

#include "core/run/runtime.h"
#include "device/fabric/threads.h"

#define CREW_MOST  8
#define CREW_STEPS 3

/* How messages go. */
typedef struct crew_messages {
    uint64_t seed; /* of bp_threads_world_open */
    bool checked;  /* they go with digests */
    bp_threads_fault fault;
    uint32_t fault_rank;
    uint64_t fault_at;
} crew_messages;

typedef struct crew_member {
    bp_spec spec;
    bp_runtime runtime;
    bool checked;
    void *host;
    unsigned char *arena; /* as large as planned, between bytes that have to stay */
    bp_status status;
    uint64_t digest; /* of the whole state, and of the base's */
    pthread_t thread;
} crew_member;

/* Plans `spec` for each of so many ranks and trains it, by the data of its task: tokens, or rows of
 * up to spec.sequence of them with three classes. Fails the test where a plan is refused, or a rank
 * wrote outside of what was planned for it. */
void crew_play(const bp_spec *spec, uint32_t ranks, const crew_messages *messages);

/* What became of a rank; valid until the next crew_play, but for host and arena. */
const crew_member *crew_at(uint32_t rank);

/* The digest, on which all ranks have to agree; fails the test where one did not end well. */
uint64_t crew_digest(uint32_t ranks);

/* That digest of a training without trouble; `seed` is of its messages. */
uint64_t crew_result(const bp_spec *spec, uint32_t ranks, uint64_t seed);

#endif
