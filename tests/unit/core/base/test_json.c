/* SPDX-License-Identifier: MIT */
/* The JSON reader: events, limits, failing sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/json_fixture.h"

/* verifies file-1.7ade */
static void gives_events_with_their_values(void **state)
{
    (void)state;
    static const char document[] = "{\"key\": [1, -2.5, \"x\"]}";
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, document, sizeof document - 1), BP_OK);
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_OBJECT_BEGIN);
    assert_int_equal(event.depth, 0);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_KEY);
    assert_string_equal(event.text, "key");
    assert_int_equal(event.length, 3);
    assert_int_equal(event.depth, 1);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_ARRAY_BEGIN);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_NUMBER);
    assert_true(event.integer);
    assert_int_equal(event.i64, 1);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_false(event.integer);
    assert_true(event.real == -2.5);
    assert_string_equal(event.text, "-2.5");
    assert_int_equal(event.depth, 2);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_TEXT);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(event.kind, BP_JSON_ARRAY_END);
    assert_int_equal(event.depth, 1);
    assert_int_equal(json_fixture_drain(&d), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK); /* the end again */
    assert_int_equal(event.kind, BP_JSON_END);
}

/* verifies file-1.7ade */
static void skips_values_of_any_form(void **state)
{
    (void)state;
    static const char document[] =
        "{\"a\":[1,[2,{\"x\":[]}],3],\"b\":{\"c\":{}},\"d\":7,"
        "\"e\":\"0123456789012345678901234567890123456789012345678901234567890123456789\","
        "\"last\":1}";
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, document, sizeof document - 1), BP_OK);
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
        assert_int_equal(event.kind, BP_JSON_KEY);
        assert_int_equal(bp_json_skip(&d.json), BP_OK);
    }
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_string_equal(event.text, "last");
    assert_int_equal(bp_json_skip(&d.json), BP_OK);
    assert_int_equal(json_fixture_drain(&d), BP_OK);
    assert_int_equal(json_fixture_open(&d, "{\"a\":[1,", 8), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_skip(&d.json), BP_ERR_DATA);
}

/* verifies file-2.efdf */
static void limits_depth(void **state)
{
    (void)state;
    char document[2 * BP_JSON_DEPTH_MAX + 2];
    memset(document, '[', BP_JSON_DEPTH_MAX);
    memset(document + BP_JSON_DEPTH_MAX, ']', BP_JSON_DEPTH_MAX);
    assert_int_equal(json_fixture_check(document, 2 * BP_JSON_DEPTH_MAX), BP_OK);
    memset(document, '[', BP_JSON_DEPTH_MAX + 1);
    memset(document + BP_JSON_DEPTH_MAX + 1, ']', BP_JSON_DEPTH_MAX + 1);
    assert_int_equal(json_fixture_check(document, 2 * BP_JSON_DEPTH_MAX + 2), BP_ERR_DATA);
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, "[[]]", 4), BP_OK);
    d.json.max_depth = 1;
    assert_int_equal(json_fixture_drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 1");
}

/* verifies file-2.efdf */
static void limits_size(void **state)
{
    (void)state;
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, "[1,2]", 5), BP_OK);
    d.json.source.max_bytes = 5;
    assert_int_equal(json_fixture_drain(&d), BP_OK);
    assert_int_equal(json_fixture_open(&d, "[1,2]", 5), BP_OK);
    d.json.source.max_bytes = 4;
    assert_int_equal(json_fixture_drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.text, "the document is longer than the limit");
    assert_int_equal(json_fixture_open_by_bytes(&d, "[1,2]", 5), BP_OK);
    d.json.source.max_bytes = 4;
    assert_int_equal(json_fixture_drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 4");
}

/* verifies file-2.efdf */
static void limits_keys_and_numbers(void **state)
{
    (void)state;
    /* The room of 64 bytes keeps 5 free for a character and the terminator: 59 end it. */
    char document[160] = "{\"";
    memset(document + 2, 'k', 60);
    strcpy(document + 2 + 58, "\":1}");
    assert_int_equal(json_fixture_check(document, strlen(document)), BP_OK);
    memset(document + 2, 'k', 70);
    strcpy(document + 2 + 60, "\":1}");
    assert_int_equal(json_fixture_check(document, strlen(document)), BP_ERR_DATA);
    memset(document, '1', 63);
    assert_int_equal(json_fixture_check(document, 63), BP_OK);
    memset(document, '1', 64);
    assert_int_equal(json_fixture_check(document, 64), BP_ERR_DATA);
}

/* verifies file-2.efdf */
static void limits_open_keys(void **state)
{
    (void)state;
    char document[4096] = "[{";
    size_t used = 2;
    for (int i = 0; i < JSON_FIXTURE_KEYS; i++) {
        used += (size_t)sprintf(document + used, "%s\"k%d\":%d", i > 0 ? "," : "", i, i);
    }
    /* A second object of the same size fits, because the first one's keys are forgotten. */
    size_t first = used;
    used += (size_t)sprintf(document + used, "},{");
    memcpy(document + used, document + 2, first - 2);
    used += first - 2;
    strcpy(document + used, "}]");
    assert_int_equal(json_fixture_check(document, strlen(document)), BP_OK);
    strcpy(document + used, ",\"more\":1}]");
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, document, strlen(document)), BP_OK);
    assert_int_equal(json_fixture_drain(&d), BP_ERR_FIT);
    assert_string_equal(d.error.name, "more");
    assert_int_equal(d.error.found, JSON_FIXTURE_KEYS + 1);
    assert_int_equal(d.error.wanted, JSON_FIXTURE_KEYS);
    assert_int_equal(json_fixture_drain(&d), BP_ERR_FIT); /* it sticks */
}

/* verifies file-13.6b0a */
static void finds_no_duplicates_without_a_key_set(void **state)
{
    (void)state;
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, "{\"a\":1,\"a\":2}", 13), BP_OK);
    bp_json_source source = d.json.source;
    bp_json_memory memory = {d.text, sizeof d.text, NULL, 0, 8};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(json_fixture_drain(&d), BP_OK);
}

/* verifies file-2.efdf */
static void sizes_the_key_set(void **state)
{
    (void)state;
    assert_int_equal(bp_json_keys_bytes(0), 8 * 20);
    assert_int_equal(bp_json_keys_bytes(JSON_FIXTURE_KEYS), JSON_FIXTURE_KEYS * 20);
    assert_int_equal(bp_json_keys_bytes(JSON_FIXTURE_KEYS + 1), 2 * JSON_FIXTURE_KEYS * 20);
    assert_true(bp_json_keys_bytes(UINT64_MAX) == BP_SIZE_INVALID);
}

/* verifies file-13.6b0a */
static void refuses_bad_memory(void **state)
{
    (void)state;
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, "1", 1), BP_OK);
    bp_json_source source = d.json.source;
    bp_json_memory good = {d.text, sizeof d.text, d.keys, sizeof d.keys, 8};
    bp_json_memory bad = good;
    bad.text_bytes--;
    assert_int_equal(bp_json_init(&d.json, &source, &bad, NULL), BP_ERR_USAGE);
    bad = good;
    bad.max_depth = 0;
    assert_int_equal(bp_json_init(&d.json, &source, &bad, NULL), BP_ERR_USAGE);
    bad.max_depth = BP_JSON_DEPTH_MAX + 1;
    assert_int_equal(bp_json_init(&d.json, &source, &bad, NULL), BP_ERR_USAGE);
    bad = good;
    bad.keys_bytes = 159;
    assert_int_equal(bp_json_init(&d.json, &source, &bad, NULL), BP_ERR_USAGE);
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_ERR_USAGE);
}

static bp_status fill_and_fail(void *user, const unsigned char **bytes, size_t *count)
{
    int *calls = user;
    *bytes = (const unsigned char *)"[1,\"ab";
    *count = 6;
    return (*calls)++ == 0 ? BP_OK : BP_ERR_STORE;
}

static bp_status fill_value_and_fail(void *user, const unsigned char **bytes, size_t *count)
{
    int *calls = user;
    *bytes = (const unsigned char *)"12 ";
    *count = 3;
    return (*calls)++ == 0 ? BP_OK : BP_ERR_STORE;
}

/* verifies file-7.181b */
static void passes_a_failing_source_on(void **state)
{
    (void)state;
    json_fixture d;
    int calls = 0;
    assert_int_equal(json_fixture_open(&d, "", 0), BP_OK);
    d.json.source.fill = fill_and_fail;
    d.json.source.user = &calls;
    assert_int_equal(json_fixture_drain(&d), BP_ERR_STORE);
    assert_int_equal(d.error.code, BP_OK); /* the source reports its own errors */
    assert_int_equal(json_fixture_drain(&d), BP_ERR_STORE);
    assert_int_equal(calls, 2); /* and is not asked again */
    calls = 0;
    assert_int_equal(json_fixture_open(&d, "", 0), BP_OK);
    d.json.source.fill = fill_value_and_fail;
    d.json.source.user = &calls;
    assert_int_equal(json_fixture_drain(&d), BP_ERR_STORE); /* a failure is not taken for the end */
}

static bp_status fill_digits_and_fail(void *user, const unsigned char **bytes, size_t *count)
{
    int *calls = user;
    *bytes = (const unsigned char *)"12";
    *count = 2;
    return (*calls)++ == 0 ? BP_OK : BP_ERR_STORE;
}

/* verifies file-7.181b */
static void a_number_cut_by_a_failure_is_no_number(void **state)
{
    (void)state;
    json_fixture d;
    int calls = 0;
    assert_int_equal(json_fixture_open(&d, "", 0), BP_OK);
    d.json.source.fill = fill_digits_and_fail;
    d.json.source.user = &calls;
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_ERR_STORE);
}

/* verifies file-13.6b0a */
static void lets_the_consumer_refuse(void **state)
{
    (void)state;
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, "[1]", 3), BP_OK);
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_refuse(&d.json, "not an object"), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 1");
    assert_int_equal(bp_json_next(&d.json, &event), BP_ERR_DATA);
}

/* verifies file-1.7ade */
static void streams_a_long_document(void **state)
{
    (void)state;
    /* A tokenizer's shape: one object of 200,000 keys, then a long list. */
    enum { COUNT = 200000 };
    size_t room = (size_t)COUNT * 40;
    char *document = malloc(room);
    size_t used = (size_t)sprintf(document, "{\"vocab\":{");
    for (int i = 0; i < COUNT; i++) {
        used += (size_t)sprintf(document + used, "%s\"t%d\":%d", i > 0 ? "," : "", i, i);
    }
    used += (size_t)sprintf(document + used, "},\"merges\":[");
    for (int i = 0; i < COUNT; i++) {
        used += (size_t)sprintf(document + used, "%s\"t%d t\"", i > 0 ? "," : "", i);
    }
    used += (size_t)sprintf(document + used, "]}");
    assert_true(used < room);
    char text[256];
    size_t bytes = (size_t)bp_json_keys_bytes(COUNT + 2);
    uint64_t *keys = malloc(bytes);
    bp_json_span span = {document, used};
    bp_json_source source = {bp_json_span_fill, &span, used};
    bp_json_memory memory = {text, sizeof text, keys, bytes, 4};
    json_fixture d = {.left = 0};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(json_fixture_drain(&d), BP_OK);
    assert_int_equal(d.json.stack_used, 0);
    /* One key of them twice. */
    char *again = strstr(document, "\"t199999\"");
    memcpy(again, "\"t100000\"", 9);
    span = (bp_json_span){document, used};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(json_fixture_drain(&d), BP_ERR_DATA);
    free(keys);
    free(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_events_with_their_values),
        cmocka_unit_test(skips_values_of_any_form),
        cmocka_unit_test(limits_depth),
        cmocka_unit_test(limits_size),
        cmocka_unit_test(limits_keys_and_numbers),
        cmocka_unit_test(limits_open_keys),
        cmocka_unit_test(finds_no_duplicates_without_a_key_set),
        cmocka_unit_test(sizes_the_key_set),
        cmocka_unit_test(refuses_bad_memory),
        cmocka_unit_test(passes_a_failing_source_on),
        cmocka_unit_test(a_number_cut_by_a_failure_is_no_number),
        cmocka_unit_test(lets_the_consumer_refuse),
        cmocka_unit_test(streams_a_long_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
