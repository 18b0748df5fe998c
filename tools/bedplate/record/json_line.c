/* SPDX-License-Identifier: MIT */
/* JSON lines of record and events. */
#include "tools/bedplate/record/json_line.h"

#include <stdio.h>
#include <string.h>

void line_begin(json_line *line, char *buffer, size_t room)
{
    bp_text_init(&line->text, NULL, NULL, buffer, room);
    bp_json_put_begin(&line->json, &line->text, BP_JSON_COMPACT);
    bp_json_put_open(&line->json, NULL, '{');
}

bp_status line_end(json_line *line, size_t *length)
{
    bp_json_put_close(&line->json);
    bp_text_char(&line->text, '\n');
    *length = (size_t)line->text.written;
    return bp_text_flush(&line->text);
}

void line_count(json_line *line, const char *key, uint64_t value)
{
    bp_json_put_u64(&line->json, key, value);
}

void line_text(json_line *line, const char *key, const char *value)
{
    bp_json_put_text(&line->json, key, value);
}

void line_flag(json_line *line, const char *key, bool value)
{
    bp_json_put_flag(&line->json, key, value);
}

void line_real(json_line *line, const char *key, double value)
{
    bp_json_put_real(&line->json, key, value, 9);
}

void line_hex(json_line *line, const char *key, uint64_t value)
{
    bp_json_put_hex(&line->json, key, value);
}

void line_exact(json_line *line, const char *key, double value)
{
    char name[64];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    line_real(line, key, value);
    snprintf(name, sizeof name, "%s_bits", key);
    line_hex(line, name, bits);
}

void line_open(json_line *line, const char *key)
{
    bp_json_put_open(&line->json, key, '{');
}

void line_close(json_line *line)
{
    bp_json_put_close(&line->json);
}

void line_list(json_line *line, const char *key)
{
    bp_json_put_open(&line->json, key, '[');
}

void line_list_close(json_line *line)
{
    bp_json_put_close(&line->json);
}
