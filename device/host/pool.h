/* SPDX-License-Identifier: MIT */
/* A pool of threads that share out the tasks of one job at a time. */
#ifndef BP_DEVICE_HOST_POOL_H
#define BP_DEVICE_HOST_POOL_H

#include "core/ir/device.h"
#include "device/host/threads.h"

/* Does tasks first .. last-1 as worker number `worker`. */
typedef void (*bp_pool_function)(void *context, uint64_t first, uint64_t last, uint32_t worker);

#define BP_POOL_PROCESSORS 256 /* more than these are not told apart */

struct bp_pool;

typedef struct bp_pool_worker {
    struct bp_pool *pool;
    uint32_t number;
    int32_t system; /* the system's number of the thread; 0: it has not begun; atomic */
    bp_thread thread;
} bp_pool_worker;

/* One job, as the workers see it. */
typedef struct bp_pool_job {
    bp_pool_function function;
    void *context;
    uint64_t tasks;
    uint64_t range; /* the least number of tasks that a worker takes at once, but for the last */
} bp_pool_job;

/* A plain record owned by the caller; it must not move between open and close. */
typedef struct bp_pool {
    uint32_t threads; /* workers, the caller of bp_pool_run included */
    uint32_t spins;   /* looks at a flag before sleeping */
    bp_mutex lock;
    bp_condition begun;  /* generation has changed */
    bp_condition left;   /* inside has become 0 */
    uint32_t generation; /* counts jobs; read without the lock while spinning */
    uint32_t inside;     /* threads at work on the job; likewise */
    bool open;           /* a job may be joined; under the lock */
    bool stop;           /* under the lock */
    bp_pool_job job;     /* under the lock */
    uint64_t next;       /* first task not yet taken; atomic */
    bool moved;          /* tasks are cut the other way */
    uint32_t processors; /* that the opener may run on, of the first so many */
    uint16_t processor[BP_POOL_PROCESSORS];
    bp_pool_worker workers[BP_THREADS_MAX];
} bp_pool;

/* Starts threads - 1 threads (1 <= threads <= BP_THREADS_MAX); signals are blocked in them, so that
 * they reach the program's own thread. BP_ERR_DEVICE when the system refuses; nothing is left
 * running then. */
bp_status bp_pool_open(bp_pool *pool, uint32_t threads) BP_MUST_CHECK;

/* Shares out tasks 0 .. tasks-1 and returns when all are done. The caller works along as worker 0.
 * Ranges are taken from a counter, large ones first, so a thread that is held up delays nobody for
 * long; or in equal shares, one for each thread, for tasks that do better together. One job at a
 * time, from one thread. Allocates nothing. */
void bp_pool_run(bp_pool *pool, bp_pool_function function, void *context, uint64_t tasks,
                 bool equal);

/* From the next job on worker w runs on number first + (w + turn) mod count of the processors that
 * the opener of the pool may run on, a turn above 0 counted from where the caller runs now on; and
 * tasks are cut the other way: in equal shares where they were not, and the reverse. count = 0: as
 * opened. A system that refuses leaves workers where they are. From the thread that runs the jobs;
 * allocates nothing. */
void bp_pool_move(bp_pool *pool, uint32_t first, uint32_t count, uint32_t turn);

/* Ends the threads. */
void bp_pool_close(bp_pool *pool);

#endif
