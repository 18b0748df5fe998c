/* SPDX-License-Identifier: MIT */
/* Writing reports: a text writer over a stdio stream, and JSON lines. */
#ifndef BP_BEDPLATE_OUTPUT_H
#define BP_BEDPLATE_OUTPUT_H

#include <stdio.h>

#include "arena/json_write.h"
#include "core/base/error.h"

typedef struct output {
    bp_text text;
    FILE *stream;
    bp_json_writer json;
    char held[4]; /* of a character whose end waits for the next piece, for a terminal */
    size_t held_count;
    char buffer[4096];
} output;

/* As fprintf, for what people read: %s, %d, %u, %x, %c, %f, %g with flags, width, precision, l, ll
 * and z. Texts among the arguments are those of a file or of who started the program, so they are
 * put by bp_text_printable: they neither move a cursor nor begin a line of their own. */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
void output_print(FILE *stream, const char *format, ...);
/* Bytes that a model or another program wrote, with their newlines and tabs: as they are for a
 * file or a pipe, and without other control characters for a terminal. */
void output_bytes(FILE *stream, const char *bytes, size_t count);
/* How many of the last bytes begin a character of UTF-8 that they do not end: 0 to 3. */
size_t output_unfinished(const char *bytes, size_t count);

/* Starts writing to a stream; for a terminal as by output_bytes. The record must not move until
 * output_end. */
void output_begin(output *out, FILE *stream);
/* Ends: everything is handed over and the stream is flushed. A failing stdout is found at exit. */
void output_end(output *out);

/* A JSON object on one line: begin, members, end. Real numbers have 9 significant digits unless
 * said otherwise, and what is not finite becomes null. */
void json_begin(output *out);
void json_end(output *out);
void json_count(output *out, const char *key, uint64_t value);
void json_real(output *out, const char *key, double value, unsigned significant);
/* "total_seconds" since the program began, at `began` on clock_seconds(), and "load_seconds", all
 * of them but the `work` that has just ended: what came before the first row or token. */
void json_seconds(output *out, double began, double work);
void json_text(output *out, const char *key, const char *value);
void json_flag(output *out, const char *key, bool value);
/* A member whose text is what `write` writes to a stream. BP_ERR_FIT: no memory for it; empty. */
bp_status json_written(output *out, const char *key, void (*write)(FILE *stream, const void *user),
                       const void *user) BP_MUST_CHECK;
/* A member that is a list of token ids. */
void json_ids(output *out, const char *key, const int32_t *ids, uint32_t count);
/* A member that is an object: its own members follow until json_close. */
void json_open(output *out, const char *key);
void json_close(output *out);
/* A member that is a list of objects: json_item begins each, json_close ends it. */
void json_list(output *out, const char *key);
void json_item(output *out);
void json_list_end(output *out);

/* Prints an error as "bedplate: NAME: TEXT: found F, expected W" and returns its exit code.
 */
int report_error(const bp_error *error);
/* The same for a status without a record. */
int report_status(bp_status status, const bp_error *error);

#endif
