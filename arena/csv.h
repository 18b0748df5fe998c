/* SPDX-License-Identifier: MIT */
/* Planner instances as CSV, in the format of the public instances of google/minimalloc. */
#ifndef BP_ARENA_CSV_H
#define BP_ARENA_CSV_H

#include "arena/layout.h"
#include "arena/text.h"

/* What is wrong and where, when a call returns BP_ERR_DATA. */
typedef struct bp_csv_error {
    uint64_t line;      /* counted from 1; 0 if no line is to blame */
    const char *column; /* static: the column's usual name; "" if no column is to blame */
    const char *text;   /* static: what is wrong */
} bp_csv_error;

typedef enum bp_csv_column {
    BP_CSV_ID,
    BP_CSV_LOWER,
    BP_CSV_UPPER,
    BP_CSV_SIZE,
    BP_CSV_COLUMNS
} bp_csv_column;

/* An opened text; it is borrowed and must stay as it is. */
typedef struct bp_csv {
    const char *text;
    size_t length;
    uint32_t rows;
    uint32_t fields;                /* in every line */
    uint32_t place[BP_CSV_COLUMNS]; /* which field holds a column */
    bool inclusive;                 /* the end of life is the last time at which a buffer lives */
} bp_csv;

/* Reads the header and counts the rows. The header names the columns, in any order: `id` (or
 * `buffer`, `buffer_id`), `lower` (or `begin`, `start`), `upper` or, inclusive, `end`, and `size`.
 * Other columns are carried along, but `alignment`, `gaps` and `offset`, which would change the
 * problem, are refused. Spaces around fields, blank lines, a byte-order mark and CR LF line ends
 * are accepted; quotes mean themselves. BP_ERR_DATA with *error filled. O(length). */
bp_status bp_csv_open(bp_csv *csv, const char *text, size_t length,
                      bp_csv_error *error) BP_MUST_CHECK;

/* Reads all rows into buffers[0, csv->rows). Refused, with its line: a row with more or fewer
 * fields than the header, an empty id, what is not a decimal number or too large (times of 2^32 or
 * more, sizes that add up to 2^62 or more), a lifetime that ends before it begins. */
bp_status bp_csv_read(const bp_csv *csv, bp_interval *buffers, bp_csv_error *error) BP_MUST_CHECK;

/* Writes the rows as they were read, with a column `offset` added. Returns the status of `out`. */
bp_status bp_csv_write(const bp_csv *csv, const bp_interval *buffers, bp_text *out) BP_MUST_CHECK;

/* Writes one JSON object on one line: arena_bytes, lower_bound_bytes, waste_bytes, optimal, fits,
 * peak_time, method, nodes, buffers (id, lower, upper, size, offset), live_at_peak (ids). */
bp_status bp_csv_json(const bp_csv *csv, const bp_interval *buffers, const bp_layout_report *report,
                      bp_text *out) BP_MUST_CHECK;

#endif
