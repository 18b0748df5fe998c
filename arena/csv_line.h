/* SPDX-License-Identifier: MIT */
/* Inside the CSV code: lines and fields. */
#ifndef BP_ARENA_CSV_LINE_H
#define BP_ARENA_CSV_LINE_H

#include "arena/csv.h"

/* A line that is not blank, without its end, and where the next one starts. */
typedef struct csv_line {
    const char *text;
    size_t length;
    size_t next;
    uint64_t number; /* counted from 1, blank lines too */
} csv_line;

typedef struct csv_field {
    const char *text;
    size_t length;
} csv_field;

/* Stands before the first line, after a byte-order mark. */
void csv_line_first(const bp_csv *csv, csv_line *line);

/* Goes to the next line that is not blank; false at the end of the text. */
bool csv_line_next(const bp_csv *csv, csv_line *line);

/* The index-th field of a line, spaces around it cut off; false if the line has none. */
bool csv_field_at(const csv_line *line, uint32_t index, csv_field *field);

#endif
