/* SPDX-License-Identifier: MIT */
/* Whole programs on ranks that are threads, each with a host device of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/ranks.h"

#define LONG_WAIT RANKS_LONG_WAIT

static bp_threads_world world;

static ranks_setup setup_of(uint32_t size, uint64_t seed, uint32_t form)
{
    return (ranks_setup){&bp_device_host, NULL, size, seed, form, LONG_WAIT, NULL};
}

/* verifies ranks-14.d729 */
static void ranks_compute_what_loops_compute(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    (void)state;
    for (uint32_t s = 0; s < 5; s++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            const uint32_t form = (seed & 1 ? RANKS_POISON : 0) | (seed & 2 ? RANKS_THREADS : 0);
            const ranks_setup setup = setup_of(sizes[s], seed, form);
            ranks_play(&setup);
            ranks_compare(&setup);
        }
    }
}

/* verifies ranks-14.d729 */
static void groups_compute_apart(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const ranks_setup setup = setup_of(8, seed, RANKS_GROUP | RANKS_POISON);
        ranks_play(&setup);
        ranks_compare(&setup);
    }
}

/* Found before a device is opened. */
/* verifies ranks-4.e03f */
static void another_program_is_refused(void **state)
{
    (void)state;
    const ranks_setup setup = setup_of(3, 0, RANKS_ODD_RANK);
    ranks_play(&setup);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranks_at(i)->status, BP_ERR_USAGE);
        assert_string_equal(ranks_at(i)->fabric_error.text, "the ranks have made different plans");
        assert_memory_equal(ranks_at(i)->fabric_error.name, "rank 1 has digest ", 18);
    }
}

/* The devices of the others say who is gone. */
/* verifies ranks-15.459a */
static void a_rank_that_leaves_ends_the_runs(void **state)
{
    (void)state;
    const ranks_setup setup = setup_of(3, 7, RANKS_ABSENT);
    ranks_play(&setup);
    assert_int_equal(ranks_at(1)->status, BP_OK);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_int_equal(ranks_at(i)->status, BP_ERR_FABRIC);
        assert_string_equal(ranks_at(i)->fabric_error.text, "a rank has left");
        assert_string_equal(ranks_at(i)->fabric_error.name, "rank 1");
    }
}

/* A program of four ranks on three of them. */
/* verifies ranks-4.e03f */
static void another_number_of_ranks_is_refused(void **state)
{
    void *rank = malloc(bp_fabric_threads.context_bytes);
    const bp_fabric_options options = {.world = &world, .size = 1, .patience_ms = LONG_WAIT};
    static ranks_player player;
    const ranks_setup setup = setup_of(1, 0, 0);
    ranks_player *p = &player;
    (void)state;
    p->setup = &setup;
    assert_int_equal(bp_threads_world_open(&world, 1, 0), BP_OK);
    assert_int_equal(bp_fabric_threads.open(rank, &options, NULL), BP_OK);
    ranks_program(p, 0, 4);
    assert_int_equal(hand_plan(&p->h, &bp_device_host), BP_OK);
    assert_int_equal(
        hand_open(&p->h, &(bp_device_options){.threads = 1}, false, &bp_fabric_threads, rank),
        BP_ERR_USAGE);
    assert_string_equal(p->h.error.text,
                        "a program was made for another number of ranks in the group");
    assert_string_equal(p->h.error.name, "all_gather_begin");
    assert_int_equal(p->h.error.found, 1);
    assert_int_equal(p->h.error.wanted, 4);
    hand_close(&p->h);
    bp_fabric_threads.close(rank);
    bp_threads_world_close(&world);
    free(rank);
}

/* What ranks compare of a call: the bytes of all pieces, which every rank knows alike, else those
 * of the one piece that all have. */
static void calls_are_measured_alike(void **state)
{
    (void)state;
    const bp_fabric_piece pieces[3] = {{40, 100}, {0, 0}, {140, 300}};
    const bp_fabric_transfer differ = {.bytes = 100, .pieces = pieces}, alike = {.bytes = 100};
    assert_int_equal(bp_fabric_measure(&differ, 3), 400);
    assert_int_equal(bp_fabric_measure(&differ, 2), 100);
    assert_int_equal(bp_fabric_measure(&alike, 3), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_loops_compute),
        cmocka_unit_test(calls_are_measured_alike),
        cmocka_unit_test(groups_compute_apart),
        cmocka_unit_test(another_program_is_refused),
        cmocka_unit_test(a_rank_that_leaves_ends_the_runs),
        cmocka_unit_test(another_number_of_ranks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
