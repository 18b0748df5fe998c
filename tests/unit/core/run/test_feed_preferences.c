/* SPDX-License-Identifier: MIT */
/* Pairs of rows: which side each is of, where its completion begins, and what a pair weighs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/storage_format.h"
#include "core/run/feed.h"

#define TOKENS 100
#define T      4
#define ROWS   10

static bp_status ramp_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)(first + i);
    }
    return BP_OK;
}

/* Rows in pairs: side, tokens and those of them that are the prompt's. */
static const struct {
    uint32_t side, count, prompt;
} rows[ROWS] = {
    {BP_SIDE_CHOSEN, 5, 2}, {BP_SIDE_REJECTED, 4, 2},   /* both complete */
    {BP_SIDE_CHOSEN, 3, 3}, {BP_SIDE_REJECTED, 4, 2},   /* the chosen one has nothing */
    {BP_SIDE_CHOSEN, 4, 0}, {BP_SIDE_REJECTED, 3, 9},   /* the other one, no prompt at all */
    {BP_SIDE_CHOSEN, 4, 1}, {BP_SIDE_MISMATCHED, 2, 2}, /* KTO: only its answer counts */
    {BP_SIDE_CHOSEN, 2, 2}, {BP_SIDE_MISMATCHED, 4, 1},
};

static bp_status read_row(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = 8 * index,
                       .count = rows[index].count,
                       .prompt = rows[index].prompt,
                       .label = (uint64_t)rows[index].side << 32 | index};
    return BP_OK;
}

static int32_t ids[ROWS + 2][T], labels[ROWS + 2][T], sides[ROWS + 2][BP_SIDE_WORDS];
static int32_t starts[ROWS + 2][T];
static int32_t window[BP_FEED_SCRATCH(T)];

static bp_group group_of(bool with_preferences)
{
    bp_group group = {.column = {{BP_INPUT_IDS, BP_I32, T, 0, ids},
                                 {BP_INPUT_LABELS, BP_I32, T, -1, labels},
                                 {BP_INPUT_STARTS, BP_I32, T, 0, starts},
                                 {BP_INPUT_PREFERENCES, BP_I32, BP_SIDE_WORDS, 0, sides}},
                      .columns = with_preferences ? 4 : 3};
    return group;
}

static bp_feed feed_of(bp_source *source, bool prompts)
{
    return (bp_feed){.source = source,
                     .seed = 5,
                     .sequence = T,
                     .batch = 4,
                     .group = ROWS + 2,
                     .vocabulary = TOKENS,
                     .pairs = true,
                     .prompts = prompts};
}

/* verifies run-21.71ae */
static void test_preferences_and_weights(void **state)
{
    (void)state;
    bp_source source = {.name = "rows", .count = TOKENS, .read = ramp_read, .examples = ROWS};
    source.example = read_row;
    for (int prompts = 0; prompts < 2; prompts++) {
        bp_error error = {0};
        bp_feed feed = feed_of(&source, prompts != 0);
        bp_group group = group_of(true);
        assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
        assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
        assert_int_equal(group.samples, ROWS);
        for (uint32_t r = 0; r < ROWS + 2; r++) {
            const bool there = r < ROWS;
            const uint32_t prompt = there ? rows[r].prompt : 0;
            const uint32_t within = prompt < T ? prompt : T;
            assert_int_equal(sides[r][0], there ? rows[r].side : BP_SIDE_NONE);
            assert_int_equal(sides[r][1], there ? r : 0);
            assert_int_equal(sides[r][2], within > 0 ? within - 1 : 0);
            const bool whole = prompts != 0 && there && rows[r].side == BP_SIDE_CHOSEN;
            for (uint32_t t = 0; t < T; t++) {
                const bool target =
                    there && t + 1 < rows[r].count && (whole || t + 1 >= rows[r].prompt);
                assert_int_equal(labels[r][t], target ? (int32_t)(8 * r + t + 1) : -1);
                assert_int_equal(starts[r][t], 0);
            }
        }
        assert_true(group.weight == 2.0); /* the first pair and the fourth */
    }
}

/* Without what says sides there are no pairs that could weigh. */
static void test_pairs_without_preferences(void **state)
{
    (void)state;
    bp_source source = {.name = "rows", .count = TOKENS, .read = ramp_read, .examples = ROWS};
    source.example = read_row;
    bp_error error = {0};
    bp_feed feed = feed_of(&source, false);
    bp_group group = group_of(false);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_true(group.weight == 0.0);
}

static bool cut; /* rows are longer than the model's, and keep their last token */

static bp_status read_pair(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = 8 * index, .count = cut ? T + 2 : T, .tail = cut ? 1 : 0};
    to->second = 2;
    return BP_OK;
}

static uint64_t labels_asked;

static bp_status labels_fail(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    (void)first;
    labels_asked++;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = 1;
    }
    return labels_asked > 1 ? BP_ERR_STORE : BP_OK;
}

/* Rows of a second type are those of tasks with two texts; a causal model's have one. */
/* verifies run-21.71ae */
static void test_types_are_of_pairs_of_texts(void **state)
{
    (void)state;
    static int32_t types[ROWS + 2][T];
    bp_source source = {.name = "rows", .count = TOKENS, .read = ramp_read, .examples = ROWS};
    source.example = read_pair;
    cut = false;
    for (int classes = 0; classes < 2; classes++) {
        bp_error error = {0};
        bp_feed feed = feed_of(&source, false);
        feed.pairs = false;
        feed.kind = classes != 0 ? BP_LABELS_CLASS : BP_LABELS_NEXT_TOKEN;
        feed.classes = 2;
        bp_group group = group_of(false);
        group.column[2] = (bp_column){BP_INPUT_TYPES, BP_I32, T, 0, types};
        assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
        assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
        for (uint32_t t = 0; t < T; t++) {
            assert_int_equal(types[0][t], classes != 0 && t >= 2 ? 1 : 0);
        }
    }
}

/* What must not be guessed is never masked. */
static void test_special_tokens_are_not_masked(void **state)
{
    (void)state;
    bp_source source = {.name = "rows", .count = TOKENS, .read = ramp_read, .examples = ROWS};
    source.example = read_pair;
    cut = false;
    bp_error error = {0};
    bp_feed feed = feed_of(&source, false);
    feed.pairs = false;
    feed.kind = BP_LABELS_MASKED;
    feed.masking = (bp_masking){.probability = 0.999, .token = 99, .special = {1, 9, 17, 26}};
    bp_group group = group_of(false);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    uint32_t masked = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t t = 0; t < T; t++) {
            const int32_t token = (int32_t)(8 * r + t);
            const bool special = token == 1 || token == 9 || token == 17 || token == 26;
            assert_true(!special || (labels[r][t] == -1 && ids[r][t] == token));
            masked += labels[r][t] >= 0 ? 1 : 0;
        }
    }
    assert_true(masked > ROWS);
}

/* Labels that cannot be read end the group, those of a row's end as those of its beginning. */
static void test_labels_that_cannot_be_read(void **state)
{
    (void)state;
    bp_source source = {.name = "rows", .count = TOKENS, .read = ramp_read, .examples = ROWS};
    source.example = read_pair;
    source.labels = labels_fail;
    cut = true;
    for (uint64_t before = 0; before < 2; before++) {
        bp_error error = {0};
        bp_feed feed = feed_of(&source, false);
        feed.pairs = false;
        feed.kind = BP_LABELS_GIVEN;
        feed.classes = 2;
        bp_group group = group_of(false);
        labels_asked = before;
        feed.error = &error;
        assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
        assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_STORE);
        assert_string_equal(error.text, "the data cannot be read");
        assert_int_equal(labels_asked, 2); /* and it is not asked again */
    }
}

/* Against the rule said plainly: tokens leave the longer text one by one, of two alike the second,
 * until the shorter one's length; then the room is halved. */
/* verifies run-35.b20a */
static void test_cutting_pairs(void **state)
{
    (void)state;
    for (uint64_t a = 0; a < 12; a++) {
        for (uint64_t b = 0; b < 12; b++) {
            for (uint64_t most = 0; most < 25; most++) {
                uint64_t x = a, y = b, least = a < b ? a : b;
                bp_feed_cut_pair(most, &x, &y);
                assert_true(x <= a && y <= b && x + y == (a + b < most ? a + b : most));
                if (2 * least <= most) {
                    assert_int_equal(x < y ? x : y, least); /* the shorter one stays whole */
                } else if (a + b > most) {
                    assert_true(x + 1 >= y && y + 1 >= x);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preferences_and_weights),
        cmocka_unit_test(test_pairs_without_preferences),
        cmocka_unit_test(test_types_are_of_pairs_of_texts),
        cmocka_unit_test(test_special_tokens_are_not_masked),
        cmocka_unit_test(test_labels_that_cannot_be_read),
        cmocka_unit_test(test_cutting_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
