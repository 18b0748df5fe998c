/* SPDX-License-Identifier: MIT */
/* The text writer against printf, which tests may call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arena/text.h"

static char output[4096];
static char expected[4096];

static bp_text writer(void)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, output, sizeof output);
    return text;
}

static void check(bp_text *text, const char *wanted)
{
    assert_int_equal(bp_text_flush(text), BP_OK);
    assert_string_equal(output, wanted);
    assert_int_equal(text->written, strlen(wanted));
}

/* verifies arena-15.c777 */
static void writes_integers(void **state)
{
    (void)state;
    bp_text text = writer();
    bp_text_u64(&text, 0);
    bp_text_char(&text, ' ');
    bp_text_u64(&text, UINT64_MAX);
    bp_text_char(&text, ' ');
    bp_text_i64(&text, INT64_MIN);
    bp_text_char(&text, ' ');
    bp_text_i64(&text, INT64_MAX);
    bp_text_char(&text, ' ');
    bp_text_i64(&text, 0);
    bp_text_string(&text, " [");
    bp_text_u64_padded(&text, 1234, 7);
    bp_text_u64_padded(&text, 1234, 3);
    bp_text_string(&text, "] ");
    bp_text_hex(&text, 0xbeef, 8);
    bp_text_hex(&text, 0xbeef, 0);
    bp_text_hex(&text, UINT64_MAX, 99);
    bp_text_string(&text, " ");
    bp_text_grouped(&text, 7);
    bp_text_char(&text, ' ');
    bp_text_grouped(&text, 123456);
    bp_text_char(&text, ' ');
    bp_text_grouped(&text, UINT64_MAX);
    check(&text, "0 18446744073709551615 -9223372036854775808 9223372036854775807 0 [   12341234] "
                 "0000beefbeefffffffffffffffff 7 123,456 18,446,744,073,709,551,615");
}

/* verifies arena-15.c777 */
static void pads_by_characters_not_bytes(void **state)
{
    (void)state;
    bp_text text = writer();
    bp_text_padded(&text, "ab", 4, BP_TEXT_LEFT);
    bp_text_char(&text, '|');
    bp_text_padded(&text, "h\xc3\xa9", 4, BP_TEXT_RIGHT);
    bp_text_char(&text, '|');
    bp_text_padded(&text, "longer", 4, BP_TEXT_RIGHT);
    bp_text_fixed_padded(&text, 1.5, 2, 6);
    bp_text_fixed_padded(&text, 1.5, 2, 1);
    check(&text, "ab  |  h\xc3\xa9|longer  1.501.50");
}

static void check_double(double value)
{
    for (unsigned digits = 0; digits <= 20; digits++) {
        bp_text text = writer();
        bp_text_fixed(&text, value, digits);
        bp_text_char(&text, ' ');
        bp_text_general(&text, value, digits);
        (void)snprintf(expected, sizeof expected, "%.*f %.*g", (int)digits, value, (int)digits,
                       value);
        check(&text, expected);
    }
}

/* verifies arena-15.c777 */
static void doubles_are_what_printf_says(void **state)
{
    (void)state;
    static const double values[] = {
        0.0,        -0.0,      1.0,     -1.0,         0.5,    1.5,      2.5,       0.125,
        0.375,      0.1,       9.5,     99.5,         0.05,   0.95,     0.995,     9.9999995,
        1e-4,       9.9999e-5, 1e-5,    1e15,         1e16,   123456.0, 1234567.0, 1e21,
        1e100,      1e-100,    DBL_MAX, DBL_MIN,      5e-324, 3.14159,  2.0 / 3,   DBL_EPSILON,
        -1.0 / 3e7, 1e9,       1e9 - 1, (double)0.3f, 1e22,   1e-300,   123e300,   4.35,
        0.00012345, 65504.0,   1.0e-45, 0.25,         1e23};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        check_double(values[i]);
    }
    check_double((double)NAN);
    check_double((double)INFINITY);
    check_double(-(double)INFINITY);
    /* What is no number has no sign, which printf would show. */
    bp_text text = writer();
    bp_text_general(&text, copysign((double)NAN, -1.0), 9);
    check(&text, "nan");
}

/* verifies arena-15.c777 */
static void random_doubles_are_what_printf_says(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 2000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed ^ seed >> 29;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (value - value != 0.0) {
            continue;
        }
        bp_text text = writer();
        bp_text_general(&text, value, 17);
        bp_text_char(&text, ' ');
        bp_text_general(&text, value, 9);
        bp_text_char(&text, ' ');
        bp_text_fixed(&text, value, 99);
        (void)snprintf(expected, sizeof expected, "%.17g %.9g %.60f", value, value, value);
        check(&text, expected);
    }
}

/* verifies arena-15.c777 */
static void bytes_for_people(void **state)
{
    (void)state;
    bp_text text = writer();
    static const uint64_t values[] = {0,
                                      1023,
                                      1024,
                                      1536,
                                      1048575,
                                      1048576,
                                      (uint64_t)4 << 30,
                                      ((uint64_t)17 << 30) / 4,
                                      (uint64_t)3 << 40,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        bp_text_bytes_human(&text, values[i]);
        bp_text_char(&text, ';');
    }
    check(&text, "0 B;1023 B;1.00 KiB;1.50 KiB;1.00 MiB;1.00 MiB;4.00 GiB;4.25 GiB;3.00 TiB;"
                 "16.00 EiB;");
    text = writer();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        bp_text_bytes_short(&text, values[i]);
        bp_text_char(&text, ';');
    }
    check(&text, "0 B;1023 B;1 KiB;1.5 KiB;1 MiB;1 MiB;4 GiB;4.25 GiB;3 TiB;16 EiB;");
}

/* verifies arena-15.c777 */
static void escapes_json(void **state)
{
    (void)state;
    bp_text text = writer();
    bp_text_json(&text, "a\"\\\b\f\n\r\t\x01\x1f/ h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    bp_text_json_bytes(&text, "a\0b", 3);
    bp_text_json_number(&text, 0.25, 9);
    bp_text_json_number(&text, (double)NAN, 9);
    bp_text_json_number(&text, (double)INFINITY, 9);
    check(&text, "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f/ h\xc3\xa9 \xe2\x82\xac "
                 "\xf0\x9f\x98\x80\"\"a\\u0000b\"0.25nullnull");
}

/* verifies arena-15.c777 */
static void invalid_utf8_becomes_the_replacement_character(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xc0\x80",         /* overlong NUL */
        "\xc3",             /* cut short */
        "\xc3(",            /* not continued */
        "\xe0\x80\x80",     /* overlong in three bytes */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf0\x80\x80\x80", /* overlong in four bytes */
        "\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bp_text text = writer();
        bp_text_json(&text, bad[i]);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_memory_equal(output, "\"\xef\xbf\xbd", 4);
        text = writer();
        bp_text_html(&text, bad[i]);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_memory_equal(output, "\xef\xbf\xbd", 3);
    }
}

/* verifies arena-15.c777 */
static void escapes_html(void **state)
{
    (void)state;
    bp_text text = writer();
    bp_text_html(&text, "<a href=\"x\">'&'</a>\n\t\x02 \xc3\xa9");
    check(&text, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\n\t  \xc3\xa9");
}

/* verifies arena-15.c777 */
static void escapes_for_a_terminal(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {{"a \"b\\ \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80~", "a \"b\\ \xc3\xa9\xe2\x82\xac"
                                                                   "\xf0\x9f\x98\x80~"},
                 {"\x1b[31m\a\n\r\t\x7f", "\\u001b[31m\\u0007\\n\\r\\t\\u007f"},
                 {"\xc2\x9b\xc2\x80\xc2\x9f\xc2\xa0", "\\u009b\\u0080\\u009f\xc2\xa0"},
                 {"\x9b\xc2", "\\x9b\\xc2"},
                 {"\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\\u2028\\u202e\xe2\x80\xaf"},
                 {"\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\\u2066\\u2069\xe2\x81\xaa"},
                 {"\xed\xa0\x80", "\\xed\\xa0\\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_text text = writer();
        bp_text_printable(&text, cases[i].from, strlen(cases[i].from));
        check(&text, cases[i].to);
    }
    bp_text text = writer();
    bp_text_printable(&text, "a\0b", 3);
    check(&text, "a\\u0000b");
}

typedef struct collected {
    char text[256];
    size_t length;
    int calls;
    int fail_at; /* the call that fails, counted from 1; 0 for none */
} collected;

static bp_status collect(void *user, const char *text, size_t length)
{
    collected *sink = user;
    sink->calls++;
    if (sink->calls == sink->fail_at) {
        return BP_ERR_STORE;
    }
    memcpy(sink->text + sink->length, text, length);
    sink->length += length;
    return BP_OK;
}

/* verifies arena-15.c777 */
static void a_sink_receives_everything_in_order(void **state)
{
    (void)state;
    for (size_t capacity = 2; capacity < 30; capacity++) {
        collected sink = {.calls = 0};
        char buffer[32];
        bp_text text;
        bp_text_init(&text, collect, &sink, buffer, capacity);
        bp_text_string(&text, "the quick brown fox ");
        bp_text_u64(&text, 1234567890);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_int_equal(bp_text_flush(&text), BP_OK);
        assert_int_equal(sink.length, 30);
        assert_memory_equal(sink.text, "the quick brown fox 1234567890", 30);
    }
}

/* verifies arena-15.c777 */
static void a_failing_sink_ends_the_writing(void **state)
{
    (void)state;
    collected sink = {.fail_at = 2};
    char buffer[5];
    bp_text text;
    bp_text_init(&text, collect, &sink, buffer, sizeof buffer);
    bp_text_string(&text, "0123456789abcdef");
    bp_text_string(&text, "more");
    assert_int_equal(bp_text_flush(&text), BP_ERR_STORE);
    assert_int_equal(sink.calls, 2);
    assert_int_equal(sink.length, 4);
}

/* verifies arena-15.c777 */
static void without_a_sink_long_text_is_cut(void **state)
{
    (void)state;
    char buffer[5];
    bp_text text;
    bp_text_init(&text, NULL, NULL, buffer, sizeof buffer);
    bp_text_string(&text, "0123");
    assert_int_equal(bp_text_flush(&text), BP_OK);
    bp_text_string(&text, "4");
    assert_int_equal(bp_text_flush(&text), BP_ERR_FIT);
    assert_string_equal(buffer, "0123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_integers),
        cmocka_unit_test(pads_by_characters_not_bytes),
        cmocka_unit_test(doubles_are_what_printf_says),
        cmocka_unit_test(random_doubles_are_what_printf_says),
        cmocka_unit_test(bytes_for_people),
        cmocka_unit_test(escapes_json),
        cmocka_unit_test(invalid_utf8_becomes_the_replacement_character),
        cmocka_unit_test(escapes_html),
        cmocka_unit_test(escapes_for_a_terminal),
        cmocka_unit_test(a_sink_receives_everything_in_order),
        cmocka_unit_test(a_failing_sink_ends_the_writing),
        cmocka_unit_test(without_a_sink_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
