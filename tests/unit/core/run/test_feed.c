/* SPDX-License-Identifier: MIT */
/* The feed: every window once per epoch, short groups, padding, range checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/feed.h"
#include "tests/fixtures/columns.h"

#define TOKENS 103
#define T      4

static bp_status read_ramp(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    if (source->context != NULL) {
        return BP_ERR_STORE;
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(first + i < source->count);
        to[i] = (int32_t)(first + i);
    }
    return BP_OK;
}

static bp_source ramp = {.name = "ramp", .count = TOKENS, .read = read_ramp};
static int32_t ids[10 * T];
static int32_t labels[10 * T];
static int32_t window[BP_FEED_SCRATCH(T)];

static bp_feed make_feed(uint32_t batch, uint32_t group, bool shuffle)
{
    return (bp_feed){.source = &ramp,
                     .seed = 5,
                     .sequence = T,
                     .batch = batch,
                     .group = group,
                     .vocabulary = TOKENS,
                     .shuffle = shuffle};
}

/* Labels that are given need examples, whatever their kind. */
/* verifies run-21.71ae */
static void test_labels_need_examples(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_feed feed = make_feed(2, 2, true);
    feed.kind = BP_LABELS_GIVEN;
    assert_int_equal(bp_feed_init(&feed, &error), BP_ERR_USAGE);
    assert_string_equal(error.text, "the data has no labels");
}

/* Pairs of rows are whole: an even batch of an even number of windows. */
/* verifies run-21.71ae */
static void test_pairs_are_whole(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_feed feed = make_feed(3, 9, true);
    feed.pairs = true; /* 26 windows */
    assert_int_equal(bp_feed_init(&feed, &error), BP_ERR_USAGE);
    feed = make_feed(2, 2, true);
    feed.pairs = true;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    bp_source odd = ramp;
    odd.count = TOKENS - T; /* 25 windows */
    feed.source = &odd;
    assert_int_equal(bp_feed_init(&feed, &error), BP_ERR_USAGE);
}

/* verifies number-6.2553 */
static void test_epoch_visits_every_window_once(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_feed feed = make_feed(3, 9, true);
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(feed.windows, 26); /* ceil(102 / 4) */
    assert_int_equal(feed.steps_per_epoch, 3);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint32_t seen[26] = {0};
        uint64_t valid = 0;
        for (uint64_t step = 0; step < 3; step++) {
            assert_int_equal(bp_feed_stage(&feed, epoch * 3 + step, &group, window), BP_OK);
            assert_int_equal(group.samples, step < 2 ? 9 : 8);
            assert_int_equal(group.micros, 3);
            for (uint32_t s = 0; s < group.samples; s++) {
                seen[ids[s * T] / T]++;
                for (uint32_t t = 0; t < T; t++) {
                    bool target = labels[s * T + t] >= 0;
                    assert_true(!target || labels[s * T + t] == ids[s * T + t] + 1);
                }
            }
            valid += group.valid;
        }
        assert_int_equal(valid, TOKENS - 1);
        for (int w = 0; w < 26; w++) {
            assert_int_equal(seen[w], 1);
        }
    }
    /* The ninth row of the last group has no window: padding without targets. */
    assert_int_equal(labels[8 * T], -1);
}

/* verifies run-21.71ae */
static void test_order_in_file_without_shuffle(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_feed feed = make_feed(2, 2, false);
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 12, &group, window), BP_OK);
    assert_int_equal(ids[0], 24 * T);
    assert_int_equal(labels[T], 101);
    assert_int_equal(labels[T + 1], 102);
    assert_int_equal(labels[T + 2], -1); /* the last window is padded */
    assert_int_equal(ids[T + 2], 0);
    assert_int_equal(group.valid, 6);
}

/* verifies run-4.8194 */
static void test_accumulation_sees_the_same_samples(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_feed one = make_feed(6, 6, true);
    bp_feed three = make_feed(2, 6, true);
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    int32_t first[6 * T];
    int32_t targets[6 * T];
    assert_int_equal(bp_feed_init(&one, &error), BP_OK);
    assert_int_equal(bp_feed_init(&three, &error), BP_OK);
    for (uint64_t step = 0; step < one.steps_per_epoch; step++) {
        uint64_t valid = 0;
        assert_int_equal(bp_feed_stage(&one, step, &group, window), BP_OK);
        memcpy(first, ids, sizeof first);
        memcpy(targets, labels, sizeof targets);
        for (uint32_t i = 0; i < group.samples * T; i++) {
            valid += labels[i] >= 0 ? 1 : 0;
        }
        assert_int_equal(group.valid, valid); /* what the losses are divided by */
        const uint64_t samples = group.samples;
        assert_int_equal(bp_feed_stage(&three, step, &group, window), BP_OK);
        assert_int_equal(group.micros, bp_size_ceil_div(samples, 2));
        assert_int_equal(group.samples, samples);
        assert_int_equal(group.valid, valid);
        assert_memory_equal(first, ids, group.samples * T * sizeof *ids);
        assert_memory_equal(targets, labels, group.samples * T * sizeof *labels);
    }
}

static bp_status only_multiples_of_ten(bp_source *source, uint64_t first, uint32_t n,
                                       uint8_t *counts)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = (first + i) % 10 == 0;
    }
    return BP_OK;
}

/* verifies run-21.71ae */
static void test_masked_targets(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    bp_source masked = ramp;
    masked.targets = only_multiples_of_ten;
    bp_feed feed = make_feed(1, 1, false);
    feed.source = &masked;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_int_equal(group.valid, 0);
    assert_int_equal(ids[2], 2);
    assert_int_equal(bp_feed_stage(&feed, 2, &group, window), BP_OK);
    assert_int_equal(group.valid, 1);
    assert_int_equal(labels[1], 10);
    assert_int_equal(labels[2], -1);
}

/* Three examples over the ramp: one shorter than a row, one longer, one that is all prompt. */
static bp_status three_examples(bp_source *source, uint64_t index, bp_example *to)
{
    static const bp_example rows[3] = {
        {.first = 10, .count = 3, .prompt = 2, .label = 1},
        {.first = 20, .count = 9, .prompt = 1, .label = 2, .tail = 1},
        {.first = 40, .count = 5, .prompt = 5, .label = 7}};
    if (source->context != NULL) {
        return BP_ERR_STORE;
    }
    *to = rows[index];
    return BP_OK;
}

static bp_source examples_of(void)
{
    bp_source source = ramp;
    source.examples = 3;
    source.example = three_examples;
    return source;
}

/* verifies run-21.71ae */
static void test_examples_are_rows(void **state)
{
    (void)state;
    static const int32_t right_ids[4 * T] = {10, 11, 99, 99, 20, 21, 22, 23,
                                             40, 41, 42, 43, 99, 99, 99, 99};
    static const int32_t right_labels[4 * T] = {-1, 12, -1, -1, 21, 22, 23, 28,
                                                -1, -1, -1, -1, -1, -1, -1, -1};
    static const int32_t right_lengths[4] = {2, 4, 4, 0};
    bp_error error = {0};
    int32_t lengths[4] = {-5, -5, -5, -5};
    bp_group group = columns_of(T, ids, labels, lengths, NULL);
    bp_source source = examples_of();
    bp_feed feed = make_feed(4, 4, false);
    feed.source = &source;
    feed.padding = 99;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(feed.windows, 3);
    assert_int_equal(feed.steps_per_epoch, 1);
    assert_int_equal(bp_feed_windows(&source, T), 3);
    assert_int_equal(bp_feed_windows(&ramp, T), 26);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_int_equal(group.samples, 3);
    assert_int_equal(group.micros, 1);
    assert_int_equal(group.valid, 5);
    assert_int_equal(group.tokens, 2 + 4 + 4);
    assert_memory_equal(ids, right_ids, sizeof right_ids);
    assert_memory_equal(labels, right_labels, sizeof right_labels);
    assert_memory_equal(lengths, right_lengths, sizeof right_lengths);
    /* Shuffled, each is there once. */
    feed = make_feed(3, 3, true);
    feed.source = &source;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 1, &group, window), BP_OK);
    assert_int_equal(ids[0] + ids[T] + ids[2 * T], 10 + 20 + 40);
}

/* verifies run-21.71ae run-6.fa71 */
static void test_labels_of_rows(void **state)
{
    (void)state;
    bp_error error = {0};
    int32_t lengths[4];
    bp_group group = columns_of(T, ids, labels, lengths, NULL);
    bp_source source = examples_of();
    bp_feed feed = make_feed(1, 1, false);
    feed.source = &source;
    feed.kind = BP_LABELS_CLASS;
    feed.classes = 3;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    static const int32_t row[2][T] = {{10, 11, 12, 0}, {1, -1, -1, -1}};
    assert_memory_equal(ids, row[0], sizeof row[0]);
    assert_memory_equal(labels, row[1], sizeof row[1]);
    assert_int_equal(lengths[0], 3);
    assert_int_equal(group.valid, 1);
    assert_int_equal(bp_feed_stage(&feed, 1, &group, window), BP_OK);
    static const int32_t cut[T] = {20, 21, 22, 28}; /* the tail stays */
    assert_memory_equal(ids, cut, sizeof cut);
    assert_int_equal(lengths[0], 4);
    assert_int_equal(bp_feed_stage(&feed, 2, &group, window), BP_ERR_DATA);
    assert_int_equal(error.found, 7);
    assert_int_equal(error.wanted, 3);
    feed.kind = BP_LABELS_BITS;
    assert_int_equal(bp_feed_stage(&feed, 2, &group, window), BP_OK);
    assert_int_equal(labels[0], 7);
    assert_int_equal(group.valid, 1);

    error = (bp_error){0};
    source.context = &source;
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_STORE);
    error = (bp_error){0};
    feed.source = &ramp; /* a stream has no labels */
    assert_int_equal(bp_feed_init(&feed, &error), BP_ERR_USAGE);
}

/* verifies run-6.fa71 */
static void test_bad_data(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    bp_feed feed = make_feed(26, 26, true);
    assert_int_equal(bp_feed_init(&feed, &error), BP_ERR_DATA);
    assert_int_equal(error.found, TOKENS);
    assert_int_equal(error.wanted, 26 * T + 1);
    assert_string_equal(error.name, "ramp");

    error = (bp_error){0};
    feed = make_feed(2, 2, false);
    feed.vocabulary = 50;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 6, &group, window), BP_ERR_DATA);
    assert_int_equal(error.found, 50);
    assert_int_equal(error.wanted, 50);

    error = (bp_error){0};
    bp_source broken = ramp;
    broken.context = &broken;
    feed = make_feed(2, 2, false);
    feed.source = &broken;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_STORE);
    assert_int_equal(error.code, BP_ERR_STORE);
}

static bp_example pair;

static bp_status read_pair(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    (void)index;
    *to = pair;
    return BP_OK;
}

/* A pair that is longer than a row keeps what is around its texts, and the longer text gives way.
 */
/* verifies run-35.b20a */
static void test_pairs(void **state)
{
    (void)state;
    static const struct {
        bp_example row;
        int32_t ids[T];
        int32_t length, second;
    } cases[] = {
        /* as it is, and padded */
        {{.first = 20, .count = 4, .second = 2, .lead = 1, .tail = 1}, {20, 21, 22, 23}, 4, 2},
        {{.first = 20, .count = 3, .second = 1, .lead = 1}, {20, 21, 22, 0}, 3, 1},
        /* one of six and one of four: the lead, one of each, what joins them */
        {{.first = 20, .count = 12, .second = 8, .lead = 1, .join = 1}, {20, 21, 27, 28}, 4, 3},
        /* a short first text stays, a short second one too */
        {{.first = 20, .count = 9, .second = 1}, {20, 21, 22, 23}, 4, 1},
        {{.first = 20, .count = 9, .second = 8}, {20, 21, 22, 28}, 4, 3},
        {{.first = 20, .count = 9, .second = 7, .tail = 1}, {20, 21, 27, 28}, 4, 2},
        /* nothing is left of either text */
        {{.first = 20, .count = 9, .second = 5, .lead = 1, .join = 2, .tail = 1},
         {20, 23, 24, 28},
         4,
         3},
        /* no room for what is around them, or parts that do not fit: one text, cut at its end */
        {{.first = 20, .count = 9, .second = 5, .lead = 2, .join = 2, .tail = 1},
         {20, 21, 22, 28},
         4,
         0},
        {{.first = 20, .count = 9, .second = 2, .lead = 2, .join = 1}, {20, 21, 22, 23}, 4, 0},
        {{.first = 20, .count = 9, .second = 9, .tail = 1}, {20, 21, 22, 28}, 4, 0},
        {{.first = 20, .count = 9, .second = 10}, {20, 21, 22, 23}, 4, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_error error = {0};
        bp_source source = ramp;
        int32_t length = -1, types[T] = {-1, -1, -1, -1};
        bp_feed feed = make_feed(1, 1, false);
        bp_group group = columns_of(T, ids, labels, &length, types);
        source.examples = 1;
        source.example = read_pair;
        feed.source = &source;
        feed.kind = BP_LABELS_CLASS;
        feed.classes = 2;
        pair = cases[i].row;
        assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
        assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
        assert_memory_equal(ids, cases[i].ids, sizeof cases[i].ids);
        assert_int_equal(length, cases[i].length);
        assert_true(cases[i].second < cases[i].length);
        for (int32_t t = 0; t < T; t++) {
            const bool apart = cases[i].second > 0 && t >= cases[i].second && t < length;
            assert_int_equal(types[t], apart);
        }
        group = columns_of(T, ids, labels, NULL, NULL); /* what is not declared is not staged */
        assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    }
}

/* Each column has its own shape: the first elements of a row, or all and what stands for nothing;
 * several may be of one kind, and each has its fill. */
/* verifies compile-18.7373 */
static void test_columns_of_one_kind(void **state)
{
    (void)state;
    enum { ROWS = 2, WIDE = T + 2, NARROW = 2 };
    bp_error error = {0};
    int32_t wide[ROWS * WIDE], narrow[ROWS * NARROW], one[ROWS], targets[ROWS * WIDE];
    int32_t types[ROWS * WIDE], lengths[ROWS * NARROW];
    float numbers[ROWS * T];
    bp_group group = {.columns = 6,
                      .column = {{BP_INPUT_IDS, BP_I32, NARROW, 0, narrow},
                                 {BP_INPUT_LABELS, BP_I32, 1, -1, one},
                                 {BP_INPUT_IDS, BP_I32, WIDE, 0, wide},
                                 {BP_INPUT_TYPES, BP_I32, WIDE, 7, types},
                                 {BP_INPUT_LABELS, BP_I32, WIDE, -3, targets},
                                 {BP_INPUT_LENGTHS, BP_I32, NARROW, 5, lengths}}};
    bp_source source = ramp;
    bp_feed feed = make_feed(ROWS, ROWS, false);
    source.examples = 1;
    source.example = read_pair;
    pair = (bp_example){.first = 20, .count = 3, .second = 1, .label = 1};
    feed.source = &source;
    feed.kind = BP_LABELS_CLASS;
    feed.classes = 2;
    feed.padding = 99;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    static const int32_t right_narrow[] = {20, 21, 99, 99};
    static const int32_t right_wide[] = {20, 21, 22, 99, 99, 99, 99, 99, 99, 99, 99, 99};
    static const int32_t right_types[] = {7, 1, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    static const int32_t right_targets[] = {1, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3};
    static const int32_t right_lengths[] = {3, 5, 0, 5};
    assert_memory_equal(narrow, right_narrow, sizeof right_narrow);
    assert_memory_equal(wide, right_wide, sizeof right_wide);
    assert_memory_equal(types, right_types, sizeof right_types);
    assert_memory_equal(targets, right_targets, sizeof right_targets);
    assert_memory_equal(lengths, right_lengths, sizeof right_lengths);
    assert_true(one[0] == 1 && one[1] == -1);
    assert_int_equal(group.valid, 1); /* counted once */
    /* Positions count on from the fill, which tokens of that id have, and what is no token. */
    group.column[3] = (bp_column){BP_INPUT_POSITIONS, BP_I32, WIDE, 21, types};
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    static const int32_t right_positions[] = {22, 21, 23, 21, 21, 21, 21, 21, 21, 21, 21, 21};
    assert_memory_equal(types, right_positions, sizeof right_positions);
    feed.kind = BP_LABELS_BITS; /* where a row that is not there has no label either */
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_memory_equal(targets, right_targets, sizeof right_targets);
    assert_true(one[0] == 1 && one[1] == -1);
    assert_int_equal(group.valid, 1);
    assert_ptr_equal(bp_group_column(&group, BP_INPUT_IDS)->data, narrow);
    assert_ptr_equal(bp_group_column(&group, BP_INPUT_LABELS)->data, one);
    group.columns = 1;
    assert_null(bp_group_column(&group, BP_INPUT_LABELS));
    group.column[0] = (bp_column){BP_INPUT_IDS, BP_F32, T, 0, numbers};
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_memory_equal(numbers, right_wide, T * sizeof(float)); /* the source's bits */
    assert_int_equal(group.valid, 0);
}

static bp_status token_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = first + i == 101 ? -100 : (int32_t)(first + i) % 7;
    }
    return BP_OK;
}

/* Labels that each token has of its own, somewhere else than the tokens; of a row that is cut its
 * tail keeps its own. */
/* verifies run-21.71ae */
static void test_labels_of_tokens(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_group group = columns_of(T, ids, labels, NULL, NULL);
    bp_source source = ramp;
    bp_feed feed = make_feed(1, 1, false);
    source.examples = 1;
    source.example = read_pair;
    source.labels = token_labels;
    pair = (bp_example){.first = 20, .count = 3, .tail = 1, .shift = 80};
    feed.source = &source;
    feed.kind = BP_LABELS_GIVEN;
    feed.classes = 7;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    for (int32_t t = 0; t < T; t++) {
        assert_int_equal(labels[t], t < 3 && t != 1 ? (100 + t) % 7 : -1);
    }
    assert_int_equal(group.valid, 2);
    pair.count = T + 3;
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_int_equal(labels[T - 2], (100 + T - 2) % 7);
    assert_int_equal(labels[T - 1], (100 + T + 2) % 7);
    assert_int_equal(ids[T - 1], 20 + T + 2);
    feed.classes = 4; /* the label of token 102 */
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_DATA);
    assert_string_equal(error.text, "a label is not below the number of classes");
}

/* Where an answer begins and ends; both columns count. */
/* verifies run-21.71ae */
static void test_answers(void **state)
{
    (void)state;
    bp_error error = {0};
    int32_t ends[T];
    bp_group group = {.columns = 3,
                      .column = {{BP_INPUT_IDS, BP_I32, T, 0, ids},
                                 {BP_INPUT_LABELS, BP_I32, T, -1, labels},
                                 {BP_INPUT_ENDS, BP_I32, T, -1, ends}}};
    bp_source source = ramp;
    bp_feed feed = make_feed(1, 1, false);
    source.examples = 1;
    source.example = read_pair;
    pair = (bp_example){.first = 20, .count = 4, .second = 2, .label = 2 | 3u << 16 | 9ull << 32};
    feed.source = &source;
    feed.kind = BP_LABELS_SPAN;
    assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_true(labels[0] == 2 && ends[0] == 3 && labels[1] == -1 && ends[1] == -1);
    assert_int_equal(group.valid, 2);
    pair.label = BP_NO_LABEL;
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_OK);
    assert_true(labels[0] == -1 && ends[0] == -1 && group.valid == 0);
    pair.label = 2 | 4u << 16;
    assert_int_equal(bp_feed_stage(&feed, 0, &group, window), BP_ERR_DATA);
    assert_string_equal(error.text, "an answer lies outside of its row");
}

/* Example i has 2 + i * 7 % 4 tokens. */
static bp_status uneven_example(bp_source *source, uint64_t index, bp_example *to)
{
    if (source->context != NULL) {
        return BP_ERR_STORE;
    }
    *to = (bp_example){.first = index, .count = 2 + index * 7 % 4};
    return BP_OK;
}

/* Stretches of 50 groups, or of a quarter of a small epoch's: each window once an epoch, in each
 * stretch the longest first and equal ones in the shuffled order, whichever position is asked for
 * first. */
/* verifies run-21.71ae */
static void test_groups_by_length(void **state)
{
    (void)state;
    static bp_megabatch_row rows[3 * BP_MEGABATCH_GROUPS];
    static const struct {
        uint64_t examples, megabatch;
    } cases[] = {{90, 21}, {5, 3}, {1000, 150}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const uint64_t count = cases[c].examples, length = cases[c].megabatch;
        bp_error error = {0};
        bp_source source = {.name = "uneven", .count = 2000, .read = read_ramp};
        source.examples = count;
        source.example = uneven_example;
        bp_megabatch megabatch = {.rows = rows};
        bp_feed feed = make_feed(3, 3, true);
        feed.source = &source;
        assert_int_equal(bp_feed_init(&feed, &error), BP_OK);
        bp_feed plain = feed;
        feed.megabatch = &megabatch;
        feed.order = bp_feed_by_length;
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            uint8_t seen[1000] = {0};
            uint32_t before = 0;
            for (uint64_t at = 0; at < count; at++) {
                uint64_t window_here, again;
                uint32_t tokens;
                assert_int_equal(bp_feed_window(&feed, epoch, at, &window_here), BP_OK);
                assert_int_equal(seen[window_here]++, 0);
                assert_int_equal(bp_feed_length(&feed, window_here, &tokens), BP_OK);
                assert_true(at % length == 0 || tokens <= before);
                before = tokens;
                bool inside = false; /* the same samples as without, stretch by stretch */
                for (uint64_t i = at / length * length; i < count && i < (at / length + 1) * length;
                     i++) {
                    assert_int_equal(bp_feed_window(&plain, epoch, i, &again), BP_OK);
                    inside = inside || again == window_here;
                }
                assert_true(inside);
            }
        }
        uint64_t last, first;
        assert_int_equal(bp_feed_window(&feed, 1, count - 1, &last), BP_OK);
        bp_megabatch other = {.rows = rows};
        feed.megabatch = &other;
        assert_int_equal(bp_feed_window(&feed, 1, count - 1, &first), BP_OK);
        assert_int_equal(first, last);
        source.context = &source; /* nothing can be read: what was half made is not used */
        assert_int_equal(bp_feed_window(&feed, 7, 0, &first), BP_ERR_STORE);
        source.context = NULL;
        assert_int_equal(bp_feed_window(&feed, 1, count - 1, &first), BP_OK);
        assert_int_equal(first, last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_need_examples),
        cmocka_unit_test(test_pairs_are_whole),
        cmocka_unit_test(test_epoch_visits_every_window_once),
        cmocka_unit_test(test_groups_by_length),
        cmocka_unit_test(test_order_in_file_without_shuffle),
        cmocka_unit_test(test_accumulation_sees_the_same_samples),
        cmocka_unit_test(test_masked_targets),
        cmocka_unit_test(test_examples_are_rows),
        cmocka_unit_test(test_labels_of_rows),
        cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_labels_of_tokens),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_columns_of_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
