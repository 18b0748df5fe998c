/* SPDX-License-Identifier: MIT */
/* Strings of the JSON reader: escapes, UTF-8, surrogate pairs. */
#include "core/base/json_private.h"

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
        int value = hex_value(bp_json_peek(json));
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
            if (bp_json_peek(json) != "\\u"[i]) {
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
    int letter = bp_json_peek(json);
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
        int byte = bp_json_peek(json);
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

bp_status bp_json_take_string(bp_json *json, bool *whole)
{
    json->text_used = 0;
    *whole = false;
    while (json->text_bytes - json->text_used >= CHARACTER_ROOM) {
        take_plain(json);
        int byte = bp_json_peek(json);
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
