/* SPDX-License-Identifier: MIT */
/* What each part of the planner is there for, on sets that were hunted for: with the part left out
 * each of them gets a worse layout, or takes many more placements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/fixtures/plans/arena_set.h"

static bp_layout_report solve(uint64_t seed, uint32_t count, uint32_t times, uint32_t height,
                              uint64_t nodes)
{
    const bp_layout_options options = {.node_limit = nodes};
    set_seed = seed;
    set_fill_tight(count, times, height, nodes > 5000);
    const bp_layout_report report = set_solve(set_buffers, count, &options);
    set_check(set_buffers, count, 1, &report);
    return report;
}

/* A first fit in the order of sizes packs what no dive and no other order does. */
static void first_fit_by_size(void **state)
{
    (void)state;
    assert_int_equal(solve(25, 40, 40, 100, 0).waste, 0);
    assert_true(solve(87, 40, 40, 100, 0).waste <= 3);
    assert_true(solve(111, 40, 40, 100, 0).waste <= 5);
}

/* A dive takes the lowest buffer of all. Of more than 64, which are kept in groups, the lowest of a
 * group is looked for again once it was lifted. */
static void dives_take_the_lowest(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {41, 45, 57, 67, 69};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        assert_int_equal(solve(seeds[i], 120, 60, 100, 0).waste, 0);
    }
}

/* A part that a placement has cut off is ranked anew by its own totals: 33 placements instead of
 * 1,637 with the ranks of the whole, and 29 instead of 120. */
static void parts_are_ranked_anew(void **state)
{
    (void)state;
    const bp_layout_report one = solve(115378, 30, 40, 60, 5000);
    assert_int_equal(one.waste, 0);
    assert_true(one.nodes < 100);
    const bp_layout_report other = solve(68351, 30, 40, 60, 5000);
    assert_int_equal(other.waste, 0);
    assert_true(other.nodes < 60);
}

/* Where the aim has come up to the best layout, the searches begin below again, and more patiently:
 * they find layouts that are two and one bytes smaller. */
static void aims_begin_again_below(void **state)
{
    (void)state;
    assert_true(solve(83, 100, 60, 40, 200000).waste <= 2);
    assert_true(solve(10, 100, 60, 40, 200000).waste <= 1);
}

/* First fits around full sections are at most 240: a set that uses them up, with as many placements
 * as belong to them. One more round would go on, and try 1,446 more. */
static void rounds_come_to_an_end(void **state)
{
    (void)state;
    const bp_layout_options options = {.node_limit = 1};
    set_seed = 204;
    set_fill_tight(400, 58, 122, true);
    for (uint32_t i = 0; i < 400; i++) {
        set_buffers[i].size += set_random_below(3) == 0 ? 1 : 0;
    }
    const bp_layout_report report = set_solve(set_buffers, 400, &options);
    set_check(set_buffers, 400, 1, &report);
    assert_true(report.waste > 0 && report.nodes < 6000);
}

/* Two steps, each of layers whose tape lives to their backward, with a loop between that brings
 * pieces of one size, of which some are on their way at a time, and now and then changes its pace.
 * Returns how many buffers those are. */
static uint32_t fill_loops(void)
{
    enum { LAYERS = 6, LOOPS = 6, LIFE = 14 };
    uint32_t n = 0, t = 0;
    for (uint32_t step = 0; step < 2; step++) {
        const uint32_t first = n;
        for (uint32_t i = 0; i < LAYERS; i++, t += 3) {
            set_buffers[n++] = (bp_interval){.size = 8 + set_random_below(24), .lower = t};
            set_buffers[n++] =
                (bp_interval){.size = 4 + set_random_below(5), .lower = t, .upper = t + 2};
        }
        for (uint32_t loop = 0; loop < LOOPS; loop++, t += set_random_below(3)) {
            const uint32_t pieces = 20 + set_random_below(8), result = 1 + set_random_below(3);
            for (uint32_t i = 0; i < pieces; i++, t += 3) {
                set_buffers[n++] = (bp_interval){.size = 6, .lower = t, .upper = t + LIFE};
                set_buffers[n++] = (bp_interval){.size = result, .lower = t + 1, .upper = t + 2};
            }
        }
        t += LIFE;
        for (uint32_t i = LAYERS; i-- > 0; t += 3) {
            set_buffers[first + 2 * i].upper = t + 1;
            set_buffers[n++] =
                (bp_interval){.size = 4 + set_random_below(9), .lower = t, .upper = t + 2};
        }
    }
    return n;
}

/* What a loop brings lies in a row of places: no layout of 200 sets wastes anything. Without
 * arena/plan_join.c a quarter of them do, by up to 10 of about 160. */
static void loops_are_rows_of_places(void **state)
{
    (void)state;
    const bp_layout_options options = {.node_limit = 0};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        set_seed = seed;
        const uint32_t count = fill_loops();
        const bp_layout_report report = set_solve(set_buffers, count, &options);
        set_check(set_buffers, count, 1, &report);
        assert_int_equal(report.waste, 0);
    }
}

/* Buffers of a trace: many short lives, few long ones, and sizes over four decades. */
static void fill_trace(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t from = set_random_below(4 * count),
                       most = set_random_below(8) == 0 ? count : 40;
        const uint64_t size = (uint64_t)1 + set_random_below(100);
        set_buffers[i] = (bp_interval){.size = set_random_below(4) == 0 ? size * 100 : size,
                                       .lower = from,
                                       .upper = from + 1 + set_random_below(most)};
    }
}

/* The looks that are given end the first fits around full sections, where 0 is enough to reach the
 * bound: what was found by then stays. */
static void looks_come_to_an_end(void **state)
{
    static const uint64_t seeds[] = {7, 28, 46};
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        uint64_t waste[2];
        for (uint64_t limit = 0; limit < 2; limit++) {
            const bp_layout_options options = {.node_limit = 1000, .look_limit = limit};
            set_seed = seeds[i];
            fill_trace(2500);
            const bp_layout_report report = set_solve(set_buffers, 2500, &options);
            set_check(set_buffers, 2500, 1, &report);
            waste[limit] = report.waste;
        }
        assert_int_equal(waste[0], 0);
        assert_true(waste[1] > 1000);
    }
}

enum { LONG_MOST = 24000 };

/* Layers that leave something to the end, with loops between them of which the pieces of one size
 * are there for 6 to 14 ticks. Returns how many buffers those are. */
static uint32_t fill_long(bp_interval *buffers)
{
    enum { LAYERS = 24, LOOPS = 20 };
    uint32_t n = 0, t = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++, t += 14) {
        buffers[n++] = (bp_interval){.size = 8 + set_random_below(24), .lower = t};
        for (uint32_t loop = 0; loop < LOOPS; loop++, t += set_random_below(3)) {
            const uint32_t pieces = 20 + set_random_below(8), result = 1 + set_random_below(3);
            for (uint32_t i = 0; i < pieces; i++, t += 3) {
                const uint32_t life = 14 - set_random_below(9);
                buffers[n++] = (bp_interval){.size = 6, .lower = t, .upper = t + life};
                buffers[n++] = (bp_interval){.size = result, .lower = t + 1, .upper = t + 2};
            }
        }
    }
    for (uint32_t i = n; i-- > 0; t += buffers[i].upper == t + 1 ? 3 : 0) {
        buffers[i].upper = buffers[i].upper == 0 ? t + 1 : buffers[i].upper;
    }
    return n;
}

/* A set of more than 20,000 buffers is joined at several paces before anything else: nothing is
 * wasted then, and 3 bytes otherwise, where layouts around full sections are left out. */
static void large_sets_are_joined_first(void **state)
{
    static const uint64_t seeds[] = {3, 8};
    static bp_interval buffers[LONG_MOST];
    const size_t bytes = bp_layout_scratch_greedy(LONG_MOST);
    void *scratch = malloc(bytes);
    (void)state;
    assert_non_null(scratch);
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        const bp_layout_options options = {.look_limit = 1};
        bp_layout_report report;
        set_seed = seeds[i];
        const uint32_t count = fill_long(buffers);
        assert_true(count > 20000 && count <= LONG_MOST);
        assert_int_equal(bp_layout_solve(buffers, count, &options, scratch, bytes, &report), BP_OK);
        assert_int_equal(report.waste, 0);
    }
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_fit_by_size),        cmocka_unit_test(dives_take_the_lowest),
        cmocka_unit_test(parts_are_ranked_anew),    cmocka_unit_test(aims_begin_again_below),
        cmocka_unit_test(rounds_come_to_an_end),    cmocka_unit_test(looks_come_to_an_end),
        cmocka_unit_test(loops_are_rows_of_places), cmocka_unit_test(large_sets_are_joined_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
