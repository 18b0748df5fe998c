/* SPDX-License-Identifier: MIT */
/* JSON lines of record and events. */
#include "tools/bedplate/record/json_line.h"

#include <string.h>

static void line_member(json_line *line, const char *key)
{
    if (!line->first) {
        bp_text_char(&line->text, ',');
    }
    line->first = false;
    if (key != NULL) {
        bp_text_json(&line->text, key);
        bp_text_char(&line->text, ':');
    }
}

static void line_bracket(json_line *line, const char *key, char bracket)
{
    line_member(line, key);
    bp_text_char(&line->text, bracket);
    line->first = true;
}

void line_begin(json_line *line, char *buffer, size_t room)
{
    bp_text_init(&line->text, NULL, NULL, buffer, room);
    bp_text_char(&line->text, '{');
    line->first = true;
}

bp_status line_end(json_line *line, size_t *length)
{
    bp_text_string(&line->text, "}\n");
    *length = (size_t)line->text.written;
    return bp_text_flush(&line->text);
}

void line_count(json_line *line, const char *key, uint64_t value)
{
    line_member(line, key);
    bp_text_u64(&line->text, value);
}

void line_text(json_line *line, const char *key, const char *value)
{
    line_member(line, key);
    bp_text_json(&line->text, value);
}

void line_flag(json_line *line, const char *key, bool value)
{
    line_member(line, key);
    bp_text_string(&line->text, value ? "true" : "false");
}

void line_real(json_line *line, const char *key, double value)
{
    line_member(line, key);
    bp_text_json_number(&line->text, value, 9);
}

void line_hex(json_line *line, const char *key, uint64_t value)
{
    line_member(line, key);
    bp_text_char(&line->text, '"');
    bp_text_hex(&line->text, value, 16);
    bp_text_char(&line->text, '"');
}

void line_exact(json_line *line, const char *key, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    line_real(line, key, value);
    line_member(line, NULL);
    bp_text_char(&line->text, '"');
    bp_text_string(&line->text, key);
    bp_text_string(&line->text, "_bits\":\"");
    bp_text_hex(&line->text, bits, 16);
    bp_text_char(&line->text, '"');
}

void line_open(json_line *line, const char *key)
{
    line_bracket(line, key, '{');
}

void line_close(json_line *line)
{
    bp_text_char(&line->text, '}');
    line->first = false;
}

void line_list(json_line *line, const char *key)
{
    line_bracket(line, key, '[');
}

void line_list_close(json_line *line)
{
    bp_text_char(&line->text, ']');
    line->first = false;
}
