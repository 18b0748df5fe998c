/* SPDX-License-Identifier: MIT */
/* A text writer: numbers, padding and escapes into a small buffer that is emptied through a sink.
 *
 * It replaces printf, which library code may not call: nothing is allocated, no locale is asked,
 * and the same value gives the same characters on every machine. */
#ifndef BP_ARENA_TEXT_H
#define BP_ARENA_TEXT_H

#include "arena/base.h"

/* Takes `length` characters (not terminated). A status other than BP_OK ends the writing. */
typedef bp_status (*bp_sink)(void *user, const char *text, size_t length);

/* A plain record owned by the caller. The first failure sticks in `status`; after it nothing more
 * is written, so a chain of puts needs one test, at bp_text_flush. */
typedef struct bp_text {
    bp_sink sink;
    void *user;
    char *buffer;
    size_t capacity;  /* bytes at buffer */
    size_t used;      /* characters waiting in buffer */
    uint64_t written; /* characters put since init, flushed or not: columns are counted from it */
    bp_status status;
} bp_text;

typedef enum bp_text_side { BP_TEXT_LEFT, BP_TEXT_RIGHT } bp_text_side;

/* Starts a writer over `capacity` bytes (at least 2) at `buffer`. With a sink the buffer is emptied
 * through it whenever it is full. Without one (NULL) the buffer is the whole output: it is
 * terminated with NUL after every flush, and text that does not fit is cut with BP_ERR_FIT. */
void bp_text_init(bp_text *text, bp_sink sink, void *user, char *buffer, size_t capacity);

/* Hands what waits to the sink (or terminates the buffer) and returns the sticky status. */
bp_status bp_text_flush(bp_text *text) BP_MUST_CHECK;

void bp_text_char(bp_text *text, char character);
void bp_text_repeat(bp_text *text, char character, size_t count);
void bp_text_bytes(bp_text *text, const char *bytes, size_t length);
/* A terminated string. */
void bp_text_string(bp_text *text, const char *string);

/* Decimal integers. */
void bp_text_u64(bp_text *text, uint64_t value);
void bp_text_i64(bp_text *text, int64_t value);
/* Lower-case hexadecimal with at least `digits` digits (at most 16), zero-filled, no prefix. */
void bp_text_hex(bp_text *text, uint64_t value, unsigned digits);
/* Decimal with thousands separated by commas: 1,234,567. */
void bp_text_grouped(bp_text *text, uint64_t value);

/* Filled with spaces to `width` columns on the other side of `side`; longer text is not cut. A
 * string's width is its count of UTF-8 characters. */
void bp_text_padded(bp_text *text, const char *string, size_t width, bp_text_side side);
void bp_text_u64_padded(bp_text *text, uint64_t value, size_t width);

/* As printf's %.{decimals}f and %.{significant}g, correctly rounded (ties to even on the exact
 * binary value); "nan", "inf" and "-inf" for what is not finite. decimals <= 60,
 * 1 <= significant <= 60; larger values are taken as 60, zero significant as 1. */
void bp_text_fixed(bp_text *text, double value, unsigned decimals);
void bp_text_general(bp_text *text, double value, unsigned significant);
/* bp_text_fixed filled with spaces on the left to `width`. */
void bp_text_fixed_padded(bp_text *text, double value, unsigned decimals, size_t width);

/* Bytes for people: "812 B", "1.50 KiB", "4.25 GiB"; rounded to nearest. */
void bp_text_bytes_human(bp_text *text, uint64_t bytes);
/* The same without zeros at the end of the fraction, for ticks: "1.5 KiB", "4 GiB". */
void bp_text_bytes_short(bp_text *text, uint64_t bytes);

/* A JSON string with its quotes. Control characters, quote and backslash are escaped; bytes that
 * are not valid UTF-8 become U+FFFD, so the result is always valid JSON. */
void bp_text_json(bp_text *text, const char *string);
void bp_text_json_bytes(bp_text *text, const char *bytes, size_t length);
/* Whether all of a string is valid UTF-8: what JSON gives back as it was. */
bool bp_text_is_utf8(const char *string);
/* A JSON number with `significant` digits; null when the value is not finite. */
void bp_text_json_number(bp_text *text, double value, unsigned significant);

/* Bytes of somebody else for a terminal or a line of a log: control characters (C0, DEL, C1), line
 * and paragraph separators and those that turn the direction of text become \n, \r, \t or \u and
 * four digits, and bytes that are not valid UTF-8 \x and two. All else is put as it is. */
void bp_text_printable(bp_text *text, const char *bytes, size_t length);

/* Text inside HTML, SVG and their quoted attributes: & < > " ' become entities, control characters
 * other than newline and tab become spaces, and invalid UTF-8 becomes U+FFFD. */
void bp_text_html(bp_text *text, const char *string);

#endif
