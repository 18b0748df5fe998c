/* SPDX-License-Identifier: MIT */
/* The thread of an engine, and its queue. */
#include "device/host/engine.h"

#include <signal.h>

/* The next job, in order; false at the end. */
static bool next_job(bp_host_engine *engine, const void **job, bool *sound)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->post_count == engine->done_count && !engine->stop) {
        pthread_cond_wait(&engine->posted, &engine->lock);
    }
    bool there = engine->post_count > engine->done_count;
    if (there) {
        *job = engine->jobs[engine->done_count % BP_HOST_ENGINE_JOBS];
    }
    *sound = engine->status == BP_OK;
    pthread_mutex_unlock(&engine->lock);
    return there;
}

static void end_job(bp_host_engine *engine, bp_status status)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->status == BP_OK) {
        engine->status = status;
    }
    engine->done_mark = engine->marks[engine->done_count % BP_HOST_ENGINE_JOBS];
    engine->done_count++;
    pthread_cond_broadcast(&engine->done);
    pthread_mutex_unlock(&engine->lock);
}

static void *engine_main(void *argument)
{
    bp_host_engine *engine = argument;
    const void *job;
    bool sound;
    while (next_job(engine, &job, &sound)) {
        end_job(engine, sound ? engine->work(engine->context, job, &engine->error) : BP_OK);
    }
    return NULL;
}

bp_status bp_host_engine_open(bp_host_engine *engine, bp_host_engine_work work, void *context)
{
    *engine = (bp_host_engine){.work = work, .context = context};
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->posted, NULL);
    pthread_cond_init(&engine->done, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->running = pthread_create(&engine->thread, NULL, engine_main, engine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return engine->running ? BP_OK : BP_ERR_DEVICE;
}

void bp_host_engine_post(bp_host_engine *engine, const void *job, uint64_t mark)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->post_count - engine->done_count == BP_HOST_ENGINE_JOBS) {
        pthread_cond_wait(&engine->done, &engine->lock);
    }
    engine->jobs[engine->post_count % BP_HOST_ENGINE_JOBS] = job;
    engine->marks[engine->post_count % BP_HOST_ENGINE_JOBS] = mark;
    engine->post_count++;
    pthread_cond_signal(&engine->posted);
    pthread_mutex_unlock(&engine->lock);
}

bp_status bp_host_engine_wait(bp_host_engine *engine, uint64_t mark)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->done_mark < mark && engine->done_count < engine->post_count) {
        pthread_cond_wait(&engine->done, &engine->lock);
    }
    bp_status status = engine->status;
    pthread_mutex_unlock(&engine->lock);
    return status;
}

void bp_host_engine_close(bp_host_engine *engine)
{
    if (!engine->running) {
        return;
    }
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    pthread_cond_signal(&engine->posted);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    engine->running = false;
    pthread_cond_destroy(&engine->done);
    pthread_cond_destroy(&engine->posted);
    pthread_mutex_destroy(&engine->lock);
}
