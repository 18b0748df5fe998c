/* SPDX-License-Identifier: MIT */
/* Sources behind each other: every token, target and example of each, and what does not go
 * together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/formats/files/split.h"

enum { PARTS = 3 };

static const uint64_t counts[PARTS] = {3, 4, 2}, examples[PARTS] = {1, 2, 1};

/* Token k of part p is 10 p + k; it is a target where k is even; example e is tokens 2 e and 2 e
 * + 1. */
typedef struct part {
    bp_source source;
    int32_t number;
    bool fails;
} part;

static bp_status part_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const part *p = source->context;
    assert_true(first + n <= source->count);
    for (uint32_t i = 0; i < n; i++) {
        to[i] = 10 * p->number + (int32_t)first + (int32_t)i;
    }
    return p->fails ? BP_ERR_STORE : BP_OK;
}

static bp_status part_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *to)
{
    const part *p = source->context;
    assert_true(first + n <= source->count);
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (first + i) % 2 == 0;
    }
    return p->fails ? BP_ERR_STORE : BP_OK;
}

static bp_status part_example(bp_source *source, uint64_t index, bp_example *to)
{
    const part *p = source->context;
    assert_true(index < source->examples);
    *to = (bp_example){.first = 2 * index, .count = 2, .label = (uint64_t)p->number};
    return p->fails ? BP_ERR_STORE : BP_OK;
}

static void parts_make(part parts[PARTS], bp_source *list[PARTS], bool rows)
{
    static const char *const names[PARTS] = {"one", "two", "three"};
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (part){.source = {.context = &parts[i],
                                     .name = names[i],
                                     .count = counts[i],
                                     .read = part_read,
                                     .examples = rows ? examples[i] : 0,
                                     .example = rows ? part_example : NULL},
                          .number = i};
        list[i] = &parts[i].source;
    }
}

/* verifies formats-55.dd1c */
static void tokens_follow_each_other(void **state)
{
    (void)state;
    static const int32_t right[] = {0, 1, 2, 10, 11, 12, 13, 20, 21};
    part parts[PARTS];
    bp_source *list[PARTS];
    bp_joined joined;
    bp_error error = {.code = BP_OK};
    parts_make(parts, list, false);
    assert_int_equal(bp_joined_init(&joined, list, PARTS, &error), BP_OK);
    assert_int_equal(joined.source.count, 9);
    assert_string_equal(joined.source.name, "one");
    assert_null(joined.source.targets);
    assert_null(joined.source.example);
    for (uint64_t first = 0; first < 9; first++) {
        for (uint32_t n = 0; first + n <= 9; n++) {
            int32_t ids[9];
            assert_int_equal(joined.source.read(&joined.source, first, n, ids), BP_OK);
            assert_memory_equal(ids, right + first, n * sizeof *ids);
        }
    }
    int32_t ids[9];
    parts[1].fails = true;
    assert_int_equal(joined.source.read(&joined.source, 0, 3, ids), BP_OK);
    assert_int_equal(joined.source.read(&joined.source, 0, 4, ids), BP_ERR_STORE);
}

/* Of a source without targets every token is one. */
/* verifies formats-55.dd1c */
static void targets_follow_each_other(void **state)
{
    (void)state;
    static const uint8_t right[] = {1, 1, 1, 1, 0, 1, 0, 1, 1};
    part parts[PARTS];
    bp_source *list[PARTS];
    bp_joined joined;
    uint8_t found[9] = {7};
    parts_make(parts, list, false);
    parts[1].source.targets = part_targets;
    assert_int_equal(bp_joined_init(&joined, list, PARTS, NULL), BP_OK);
    assert_int_equal(joined.source.targets(&joined.source, 0, 9, found), BP_OK);
    assert_memory_equal(found, right, 9);
    assert_int_equal(joined.source.targets(&joined.source, 4, 4, found), BP_OK);
    assert_memory_equal(found, right + 4, 4);
    parts[1].fails = true;
    assert_int_equal(joined.source.targets(&joined.source, 0, 9, found), BP_ERR_STORE);
}

/* verifies formats-55.dd1c */
static void examples_follow_each_other(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {0, 3, 5, 7}, labels[] = {0, 1, 1, 2};
    part parts[PARTS];
    bp_source *list[PARTS];
    bp_joined joined;
    bp_example example;
    parts_make(parts, list, true);
    assert_int_equal(bp_joined_init(&joined, list, PARTS, NULL), BP_OK);
    assert_int_equal(joined.source.examples, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(joined.source.example(&joined.source, i, &example), BP_OK);
        assert_int_equal(example.first, firsts[i]);
        assert_int_equal(example.label, labels[i]);
    }
    parts[2].fails = true;
    assert_int_equal(joined.source.example(&joined.source, 3, &example), BP_ERR_STORE);
}

/* verifies formats-55.dd1c */
static void other_kinds_are_refused(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        part parts[PARTS];
        bp_source *list[PARTS];
        bp_joined joined;
        bp_error error = {.code = BP_OK};
        parts_make(parts, list, kind != 3);
        bp_source *odd = &parts[1].source;
        odd->labels = kind == 0 ? part_read : NULL;
        odd->together = kind == 1 ? 2 : 1;
        odd->examples = kind == 2 ? 0 : kind == 3 ? 1 : odd->examples;
        assert_int_equal(bp_joined_init(&joined, list, PARTS, &error), BP_ERR_DATA);
        assert_string_equal(error.name, "two");
        assert_non_null(strstr(error.text, "streams of tokens, or all examples"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_follow_each_other),
        cmocka_unit_test(targets_follow_each_other),
        cmocka_unit_test(examples_follow_each_other),
        cmocka_unit_test(other_kinds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
