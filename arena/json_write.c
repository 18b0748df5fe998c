/* SPDX-License-Identifier: MIT */
/* Commas, colons, brackets and lines. */
#include "arena/json_write.h"

#include <string.h>

void bp_json_put_begin(bp_json_writer *json, bp_text *text, bp_json_form form)
{
    *json = (bp_json_writer){.text = text, .form = form};
}

static uint64_t json_bit(const bp_json_writer *json)
{
    return (uint64_t)1 << (json->depth - 1);
}

/* Calls that are in no order of JSON: the text takes nothing more. */
static void json_require(bp_json_writer *json, bool right)
{
    if (!right && json->text->status == BP_OK) {
        json->text->status = BP_ERR_USAGE;
    }
}

static void json_break(bp_json_writer *json)
{
    bp_text_char(json->text, '\n');
    bp_text_repeat(json->text, ' ', 2 * (size_t)json->indent);
}

/* What stands before a member: a comma unless it is the first, and its line. */
static void json_divide(bp_json_writer *json, bool keyed)
{
    if (json->depth == 0) {
        json_require(json, !keyed);
        return;
    }
    const uint64_t bit = json_bit(json);
    const bool lines = (json->lines & bit) != 0;
    json_require(json, keyed == ((json->lists & bit) == 0));
    if ((json->filled & bit) != 0) {
        bp_text_string(json->text, json->form == BP_JSON_SPACED && !lines ? ", " : ",");
    }
    if (lines) {
        json_break(json);
    }
    json->filled |= bit;
}

void bp_json_put_key(bp_json_writer *json, const char *key, size_t length)
{
    json_require(json, !json->keyed);
    json_divide(json, true);
    bp_text_json_bytes(json->text, key, length);
    bp_text_string(json->text, json->form == BP_JSON_SPACED ? ": " : ":");
    json->keyed = true;
}

void bp_json_put_member(bp_json_writer *json, const char *key)
{
    if (key != NULL) {
        bp_json_put_key(json, key, strlen(key));
    } else if (!json->keyed) {
        json_divide(json, false);
    }
    json->keyed = false;
}

void bp_json_put_open(bp_json_writer *json, const char *key, char kind)
{
    json_require(json, json->depth < 64);
    bp_json_put_member(json, key);
    if (json->text->status != BP_OK) {
        return;
    }
    bp_text_char(json->text, kind);
    json->depth++;
    const uint64_t bit = json_bit(json);
    json->filled &= ~bit;
    json->lines &= ~bit;
    json->lists = kind == '[' ? json->lists | bit : json->lists & ~bit;
}

void bp_json_put_lines(bp_json_writer *json, const char *key, char kind)
{
    bp_json_put_open(json, key, kind);
    if (json->text->status == BP_OK) {
        json->lines |= json_bit(json);
        json->indent++;
    }
}

void bp_json_put_close(bp_json_writer *json)
{
    json_require(json, json->depth > 0 && !json->keyed);
    if (json->text->status != BP_OK) {
        return;
    }
    const uint64_t bit = json_bit(json);
    if ((json->lines & bit) != 0) {
        json->indent--;
        if ((json->filled & bit) != 0) {
            json_break(json);
        }
    }
    bp_text_char(json->text, (json->lists & bit) != 0 ? ']' : '}');
    json->depth--;
}

void bp_json_put_text(bp_json_writer *json, const char *key, const char *value)
{
    bp_json_put_member(json, key);
    bp_text_json(json->text, value);
}

void bp_json_put_bytes(bp_json_writer *json, const char *key, const char *bytes, size_t length)
{
    bp_json_put_member(json, key);
    bp_text_json_bytes(json->text, bytes, length);
}

void bp_json_put_u64(bp_json_writer *json, const char *key, uint64_t value)
{
    bp_json_put_member(json, key);
    bp_text_u64(json->text, value);
}

void bp_json_put_i64(bp_json_writer *json, const char *key, int64_t value)
{
    bp_json_put_member(json, key);
    bp_text_i64(json->text, value);
}

void bp_json_put_real(bp_json_writer *json, const char *key, double value, unsigned significant)
{
    bp_json_put_member(json, key);
    bp_text_json_number(json->text, value, significant);
}

void bp_json_put_flag(bp_json_writer *json, const char *key, bool value)
{
    bp_json_put_value(json, key, value ? "true" : "false");
}

void bp_json_put_hex(bp_json_writer *json, const char *key, uint64_t value)
{
    bp_json_put_member(json, key);
    bp_text_char(json->text, '"');
    bp_text_hex(json->text, value, 16);
    bp_text_char(json->text, '"');
}

void bp_json_put_value(bp_json_writer *json, const char *key, const char *value)
{
    bp_json_put_member(json, key);
    bp_text_string(json->text, value);
}
