/* SPDX-License-Identifier: MIT */
/* An engine of the host device beside its pool: one thread that does jobs in the order in which
 * they are posted, while whoever posted them goes on. */
#ifndef BP_DEVICE_HOST_ENGINE_H
#define BP_DEVICE_HOST_ENGINE_H

#include "core/base/error.h"
#include "device/host/threads.h"

#define BP_HOST_ENGINE_JOBS 16 /* posted and not yet begun; posting more waits */

/* Does one job. What goes wrong is said in `error`. */
typedef bp_status (*bp_host_engine_work)(void *context, const void *job, bp_error *error);

/* A plain record owned by the caller; it must not move between open and close. */
typedef struct bp_host_engine {
    bool running; /* whether there is a thread */
    bp_thread thread;
    bp_mutex lock;
    bp_condition posted; /* there is a job, or stop */
    bp_condition done;   /* a job has ended */
    bp_host_engine_work work;
    void *context;
    /* under the lock: */
    const void *jobs[BP_HOST_ENGINE_JOBS]; /* job number n is at n mod BP_HOST_ENGINE_JOBS */
    uint64_t marks[BP_HOST_ENGINE_JOBS];
    uint64_t post_count;
    uint64_t done_count;
    uint64_t done_mark; /* of the newest job that has ended; 0: none */
    bool stop;
    bp_status status; /* of the first job that failed; those after it are not done */
    bp_error error;
} bp_host_engine;

/* Starts the thread, with signals blocked. BP_ERR_DEVICE when the system refuses. */
bp_status bp_host_engine_open(bp_host_engine *engine, bp_host_engine_work work,
                              void *context) BP_MUST_CHECK;

/* Hands over a job, which stays the caller's and unchanged until it has ended. Marks rise from job
 * to job and are above 0. From one thread. */
void bp_host_engine_post(bp_host_engine *engine, const void *job, uint64_t mark);

/* Returns when the job with that mark, or with UINT64_MAX all jobs, have ended: BP_OK, or how the
 * first job to fail since the open did. */
bp_status bp_host_engine_wait(bp_host_engine *engine, uint64_t mark) BP_MUST_CHECK;

/* Ends the thread when its jobs have ended. Harmless on a zeroed record. */
void bp_host_engine_close(bp_host_engine *engine);

#endif
