/* SPDX-License-Identifier: MIT */
/* A JSON object on one line, without blanks and with its keys in the order in which they are put:
 * the same values give the same bytes everywhere. Record and events are made of such lines. */
#ifndef BP_BEDPLATE_JSON_LINE_H
#define BP_BEDPLATE_JSON_LINE_H

#include "arena/json_write.h"

typedef struct json_line {
    bp_text text;
    bp_json_writer json;
} json_line;

/* Begins an object in `room` bytes at `buffer`; what does not fit is told by line_end. */
void line_begin(json_line *line, char *buffer, size_t room);
/* Puts the closing brace and a newline, and gives the length of it all. */
bp_status line_end(json_line *line, size_t *length) BP_MUST_CHECK;

void line_count(json_line *line, const char *key, uint64_t value);
void line_text(json_line *line, const char *key, const char *value);
void line_flag(json_line *line, const char *key, bool value);
/* A decimal of 9 digits, null for what is not finite. */
void line_real(json_line *line, const char *key, double value);
/* That, and beside it under KEY_bits the 16 hexadecimal digits of the IEEE binary64. */
void line_exact(json_line *line, const char *key, double value);
/* 16 hexadecimal digits, as text. */
void line_hex(json_line *line, const char *key, uint64_t value);

/* A member that is an object or a list; in a list the items have no keys (key NULL). */
void line_open(json_line *line, const char *key);
void line_close(json_line *line);
void line_list(json_line *line, const char *key);
void line_list_close(json_line *line);

#endif
