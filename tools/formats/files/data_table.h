/* SPDX-License-Identifier: MIT */
/* Tables as events: fields of rows in pieces, tab-separated, or comma-separated with quotes (RFC
 * 4180). Of any length, in the memory of the reader's window. */
#ifndef BP_FORMATS_DATA_TABLE_H
#define BP_FORMATS_DATA_TABLE_H

#include "tools/formats/files/data_reader.h"

typedef enum bp_table_event {
    BP_TABLE_PIECE, /* bytes of the field: piece, count */
    BP_TABLE_FIELD, /* the field ended, another one of the row follows */
    BP_TABLE_ROW,   /* the field and the row ended */
    BP_TABLE_END    /* of the file */
} bp_table_event;

/* The first three are the caller's to set. */
typedef struct bp_table {
    bp_data_reader *reader;
    char delimiter;
    bool quotes;     /* fields may be quoted */
    uint64_t offset; /* of the next byte */
    uint64_t feeds;  /* line feeds behind us */
    bool in_row;     /* something of the row was there */
    bool in_field;   /* and of the field */
    bool quoted;     /* inside quotes */
    uint32_t utf8;   /* bytes that the present character still needs */
    uint32_t lowest; /* the least and the most that its next byte may be */
    uint32_t highest;
    const char *piece; /* valid until the next call */
    size_t count;
} bp_table;

/* Starts, behind a byte-order mark. */
bp_status bp_table_begin(bp_table *table) BP_MUST_CHECK;

/* BP_ERR_DATA with file and line: NUL, invalid UTF-8, quotes that do not end or do not end a field.
 */
bp_status bp_table_next(bp_table *table, bp_table_event *what) BP_MUST_CHECK;

/* Between rows: passes over blank lines, and sets reader->line to that of the next row. */
bp_status bp_table_skip_blank(bp_table *table) BP_MUST_CHECK;

/* Whether nothing is left. */
bool bp_table_ended(const bp_table *table);

#endif
