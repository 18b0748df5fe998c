/* SPDX-License-Identifier: MIT */
/* Data sets with weights: shares of epochs, turns, orders, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/feed.h"

#define TOKENS 103
#define T      4

static bp_status read_nothing(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source, (void)first;
    memset(to, 0, n * sizeof *to);
    return BP_OK;
}

static bp_source stream = {.name = "stream", .count = TOKENS, .read = read_nothing};

static bp_feed make_feed(uint32_t batch, uint32_t group, bool shuffle)
{
    return (bp_feed){.source = &stream,
                     .seed = 5,
                     .sequence = T,
                     .batch = batch,
                     .group = group,
                     .vocabulary = TOKENS,
                     .shuffle = shuffle};
}

static bp_status single_example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index, .count = 2};
    return BP_OK;
}

/* Of every epoch each data set has its weight's share of the rows; of its own it sees every row
 * once in each turn, and turns have orders of their own. */
/* verifies run-22.761f */
static void test_mixture(void **state)
{
    (void)state;
    enum { ROWS = 100, FIRST = 10, SECOND = 60 };
    static const double weights[] = {2.0, 1.0, 0.0};
    static const uint64_t shares[] = {67, 33, 0};
    bp_error error = {0};
    bp_source source = {.name = "sets", .count = 2000, .read = read_nothing, .examples = ROWS};
    source.example = single_example;
    bp_feed feed = make_feed(3, 3, true);
    bp_mixture mixture = {.count = 3,
                          .part = {{.end = FIRST}, {.end = FIRST + SECOND}, {.end = ROWS}}};
    uint64_t order[3 * ROWS], some = 0;
    uint32_t seen[FIRST] = {0}, later[SECOND] = {0};
    feed.source = &source;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_mixture_init(&mixture, &feed, weights), BP_OK);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t had[3] = {0};
        for (uint64_t at = 0; at < ROWS; at++) {
            uint64_t row;
            assert_int_equal(bp_feed_window(&feed, epoch, at, &row), BP_OK);
            had[row < FIRST ? 0 : row < FIRST + SECOND ? 1 : 2]++;
            if (row < FIRST) {
                seen[row]++;
            } else {
                later[row - FIRST]++;
            }
            order[some++] = row;
        }
        assert_memory_equal(had, shares, sizeof had);
    }
    for (uint32_t i = 0; i < FIRST; i++) {
        assert_in_range(seen[i], 20, 21); /* 201 visits */
    }
    for (uint32_t i = 0; i < SECOND; i++) {
        assert_in_range(later[i], 1, 2); /* 99 visits */
    }
    assert_memory_not_equal(order, order + ROWS, ROWS * sizeof order[0]);
    bp_feed other = feed;
    other.seed++;
    for (uint64_t at = 0, same = 0; at < ROWS; at++) {
        uint64_t row;
        assert_int_equal(bp_feed_window(&other, 0, at, &row), BP_OK);
        same += row == order[at];
        assert_true(at + 1 < ROWS || same < ROWS / 2);
    }
}

/* verifies run-22.761f */
static void test_mixture_refused(void **state)
{
    (void)state;
    static const double none[] = {0.0, 0.0}, both[] = {1.0, 1.0};
    bp_error error = {0};
    bp_feed feed = make_feed(3, 3, true);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    bp_mixture mixture = {.count = 2, .part = {{.end = 2 * T}, {.end = TOKENS}}};
    assert_int_equal(bp_mixture_init(&mixture, &feed, none), BP_ERR_USAGE);
    assert_int_equal(bp_mixture_init(&mixture, &feed, both), BP_OK);
    assert_int_equal(mixture.part[1].first, 2);
    assert_int_equal(mixture.part[1].windows, feed.windows - 2);
    assert_int_equal(mixture.part[0].each, feed.windows / 2);
    static const double second[] = {0.0, 1.0};
    uint64_t seen[2] = {0}, row;
    for (uint64_t at = 0; at < feed.windows; at++) {
        assert_int_equal(bp_feed_window(&feed, 0, at, &row), BP_OK);
        seen[row < 2 ? 0 : 1]++;
    }
    assert_int_equal(seen[0], mixture.part[0].each);
    assert_int_equal(seen[1], mixture.part[1].each);
    mixture.part[0].end = 0;
    assert_int_equal(bp_mixture_init(&mixture, &feed, second), BP_OK); /* nothing is wanted of it */
    assert_int_equal(bp_mixture_init(&mixture, &feed, both), BP_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_mixture_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
