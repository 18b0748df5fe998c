/* SPDX-License-Identifier: MIT */
/* The JSON reader's grammar: examples, and jansson as an oracle over random and damaged documents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/json_fixture.h"

/* Builds jansson's value from our events. */
typedef struct json_builder {
    json_t *stack[BP_JSON_DEPTH_MAX + 1];
    char *keys[BP_JSON_DEPTH_MAX + 1];
    uint32_t depth;
    char *text;
    size_t length;
} json_builder;

static void place(json_builder *b, json_t *value)
{
    if (b->depth == 0) {
        b->stack[0] = value;
    } else if (json_is_object(b->stack[b->depth])) {
        assert_int_equal(json_object_set_new(b->stack[b->depth], b->keys[b->depth], value), 0);
        free(b->keys[b->depth]);
    } else {
        assert_int_equal(json_array_append_new(b->stack[b->depth], value), 0);
    }
}

static void build_text(json_builder *b, const bp_json_event *event)
{
    b->text = realloc(b->text, b->length + event->length + 1);
    memcpy(b->text + b->length, event->text, event->length);
    b->length += event->length;
    if (event->kind == BP_JSON_TEXT) {
        place(b, json_stringn(b->text, b->length));
        b->length = 0;
    }
}

static void build(json_builder *b, const bp_json_event *event)
{
    switch (event->kind) {
    case BP_JSON_OBJECT_BEGIN:
    case BP_JSON_ARRAY_BEGIN: {
        json_t *value = event->kind == BP_JSON_OBJECT_BEGIN ? json_object() : json_array();
        place(b, value);
        b->stack[++b->depth] = value;
        break;
    }
    case BP_JSON_OBJECT_END:
    case BP_JSON_ARRAY_END:
        b->depth--;
        break;
    case BP_JSON_KEY:
        assert_int_equal(strlen(event->text), event->length);
        b->keys[b->depth] = strdup(event->text);
        break;
    case BP_JSON_TEXT_PART:
    case BP_JSON_TEXT:
        build_text(b, event);
        break;
    case BP_JSON_NUMBER:
        place(b, event->integer ? json_integer(event->i64) : json_real(event->real));
        break;
    case BP_JSON_TRUE:
        place(b, json_true());
        break;
    case BP_JSON_FALSE:
        place(b, json_false());
        break;
    case BP_JSON_NULL:
        place(b, json_null());
        break;
    case BP_JSON_END:
        break;
    }
}

static json_t *build_document(const char *document, size_t length)
{
    json_fixture d;
    assert_int_equal(json_fixture_open(&d, document, length), BP_OK);
    json_builder b = {.depth = 0};
    bp_json_event event;
    do {
        assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
        assert_int_equal(event.depth, event.kind == BP_JSON_END
                                          ? 0
                                          : b.depth - (event.kind == BP_JSON_OBJECT_END ||
                                                       event.kind == BP_JSON_ARRAY_END));
        build(&b, &event);
    } while (event.kind != BP_JSON_END);
    free(b.text);
    return b.stack[0];
}

/* Both readers must take or refuse a document, and take it for the same value. */
static void compare_with_oracle(const char *document, size_t length)
{
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *wanted = json_loadb(document, length, flags, &error);
    bp_status status = json_fixture_check(document, length);
    if (wanted == NULL) {
        enum json_error_code code = json_error_code(&error);
        /* Jansson takes no NUL in keys and no integer beyond 64 bits; the standard takes both. */
        bool stricter = code == json_error_null_byte_in_key || code == json_error_numeric_overflow;
        if (status == BP_OK && !stricter) {
            fail_msg("jansson refuses (%s): %.*s", error.text, (int)length, document);
        }
        return;
    }
    if (status != BP_OK) {
        fail_msg("refused, jansson takes it: %.*s", (int)length, document);
    }
    json_t *found = build_document(document, length);
    if (!json_equal(found, wanted)) {
        fail_msg("another value than jansson's: %.*s", (int)length, document);
    }
    json_decref(found);
    json_decref(wanted);
}

#define ORACLE(document) compare_with_oracle(document, sizeof document - 1)

static const char *const valid[] = {
    "0",
    "-0",
    "-1.5e+3",
    "1E5",
    "0.25",
    "9223372036854775807",
    "-9223372036854775808",
    "1e-400",
    "\"\"",
    " [ ] ",
    "{}\n\t\r ",
    "[[],[[]],{}]",
    "{\"a\":1,\"b\":[true,false,null],\"c\":{\"a\":2}}",
    "{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}",
    "[{\"a\":1},{\"a\":1}]",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"",
    "\"\\u0000\"",
    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
    "\"\xe0\xa0\x80\xf0\x90\x80\x80\xc2\x80\x7f\"",
    "\"012345678901234567890123456789012345678901234567890123456\\ud83d\\ude00901234\"",
    "[1.7976931348623157e308,4.9e-324,2.2250738585072014e-308,123456789.123456789]",
};

static const char *const invalid[] = {
    "",
    " ",
    "{",
    "[",
    "]",
    "}",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1}",
    "{\"a\":1]",
    "{\"a\"}",
    "{\"a\" 1}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{\"a\":1 \"b\":2}",
    "{a:1}",
    "{1:2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"\\u0061\":2}",
    "{\"a\":{\"b\":1},\"a\":2}",
    "1 1",
    "{}{}",
    "[]]",
    "01",
    "-",
    "+1",
    "-01",
    "1.",
    ".5",
    "1e",
    "1e+",
    "1.e5",
    "0x10",
    "1.2.3",
    "1-2",
    "1e999",
    "-1e309",
    "NaN",
    "Infinity",
    "tru",
    "truE",
    "nul",
    "fals",
    "nulll",
    "'a'",
    "\"",
    "\"a",
    "\"\\",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\ud800\\n\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud800\\ue000\"",
    "\"\\ud800\\u12\"",
    "\"\\udc00\"",
    "\"\n\"",
    "\"\t\"",
    "\"\x80\"",
    "\"\xc0\x80\"",
    "\"\xc1\xbf\"",
    "\"\xc3\"",
    "\"\xc3\x28\"",
    "\"\xe0\x9f\xbf\"",
    "\"\xe2\x82\"",
    "\"\xed\xa0\x80\"",
    "\"\xf0\x8f\xbf\xbf\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "\"\xff\"",
    "\xef\xbb\xbf{}",
    "/* */ 1",
    "[1,2",
    "{\"a\":1",
    "{\"a\":[",
    "{\"a",
    "{\"a\"",
    "{\"a\":1,",
};

/* verifies file-1.7ade */
static void takes_the_documents_of_the_standard(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        assert_int_equal(json_fixture_check(valid[i], strlen(valid[i])), BP_OK);
        compare_with_oracle(valid[i], strlen(valid[i]));
    }
}

/* verifies file-1.7ade */
static void refuses_everything_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        if (json_fixture_check(invalid[i], strlen(invalid[i])) != BP_ERR_DATA) {
            fail_msg("taken: %s", invalid[i]);
        }
        compare_with_oracle(invalid[i], strlen(invalid[i]));
    }
    ORACLE("\"\0\"");
    ORACLE("{\"a\\u0000b\":1}");
    ORACLE("123456789012345678901234567890");
}

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A random document, mostly valid, out of pieces that are likely to meet in wrong ways. */
static size_t compose(char *to, size_t room)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"\\u0061\"",
        "1",
        "-2.5",
        "0",
        "true",
        "null",
        " ",
        "\"k\":",
        "[1,2]",
        "{\"x\":1}",
        "\"\xc3\xa9\"",
        "\\",
        "e5",
        "\"\\n\"",
        "{\"a\":",
        "[\"s\",",
    };
    size_t used = 0;
    for (uint32_t n = 1 + draw(12); n > 0; n--) {
        const char *piece = pieces[draw(sizeof pieces / sizeof pieces[0])];
        size_t length = strlen(piece);
        if (used + length < room) {
            memcpy(to + used, piece, length);
            used += length;
        }
    }
    return used;
}

/* verifies file-1.7ade */
static void agrees_with_jansson_on_random_documents(void **state)
{
    (void)state;
    seed = 1;
    char document[256];
    for (int i = 0; i < 20000; i++) {
        size_t length = compose(document, sizeof document);
        compare_with_oracle(document, length);
    }
}

/* verifies file-1.7ade */
static void agrees_with_jansson_on_damaged_documents(void **state)
{
    (void)state;
    seed = 2;
    char document[256];
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        size_t length = strlen(valid[i]);
        for (int n = 0; n < 400; n++) {
            memcpy(document, valid[i], length);
            document[draw((uint32_t)length)] ^= (char)(1u << draw(8));
            compare_with_oracle(document, length - draw(2));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_documents_of_the_standard),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(agrees_with_jansson_on_random_documents),
        cmocka_unit_test(agrees_with_jansson_on_damaged_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
