/* SPDX-License-Identifier: MIT */
/* The thread of an engine: jobs are done in order, beside whoever posted them, and a failure ends
 * them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/host/engine.h"

#define JOBS 500

/* What the jobs of a test do: note their number, or stay at the gate until it is opened. */
typedef struct record {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;      /* jobs may pass */
    uint32_t began; /* jobs that have reached the gate */
    uint32_t count;
    uint32_t order[JOBS];
    uint32_t failing; /* number of the job that fails; 0: none */
} record;

static record notes;
static uint32_t numbers[JOBS];

static bp_status do_job(void *context, const void *job, bp_error *error)
{
    record *r = context;
    uint32_t number = *(const uint32_t *)job;
    pthread_mutex_lock(&r->lock);
    r->began++;
    pthread_cond_broadcast(&r->moved);
    while (!r->open) {
        pthread_cond_wait(&r->moved, &r->lock);
    }
    r->order[r->count++] = number;
    pthread_mutex_unlock(&r->lock);
    return number == r->failing
               ? bp_error_numbers(error, BP_ERR_DEVICE, "test", "it failed", NULL, number, 0)
               : BP_OK;
}

static void set_up(bp_host_engine *engine, bool open)
{
    memset(&notes, 0, sizeof notes);
    pthread_mutex_init(&notes.lock, NULL);
    pthread_cond_init(&notes.moved, NULL);
    notes.open = open;
    for (uint32_t i = 0; i < JOBS; i++) {
        numbers[i] = i + 1;
    }
    assert_int_equal(bp_host_engine_open(engine, do_job, &notes), BP_OK);
}

static void open_gate(void)
{
    pthread_mutex_lock(&notes.lock);
    notes.open = true;
    pthread_cond_broadcast(&notes.moved);
    pthread_mutex_unlock(&notes.lock);
}

/* verifies device-18.3d2e */
static void jobs_are_done_in_order(void **state)
{
    bp_host_engine engine;
    (void)state;
    set_up(&engine, true);
    for (uint32_t i = 0; i < JOBS; i++) {
        bp_host_engine_post(&engine, &numbers[i], numbers[i]);
        if (i % 7 == 3) {
            assert_int_equal(bp_host_engine_wait(&engine, i - 2), BP_OK);
        }
    }
    assert_int_equal(bp_host_engine_wait(&engine, UINT64_MAX), BP_OK);
    assert_int_equal(notes.count, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(notes.order[i], i + 1);
    }
    assert_int_equal(bp_host_engine_wait(&engine, 1), BP_OK); /* long done */
    bp_host_engine_close(&engine);
    bp_host_engine_close(&engine); /* harmless */
}

/* A wait returns when its own job has ended, and no earlier. */
/* verifies device-18.3d2e */
static void a_wait_is_for_its_job(void **state)
{
    bp_host_engine engine;
    (void)state;
    set_up(&engine, true);
    for (uint32_t i = 0; i < JOBS; i++) {
        bp_host_engine_post(&engine, &numbers[i], numbers[i]);
        assert_int_equal(bp_host_engine_wait(&engine, numbers[i]), BP_OK);
        pthread_mutex_lock(&notes.lock);
        assert_int_equal(notes.count, i + 1);
        pthread_mutex_unlock(&notes.lock);
    }
    bp_host_engine_close(&engine);
}

/* The poster goes on while a job is at the gate: it is really beside. */
/* verifies device-18.3d2e */
static void posting_does_not_wait(void **state)
{
    bp_host_engine engine;
    (void)state;
    set_up(&engine, false);
    bp_host_engine_post(&engine, &numbers[0], 1);
    bp_host_engine_post(&engine, &numbers[1], 2);
    pthread_mutex_lock(&notes.lock);
    while (notes.began == 0) {
        pthread_cond_wait(&notes.moved, &notes.lock);
    }
    assert_int_equal(notes.count, 0);
    pthread_mutex_unlock(&notes.lock);
    open_gate();
    assert_int_equal(bp_host_engine_wait(&engine, 2), BP_OK);
    assert_int_equal(notes.count, 2);
    bp_host_engine_close(&engine);
}

/* verifies device-18.3d2e */
static void the_first_failure_ends_the_jobs(void **state)
{
    bp_host_engine engine;
    (void)state;
    set_up(&engine, true);
    notes.failing = 3;
    for (uint32_t i = 0; i < 6; i++) {
        bp_host_engine_post(&engine, &numbers[i], numbers[i]);
    }
    assert_int_equal(bp_host_engine_wait(&engine, 6), BP_ERR_DEVICE);
    assert_int_equal(notes.count, 3);
    assert_int_equal(engine.error.found, 3);
    bp_host_engine_post(&engine, &numbers[7], 8);
    assert_int_equal(bp_host_engine_wait(&engine, 8), BP_ERR_DEVICE);
    assert_int_equal(notes.count, 3);
    bp_host_engine_close(&engine);
}

/* Closing ends what was posted, and an engine that never opened has nothing to close. */
/* verifies device-18.3d2e */
static void closing_ends_what_was_posted(void **state)
{
    bp_host_engine engine = {.running = false};
    (void)state;
    bp_host_engine_close(&engine);
    set_up(&engine, true);
    for (uint32_t i = 0; i < 10; i++) {
        bp_host_engine_post(&engine, &numbers[i], numbers[i]);
    }
    bp_host_engine_close(&engine);
    assert_int_equal(notes.count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_done_in_order),
        cmocka_unit_test(a_wait_is_for_its_job),
        cmocka_unit_test(posting_does_not_wait),
        cmocka_unit_test(the_first_failure_ends_the_jobs),
        cmocka_unit_test(closing_ends_what_was_posted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
