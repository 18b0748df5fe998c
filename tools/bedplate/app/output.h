/* SPDX-License-Identifier: MIT */
/* Writing reports: a text writer over a stdio stream, and JSON lines. */
#ifndef BP_BEDPLATE_OUTPUT_H
#define BP_BEDPLATE_OUTPUT_H

#include <stdio.h>

#include "arena/text.h"
#include "core/base/error.h"

typedef struct output {
    bp_text text;
    FILE *stream;
    bool first; /* JSON: no member was put yet */
    char buffer[4096];
} output;

/* Starts writing to a stream. The record must not move until output_end. */
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
/* A member that is a list of token ids. */
void json_ids(output *out, const char *key, const int32_t *ids, uint32_t count);
/* A member that is an object: its own members follow until json_close. */
void json_open(output *out, const char *key);
void json_close(output *out);
/* A member that is a list of objects: json_item begins each, json_close ends it. */
void json_list(output *out, const char *key);
void json_item(output *out);
void json_list_end(output *out);

/* Prints an error as "bedplate: NAME: TEXT (found F, right would be W)" and returns its exit code.
 */
int report_error(const bp_error *error);
/* The same for a status without a record. */
int report_status(bp_status status, const bp_error *error);

#endif
