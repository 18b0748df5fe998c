/* SPDX-License-Identifier: MIT */
/* The JSON reader's grammar: which event may come next. */
#include "core/base/json.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/number.h"
#include "core/base/digest.h"

enum expectation {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* behind [ */
    EXPECT_KEY_OR_END,   /* behind { */
    EXPECT_COLON,
    EXPECT_COMMA, /* or the end of the container, or of the document */
    EXPECT_NOTHING
};

bp_status bp_json_span_fill(void *user, const unsigned char **bytes, size_t *count)
{
    bp_json_span *span = user;
    *bytes = span->bytes;
    *count = span->bytes != NULL ? span->length : 0;
    span->bytes = NULL;
    return BP_OK;
}

bp_status bp_json_refuse(bp_json *json, const char *text)
{
    if (json->status == BP_OK) {
        char place[32];
        bp_text writer;
        bp_text_init(&writer, NULL, NULL, place, sizeof place);
        bp_text_string(&writer, "byte ");
        bp_text_u64(&writer, json->taken + (uint64_t)(json->at - json->start));
        bp_status fits = bp_text_flush(&writer);
        (void)fits; /* 5 + 20 characters always do */
        json->status = bp_error_set(json->error, BP_ERR_DATA, "json", text, place);
    }
    return json->status;
}

static bp_status json_take_string(bp_json *json, bool *whole);
static bp_status json_add_key(bp_json *json);
static void json_drop_keys(bp_json *json);

/* Asks the source for more; false at the end or after a failure. */
static bool refill(bp_json *json)
{
    static const unsigned char nothing;
    json->taken += (uint64_t)(json->end - json->start);
    size_t count = 0;
    const unsigned char *bytes = &nothing;
    bp_status status = json->source.fill(json->source.user, &bytes, &count);
    if (status != BP_OK) {
        count = 0;
    }
    json->start = count > 0 ? bytes : &nothing;
    json->at = json->start;
    json->end = json->start + count;
    json->status = status;
    if (count > json->source.max_bytes - json->taken) {
        json->end = json->start;
        json->status = bp_json_refuse(json, "the document is longer than the limit");
        return false;
    }
    return count > 0;
}

/* The next byte without taking it, or -1 at the end or when the source failed. */
static int json_peek(bp_json *json)
{
    if (json->at == json->end && !refill(json)) {
        return -1;
    }
    return *json->at;
}

bp_status bp_json_init(bp_json *json, const bp_json_source *source, const bp_json_memory *memory,
                       bp_error *error)
{
    static const unsigned char nothing;
    bool text_ok = memory->text_bytes >= BP_JSON_TEXT_MIN;
    bool depth_ok = memory->max_depth >= 1 && memory->max_depth <= BP_JSON_DEPTH_MAX;
    bool keys_ok = memory->keys == NULL || memory->keys_bytes >= bp_json_keys_bytes(0);
    *json = (bp_json){.source = *source,
                      .error = error,
                      .at = &nothing,
                      .end = &nothing,
                      .start = &nothing,
                      .text = memory->text,
                      .text_bytes = memory->text_bytes,
                      .max_depth = memory->max_depth,
                      .expect = EXPECT_VALUE};
    if (!(text_ok && depth_ok && keys_ok)) {
        json->status = bp_error_set(error, BP_ERR_USAGE, "bp_json_init",
                                    "the memory or the depth is outside the bounds", NULL);
        return json->status;
    }
    if (memory->keys != NULL) {
        uint32_t keys = 8;
        while (keys < UINT32_MAX / 4 &&
               bp_json_keys_bytes((uint64_t)keys * 2) <= memory->keys_bytes) {
            keys *= 2;
        }
        json->slots = memory->keys;
        json->slot_count = keys * 2;
        json->stack = (uint32_t *)(void *)(json->slots + json->slot_count);
        memset(json->slots, 0, sizeof *json->slots * json->slot_count);
    }
    return BP_OK;
}

/* The next byte that is no white space, not taken; -1 at the end. */
static int peek_token(bp_json *json)
{
    int byte = json_peek(json);
    while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
        json->at++;
        byte = json_peek(json);
    }
    return byte;
}

static bool in_object(const bp_json *json)
{
    return (json->kinds >> (json->depth - 1) & 1) != 0;
}

static bp_status begin_container(bp_json *json, bp_json_event *event, bool object)
{
    if (json->depth == json->max_depth) {
        return bp_json_refuse(json, "nested deeper than the limit");
    }
    json->at++;
    uint64_t bit = (uint64_t)1 << json->depth;
    json->kinds = object ? json->kinds | bit : json->kinds & ~bit;
    json->key_mark[json->depth] = json->stack_used;
    json->key_seed[json->depth] = json->objects++;
    json->depth++;
    json->expect = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    event->kind = object ? BP_JSON_OBJECT_BEGIN : BP_JSON_ARRAY_BEGIN;
    return BP_OK;
}

static bp_status end_container(bp_json *json, bp_json_event *event)
{
    json->at++;
    event->kind = in_object(json) ? BP_JSON_OBJECT_END : BP_JSON_ARRAY_END;
    json_drop_keys(json);
    json->depth--;
    event->depth = json->depth;
    json->expect = EXPECT_COMMA;
    return BP_OK;
}

static bp_status take_word(bp_json *json, bp_json_event *event, const char *word, bp_json_kind kind)
{
    for (; *word != '\0'; word++) {
        if (json_peek(json) != *word) {
            return bp_json_refuse(json, "a value is none of true, false, null");
        }
        json->at++;
    }
    event->kind = kind;
    json->expect = EXPECT_COMMA;
    return BP_OK;
}

static bool in_number(int byte)
{
    return (byte >= '0' && byte <= '9') || byte == '-' || byte == '+' || byte == '.' ||
           byte == 'e' || byte == 'E';
}

static bp_status json_take_number(bp_json *json, bp_json_event *event)
{
    json->text_used = 0;
    for (int byte = json_peek(json); in_number(byte); byte = json_peek(json)) {
        if (json->text_used + 1 == json->text_bytes) {
            return bp_json_refuse(json, "a number has more characters than the limit");
        }
        json->text[json->text_used++] = (char)byte;
        json->at++;
    }
    json->text[json->text_used] = '\0';
    BP_TRY(json->status);
    bp_number number;
    bp_status status = bp_number_parse(json->text, json->text_used, &number);
    if (status == BP_ERR_OVERFLOW) {
        return bp_json_refuse(json, "a number is above the largest double");
    }
    if (status != BP_OK) {
        return bp_json_refuse(json, "not a number as JSON writes it");
    }
    event->kind = BP_JSON_NUMBER;
    event->text = json->text;
    event->length = json->text_used;
    event->integer = number.integer;
    event->i64 = number.i64;
    event->real = number.real;
    json->expect = EXPECT_COMMA;
    return BP_OK;
}

static bp_status take_text(bp_json *json, bp_json_event *event)
{
    bool whole;
    BP_TRY(json_take_string(json, &whole));
    json->in_text = !whole;
    event->kind = whole ? BP_JSON_TEXT : BP_JSON_TEXT_PART;
    event->text = json->text;
    event->length = json->text_used;
    json->expect = EXPECT_COMMA;
    return BP_OK;
}

static bp_status json_take_value(bp_json *json, bp_json_event *event, int token)
{
    switch (token) {
    case '{':
        return begin_container(json, event, true);
    case '[':
        return begin_container(json, event, false);
    case '"':
        json->at++;
        return take_text(json, event);
    case 't':
        return take_word(json, event, "true", BP_JSON_TRUE);
    case 'f':
        return take_word(json, event, "false", BP_JSON_FALSE);
    case 'n':
        return take_word(json, event, "null", BP_JSON_NULL);
    default:
        break;
    }
    if (!in_number(token)) {
        return bp_json_refuse(json, "a value is missing");
    }
    return json_take_number(json, event);
}

static bp_status json_take_key(bp_json *json, bp_json_event *event, int token)
{
    if (token != '"') {
        return bp_json_refuse(json, "a key in double quotes is missing");
    }
    json->at++;
    bool whole;
    BP_TRY(json_take_string(json, &whole));
    if (!whole) {
        return bp_json_refuse(json, "a key is longer than the limit");
    }
    BP_TRY(json_add_key(json));
    event->kind = BP_JSON_KEY;
    event->text = json->text;
    event->length = json->text_used;
    json->expect = EXPECT_COLON;
    return BP_OK;
}

/* Behind a value: a comma is taken and what follows it becomes the token, or the container ends. */
static bp_status take_after_value(bp_json *json, bp_json_event *event, int token)
{
    if (json->depth == 0) {
        if (token >= 0) {
            return bp_json_refuse(json, "text behind the end of the document");
        }
        BP_TRY(json->status); /* the source may have failed, which looks like the end */
        json->expect = EXPECT_NOTHING;
        event->kind = BP_JSON_END;
        return BP_OK;
    }
    if (token == (in_object(json) ? '}' : ']')) {
        return end_container(json, event);
    }
    if (token != ',') {
        return bp_json_refuse(json, "a comma or a closing bracket is missing");
    }
    json->at++;
    token = peek_token(json);
    return in_object(json) ? json_take_key(json, event, token)
                           : json_take_value(json, event, token);
}

static bp_status take_event(bp_json *json, bp_json_event *event)
{
    int token = peek_token(json);
    switch (json->expect) {
    case EXPECT_COLON:
        if (token != ':') {
            return bp_json_refuse(json, "a colon is missing");
        }
        json->at++;
        return json_take_value(json, event, peek_token(json));
    case EXPECT_COMMA:
        return take_after_value(json, event, token);
    case EXPECT_KEY_OR_END:
        return token == '}' ? end_container(json, event) : json_take_key(json, event, token);
    case EXPECT_VALUE_OR_END:
        return token == ']' ? end_container(json, event) : json_take_value(json, event, token);
    default:
        return json_take_value(json, event, token);
    }
}

bp_status bp_json_next(bp_json *json, bp_json_event *event)
{
    *event = (bp_json_event){.kind = BP_JSON_END, .depth = json->depth, .text = ""};
    if (json->status != BP_OK || json->expect == EXPECT_NOTHING) {
        return json->status;
    }
    return json->in_text ? take_text(json, event) : take_event(json, event);
}

bp_status bp_json_skip(bp_json *json)
{
    bp_json_event event;
    bool complete;
    uint32_t depth = json->depth;
    do {
        BP_TRY(bp_json_next(json, &event));
        bool begins = event.kind == BP_JSON_OBJECT_BEGIN || event.kind == BP_JSON_ARRAY_BEGIN;
        complete = !begins && event.kind != BP_JSON_TEXT_PART && event.kind != BP_JSON_KEY;
    } while (!complete || event.depth > depth);
    return BP_OK;
}

/* Strings of the JSON reader: escapes, UTF-8, surrogate pairs. */

/* The most bytes that one character or escape adds, and the terminator. */
enum { CHARACTER_ROOM = 5 };

static void json_text_put(bp_json *json, uint32_t byte)
{
    json->text[json->text_used++] = (char)byte;
}

static void put_code_point(bp_json *json, uint32_t code)
{
    if (code < 0x80) {
        json_text_put(json, code);
    } else if (code < 0x800) {
        json_text_put(json, 0xc0 | code >> 6);
        json_text_put(json, 0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        json_text_put(json, 0xe0 | code >> 12);
        json_text_put(json, 0x80 | (code >> 6 & 0x3f));
        json_text_put(json, 0x80 | (code & 0x3f));
    } else {
        json_text_put(json, 0xf0 | code >> 18);
        json_text_put(json, 0x80 | (code >> 12 & 0x3f));
        json_text_put(json, 0x80 | (code >> 6 & 0x3f));
        json_text_put(json, 0x80 | (code & 0x3f));
    }
}

static int hex_value(int character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    int lower = character | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The four digits behind a \u. */
static bp_status take_hex(bp_json *json, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(json_peek(json));
        if (value < 0) {
            return bp_json_refuse(json, "\\u must be followed by four hexadecimal digits");
        }
        json->at++;
        *code = *code << 4 | (uint32_t)value;
    }
    return BP_OK;
}

/* The rest of a \u escape: one unit, or two that form a pair of surrogates. */
static bp_status take_unicode(bp_json *json)
{
    uint32_t code;
    BP_TRY(take_hex(json, &code));
    if (code >= 0xdc00 && code <= 0xdfff) {
        return bp_json_refuse(json, "a low surrogate without the high one before it");
    }
    if (code >= 0xd800 && code <= 0xdbff) {
        static const char *const missing = "a high surrogate without the low one behind it";
        for (int i = 0; i < 2; i++) {
            if (json_peek(json) != "\\u"[i]) {
                return bp_json_refuse(json, missing);
            }
            json->at++;
        }
        uint32_t low;
        BP_TRY(take_hex(json, &low));
        if (low < 0xdc00 || low > 0xdfff) {
            return bp_json_refuse(json, missing);
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    put_code_point(json, code);
    return BP_OK;
}

static bp_status take_escape(bp_json *json)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    int letter = json_peek(json);
    if (letter == 'u') {
        json->at++;
        return take_unicode(json);
    }
    for (size_t i = 0; letters[i] != '\0'; i++) {
        if (letters[i] == letter) {
            json->at++;
            json_text_put(json, (unsigned char)values[i]);
            return BP_OK;
        }
    }
    return bp_json_refuse(json, "no such escape in a string");
}

/* Well-formed byte sequences, Unicode 15 table 3-7: the second byte's range depends on the first.
 */
typedef struct utf8_row {
    unsigned char first, last;   /* lead bytes */
    unsigned char low, high;     /* second byte */
    unsigned char continuations; /* bytes behind the lead */
} utf8_row;

static const utf8_row utf8_rows[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2}, {0xe1, 0xec, 0x80, 0xbf, 2},
    {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3},
    {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3},
};

static const utf8_row *utf8_row_of(int lead)
{
    for (size_t i = 0; i < sizeof utf8_rows / sizeof utf8_rows[0]; i++) {
        if (lead >= utf8_rows[i].first && lead <= utf8_rows[i].last) {
            return &utf8_rows[i];
        }
    }
    return NULL;
}

static bp_status take_utf8(bp_json *json, int lead)
{
    static const char *const wrong = "a string is not valid UTF-8";
    const utf8_row *row = utf8_row_of(lead);
    if (row == NULL) {
        return bp_json_refuse(json, wrong);
    }
    json_text_put(json, (uint32_t)lead);
    int low = row->low;
    int high = row->high;
    for (int i = 0; i < row->continuations; i++) {
        int byte = json_peek(json);
        if (byte < low || byte > high) {
            return bp_json_refuse(json, wrong);
        }
        json->at++;
        json_text_put(json, (uint32_t)byte);
        low = 0x80;
        high = 0xbf;
    }
    return BP_OK;
}

/* Copies characters that stand for themselves, as far as the chunk and the room reach: most of any
 * document, without a call per byte. */
static void take_plain(bp_json *json)
{
    size_t room = json->text_bytes - json->text_used;
    size_t most = room > CHARACTER_ROOM ? room - CHARACTER_ROOM : 0;
    size_t left = (size_t)(json->end - json->at);
    most = left < most ? left : most;
    size_t count = 0;
    while (count < most && json->at[count] >= 0x20 && json->at[count] < 0x80 &&
           json->at[count] != '"' && json->at[count] != '\\') {
        json->text[json->text_used + count] = (char)json->at[count];
        count++;
    }
    json->at += count;
    json->text_used += count;
}

/* Reads from where the opening quote was taken, or goes on with a string of which parts are out.
 * *whole is false when the room is full before the string ends. */
static bp_status json_take_string(bp_json *json, bool *whole)
{
    json->text_used = 0;
    *whole = false;
    while (json->text_bytes - json->text_used >= CHARACTER_ROOM) {
        take_plain(json);
        int byte = json_peek(json);
        if (byte < 0) {
            return bp_json_refuse(json, "a string has no closing quote");
        }
        if (byte < 0x20) {
            return bp_json_refuse(json, "a control character in a string is not escaped");
        }
        json->at++;
        if (byte == '"') {
            *whole = true;
            break;
        }
        if (byte == '\\') {
            BP_TRY(take_escape(json));
        } else if (byte < 0x80) {
            json_text_put(json, (uint32_t)byte);
        } else {
            BP_TRY(take_utf8(json, byte));
        }
    }
    json->text[json->text_used] = '\0';
    return BP_OK;
}

/* The set of open keys of the JSON reader.  One hash table with linear probing serves
 * all objects that are open. Containers close in the reverse order of their opening, so keys leave
 * in the reverse order of their coming, and emptying the slots in that order restores the table as
 * it was before them. */

/* A key needs a slot in a table that is at most half full, and a place on the stack. */
enum { PAIR_BYTES = 2 * sizeof(uint64_t) + sizeof(uint32_t), LEAST_KEYS = 8 };

uint64_t bp_json_keys_bytes(uint64_t keys)
{
    uint64_t rounded = LEAST_KEYS;
    while (rounded < keys) {
        rounded = bp_size_mul(rounded, 2);
    }
    return bp_size_mul(rounded, PAIR_BYTES);
}

/* The key in the text room joins the keys of the innermost object; refused if it is there. */
static bp_status json_add_key(bp_json *json)
{
    if (json->slot_count == 0) {
        return BP_OK;
    }
    if (json->stack_used == json->slot_count / 2) {
        json->status = bp_error_limit(
            json->error, BP_ERR_FIT, "json", "more keys are open than the key set has room for",
            json->text, (int64_t)json->stack_used + 1, BP_LIMIT_MOST, (int64_t)json->stack_used);
        return json->status;
    }
    uint64_t seed = json->key_seed[json->depth - 1];
    uint64_t hash = bp_digest_of(json->text, json->text_used, seed);
    hash += hash == 0 ? 1 : 0;
    uint32_t mask = json->slot_count - 1;
    uint32_t slot = (uint32_t)hash & mask;
    while (json->slots[slot] != 0) {
        if (json->slots[slot] == hash) {
            return bp_json_refuse(json, "an object has the same key twice");
        }
        slot = (slot + 1) & mask;
    }
    json->slots[slot] = hash;
    json->stack[json->stack_used++] = slot;
    return BP_OK;
}

/* The keys of the innermost container are forgotten. */
static void json_drop_keys(bp_json *json)
{
    while (json->stack_used > json->key_mark[json->depth - 1]) {
        json->slots[json->stack[--json->stack_used]] = 0;
    }
}
