/* SPDX-License-Identifier: MIT */
/* The planner: properties of every layout, instances shaped like training steps,
 * and bad calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/plans/arena_set.h"

static bp_interval shuffled[SET_MOST];
/* verifies arena-6.72d9 */
static void every_layout_is_valid(void **state)
{
    (void)state;
    set_seed = 1;
    static const uint64_t alignments[] = {1, 16, 256, 24};
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t count = set_random_below(60);
        bp_layout_options options = {.alignment = alignments[round % 4], .node_limit = 2000};
        set_fill_random(count, 1 + set_random_below(1000), 2 + set_random_below(40));
        bp_layout_report report = set_solve(set_buffers, count, &options);
        set_check(set_buffers, count, options.alignment, &report);
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

/* verifies arena-7.8aef */
static void the_order_of_rows_does_not_matter(void **state)
{
    (void)state;
    set_seed = 2;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t count = 1 + set_random_below(50);
        bp_layout_options options = {.alignment = 8, .node_limit = 3000};
        set_fill_random(count, 4 + set_random_below(300), 2 + set_random_below(30));
        memcpy(shuffled, set_buffers, sizeof shuffled);
        for (uint32_t i = count - 1; i > 0; i--) {
            uint32_t j = set_random_below(i + 1);
            bp_interval swap = shuffled[i];
            shuffled[i] = shuffled[j];
            shuffled[j] = swap;
        }
        bp_layout_report a = set_solve(set_buffers, count, &options);
        bp_layout_report b = set_solve(shuffled, count, &options);
        assert_int_equal(a.bytes, b.bytes);
        assert_int_equal(a.nodes, b.nodes);
        assert_string_equal(a.method, b.method);
        qsort(set_buffers, count, sizeof set_buffers[0], compare_placed);
        qsort(shuffled, count, sizeof set_buffers[0], compare_placed);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(compare_placed(&set_buffers[i], &shuffled[i]), 0);
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
        set_buffers[count++] = (bp_interval){.size = 12 * width, .lower = 0, .upper = end};
        set_buffers[count++] = (bp_interval){.size = 24 * width, .lower = 0, .upper = end};
        set_buffers[count++] =
            (bp_interval){.size = 12 * width, .lower = backward + 1, .upper = end};
        set_buffers[count++] =
            (bp_interval){.size = 40 * width, .lower = forward + 1, .upper = forward + 2};
        set_buffers[count++] =
            (bp_interval){.size = 70 * width, .lower = backward, .upper = backward + span};
        /* What the next stage reads is kept until this stage's backward has used it. */
        set_buffers[count++] =
            (bp_interval){.size = 8 * width, .lower = forward, .upper = backward + span};
        for (uint32_t t = 0; t < tape; t++) {
            uint64_t size = (3 + 5 * (uint64_t)t) * width;
            if (checkpoints) {
                set_buffers[count++] =
                    (bp_interval){.size = size, .lower = forward, .upper = forward + span};
                set_buffers[count++] =
                    (bp_interval){.size = size, .lower = backward, .upper = backward + span};
            } else {
                set_buffers[count++] =
                    (bp_interval){.size = size, .lower = forward + t % 2, .upper = backward + span};
            }
        }
        /* The gradient that flows: born in one stage's backward, dead after the next one's. */
        set_buffers[count++] = (bp_interval){.size = 8 * width,
                                             .lower = backward + 1,
                                             .upper = backward + span + (l > 0 ? span : 1)};
    }
    return count;
}

/* verifies arena-11.fcf3 */
static void training_steps_waste_nothing(void **state)
{
    (void)state;
    static const uint32_t depths[] = {1, 2, 6, 12, 48, 100};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        for (uint32_t tape = 1; tape <= 10; tape += 3) {
            for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
                uint32_t count = training_set(depths[i], tape, checkpoints != 0);
                assert_true(count <= SET_MOST);
                bp_layout_options options = {.alignment = 256, .node_limit = 20000};
                bp_layout_report report = set_solve(set_buffers, count, &options);
                if (count < 1000) {
                    set_check(set_buffers, count, 256, &report);
                }
                assert_int_equal(report.waste, 0);
            }
        }
    }
}

/* verifies arena-10.b68d */
static void calls_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    bp_layout_report report;
    bp_interval pair[2] = {{.size = 1, .lower = 2, .upper = 1}};
    size_t bytes = bp_layout_scratch(2);
    static unsigned char scratch[1 << 16];
    assert_true(bytes <= sizeof scratch);
    assert_int_equal(bp_layout_solve(pair, 1, NULL, scratch, bytes, &report), BP_ERR_USAGE);
    pair[0] = (bp_interval){.size = (uint64_t)1 << 61, .lower = 0, .upper = 1};
    pair[1] = pair[0];
    assert_int_equal(bp_layout_solve(pair, 2, NULL, scratch, bytes, &report), BP_ERR_OVERFLOW);
    pair[0].size = pair[1].size = UINT64_MAX;
    assert_int_equal(bp_layout_solve(pair, 2, NULL, scratch, bytes, &report), BP_ERR_OVERFLOW);
    bp_layout_options options = {.alignment = (uint64_t)1 << 62};
    pair[0].size = 1;
    assert_int_equal(bp_layout_solve(pair, 1, &options, scratch, bytes, &report), BP_ERR_OVERFLOW);
    options = (bp_layout_options){.node_limit = 1};
    assert_int_equal(bp_layout_solve(pair, 1, &options, scratch, bytes - 1000, &report), BP_OK);
    assert_int_equal(bp_layout_solve(pair, 2, &options, scratch, bytes - 1, &report), BP_ERR_FIT);
    bytes = bp_layout_scratch_greedy(2);
    assert_true(bytes < bp_layout_scratch(2));
    assert_int_equal(bp_layout_solve(pair, 1, NULL, scratch, bytes, &report), BP_OK);
    assert_int_equal(bp_layout_solve(pair, 2, NULL, scratch, bytes - 1, &report), BP_ERR_FIT);
}

/* verifies arena-6.72d9 */
static void nothing_to_plan_needs_nothing(void **state)
{
    (void)state;
    bp_layout_options options = {.alignment = 256, .node_limit = 10};
    bp_layout_report report = set_solve(NULL, 0, &options);
    assert_int_equal(report.bytes, 0);
    assert_true(report.optimal);
    assert_true(report.fits);
    bp_interval idle[2] = {{.size = 0, .lower = 0, .upper = 9, .offset = 7},
                           {.size = 9, .lower = 4, .upper = 4, .offset = 7}};
    report = set_solve(idle, 2, &options);
    assert_int_equal(report.bytes, 0);
    assert_int_equal(idle[0].offset, 0);
    assert_int_equal(idle[1].offset, 0);
}

/* verifies arena-6.72d9 */
static void sizes_are_rounded_and_capacities_judged_in_bytes(void **state)
{
    (void)state;
    bp_interval set[3] = {{.size = 100, .lower = 0, .upper = 2},
                          {.size = 1, .lower = 1, .upper = 3},
                          {.size = 300, .lower = 2, .upper = 3}};
    bp_layout_options options = {.alignment = 256, .capacity = 767};
    bp_layout_report report = set_solve(set, 3, &options);
    assert_int_equal(report.bytes, 768);
    assert_int_equal(report.lower_bound, 768);
    assert_int_equal(report.peak_time, 2);
    assert_false(report.fits);
    options.capacity = 768;
    assert_true(set_solve(set, 3, &options).fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_valid),
        cmocka_unit_test(the_order_of_rows_does_not_matter),
        cmocka_unit_test(training_steps_waste_nothing),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
        cmocka_unit_test(nothing_to_plan_needs_nothing),
        cmocka_unit_test(sizes_are_rounded_and_capacities_judged_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
