/* SPDX-License-Identifier: MIT */
/* The thread pool. A thread joins a job under the lock and leaves it under the lock; a thread that
 * wakes when all tasks are taken already finds the job closed, and nobody waits for it. */
#include "device/host/pool.h"

#include <signal.h>

#include "device/host/cpu.h"

/* About 50 microseconds of looking before sleeping: longer than the time between two ops of a step.
 */
#define SPINS 2000

static uint32_t load_acquire(const uint32_t *value)
{
    return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

static void store_release(uint32_t *value, uint32_t to)
{
    __atomic_store_n(value, to, __ATOMIC_RELEASE);
}

/* Takes ranges of what is left, each a share of it, until nothing is left. */
static void work(bp_pool *pool, const bp_pool_job *job, uint32_t worker)
{
    uint64_t first = __atomic_load_n(&pool->next, __ATOMIC_RELAXED);
    while (first < job->tasks) {
        uint64_t share = (job->tasks - first) / (2 * (uint64_t)pool->threads);
        share = share > job->range ? share : job->range;
        uint64_t last = share < job->tasks - first ? first + share : job->tasks;
        if (__atomic_compare_exchange_n(&pool->next, &first, last, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            job->function(job->context, first, last, worker);
            first = __atomic_load_n(&pool->next, __ATOMIC_RELAXED);
        }
    }
}

/* Returns when the generation differs from *seen, which then holds it: true with the job when it
 * can still be joined. */
static bool join_job(bp_pool *pool, uint32_t *seen, bp_pool_job *job, bool *stop)
{
    for (uint32_t i = 0; i < pool->spins && load_acquire(&pool->generation) == *seen; i++) {
        bp_cpu_relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (pool->generation == *seen) {
        pthread_cond_wait(&pool->begun, &pool->lock);
    }
    *seen = pool->generation;
    *stop = pool->stop;
    bool fused = pool->open;
    if (fused) {
        store_release(&pool->inside, pool->inside + 1);
        *job = pool->job;
    }
    pthread_mutex_unlock(&pool->lock);
    return fused;
}

static void leave_job(bp_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    store_release(&pool->inside, pool->inside - 1);
    if (pool->inside == 0) {
        pthread_cond_signal(&pool->left);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument)
{
    bp_pool_worker *worker = argument;
    bp_pool *pool = worker->pool;
    bp_pool_job job;
    uint32_t seen = 0;
    bool stop = false;
    __atomic_store_n(&worker->system, bp_cpu_thread(), __ATOMIC_RELEASE);
    while (!stop) {
        if (join_job(pool, &seen, &job, &stop)) {
            work(pool, &job, worker->number);
            leave_job(pool);
        }
    }
    return NULL;
}

/* Announces a job, or with function NULL the end. */
static void announce(bp_pool *pool, const bp_pool_job *job)
{
    pthread_mutex_lock(&pool->lock);
    pool->job = *job;
    pool->open = job->function != NULL;
    pool->stop = job->function == NULL;
    __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
    store_release(&pool->generation, pool->generation + 1);
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
}

bp_status bp_pool_open(bp_pool *pool, uint32_t threads)
{
    *pool = (bp_pool){.threads = 1, .spins = threads <= bp_cpu_count() ? SPINS : 0};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->left, NULL);
    pool->processors = bp_cpu_allowed(pool->processor, BP_POOL_PROCESSORS);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int refused = 0;
    for (uint32_t i = 1; i < threads && refused == 0; i++) {
        bp_pool_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->number = i;
        refused = pthread_create(&worker->thread, NULL, worker_main, worker);
        pool->threads += refused == 0 ? 1 : 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (refused != 0) {
        bp_pool_close(pool);
        return BP_ERR_DEVICE;
    }
    return BP_OK;
}

void bp_pool_run(bp_pool *pool, bp_pool_function function, void *context, uint64_t tasks,
                 bool equal)
{
    if (pool->threads == 1 || tasks <= 1) {
        if (tasks != 0) {
            function(context, 0, tasks, 0);
        }
        return;
    }
    /* Moved, the work is cut otherwise: what has equal shares into twice as many, for each packs
     * panels of its own; the rest into equal ones. */
    const uint64_t shares = (uint64_t)pool->threads * (equal && pool->moved ? 2 : 1);
    uint64_t range = equal || pool->moved ? bp_size_ceil_div(tasks, shares) : 1;
    bp_pool_job job = {function, context, tasks, range};
    announce(pool, &job);
    work(pool, &job, 0);
    for (uint32_t i = 0; i < pool->spins && load_acquire(&pool->inside) != 0; i++) {
        bp_cpu_relax();
    }
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->inside != 0) {
        pthread_cond_wait(&pool->left, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

void bp_pool_move(bp_pool *pool, uint32_t first, uint32_t count, uint32_t turn)
{
    pool->moved = count > 0;
    if (pool->processors == 0 || bp_size_add(first, count) > pool->processors) {
        return;
    }
    const uint32_t here = bp_cpu_here();
    for (uint32_t i = 0; turn > 0 && i < pool->processors; i++) {
        turn += pool->processor[i] == here ? i : 0;
    }
    for (uint32_t w = 0; w < pool->threads; w++) {
        const int32_t system =
            w > 0 ? __atomic_load_n(&pool->workers[w].system, __ATOMIC_ACQUIRE) : 0;
        const uint32_t at = count > 0 ? first + (w + turn) % count : 0;
        if (w == 0 || system != 0) {
            bp_cpu_bind(system, pool->processor + at, count > 0 ? 1 : pool->processors);
        }
    }
}

void bp_pool_close(bp_pool *pool)
{
    announce(pool, &(bp_pool_job){NULL, NULL, 0, 0});
    for (uint32_t i = 1; i < pool->threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->begun);
    pthread_mutex_destroy(&pool->lock);
}
