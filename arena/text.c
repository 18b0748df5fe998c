/* SPDX-License-Identifier: MIT */
/* A text writer: buffering, integers, padding and escapes. */
#include "arena/text.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */

void bp_text_init(bp_text *text, bp_sink sink, void *user, char *buffer, size_t capacity)
{
    *text = (bp_text){.sink = sink, .user = user, .buffer = buffer, .capacity = capacity};
}

/* Makes room after the buffer has filled; false when writing is over. */
static bool text_drain(bp_text *text)
{
    if (text->sink == NULL) {
        text->status = BP_ERR_FIT;
        return false;
    }
    text->status = text->sink(text->user, text->buffer, text->used);
    text->used = 0;
    return text->status == BP_OK;
}

bp_status bp_text_flush(bp_text *text)
{
    if (text->sink == NULL) {
        text->buffer[text->used] = '\0';
    } else if (text->status == BP_OK && text->used > 0) {
        (void)text_drain(text);
    }
    return text->status;
}

void bp_text_bytes(bp_text *text, const char *bytes, size_t length)
{
    text->written += length;
    /* One byte stays free for the terminator of a writer that has no sink. */
    size_t limit = text->capacity - 1;
    while (length > 0 && text->status == BP_OK) {
        if (text->used == limit && !text_drain(text)) {
            return;
        }
        size_t room = limit - text->used;
        size_t part = length < room ? length : room;
        memcpy(text->buffer + text->used, bytes, part);
        text->used += part;
        bytes += part;
        length -= part;
    }
}

void bp_text_char(bp_text *text, char character)
{
    bp_text_bytes(text, &character, 1);
}

void bp_text_repeat(bp_text *text, char character, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bp_text_char(text, character);
    }
}

void bp_text_string(bp_text *text, const char *string)
{
    bp_text_bytes(text, string, strlen(string));
}

void bp_text_u64(bp_text *text, uint64_t value)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    bp_text_bytes(text, digits + first, sizeof digits - first);
}

void bp_text_i64(bp_text *text, int64_t value)
{
    if (value < 0) {
        bp_text_char(text, '-');
        /* Negating in unsigned arithmetic is defined for the least value too. */
        bp_text_u64(text, 0 - (uint64_t)value);
        return;
    }
    bp_text_u64(text, (uint64_t)value);
}

void bp_text_hex(bp_text *text, uint64_t value, unsigned digits)
{
    char out[16];
    size_t first = sizeof out;
    size_t least = sizeof out - (digits < sizeof out ? digits : sizeof out);
    while (first > least || value != 0) {
        out[--first] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
    bp_text_bytes(text, out + first, sizeof out - first);
}

void bp_text_grouped(bp_text *text, uint64_t value)
{
    char out[27];
    size_t first = sizeof out;
    unsigned count = 0;
    do {
        if (count != 0 && count % 3 == 0) {
            out[--first] = ',';
        }
        out[--first] = (char)('0' + value % 10);
        value /= 10;
        count++;
    } while (value != 0);
    bp_text_bytes(text, out + first, sizeof out - first);
}

/* Characters of a UTF-8 string: every byte but the continuations. */
static size_t text_columns(const char *string)
{
    size_t columns = 0;
    for (; *string != '\0'; string++) {
        columns += ((unsigned char)*string & 0xc0) != 0x80;
    }
    return columns;
}

void bp_text_padded(bp_text *text, const char *string, size_t width, bp_text_side side)
{
    size_t columns = text_columns(string);
    size_t fill = width > columns ? width - columns : 0;
    if (side == BP_TEXT_RIGHT) {
        bp_text_repeat(text, ' ', fill);
    }
    bp_text_string(text, string);
    if (side == BP_TEXT_LEFT) {
        bp_text_repeat(text, ' ', fill);
    }
}

void bp_text_u64_padded(bp_text *text, uint64_t value, size_t width)
{
    size_t digits = 1;
    for (uint64_t rest = value / 10; rest != 0; rest /= 10) {
        digits++;
    }
    bp_text_repeat(text, ' ', width > digits ? width - digits : 0);
    bp_text_u64(text, value);
}

/* As bp_text_bytes_human; `shortened`: without zeros at the end of the fraction. */
static void text_human_bytes(bp_text *text, uint64_t bytes, bool shortened)
{
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        bp_text_u64(text, bytes);
        bp_text_string(text, " B");
        return;
    }
    size_t unit = 0;
    unsigned shift = 10;
    while (bytes >> shift >= 1024) {
        shift += 10;
        unit++;
    }
    /* Hundredths in integers: the remainder is cut to 32 bits first so that x 100 cannot overflow.
     */
    uint64_t rest = bytes & (((uint64_t)1 << shift) - 1);
    unsigned cut = shift > 32 ? shift - 32 : 0;
    uint64_t half = (uint64_t)1 << (shift - cut - 1);
    uint64_t hundredths = (bytes >> shift) * 100 + (((rest >> cut) * 100 + half) >> (shift - cut));
    if (hundredths == 102400) {
        hundredths = 100; /* 1023.996 KiB is nearer to 1.00 MiB than to any other */
        unit++;
    }
    uint64_t whole = hundredths / 100;
    hundredths %= 100;
    bp_text_u64(text, whole);
    if (!shortened || hundredths > 0) {
        bp_text_char(text, '.');
        bp_text_char(text, (char)('0' + hundredths / 10));
    }
    if (!shortened || hundredths % 10 > 0) {
        bp_text_char(text, (char)('0' + hundredths % 10));
    }
    bp_text_char(text, ' ');
    bp_text_char(text, units[unit]);
    bp_text_string(text, "iB");
}

void bp_text_bytes_human(bp_text *text, uint64_t bytes)
{
    text_human_bytes(text, bytes, false);
}

void bp_text_bytes_short(bp_text *text, uint64_t bytes)
{
    text_human_bytes(text, bytes, true);
}

/* Length of the valid UTF-8 character at `bytes`, 0 if there is none: no overlong forms, no
 * surrogates, nothing above U+10FFFF (RFC 3629). */
static size_t text_utf8(const unsigned char *bytes, size_t length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || count > length) {
        return 0;
    }
    uint32_t point = lead & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (bytes[i] & 0x3fu);
    }
    bool surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < least[count] || point > 0x10ffff || surrogate ? 0 : count;
}

bool bp_text_is_utf8(const char *string)
{
    const size_t length = strlen(string);
    size_t at = 0, count = 1;
    while (at < length && count > 0) {
        count = text_utf8((const unsigned char *)string + at, length - at);
        at += count;
    }
    return count > 0;
}

static void text_json_ascii(bp_text *text, char character)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *found = character == '\0' ? NULL : strchr(from, character);
    if (found != NULL) {
        bp_text_char(text, '\\');
        bp_text_char(text, to[found - from]);
    } else if ((unsigned char)character < 0x20) {
        bp_text_string(text, "\\u");
        bp_text_hex(text, (unsigned char)character, 4);
    } else {
        bp_text_char(text, character);
    }
}

void bp_text_json_bytes(bp_text *text, const char *bytes, size_t length)
{
    bp_text_char(text, '"');
    for (size_t at = 0; at < length;) {
        size_t count = text_utf8((const unsigned char *)bytes + at, length - at);
        if (count == 1) {
            text_json_ascii(text, bytes[at]);
        } else if (count == 0) {
            bp_text_string(text, REPLACEMENT);
        } else {
            bp_text_bytes(text, bytes + at, count);
        }
        at += count == 0 ? 1 : count;
    }
    bp_text_char(text, '"');
}

void bp_text_json(bp_text *text, const char *string)
{
    bp_text_json_bytes(text, string, strlen(string));
}

/* The code point of a character of at most three bytes; 0 for longer ones. */
static uint32_t text_point(const unsigned char *bytes, size_t count)
{
    switch (count) {
    case 1:
        return bytes[0];
    case 2:
        return (bytes[0] & 0x1fu) << 6 | (bytes[1] & 0x3fu);
    case 3:
        return (bytes[0] & 0xfu) << 12 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
    default:
        return 0;
    }
}

/* One character, or one byte that belongs to none; how many bytes it has. */
static size_t text_printable_one(bp_text *text, const unsigned char *bytes, size_t length)
{
    const size_t count = text_utf8(bytes, length);
    const uint32_t point = text_point(bytes, count);
    if (count == 0) {
        bp_text_string(text, "\\x");
        bp_text_hex(text, bytes[0], 2);
    } else if (point == '\n' || point == '\r' || point == '\t') {
        bp_text_char(text, '\\');
        bp_text_char(text, point == '\n' ? 'n' : point == '\r' ? 'r' : 't');
    } else if ((count == 1 && point < 0x20) || (point >= 0x7f && point <= 0x9f) ||
               (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069)) {
        bp_text_string(text, "\\u");
        bp_text_hex(text, point, 4);
    } else {
        bp_text_bytes(text, (const char *)bytes, count);
    }
    return count > 0 ? count : 1;
}

void bp_text_printable(bp_text *text, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        at += text_printable_one(text, (const unsigned char *)bytes + at, length - at);
    }
}

static void text_html_ascii(bp_text *text, char character)
{
    switch (character) {
    case '&':
        bp_text_string(text, "&amp;");
        break;
    case '<':
        bp_text_string(text, "&lt;");
        break;
    case '>':
        bp_text_string(text, "&gt;");
        break;
    case '"':
        bp_text_string(text, "&quot;");
        break;
    case '\'':
        bp_text_string(text, "&#39;");
        break;
    case '\n':
    case '\t':
        bp_text_char(text, character);
        break;
    default:
        bp_text_char(text, (unsigned char)character < 0x20 ? ' ' : character);
        break;
    }
}

void bp_text_html(bp_text *text, const char *string)
{
    size_t length = strlen(string);
    for (size_t at = 0; at < length;) {
        size_t count = text_utf8((const unsigned char *)string + at, length - at);
        if (count == 1) {
            text_html_ascii(text, string[at]);
        } else if (count == 0) {
            bp_text_string(text, REPLACEMENT);
        } else {
            bp_text_bytes(text, string + at, count);
        }
        at += count == 0 ? 1 : count;
    }
}
