/* SPDX-License-Identifier: MIT */
/* The grammar of tables. */
#include "tools/formats/files/data_table.h"

#include <string.h>

/* The next byte without taking it; -1 at the end of the file. */
static bp_status peek(bp_table *t, uint64_t ahead, int *byte)
{
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(t->reader, t->offset + ahead, &bytes, &count));
    *byte = count > 0 ? *bytes : -1;
    return BP_OK;
}

/* The first byte of a character says how many follow and what the first of them may be (Unicode
 * 15, table 3-7). */
static bool begin_character(bp_table *t, uint32_t byte)
{
    t->lowest = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    t->highest = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    t->utf8 = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    return byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4);
}

static bp_status check_bytes(bp_table *t, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool good;
        if (t->utf8 == 0) {
            good = begin_character(t, bytes[i]);
        } else {
            good = bytes[i] >= t->lowest && bytes[i] <= t->highest;
            t->lowest = 0x80;
            t->highest = 0xbf;
            t->utf8--;
        }
        if (bytes[i] == '\0') {
            return bp_data_refuse(t->reader, "the text holds a NUL byte");
        }
        if (!good) {
            return bp_data_refuse(t->reader, "the text is not UTF-8");
        }
    }
    return BP_OK;
}

/* How many of the bytes are plain content of the field as it stands. */
static size_t plain_run(const bp_table *t, const unsigned char *bytes, size_t count)
{
    size_t n = 0;
    if (t->quoted) {
        const unsigned char *quote = memchr(bytes, '"', count);
        return quote != NULL ? (size_t)(quote - bytes) : count;
    }
    while (n < count && bytes[n] != '\n' && bytes[n] != '\r' &&
           bytes[n] != (unsigned char)t->delimiter) {
        n++;
    }
    return n;
}

static bp_status give_piece(bp_table *t, const unsigned char *bytes, size_t count,
                            bp_table_event *what)
{
    BP_TRY(check_bytes(t, bytes, count));
    for (size_t i = 0; t->quoted && i < count; i++) {
        t->feeds += bytes[i] == '\n' ? 1 : 0;
    }
    t->piece = (const char *)bytes;
    t->count = count;
    t->offset += count;
    t->in_row = true;
    t->in_field = true;
    *what = BP_TABLE_PIECE;
    return BP_OK;
}

static bp_status end_field(bp_table *t, uint64_t bytes, bp_table_event which, bp_table_event *what)
{
    if (t->utf8 != 0) {
        return bp_data_refuse(t->reader, "the text is not UTF-8: a character is cut short");
    }
    t->offset += bytes;
    t->in_row = which == BP_TABLE_FIELD;
    t->in_field = false;
    t->feeds += which == BP_TABLE_ROW && bytes > 0 ? 1 : 0;
    *what = which;
    return BP_OK;
}

/* At a quote inside quotes: doubled it means itself, else the field ends behind it. */
static bp_status at_quote(bp_table *t, bool *closed)
{
    int next;
    BP_TRY(peek(t, 1, &next));
    *closed = next != '"';
    if (!*closed) {
        t->offset++; /* the second one is content */
        return BP_OK;
    }
    t->offset++;
    t->quoted = false;
    if (next >= 0 && next != t->delimiter && next != '\n' && next != '\r') {
        return bp_data_refuse(t->reader, "text follows a closing quote");
    }
    return BP_OK;
}

/* At a byte that is no plain content, outside quotes. */
static bp_status at_mark(bp_table *t, const unsigned char *bytes, bp_table_event *what)
{
    if (*bytes == (unsigned char)t->delimiter) {
        return end_field(t, 1, BP_TABLE_FIELD, what);
    }
    if (*bytes == '\n') {
        return end_field(t, 1, BP_TABLE_ROW, what);
    }
    int next;
    BP_TRY(peek(t, 1, &next));
    if (next == '\n') {
        return end_field(t, 2, BP_TABLE_ROW, what);
    }
    const unsigned char *again;
    size_t count;
    BP_TRY(bp_data_look(t->reader, t->offset, &again, &count));
    return give_piece(t, again, 1, what); /* a CR by itself is content */
}

bp_status bp_table_next(bp_table *t, bp_table_event *what)
{
    for (;;) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(t->reader, t->offset, &bytes, &count));
        if (count == 0 && t->quoted) {
            return bp_data_refuse(t->reader, "a quoted field has no end");
        }
        if (count == 0) {
            *what = BP_TABLE_END;
            return t->in_row ? end_field(t, 0, BP_TABLE_ROW, what) : BP_OK;
        }
        if (!t->quoted && t->quotes && !t->in_field && *bytes == '"') {
            t->quoted = true;
            t->in_field = true;
            t->in_row = true;
            t->offset++;
            continue;
        }
        size_t n = plain_run(t, bytes, count);
        if (n > 0) {
            return give_piece(t, bytes, n, what);
        }
        if (!t->quoted) {
            return at_mark(t, bytes, what);
        }
        bool closed;
        BP_TRY(at_quote(t, &closed));
        if (!closed) {
            BP_TRY(bp_data_look(t->reader, t->offset, &bytes, &count));
            return give_piece(t, bytes, 1, what);
        }
    }
}

bp_status bp_table_begin(bp_table *t)
{
    t->feeds = 0;
    t->in_row = false;
    t->in_field = false;
    t->quoted = false;
    t->utf8 = 0;
    return bp_data_mark(t->reader, &t->offset);
}

bool bp_table_ended(const bp_table *t)
{
    return t->offset >= t->reader->size;
}

bp_status bp_table_skip_blank(bp_table *t)
{
    int byte;
    BP_TRY(peek(t, 0, &byte));
    while (byte == '\n' || byte == '\r') {
        t->feeds += byte == '\n' ? 1 : 0;
        t->offset++;
        BP_TRY(peek(t, 0, &byte));
    }
    t->reader->line = t->feeds + 1;
    return BP_OK;
}
