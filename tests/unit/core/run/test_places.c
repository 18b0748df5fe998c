/* SPDX-License-Identifier: MIT */
/* Opening a runtime over places: a space without enough bytes and ranks with another plan are
 * refused before a device is opened; ranks with the same plan train alike. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/fabric/threads.h"
#include "device/host/host.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

#define RANKS     3
#define LONG_WAIT 600000 /* ms: no test ends by it */

static uint32_t opened;

static bp_status open_dry(void *context, const bp_device_options *options, const bp_regions *places,
                          bp_error *error)
{
    __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
    return bp_device_host.open(context, options, places, error);
}

/* A planned runtime with memory for its arena. */
typedef struct planned {
    bp_plan plan;
    bp_runtime runtime;
    void *host;
    void *arena;
} planned;

static void make_plan(planned *p, const bp_spec *spec)
{
    memset(p, 0, sizeof *p);
    uint64_t bytes = plan_bytes(spec);
    assert_int_equal(posix_memalign(&p->host, 64, bytes), 0);
    assert_int_equal(bp_plan_make(&p->plan, spec, p->host, bytes), BP_OK);
    size_t arena = (size_t)p->plan.report.arena_bytes;
    assert_int_equal(posix_memalign(&p->arena, BP_ARENA_ALIGNMENT, arena), 0);
    memset(p->arena, 0, arena);
}

static void free_plan(planned *p)
{
    bp_runtime_close(&p->runtime);
    free(p->host);
    free(p->arena);
}

/* verifies run-20.39b0 */
static void spaces_without_enough_bytes_are_refused(void **state)
{
    bp_device device = bp_device_host;
    bp_spec spec = model_fixture_spec();
    planned p;
    (void)state;
    device.open = open_dry;
    spec.device = &device;
    opened = 0;
    make_plan(&p, &spec);
    uint64_t bytes = p.plan.report.arena_bytes;
    bp_regions places = bp_regions_device(p.arena, bytes - 1);
    assert_int_equal(bp_runtime_open_regions(&p.runtime, &p.plan, &places), BP_ERR_FIT);
    assert_string_equal(p.runtime.error.name, "arena");
    assert_int_equal(p.runtime.error.found, bytes - 1);
    assert_int_equal(p.runtime.error.wanted, bytes);

    /* a plan with something in the host arena, and none given */
    p.runtime.error = (bp_error){0};
    p.plan.report.host.arena_bytes = 4096;
    assert_int_equal(bp_runtime_open(&p.runtime, &p.plan, p.arena, bytes), BP_ERR_FIT);
    assert_string_equal(p.runtime.error.text, "the arena is smaller than the plan");
    assert_string_equal(p.runtime.error.name, "host arena");
    assert_int_equal(p.runtime.error.found, 0);
    assert_int_equal(p.runtime.error.wanted, 4096);
    assert_int_equal(opened, 0);

    /* and with it: no more than the plan says is handed on */
    void *far = NULL;
    assert_int_equal(posix_memalign(&far, BP_ARENA_ALIGNMENT, 8192), 0);
    p.runtime.error = (bp_error){0};
    places = bp_regions_device(p.arena, bytes);
    places.space[BP_SPACE_HOST] = (bp_region){far, 8192};
    assert_int_equal(bp_runtime_open_regions(&p.runtime, &p.plan, &places), BP_OK);
    assert_int_equal(opened, 1);
    uint8_t byte = 0;
    assert_int_equal(device.upload(p.runtime.device, bp_address(BP_SPACE_HOST, 4095), &byte, 1),
                     BP_OK);
    assert_int_equal(device.upload(p.runtime.device, bp_address(BP_SPACE_HOST, 4096), &byte, 1),
                     BP_ERR_USAGE);
    free_plan(&p);
    free(far);
}

static void *taken; /* where a device without a region takes its own */

static bp_status open_own(void *context, const bp_device_options *options, const bp_regions *places,
                          bp_error *error)
{
    bp_regions own = *places;
    if (own.space[BP_SPACE_DEVICE].address == NULL) {
        own.space[BP_SPACE_DEVICE].address = taken;
    }
    return bp_device_host.open(context, options, &own, error);
}

/* Memory that is known to be zero is so where the caller gives it; what a device takes for itself
 * is not, whatever the caller says, and the first weights are the same. */
/* verifies run-20.39b0 */
static void only_given_memory_is_known_to_be_zero(void **state)
{
    (void)state;
    bp_device device = bp_device_host;
    bp_spec spec = model_fixture_spec();
    planned p[3];
    device.open = open_own;
    spec.device = &device;
    for (int i = 0; i < 3; i++) {
        make_plan(&p[i], &spec);
        const uint64_t bytes = p[i].plan.report.arena_bytes;
        bp_regions places = bp_regions_device(i == 2 ? NULL : p[i].arena, bytes);
        places.zeroed = i > 0;
        taken = p[i].arena;
        if (i != 1) {
            memset(p[i].arena, 0xa5, (size_t)bytes);
        }
        assert_int_equal(bp_runtime_open_regions(&p[i].runtime, &p[i].plan, &places), BP_OK);
        assert_true(p[i].runtime.zeroed == (i == 1));
        assert_int_equal(bp_runtime_initialize(&p[i].runtime), BP_OK);
        for (uint32_t k = 0; k < bp_runtime_state_count(&p[i].runtime); k++) {
            const bp_buffer *b = bp_runtime_state(&p[i].runtime, k);
            uint8_t *first = malloc((size_t)b->bytes), *own = malloc((size_t)b->bytes);
            assert_int_equal(bp_runtime_read(&p[0].runtime, b, 0, first, (size_t)b->bytes), BP_OK);
            assert_int_equal(bp_runtime_read(&p[i].runtime, b, 0, own, (size_t)b->bytes), BP_OK);
            assert_memory_equal(first, own, (size_t)b->bytes);
            free(first);
            free(own);
        }
    }
    for (int i = 0; i < 3; i++) {
        free_plan(&p[i]);
    }
}

/* One rank that opens a runtime, initialises it and makes a step. */
typedef struct player {
    uint32_t rank;
    planned plan;
    bp_status status;
    pthread_t thread;
} player;

static bp_threads_world world;
static player players[RANKS];

static void *player_main(void *argument)
{
    player *p = argument;
    const bp_fabric_options options = {
        .world = &world, .rank = p->rank, .size = RANKS, .patience_ms = LONG_WAIT};
    void *rank = malloc(bp_fabric_threads.context_bytes);
    p->status = bp_fabric_threads.open(rank, &options, NULL);
    if (p->status == BP_OK) {
        bp_regions places = bp_regions_device(p->plan.arena, p->plan.plan.report.arena_bytes);
        places.fabric = &bp_fabric_threads;
        places.rank = rank;
        p->status = bp_runtime_open_regions(&p->plan.runtime, &p->plan.plan, &places);
        if (p->status == BP_OK) {
            p->status = bp_runtime_initialize(&p->plan.runtime);
        }
        bp_runtime_close(&p->plan.runtime);
        bp_fabric_threads.close(rank);
    }
    free(rank);
    return NULL;
}

static void play(uint32_t odd)
{
    bp_device device = bp_device_host;
    device.open = open_dry;
    opened = 0;
    assert_int_equal(bp_threads_world_open(&world, RANKS, 11), BP_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        bp_spec spec = model_fixture_spec();
        spec.device = &device;
        spec.sequence -= i == odd ? 1 : 0;
        players[i] = (player){.rank = i};
        make_plan(&players[i].plan, &spec);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&players[i].thread, NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        pthread_join(players[i].thread, NULL);
    }
    bp_threads_world_close(&world);
}

/* verifies run-20.39b0 */
static void ranks_with_one_plan_open(void **state)
{
    (void)state;
    play(RANKS);
    assert_int_equal(opened, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(players[i].status, BP_OK);
        assert_memory_equal(players[i].plan.arena, players[0].plan.arena,
                            players[0].plan.plan.report.arena_bytes);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        free_plan(&players[i].plan);
    }
}

/* verifies ranks-4.e03f */
static void ranks_with_another_plan_are_refused(void **state)
{
    (void)state;
    play(2);
    assert_int_equal(opened, 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        const bp_error *error = &players[i].plan.runtime.error;
        assert_int_equal(players[i].status, BP_ERR_USAGE);
        assert_string_equal(error->text, "the ranks have made different plans");
        assert_memory_equal(error->name, "rank 2 has digest ", 18);
        free_plan(&players[i].plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_without_enough_bytes_are_refused),
        cmocka_unit_test(only_given_memory_is_known_to_be_zero),
        cmocka_unit_test(ranks_with_one_plan_open),
        cmocka_unit_test(ranks_with_another_plan_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
