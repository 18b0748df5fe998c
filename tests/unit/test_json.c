/* SPDX-License-Identifier: MIT */
/* The JSON reader: the grammar by examples, limits, and jansson as an oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

enum { KEYS = 64 };

/* A reader over a document, with everything it needs. */
typedef struct desk {
    bp_json json;
    bp_error error;
    bp_json_span span;
    char text[BP_JSON_TEXT_MIN];
    uint64_t keys[KEYS * 20 / 8];
    const unsigned char *rest; /* of a document given byte by byte */
    size_t left;
} desk;

static bp_status open_desk(desk *d, const char *document, size_t length)
{
    *d = (desk){.span = {document, length}};
    bp_json_source source = {bp_json_span_fill, &d->span, 1u << 20};
    bp_json_memory memory = {d->text, sizeof d->text, d->keys, sizeof d->keys, BP_JSON_DEPTH_MAX};
    return bp_json_init(&d->json, &source, &memory, &d->error);
}

static bp_status fill_one_byte(void *user, const unsigned char **bytes, size_t *count)
{
    desk *d = user;
    *bytes = d->rest;
    *count = d->left > 0 ? 1 : 0;
    d->rest += *count;
    d->left -= *count;
    return BP_OK;
}

static void reopen_by_bytes(desk *d, const char *document, size_t length)
{
    assert_int_equal(open_desk(d, document, length), BP_OK);
    d->rest = (const unsigned char *)document;
    d->left = length;
    d->json.source.fill = fill_one_byte;
    d->json.source.user = d;
}

/* Reads to the end; the status of the first failure. */
static bp_status drain(desk *d)
{
    bp_json_event event;
    do {
        BP_TRY(bp_json_next(&d->json, &event));
    } while (event.kind != BP_JSON_END);
    return BP_OK;
}

static bp_status check(const char *document, size_t length)
{
    desk d;
    assert_int_equal(open_desk(&d, document, length), BP_OK);
    bp_status whole = drain(&d);
    bp_error error = d.error;
    reopen_by_bytes(&d, document, length);
    assert_int_equal(drain(&d), whole);
    if (whole == BP_ERR_DATA) {
        assert_string_equal(error.name, d.error.name); /* the same byte */
        assert_string_equal(error.text, d.error.text);
    }
    return whole;
}

/* Builds jansson's value from our events. */
typedef struct builder {
    json_t *stack[BP_JSON_DEPTH_MAX + 1];
    char *keys[BP_JSON_DEPTH_MAX + 1];
    uint32_t depth;
    char *text;
    size_t length;
} builder;

static void place(builder *b, json_t *value)
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

static void build_text(builder *b, const bp_json_event *event)
{
    b->text = realloc(b->text, b->length + event->length + 1);
    memcpy(b->text + b->length, event->text, event->length);
    b->length += event->length;
    if (event->kind == BP_JSON_TEXT) {
        place(b, json_stringn(b->text, b->length));
        b->length = 0;
    }
}

static void build(builder *b, const bp_json_event *event)
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
    desk d;
    assert_int_equal(open_desk(&d, document, length), BP_OK);
    builder b = {.depth = 0};
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
    bp_status status = check(document, length);
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

static void takes_the_documents_of_the_standard(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        assert_int_equal(check(valid[i], strlen(valid[i])), BP_OK);
        compare_with_oracle(valid[i], strlen(valid[i]));
    }
}

static void refuses_everything_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        if (check(invalid[i], strlen(invalid[i])) != BP_ERR_DATA) {
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

static void gives_events_with_their_values(void **state)
{
    (void)state;
    static const char document[] = "{\"key\": [1, -2.5, \"x\"]}";
    desk d;
    assert_int_equal(open_desk(&d, document, sizeof document - 1), BP_OK);
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
    assert_int_equal(drain(&d), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK); /* the end again */
    assert_int_equal(event.kind, BP_JSON_END);
}

static void skips_values_of_any_form(void **state)
{
    (void)state;
    static const char document[] =
        "{\"a\":[1,[2,{\"x\":[]}],3],\"b\":{\"c\":{}},\"d\":7,"
        "\"e\":\"0123456789012345678901234567890123456789012345678901234567890123456789\","
        "\"last\":1}";
    desk d;
    assert_int_equal(open_desk(&d, document, sizeof document - 1), BP_OK);
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
    assert_int_equal(drain(&d), BP_OK);
    assert_int_equal(open_desk(&d, "{\"a\":[1,", 8), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_skip(&d.json), BP_ERR_DATA);
}

static void limits_depth(void **state)
{
    (void)state;
    char document[2 * BP_JSON_DEPTH_MAX + 2];
    memset(document, '[', BP_JSON_DEPTH_MAX);
    memset(document + BP_JSON_DEPTH_MAX, ']', BP_JSON_DEPTH_MAX);
    assert_int_equal(check(document, 2 * BP_JSON_DEPTH_MAX), BP_OK);
    memset(document, '[', BP_JSON_DEPTH_MAX + 1);
    memset(document + BP_JSON_DEPTH_MAX + 1, ']', BP_JSON_DEPTH_MAX + 1);
    assert_int_equal(check(document, 2 * BP_JSON_DEPTH_MAX + 2), BP_ERR_DATA);
    desk d;
    assert_int_equal(open_desk(&d, "[[]]", 4), BP_OK);
    d.json.max_depth = 1;
    assert_int_equal(drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 1");
}

static void limits_size(void **state)
{
    (void)state;
    desk d;
    assert_int_equal(open_desk(&d, "[1,2]", 5), BP_OK);
    d.json.source.max_bytes = 5;
    assert_int_equal(drain(&d), BP_OK);
    assert_int_equal(open_desk(&d, "[1,2]", 5), BP_OK);
    d.json.source.max_bytes = 4;
    assert_int_equal(drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.text, "the document is longer than the limit");
    reopen_by_bytes(&d, "[1,2]", 5);
    d.json.source.max_bytes = 4;
    assert_int_equal(drain(&d), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 4");
}

static void limits_keys_and_numbers(void **state)
{
    (void)state;
    /* The room of 64 bytes keeps 5 free for a character and the terminator: 59 end it. */
    char document[160] = "{\"";
    memset(document + 2, 'k', 60);
    strcpy(document + 2 + 58, "\":1}");
    assert_int_equal(check(document, strlen(document)), BP_OK);
    memset(document + 2, 'k', 70);
    strcpy(document + 2 + 60, "\":1}");
    assert_int_equal(check(document, strlen(document)), BP_ERR_DATA);
    memset(document, '1', 63);
    assert_int_equal(check(document, 63), BP_OK);
    memset(document, '1', 64);
    assert_int_equal(check(document, 64), BP_ERR_DATA);
}

static void limits_open_keys(void **state)
{
    (void)state;
    char document[4096] = "[{";
    size_t used = 2;
    for (int i = 0; i < KEYS; i++) {
        used += (size_t)sprintf(document + used, "%s\"k%d\":%d", i > 0 ? "," : "", i, i);
    }
    /* A second object of the same size fits, because the first one's keys are forgotten. */
    size_t first = used;
    used += (size_t)sprintf(document + used, "},{");
    memcpy(document + used, document + 2, first - 2);
    used += first - 2;
    strcpy(document + used, "}]");
    assert_int_equal(check(document, strlen(document)), BP_OK);
    strcpy(document + used, ",\"more\":1}]");
    desk d;
    assert_int_equal(open_desk(&d, document, strlen(document)), BP_OK);
    assert_int_equal(drain(&d), BP_ERR_FIT);
    assert_string_equal(d.error.name, "more");
    assert_int_equal(d.error.found, KEYS + 1);
    assert_int_equal(d.error.wanted, KEYS);
    assert_int_equal(drain(&d), BP_ERR_FIT); /* it sticks */
}

static void finds_no_duplicates_without_a_key_set(void **state)
{
    (void)state;
    desk d;
    assert_int_equal(open_desk(&d, "{\"a\":1,\"a\":2}", 13), BP_OK);
    bp_json_source source = d.json.source;
    bp_json_memory memory = {d.text, sizeof d.text, NULL, 0, 8};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(drain(&d), BP_OK);
}

static void sizes_the_key_set(void **state)
{
    (void)state;
    assert_int_equal(bp_json_keys_bytes(0), 8 * 20);
    assert_int_equal(bp_json_keys_bytes(KEYS), KEYS * 20);
    assert_int_equal(bp_json_keys_bytes(KEYS + 1), 2 * KEYS * 20);
    assert_true(bp_json_keys_bytes(UINT64_MAX) == BP_SIZE_INVALID);
}

static void refuses_bad_memory(void **state)
{
    (void)state;
    desk d;
    assert_int_equal(open_desk(&d, "1", 1), BP_OK);
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

static void passes_a_failing_source_on(void **state)
{
    (void)state;
    desk d;
    int calls = 0;
    assert_int_equal(open_desk(&d, "", 0), BP_OK);
    d.json.source.fill = fill_and_fail;
    d.json.source.user = &calls;
    assert_int_equal(drain(&d), BP_ERR_STORE);
    assert_int_equal(d.error.code, BP_OK); /* the source reports its own errors */
    assert_int_equal(drain(&d), BP_ERR_STORE);
    assert_int_equal(calls, 2); /* and is not asked again */
    calls = 0;
    assert_int_equal(open_desk(&d, "", 0), BP_OK);
    d.json.source.fill = fill_value_and_fail;
    d.json.source.user = &calls;
    assert_int_equal(drain(&d), BP_ERR_STORE); /* a failure is not taken for the end */
}

static bp_status fill_digits_and_fail(void *user, const unsigned char **bytes, size_t *count)
{
    int *calls = user;
    *bytes = (const unsigned char *)"12";
    *count = 2;
    return (*calls)++ == 0 ? BP_OK : BP_ERR_STORE;
}

static void a_number_cut_by_a_failure_is_no_number(void **state)
{
    (void)state;
    desk d;
    int calls = 0;
    assert_int_equal(open_desk(&d, "", 0), BP_OK);
    d.json.source.fill = fill_digits_and_fail;
    d.json.source.user = &calls;
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_ERR_STORE);
}

static void lets_the_consumer_refuse(void **state)
{
    (void)state;
    desk d;
    assert_int_equal(open_desk(&d, "[1]", 3), BP_OK);
    bp_json_event event;
    assert_int_equal(bp_json_next(&d.json, &event), BP_OK);
    assert_int_equal(bp_json_refuse(&d.json, "not an object"), BP_ERR_DATA);
    assert_string_equal(d.error.name, "byte 1");
    assert_int_equal(bp_json_next(&d.json, &event), BP_ERR_DATA);
}

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
    desk d = {.left = 0};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(drain(&d), BP_OK);
    assert_int_equal(d.json.stack_used, 0);
    /* One key of them twice. */
    char *again = strstr(document, "\"t199999\"");
    memcpy(again, "\"t100000\"", 9);
    span = (bp_json_span){document, used};
    assert_int_equal(bp_json_init(&d.json, &source, &memory, &d.error), BP_OK);
    assert_int_equal(drain(&d), BP_ERR_DATA);
    free(keys);
    free(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_documents_of_the_standard),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(agrees_with_jansson_on_random_documents),
        cmocka_unit_test(agrees_with_jansson_on_damaged_documents),
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
