/* SPDX-License-Identifier: MIT */
/* The planner: properties of every layout, random instances against exhaustive search, and
 * instances shaped like training steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "arena/plan.h"

#define MOST 6800

static bp_interval buffers[MOST];
static bp_interval shuffled[MOST];
static uint64_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % limit);
}

static void *scratch_of(size_t bytes)
{
    static unsigned char *memory;
    static size_t size;
    if (bytes > size) {
        free(memory);
        memory = malloc(bytes + 1);
        assert_non_null(memory);
        size = bytes;
    }
    return memory + 1; /* odd on purpose: the planner aligns its scratch itself */
}

static bp_plan_report solve(bp_interval *set, uint32_t count, const bp_plan_options *options)
{
    bp_plan_report report;
    size_t bytes = bp_plan_scratch(count);
    assert_int_equal(bp_plan_solve(set, count, options, scratch_of(bytes), bytes, &report), BP_OK);
    return report;
}

static bool exists(const bp_interval *buffer)
{
    return buffer->size != 0 && buffer->lower != buffer->upper;
}

/* Every property that a layout must have, checked the slow and plain way. */
static void check_layout(const bp_interval *set, uint32_t count, uint64_t alignment,
                         const bp_plan_report *report)
{
    uint64_t height = 0;
    uint64_t bound = 0;
    uint32_t bound_time = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bp_interval *a = &set[i];
        uint64_t size = (a->size + alignment - 1) / alignment * alignment;
        assert_int_equal(a->offset % alignment, 0);
        if (!exists(a)) {
            assert_int_equal(a->offset, 0);
            continue;
        }
        height = a->offset + size > height ? a->offset + size : height;
        uint64_t live = 0;
        for (uint32_t j = 0; j < count; j++) {
            const bp_interval *b = &set[j];
            if (!exists(b)) {
                continue;
            }
            uint64_t other = (b->size + alignment - 1) / alignment * alignment;
            live += b->lower <= a->lower && a->lower < b->upper ? other : 0;
            bool together = a->lower < b->upper && b->lower < a->upper;
            bool apart = a->offset + size <= b->offset || b->offset + other <= a->offset;
            assert_true(i == j || !together || apart);
        }
        if (live > bound || (live == bound && a->lower < bound_time)) {
            bound = live;
            bound_time = a->lower;
        }
    }
    assert_int_equal(report->bytes, height);
    assert_int_equal(report->lower_bound, bound);
    assert_int_equal(report->peak_time, bound_time);
    assert_int_equal(report->waste, height - bound);
    assert_true(report->optimal || height > bound);
    assert_non_null(report->method);
}

static void random_set(uint32_t count, uint32_t sizes, uint32_t times)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = random_below(times);
        uint32_t b = random_below(times);
        buffers[i] = (bp_interval){
            .size = random_below(sizes), .lower = a < b ? a : b, .upper = a < b ? b : a};
    }
}

static void every_layout_is_valid(void **state)
{
    (void)state;
    seed = 1;
    static const uint64_t alignments[] = {1, 16, 256, 24};
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t count = random_below(60);
        bp_plan_options options = {.alignment = alignments[round % 4], .node_limit = 2000};
        random_set(count, 1 + random_below(1000), 2 + random_below(40));
        bp_plan_report report = solve(buffers, count, &options);
        check_layout(buffers, count, options.alignment, &report);
        assert_true(report.fits);
    }
}

static int compare_placed(const void *a, const void *b)
{
    const bp_interval *x = a;
    const bp_interval *y = b;
    const uint64_t left[] = {x->size, x->lower, x->upper, x->offset};
    const uint64_t right[] = {y->size, y->lower, y->upper, y->offset};
    for (int i = 0; i < 4; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

static void the_order_of_rows_does_not_matter(void **state)
{
    (void)state;
    seed = 2;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t count = 1 + random_below(50);
        bp_plan_options options = {.alignment = 8, .node_limit = 3000};
        random_set(count, 4 + random_below(300), 2 + random_below(30));
        memcpy(shuffled, buffers, sizeof shuffled);
        for (uint32_t i = count - 1; i > 0; i--) {
            uint32_t j = random_below(i + 1);
            bp_interval swap = shuffled[i];
            shuffled[i] = shuffled[j];
            shuffled[j] = swap;
        }
        bp_plan_report a = solve(buffers, count, &options);
        bp_plan_report b = solve(shuffled, count, &options);
        assert_int_equal(a.bytes, b.bytes);
        assert_int_equal(a.nodes, b.nodes);
        assert_string_equal(a.method, b.method);
        qsort(buffers, count, sizeof buffers[0], compare_placed);
        qsort(shuffled, count, sizeof buffers[0], compare_placed);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(compare_placed(&buffers[i], &shuffled[i]), 0);
        }
    }
}

/* A training step of `layers` layers: parameters and optimizer state that live throughout, tape
 * that is born forward and dies backward, gradients from backward to the end, and workspace. */
static uint32_t training_set(uint32_t layers, uint32_t tape, bool checkpoints)
{
    uint32_t count = 0;
    uint32_t span = 3;
    uint32_t end = 2 * layers * span + 2;
    for (uint32_t l = 0; l < layers; l++) {
        uint32_t forward = l * span;
        uint32_t backward = end - 2 - (l + 1) * span;
        uint64_t width = 1000 + 64 * (l % 3);
        buffers[count++] = (bp_interval){.size = 12 * width, .lower = 0, .upper = end};
        buffers[count++] = (bp_interval){.size = 24 * width, .lower = 0, .upper = end};
        buffers[count++] = (bp_interval){.size = 12 * width, .lower = backward + 1, .upper = end};
        buffers[count++] =
            (bp_interval){.size = 40 * width, .lower = forward + 1, .upper = forward + 2};
        buffers[count++] =
            (bp_interval){.size = 70 * width, .lower = backward, .upper = backward + span};
        /* What the next stage reads is kept until this stage's backward has used it. */
        buffers[count++] =
            (bp_interval){.size = 8 * width, .lower = forward, .upper = backward + span};
        for (uint32_t t = 0; t < tape; t++) {
            uint64_t size = (3 + 5 * (uint64_t)t) * width;
            if (checkpoints) {
                buffers[count++] =
                    (bp_interval){.size = size, .lower = forward, .upper = forward + span};
                buffers[count++] =
                    (bp_interval){.size = size, .lower = backward, .upper = backward + span};
            } else {
                buffers[count++] =
                    (bp_interval){.size = size, .lower = forward + t % 2, .upper = backward + span};
            }
        }
        /* The gradient that flows: born in one stage's backward, dead after the next one's. */
        buffers[count++] = (bp_interval){.size = 8 * width,
                                         .lower = backward + 1,
                                         .upper = backward + span + (l > 0 ? span : 1)};
    }
    return count;
}

static void training_steps_waste_nothing(void **state)
{
    (void)state;
    static const uint32_t depths[] = {1, 2, 6, 12, 48, 100};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        for (uint32_t tape = 1; tape <= 10; tape += 3) {
            for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
                uint32_t count = training_set(depths[i], tape, checkpoints != 0);
                assert_true(count <= MOST);
                bp_plan_options options = {.alignment = 256, .node_limit = 20000};
                bp_plan_report report = solve(buffers, count, &options);
                if (count < 1000) {
                    check_layout(buffers, count, 256, &report);
                }
                assert_int_equal(report.waste, 0);
            }
        }
    }
}

/* The least height of any layout, by trying every order of placement: each buffer in turn goes into
 * the lowest gap, which reaches every pushed-down layout. */
static uint64_t exhaustive(const bp_interval *set, uint32_t count)
{
    uint32_t order[8];
    uint64_t least = UINT64_MAX;
    uint64_t orders = 1;
    for (uint32_t i = 2; i <= count; i++) {
        orders *= i;
    }
    for (uint64_t number = 0; number < orders; number++) {
        uint64_t code = number;
        bp_interval placed[8];
        uint64_t height = 0;
        for (uint32_t i = 0; i < count; i++) {
            order[i] = i;
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t pick = i + (uint32_t)(code % (count - i));
            code /= count - i;
            uint32_t index = order[pick];
            order[pick] = order[i];
            order[i] = index;
            placed[i] = set[index];
            placed[i].offset = 0;
            if (!exists(&placed[i])) {
                continue;
            }
            for (uint32_t j = 0; j < i; j++) {
                const bp_interval *other = &placed[j];
                bool together = exists(other) && other->lower < placed[i].upper &&
                                placed[i].lower < other->upper;
                bool apart = placed[i].offset + placed[i].size <= other->offset ||
                             other->offset + other->size <= placed[i].offset;
                if (together && !apart) {
                    placed[i].offset = other->offset + other->size;
                    j = UINT32_MAX; /* moved: look at all of them again */
                }
            }
            uint64_t top = placed[i].offset + placed[i].size;
            height = top > height ? top : height;
        }
        least = height < least ? height : least;
    }
    return least;
}

static void small_sets_reach_the_true_optimum(void **state)
{
    (void)state;
    seed = 3;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t count = 4 + random_below(round % 20 == 0 ? 5 : 4);
        random_set(count, 12, 3 + random_below(10));
        bp_plan_options options = {.node_limit = 100000};
        bp_plan_report report = solve(buffers, count, &options);
        check_layout(buffers, count, 1, &report);
        assert_true(report.optimal);
        assert_int_equal(report.bytes, exhaustive(buffers, count));
    }
}

/* Sets whose bound no layout reaches, found by a long hunt: about one in 300,000 small random sets
 * is of this kind. {size, lower, upper}. */
static const bp_interval unreachable[][8] = {
    {{3, 6, 8, 0},
     {1, 3, 5, 0},
     {3, 5, 7, 0},
     {1, 3, 6, 0},
     {2, 4, 6, 0},
     {1, 4, 5, 0},
     {3, 0, 3, 0},
     {3, 2, 4, 0}},
    {{3, 3, 5, 0},
     {1, 3, 4, 0},
     {2, 2, 4, 0},
     {4, 0, 3, 0},
     {5, 1, 2, 0},
     {4, 5, 7, 0},
     {4, 4, 6, 0},
     {2, 2, 5, 0}},
    {{1, 3, 6, 0},
     {2, 1, 3, 0},
     {2, 2, 4, 0},
     {2, 6, 8, 0},
     {2, 0, 2, 0},
     {1, 4, 6, 0},
     {1, 3, 5, 0},
     {2, 5, 8, 0}},
    {{4, 2, 4, 0},
     {2, 3, 4, 0},
     {5, 4, 7, 0},
     {2, 2, 5, 0},
     {5, 5, 6, 0},
     {4, 0, 3, 0},
     {5, 0, 1, 0},
     {1, 3, 5, 0}},
    {{1, 4, 7, 0},
     {1, 2, 5, 0},
     {3, 3, 6, 0},
     {3, 5, 7, 0},
     {2, 1, 4, 0},
     {3, 0, 1, 0},
     {3, 0, 2, 0},
     {2, 1, 3, 0}},
};

static void a_bound_that_no_layout_reaches_is_refuted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unreachable / sizeof unreachable[0]; i++) {
        memcpy(buffers, unreachable[i], sizeof unreachable[i]);
        bp_plan_options options = {.node_limit = 100000};
        bp_plan_report report = solve(buffers, 8, &options);
        check_layout(buffers, 8, 1, &report);
        assert_true(report.optimal);
        assert_true(report.waste > 0);
        assert_int_equal(report.bytes, exhaustive(buffers, 8));
        /* Capacities that are not the bound: one that cannot be met and one that just can. */
        options.capacity = report.bytes;
        report = solve(buffers, 8, &options);
        assert_true(report.fits);
        options.capacity--;
        report = solve(buffers, 8, &options);
        assert_false(report.fits);
        assert_true(report.nodes < 1000);
        options.capacity = 1;
        report = solve(buffers, 8, &options);
        assert_false(report.fits);
        assert_true(report.optimal);
    }
}

/* The same sets seven times as large beside a buffer of one byte: capacities between the bound and
 * the optimum exist now, and each of them has to be refuted. */
static void capacities_above_the_bound_are_refuted_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unreachable / sizeof unreachable[0]; i++) {
        memcpy(buffers, unreachable[i], sizeof unreachable[i]);
        uint64_t optimum = 7 * exhaustive(buffers, 8);
        for (uint32_t j = 0; j < 8; j++) {
            buffers[j].size *= 7;
        }
        buffers[8] = (bp_interval){.size = 1, .lower = 20, .upper = 21};
        bp_plan_options options = {.node_limit = 100000};
        bp_plan_report report = solve(buffers, 9, &options);
        check_layout(buffers, 9, 1, &report);
        assert_true(report.optimal);
        assert_int_equal(report.bytes, optimum);
        /* A capacity between the bound and the optimum: the search at it is the one that ends. */
        options.capacity = optimum - 1;
        report = solve(buffers, 9, &options);
        assert_false(report.fits);
        assert_true(report.nodes < 2000);
    }
}

static uint64_t area(const bp_interval *buffer)
{
    return buffer->size * (buffer->upper - buffer->lower);
}

/* Cuts a rectangle of `times` x `height` into `count` buffers that fill it without a gap; `even`
 * cuts the largest one each time, which makes them alike and the packing hard. */
static void tight_set(uint32_t count, uint32_t times, uint32_t height, bool even)
{
    buffers[0] = (bp_interval){.size = height, .lower = 0, .upper = times};
    for (uint32_t have = 1; have < count;) {
        uint32_t pick = random_below(have);
        for (uint32_t i = 0; even && i < have; i++) {
            pick = area(&buffers[i]) > area(&buffers[pick]) ? i : pick;
        }
        bp_interval *a = &buffers[pick];
        bp_interval *b = &buffers[have];
        *b = *a;
        uint32_t span = a->upper - a->lower;
        if (random_below(2) != 0 && span > 1) {
            a->upper = b->lower = a->lower + 1 + random_below(span - 1);
            have++;
        } else if (a->size > 1) {
            b->size = 1 + random_below((uint32_t)a->size - 1);
            a->size -= b->size;
            have++;
        }
    }
}

static void tight_sets_are_packed_perfectly(void **state)
{
    (void)state;
    seed = 4;
    uint32_t searched = 0;
    for (uint32_t round = 0; round < 60; round++) {
        tight_set(10 + round, 40, 1000, false);
        bp_plan_options options = {.node_limit = 200000};
        bp_plan_report report = solve(buffers, 10 + round, &options);
        check_layout(buffers, 10 + round, 1, &report);
        assert_int_equal(report.lower_bound, 1000);
        assert_int_equal(report.waste, 0);
        searched += report.nodes > 0;
        options.capacity = 1000;
        report = solve(buffers, 10 + round, &options);
        assert_true(report.fits);
    }
    assert_true(searched > 0);
}

static void a_search_that_finds_nothing_stops_at_its_limit(void **state)
{
    (void)state;
    seed = 2;
    tight_set(100, 50, 17280, true);
    bp_plan_options options = {.node_limit = 250000};
    bp_plan_report greedy = solve(buffers, 100, NULL);
    bp_plan_report report = solve(buffers, 100, &options);
    check_layout(buffers, 100, 1, &report);
    assert_true(report.waste > 0);
    assert_true(report.bytes < greedy.bytes);
    assert_true(report.nodes >= 250000);
    assert_true(report.nodes < 270000);
    /* A capacity just below the best: the searches at the bound and at it run out too. */
    options = (bp_plan_options){.node_limit = 200000, .capacity = 17300};
    assert_false(solve(buffers, 100, &options).fits);
    /* One that the best layout meets, and one that any layout meets. */
    options = (bp_plan_options){.node_limit = 250000, .capacity = report.bytes + 200};
    assert_true(solve(buffers, 100, &options).fits);
    options.capacity = greedy.bytes;
    report = solve(buffers, 100, &options);
    assert_true(report.fits);
    assert_int_equal(report.nodes, 0);
}

/* With few capacities between the bound and the best layout, each is tried more than once. */
static void a_search_returns_to_lower_capacities(void **state)
{
    (void)state;
    seed = 2;
    tight_set(200, 100, 80, true);
    bp_plan_options options = {.node_limit = 250000};
    bp_plan_report report = solve(buffers, 200, &options);
    check_layout(buffers, 200, 1, &report);
    assert_true(report.bytes < 95);
}

/* Everybody in the first part conflicts with everybody, so each placement changes all the others:
 * more than the searches remember. They give up, and the greedy layout stands. */
static void searches_that_would_need_too_much_memory_give_up(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (; count < 700; count++) {
        buffers[count] = (bp_interval){.size = 1, .lower = count, .upper = 1000 + count};
    }
    for (uint32_t i = 0; i < 8; i++) {
        buffers[count] = unreachable[0][i];
        buffers[count].size *= 1000;
        buffers[count].lower += 5000;
        buffers[count].upper += 5000;
        count++;
    }
    bp_plan_options options = {.node_limit = 100000};
    bp_plan_report report = solve(buffers, count, &options);
    check_layout(buffers, count, 1, &report);
    assert_int_equal(report.bytes, 7000);
    assert_false(report.optimal);
    assert_true(report.nodes < 100000);
}

static void calls_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    bp_plan_report report;
    bp_interval pair[2] = {{.size = 1, .lower = 2, .upper = 1}};
    size_t bytes = bp_plan_scratch(2);
    void *scratch = scratch_of(bytes);
    assert_int_equal(bp_plan_solve(pair, 1, NULL, scratch, bytes, &report), BP_ERR_USAGE);
    pair[0] = (bp_interval){.size = (uint64_t)1 << 61, .lower = 0, .upper = 1};
    pair[1] = pair[0];
    assert_int_equal(bp_plan_solve(pair, 2, NULL, scratch, bytes, &report), BP_ERR_OVERFLOW);
    pair[0].size = pair[1].size = UINT64_MAX;
    assert_int_equal(bp_plan_solve(pair, 2, NULL, scratch, bytes, &report), BP_ERR_OVERFLOW);
    bp_plan_options options = {.alignment = (uint64_t)1 << 62};
    pair[0].size = 1;
    assert_int_equal(bp_plan_solve(pair, 1, &options, scratch, bytes, &report), BP_ERR_OVERFLOW);
    options = (bp_plan_options){.node_limit = 1};
    assert_int_equal(bp_plan_solve(pair, 1, &options, scratch, bytes - 1000, &report), BP_OK);
    assert_int_equal(bp_plan_solve(pair, 2, &options, scratch, bytes - 1, &report), BP_ERR_FIT);
    bytes = bp_plan_scratch_greedy(2);
    assert_true(bytes < bp_plan_scratch(2));
    assert_int_equal(bp_plan_solve(pair, 1, NULL, scratch, bytes, &report), BP_OK);
    assert_int_equal(bp_plan_solve(pair, 2, NULL, scratch, bytes - 1, &report), BP_ERR_FIT);
}

static void nothing_to_plan_needs_nothing(void **state)
{
    (void)state;
    bp_plan_options options = {.alignment = 256, .node_limit = 10};
    bp_plan_report report = solve(NULL, 0, &options);
    assert_int_equal(report.bytes, 0);
    assert_true(report.optimal);
    assert_true(report.fits);
    bp_interval idle[2] = {{.size = 0, .lower = 0, .upper = 9, .offset = 7},
                           {.size = 9, .lower = 4, .upper = 4, .offset = 7}};
    report = solve(idle, 2, &options);
    assert_int_equal(report.bytes, 0);
    assert_int_equal(idle[0].offset, 0);
    assert_int_equal(idle[1].offset, 0);
}

static void sizes_are_rounded_and_capacities_judged_in_bytes(void **state)
{
    (void)state;
    bp_interval set[3] = {{.size = 100, .lower = 0, .upper = 2},
                          {.size = 1, .lower = 1, .upper = 3},
                          {.size = 300, .lower = 2, .upper = 3}};
    bp_plan_options options = {.alignment = 256, .capacity = 767};
    bp_plan_report report = solve(set, 3, &options);
    assert_int_equal(report.bytes, 768);
    assert_int_equal(report.lower_bound, 768);
    assert_int_equal(report.peak_time, 2);
    assert_false(report.fits);
    options.capacity = 768;
    assert_true(solve(set, 3, &options).fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_valid),
        cmocka_unit_test(the_order_of_rows_does_not_matter),
        cmocka_unit_test(training_steps_waste_nothing),
        cmocka_unit_test(small_sets_reach_the_true_optimum),
        cmocka_unit_test(a_bound_that_no_layout_reaches_is_refuted),
        cmocka_unit_test(capacities_above_the_bound_are_refuted_too),
        cmocka_unit_test(tight_sets_are_packed_perfectly),
        cmocka_unit_test(a_search_that_finds_nothing_stops_at_its_limit),
        cmocka_unit_test(a_search_returns_to_lower_capacities),
        cmocka_unit_test(searches_that_would_need_too_much_memory_give_up),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
        cmocka_unit_test(nothing_to_plan_needs_nothing),
        cmocka_unit_test(sizes_are_rounded_and_capacities_judged_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
