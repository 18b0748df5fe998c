/* SPDX-License-Identifier: MIT */
/* The thread pool: every task once, by a worker of its own number, with any number of threads.
 * Built with -fsanitize=thread this is also the proof that it has no data race. */
/* A program of its own (tests/suite.sh). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/host/cpu.h"
#include "device/host/host.h"
#include "device/host/pool.h"

#define TASKS_MOST 1000
#define LOOKS_MOST 600000 /* two minutes: nobody comes any more */

typedef struct tally {
    uint32_t times[TASKS_MOST];  /* each task's; written by whoever has it */
    uint64_t by[BP_THREADS_MAX]; /* tasks per worker; written by that worker */
    uint32_t ranges;             /* that were taken; atomic */
    bool slow;                   /* a range takes until another worker has one, too */
} tally;

static void nap(void)
{
    struct timespec time = {0, 200000};
    nanosleep(&time, NULL); /* no wait: between two looks */
}

/* Whether no other worker has had a task. */
static bool tally_alone(const tally *t, uint32_t worker)
{
    bool alone = true;
    for (uint32_t i = 0; i < BP_THREADS_MAX; i++) {
        alone = alone && (i == worker || __atomic_load_n(&t->by[i], __ATOMIC_RELAXED) == 0);
    }
    return alone;
}

static void count_tasks(void *context, uint64_t first, uint64_t last, uint32_t worker)
{
    tally *t = context;
    for (uint64_t i = first; i < last; i++) {
        t->times[i]++;
    }
    (void)__atomic_fetch_add(&t->by[worker], last - first, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&t->ranges, 1, __ATOMIC_RELAXED);
    for (uint32_t looks = 0; t->slow && tally_alone(t, worker) && looks < LOOKS_MOST; looks++) {
        nap(); /* no wait: a busy machine lets another one begin much later */
    }
}

static void check_tally(const tally *t, uint64_t tasks, uint32_t threads)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < TASKS_MOST; i++) {
        assert_int_equal(t->times[i], i < tasks ? 1 : 0);
    }
    for (uint32_t i = 0; i < threads; i++) {
        sum += t->by[i];
    }
    assert_int_equal(sum, tasks);
}

/* verifies device-7.3897 */
static void every_task_is_done_once(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 5, 16};
    static const uint64_t tasks[] = {0, 1, 2, 3, 7, 64, 1000};
    static bp_pool pool;
    for (uint32_t t = 0; t < 5; t++) {
        assert_int_equal(bp_pool_open(&pool, threads[t]), BP_OK);
        for (uint32_t repeat = 0; repeat < 100; repeat++) {
            static tally work;
            memset(&work, 0, sizeof(work));
            bp_pool_run(&pool, count_tasks, &work, tasks[repeat % 7], repeat % 2 == 0);
            check_tally(&work, tasks[repeat % 7], threads[t]);
            assert_true(repeat % 2 != 0 || work.ranges <= threads[t]); /* equal shares */
        }
        bp_pool_close(&pool);
    }
}

/* Tasks that take time are shared, by threads that look for work before they sleep and by ones that
 * sleep at once because there are more of them than processors. */
/* verifies device-7.3897 */
static void slow_tasks_are_shared(void **state)
{
    (void)state;
    static bp_pool pool;
    uint32_t many = bp_cpu_count() < BP_THREADS_MAX ? bp_cpu_count() + 1 : BP_THREADS_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t threads = i == 0 ? 2 : many;
        assert_int_equal(bp_pool_open(&pool, threads), BP_OK);
        for (uint32_t repeat = 0; repeat < 10; repeat++) {
            static tally work;
            memset(&work, 0, sizeof(work));
            work.slow = true;
            bp_pool_run(&pool, count_tasks, &work, 60, false);
            check_tally(&work, 60, threads);
            assert_true(work.by[0] < 60); /* even where the machine is slow: see count_tasks */
        }
        bp_pool_close(&pool);
    }
}

typedef struct seen_places {
    bp_pool *pool;
    uint32_t first, count, outside;
} seen_places;

static void look_around(void *context, uint64_t first, uint64_t last, uint32_t worker)
{
    seen_places *seen = context;
    const uint32_t here = bp_cpu_here();
    bool inside = false;
    (void)worker;
    for (uint32_t i = seen->first; i < seen->first + seen->count; i++) {
        inside = inside || seen->pool->processor[i] == here;
    }
    if (!inside) {
        (void)__atomic_fetch_add(&seen->outside, (uint32_t)(last - first), __ATOMIC_RELAXED);
    }
}

/* Moved workers run where they were sent, cut their tasks the other way, and come back. */
/* verifies device-7.3897 */
static void workers_move_and_come_back(void **state)
{
    (void)state;
    static bp_pool pool;
    static tally work;
    assert_int_equal(bp_pool_open(&pool, 3), BP_OK);
    const uint32_t all = pool.processors;
    assert_true(all >= 1);
    static uint16_t before[BP_POOL_PROCESSORS], after[BP_POOL_PROCESSORS];
    assert_int_equal(bp_cpu_allowed(after, 1), 1); /* as many as there is room for */
    assert_int_equal(bp_cpu_allowed(before, BP_POOL_PROCESSORS), all);
    bp_pool_run(&pool, count_tasks, &work, 60, false); /* every worker has begun, or will */
    for (uint32_t first = 0; first < all; first++) {
        for (uint32_t turn = 0; turn < 3; turn++) {
            seen_places seen = {&pool, first, all - first, 0};
            bp_pool_move(&pool, first, all - first, turn);
            bp_pool_run(&pool, look_around, &seen, 1, false);
            assert_int_equal(seen.outside, 0);
            memset(&work, 0, sizeof work);
            bp_pool_run(&pool, count_tasks, &work, 60, false);
            check_tally(&work, 60, 3);
            assert_true(work.ranges <= 3); /* equal shares, which were not asked for */
        }
    }
    bp_pool_move(&pool, 0, 0, 0);
    assert_int_equal(bp_cpu_allowed(after, BP_POOL_PROCESSORS), all);
    assert_memory_equal(before, after, all * sizeof before[0]);
    bp_pool_move(&pool, all, 1, 0); /* there is no such one: nobody moves */
    assert_int_equal(bp_cpu_allowed(after, BP_POOL_PROCESSORS), all);
    bp_pool_close(&pool);
}

static volatile sig_atomic_t handled_by_main;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    handled_by_main = pthread_equal(pthread_self(), main_thread) != 0;
}

/* A signal to the process lands on the caller's thread, and the caller's own mask is as it was. */
/* verifies device-7.3897 */
static void signals_reach_the_caller(void **state)
{
    (void)state;
    static bp_pool pool;
    struct sigaction action = {.sa_handler = on_signal}, before;
    main_thread = pthread_self();
    assert_int_equal(bp_pool_open(&pool, 4), BP_OK);
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < 20; i++) {
        handled_by_main = 0;
        assert_int_equal(kill(getpid(), SIGUSR1), 0);
        assert_int_equal(handled_by_main, 1);
    }
    sigaction(SIGUSR1, &before, NULL);
    bp_pool_close(&pool);
}

/* pthread_create of this program: the real one until `creations` runs out. */
static int creations = -1;

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static create_function real;
    if (real == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &symbol, sizeof(real));
    }
    if (creations == 0) {
        return 11;
    }
    creations -= creations > 0;
    return real(thread, attributes, start, argument);
}

/* verifies device-7.3897 */
static void refused_threads_are_an_error(void **state)
{
    (void)state;
    static bp_pool pool;
    for (int allowed = 0; allowed < 3; allowed++) {
        creations = allowed;
        assert_int_equal(bp_pool_open(&pool, 4), BP_ERR_DEVICE);
        creations = -1;
    }
}

/* verifies device-7.3897 */
static void the_device_says_so_too(void **state)
{
    (void)state;
    static unsigned char memory[2 * BP_ARENA_ALIGNMENT];
    void *arena = memory + (BP_ARENA_ALIGNMENT - (uintptr_t)memory % BP_ARENA_ALIGNMENT);
    bp_device_options options = {.threads = 3};
    bp_error error = {0};
    void *context = malloc(bp_device_host.context_bytes);
    creations = 1;
    const bp_regions places = bp_regions_device(arena, 16);
    assert_int_equal(bp_device_host.open(context, &options, &places, &error), BP_ERR_DEVICE);
    creations = -1;
    assert_int_equal(error.found, 2);
    assert_int_equal(error.wanted, 3);
    free(context);
}

/* The threads beside the pool, for copies and a fabric: the first is refused, then the second. */
/* verifies device-7.3897 */
static void threads_for_copies_are_refused_likewise(void **state)
{
    (void)state;
    static const bp_fabric fabric = {.name = "none"};
    static unsigned char memory[3 * BP_ARENA_ALIGNMENT];
    unsigned char *arena = memory + (BP_ARENA_ALIGNMENT - (uintptr_t)memory % BP_ARENA_ALIGNMENT);
    bp_device_options options = {.threads = 2};
    void *context = malloc(bp_device_host.context_bytes);
    for (int allowed = 1; allowed < 4; allowed++) {
        bp_error error = {0};
        bp_regions places = bp_regions_device(arena, 16);
        places.space[BP_SPACE_HOST] = (bp_region){arena + BP_ARENA_ALIGNMENT, 16};
        places.fabric = &fabric;
        creations = allowed;
        bp_status status = bp_device_host.open(context, &options, &places, &error);
        creations = -1;
        assert_int_equal(status, allowed < 3 ? BP_ERR_DEVICE : BP_OK);
        if (status == BP_OK) {
            bp_device_host.close(context);
        } else {
            assert_string_equal(error.text, "the system refuses to start a thread for copies");
        }
    }
    free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once),
        cmocka_unit_test(workers_move_and_come_back),
        cmocka_unit_test(slow_tasks_are_shared),
        cmocka_unit_test(signals_reach_the_caller),
        cmocka_unit_test(refused_threads_are_an_error),
        cmocka_unit_test(the_device_says_so_too),
        cmocka_unit_test(threads_for_copies_are_refused_likewise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
