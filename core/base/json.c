/* SPDX-License-Identifier: MIT */
/* The JSON reader's grammar: which event may come next. */
#include "core/base/json_private.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/number.h"

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

int bp_json_peek(bp_json *json)
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
    int byte = bp_json_peek(json);
    while (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
        json->at++;
        byte = bp_json_peek(json);
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
    bp_json_drop_keys(json);
    json->depth--;
    event->depth = json->depth;
    json->expect = EXPECT_COMMA;
    return BP_OK;
}

static bp_status take_word(bp_json *json, bp_json_event *event, const char *word, bp_json_kind kind)
{
    for (; *word != '\0'; word++) {
        if (bp_json_peek(json) != *word) {
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
    for (int byte = bp_json_peek(json); in_number(byte); byte = bp_json_peek(json)) {
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
    BP_TRY(bp_json_take_string(json, &whole));
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
    BP_TRY(bp_json_take_string(json, &whole));
    if (!whole) {
        return bp_json_refuse(json, "a key is longer than the limit");
    }
    BP_TRY(bp_json_add_key(json));
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
