/* SPDX-License-Identifier: MIT */
/* The JSON writer: members and containers over a text writer, so that no caller puts a comma, a
 * colon or an escape. The same calls give the same bytes everywhere; core/base/json.h reads them.
 *
 * A call puts one value. `key` is its name in an object and NULL in a list and at the top. Failures
 * stick in the text, as with all that writes to it, and so does BP_ERR_USAGE of a key where none
 * belongs, of none where one does, of a close without an open, and of containers deeper than 64. No
 * call costs more than the bytes that it puts. */
#ifndef BP_ARENA_JSON_WRITE_H
#define BP_ARENA_JSON_WRITE_H

#include "arena/text.h"

/* How members are divided: {"a":1,"b":2}, or {"a": 1, "b": 2}. */
typedef enum bp_json_form { BP_JSON_COMPACT, BP_JSON_SPACED } bp_json_form;

/* A plain record; the fields are the writer's own. Bit d is about the container at depth d. */
typedef struct bp_json_writer {
    bp_text *text;
    bp_json_form form;
    uint32_t depth;
    uint32_t indent; /* containers open whose members have lines of their own */
    uint64_t lists;
    uint64_t filled; /* it has a member */
    uint64_t lines;
    bool keyed; /* a key was put, and its value comes */
} bp_json_writer;

/* Starts a document behind what the text has; the text must outlive the writer. */
void bp_json_put_begin(bp_json_writer *json, bp_text *text, bp_json_form form);

/* A value that is a container: kind is '{' or '['. Its members follow, up to the put_close that
 * belongs to it. With put_lines each has a line of its own, two spaces further in; an empty one has
 * none. */
void bp_json_put_open(bp_json_writer *json, const char *key, char kind);
void bp_json_put_lines(bp_json_writer *json, const char *key, char kind);
void bp_json_put_close(bp_json_writer *json);

void bp_json_put_text(bp_json_writer *json, const char *key, const char *value);
void bp_json_put_bytes(bp_json_writer *json, const char *key, const char *bytes, size_t length);
void bp_json_put_u64(bp_json_writer *json, const char *key, uint64_t value);
void bp_json_put_i64(bp_json_writer *json, const char *key, int64_t value);
/* `significant` digits, and null for what is not finite. */
void bp_json_put_real(bp_json_writer *json, const char *key, double value, unsigned significant);
void bp_json_put_flag(bp_json_writer *json, const char *key, bool value);
/* 16 hexadecimal digits, as text. */
void bp_json_put_hex(bp_json_writer *json, const char *key, uint64_t value);
/* A value that is JSON already: null, a number as it was read, a constant of the program. */
void bp_json_put_value(bp_json_writer *json, const char *key, const char *value);

/* A key of `length` bytes by itself: the call behind it puts its value, with the key NULL. */
void bp_json_put_key(bp_json_writer *json, const char *key, size_t length);
/* What stands before a value, which the caller puts into the text: for one that comes in pieces. */
void bp_json_put_member(bp_json_writer *json, const char *key);

#endif
