/* SPDX-License-Identifier: MIT */
/* The JSON writer: both forms, lines, keys by themselves, depth, and what reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "arena/json_write.h"
#include "core/base/number.h"
#include "tests/fixtures/formats/json_fixture.h"

static void write_members(bp_json_writer *json, char kind, bool lines)
{
    const char *const none = NULL;
    if (lines) {
        bp_json_put_lines(json, NULL, '{');
    } else {
        bp_json_put_open(json, NULL, '{');
    }
    bp_json_put_u64(json, "u", UINT64_MAX);
    bp_json_put_i64(json, "i", INT64_MIN);
    bp_json_put_real(json, "r", 0.1, 9);
    bp_json_put_real(json, "n", (double)NAN, 9);
    bp_json_put_flag(json, "f", false);
    bp_json_put_hex(json, "h", 0xab);
    bp_json_put_text(json, "q\"", "a\n\x01\xff");
    bp_json_put_open(json, "list", '[');
    bp_json_put_bytes(json, none, "b\0c", 3);
    bp_json_put_value(json, none, "null");
    bp_json_put_lines(json, none, kind);
    bp_json_put_close(json);
    bp_json_put_close(json);
    bp_json_put_lines(json, "in", '[');
    bp_json_put_open(json, none, '{');
    bp_json_put_key(json, "k\0", 2);
    bp_json_put_open(json, none, '{');
    bp_json_put_close(json);
    bp_json_put_member(json, "m");
    bp_text_string(json->text, "1e5");
    bp_json_put_close(json);
    bp_json_put_u64(json, none, 2);
    bp_json_put_close(json);
    bp_json_put_close(json);
}

/* verifies arena-18.fb80 */
static void puts_what_stands_between_values(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"r\":0.1,\"n\":null,\"f\":false,"
        "\"h\":\"00000000000000ab\",\"q\\\"\":\"a\\n\\u0001\xef\xbf\xbd\",\"list\":[\"b\\u0000c\","
        "null,{}],\"in\":[\n  {\"k\\u0000\":{},\"m\":1e5},\n  2\n]}",
        "{\n  \"u\": 18446744073709551615,\n  \"i\": -9223372036854775808,\n  \"r\": 0.1,\n"
        "  \"n\": null,\n  \"f\": false,\n  \"h\": \"00000000000000ab\",\n"
        "  \"q\\\"\": \"a\\n\\u0001\xef\xbf\xbd\",\n  \"list\": [\"b\\u0000c\", null, []],\n"
        "  \"in\": [\n    {\"k\\u0000\": {}, \"m\": 1e5},\n    2\n  ]\n}"};
    for (int form = 0; form < 2; form++) {
        char buffer[512];
        bp_text text;
        bp_json_writer json;
        bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
        bp_json_put_begin(&json, &text, form == 0 ? BP_JSON_COMPACT : BP_JSON_SPACED);
        write_members(&json, form == 0 ? '{' : '[', form == 1);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_string_equal(buffer, wanted[form]);
        assert_int_equal(json.depth, 0);
        assert_int_equal(json_fixture_check(buffer, (size_t)text.written), BP_OK);
    }
}

/* verifies arena-18.fb80 */
static void nests_as_deep_as_the_reader_reads(void **state)
{
    (void)state;
    char buffer[8 * BP_JSON_DEPTH_MAX];
    bp_text text;
    bp_json_writer json;
    bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
    bp_json_put_begin(&json, &text, BP_JSON_COMPACT);
    for (int i = 0; i < BP_JSON_DEPTH_MAX; i++) {
        bp_json_put_open(&json, i % 2 == 1 ? "a" : NULL, i % 2 == 0 ? '{' : '[');
    }
    for (int i = 0; i < BP_JSON_DEPTH_MAX; i++) {
        bp_json_put_close(&json);
    }
    assert_int_equal(bp_text_flush(&text), BP_OK);
    assert_int_equal(json_fixture_check(buffer, (size_t)text.written), BP_OK);
}

/* verifies arena-18.fb80 */
static void keeps_the_failure_of_its_text(void **state)
{
    (void)state;
    char buffer[8];
    bp_text text;
    bp_json_writer json;
    bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
    bp_json_put_begin(&json, &text, BP_JSON_COMPACT);
    bp_json_put_open(&json, NULL, '[');
    bp_json_put_text(&json, NULL, "too long for it");
    bp_json_put_close(&json);
    assert_int_equal(bp_text_flush(&text), BP_ERR_FIT);
}

static void too_deep(bp_json_writer *json)
{
    for (int i = 0; i < BP_JSON_DEPTH_MAX + 1; i++) {
        bp_json_put_lines(json, NULL, '[');
    }
}

static void key_in_list(bp_json_writer *json)
{
    bp_json_put_open(json, NULL, '[');
    bp_json_put_u64(json, "a", 1);
}

static void no_key_in_object(bp_json_writer *json)
{
    bp_json_put_open(json, NULL, '{');
    bp_json_put_u64(json, NULL, 1);
}

static void key_at_the_top(bp_json_writer *json)
{
    bp_json_put_u64(json, "a", 1);
}

static void close_without_open(bp_json_writer *json)
{
    bp_json_put_close(json);
}

static void close_behind_a_key(bp_json_writer *json)
{
    bp_json_put_open(json, NULL, '{');
    bp_json_put_key(json, "a", 1);
    bp_json_put_close(json);
}

static void two_keys(bp_json_writer *json)
{
    bp_json_put_open(json, NULL, '{');
    bp_json_put_key(json, "a", 1);
    bp_json_put_key(json, "b", 1);
}

/* verifies arena-18.fb80 */
static void refuses_what_is_no_json(void **state)
{
    (void)state;
    static void (*const wrong[])(bp_json_writer * json) = {
        too_deep,           key_in_list,        no_key_in_object, key_at_the_top,
        close_without_open, close_behind_a_key, two_keys};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char buffer[16 * BP_JSON_DEPTH_MAX * BP_JSON_DEPTH_MAX];
        bp_text text;
        bp_json_writer json;
        bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
        bp_json_put_begin(&json, &text, BP_JSON_COMPACT);
        wrong[i](&json);
        bp_json_put_close(&json);
        assert_int_equal(bp_text_flush(&text), BP_ERR_USAGE);
    }
}

/* verifies file-3.4e34 */
static void shortest_numbers_read_back(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1.0, "1.0"},
                 {-1.0, "-1.0"},
                 {-0.0, "-0.0"},
                 {1e-5, "1e-05"},
                 {1e22, "1e+22"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {123456, "123456.0"},
                 {DBL_MAX, "1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buffer[40];
        bp_text text;
        bp_number number;
        bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
        bp_number_put(&text, cases[i].value);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_string_equal(buffer, cases[i].text);
        assert_int_equal(bp_number_parse(buffer, strlen(buffer), &number), BP_OK);
        assert_false(number.integer);
        assert_memory_equal(&number.real, &cases[i].value, sizeof(double));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_what_stands_between_values),
        cmocka_unit_test(nests_as_deep_as_the_reader_reads),
        cmocka_unit_test(keeps_the_failure_of_its_text),
        cmocka_unit_test(refuses_what_is_no_json),
        cmocka_unit_test(shortest_numbers_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
