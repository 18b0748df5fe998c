/* SPDX-License-Identifier: MIT */
/* What training does to the inputs of a row (crops and flips) reaches rows as long as the model's
 * and no others, each with the step and sample that it is of; a row without a label is no target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/run/feed.h"

enum { T = 4, ROWS = 5, GROUP = 4, CLASSES = 3 };

static int32_t ids[GROUP][T], labels[GROUP], asked[T];
static int32_t window[BP_FEED_SCRATCH(T)];
static uint64_t without; /* the row that has no label */

static bp_status read_ramp(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)(first + i);
    }
    return BP_OK;
}

/* Row 2 is one shorter than the model's rows. */
static bp_status read_row(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = T * index,
                       .count = index == 2 ? T - 1 : T,
                       .label = index == without ? BP_NO_LABEL : index % CLASSES};
    return BP_OK;
}

static void turn(const bp_augment *augment, uint64_t seed, uint64_t step, uint32_t sample,
                 const int32_t *row, int32_t *to)
{
    (void)augment;
    for (uint32_t t = 0; t < T; t++) {
        to[t] = row[T - 1 - t] + (int32_t)(1000 * seed + 100 * step + 10000 * sample);
    }
}

static const bp_augment turned = {turn};

static void feed_rows(bp_feed *feed, bp_source *source, uint64_t step, bp_group *group)
{
    static bp_error error;
    error = (bp_error){.code = BP_OK};
    *source = (bp_source){.name = "rows",
                          .count = T * ROWS,
                          .read = read_ramp,
                          .examples = ROWS,
                          .example = read_row};
    feed->source = source;
    feed->error = &error;
    feed->sequence = T;
    feed->batch = feed->group = GROUP;
    feed->vocabulary = T * ROWS;
    feed->kind = BP_LABELS_CLASS;
    feed->classes = CLASSES;
    *group = (bp_group){
        .column = {{BP_INPUT_IDS, BP_I32, T, 0, ids}, {BP_INPUT_LABELS, BP_I32, 1, -1, labels}},
        .columns = 2};
    assert_int_equal(bp_feed_init(feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(feed, step, group, window), BP_OK);
}

/* verifies formats-53.d3f0 */
static void rows_that_are_turned(void **state)
{
    (void)state;
    for (uint32_t turns = 0; turns < 2; turns++) {
        bp_source source;
        bp_group group;
        bp_feed feed = {.seed = 7, .augment = turns != 0 ? &turned : NULL, .padding = -5};
        without = UINT64_MAX;
        feed_rows(&feed, &source, 0, &group);
        assert_int_equal(group.samples, GROUP);
        for (uint32_t r = 0; r < GROUP; r++) {
            for (uint32_t t = 0; t < T; t++) {
                const int32_t plain = r == 2 && t == T - 1 ? -5 : (int32_t)(T * r + t);
                const int32_t other = (int32_t)(T * r + T - 1 - t + 7000 + 10000 * r);
                assert_int_equal(ids[r][t], turns != 0 && r != 2 ? other : plain);
            }
            assert_int_equal(labels[r], r % CLASSES);
        }
    }
}

/* verifies run-21.71ae */
static void a_row_without_a_label(void **state)
{
    (void)state;
    bp_source source;
    bp_group group;
    bp_feed feed = {.seed = 7};
    without = 1;
    feed_rows(&feed, &source, 0, &group);
    assert_int_equal(labels[0], 0);
    assert_true(labels[1] < 0);
    assert_int_equal(labels[2], 2);
    without = UINT64_MAX;
    feed.classes = 2; /* and row 2 is of the third */
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_DATA);
}

static bp_status read_long_pair(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    (void)index;
    *to = (bp_example){.first = 1, .count = 9, .second = 7, .tail = 1};
    return BP_OK;
}

/* Where each token is asked for, so are those of a pair that is cut, and its tail. */
/* verifies run-35.b20a */
static void the_tail_of_a_cut_pair_is_asked_for(void **state)
{
    (void)state;
    static const int32_t next[T] = {2, 3, 8, 9};
    bp_error error = {.code = BP_OK};
    bp_source source = {.name = "pair",
                        .count = T * ROWS,
                        .read = read_ramp,
                        .examples = 1,
                        .example = read_long_pair};
    bp_feed feed = {
        .source = &source, .sequence = T, .batch = 1, .group = 1, .vocabulary = T * ROWS};
    bp_group group = {
        .column = {{BP_INPUT_IDS, BP_I32, T, 0, ids}, {BP_INPUT_LABELS, BP_I32, T, -1, asked}},
        .columns = 2};
    memset(window, 0, sizeof window);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_memory_equal(asked, next, sizeof next);
}

static bp_status read_uneven(bp_source *source, uint64_t index, bp_example *to)
{
    if (source->context != NULL && index == *(const uint64_t *)source->context) {
        return BP_ERR_STORE;
    }
    *to = (bp_example){.first = T * index, .count = 1 + index % T};
    return BP_OK;
}

/* The first stretch of all, which could not be read at first, is not taken for one that was. */
/* verifies run-21.71ae */
static void a_megabatch_that_failed_is_made_anew(void **state)
{
    (void)state;
    uint64_t bad = 3, found, wanted;
    bp_error error = {.code = BP_OK};
    bp_megabatch_row rows[2][3 * BP_MEGABATCH_GROUPS];
    bp_megabatch broken = {.rows = rows[0]}, whole = {.rows = rows[1]};
    bp_source source = {.name = "uneven",
                        .count = T * ROWS,
                        .read = read_ramp,
                        .examples = ROWS,
                        .example = read_uneven,
                        .context = &bad};
    bp_feed feed = {.source = &source,
                    .seed = 3,
                    .sequence = T,
                    .batch = 3,
                    .group = 3,
                    .vocabulary = T * ROWS,
                    .shuffle = true,
                    .megabatch = &broken,
                    .order = bp_feed_by_length};
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    bp_status status = BP_OK;
    for (bad = 0; bad < ROWS && status == BP_OK; bad++) { /* one of those of the first stretch */
        broken.number = 0;
        status = bp_feed_window(&feed, 0, 0, &found);
    }
    assert_int_equal(status, BP_ERR_STORE);
    source.context = NULL;
    error = (bp_error){.code = BP_OK};
    for (uint64_t at = 0; at < 3; at++) {
        feed.megabatch = &broken;
        assert_int_equal(bp_feed_window(&feed, 0, at, &found), BP_OK);
        feed.megabatch = &whole;
        assert_int_equal(bp_feed_window(&feed, 0, at, &wanted), BP_OK);
        assert_int_equal(found, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_turned),
        cmocka_unit_test(a_row_without_a_label),
        cmocka_unit_test(the_tail_of_a_cut_pair_is_asked_for),
        cmocka_unit_test(a_megabatch_that_failed_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
