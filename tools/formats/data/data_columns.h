/* SPDX-License-Identifier: MIT */
/* Which field of a row is its text, which its label: by name, as somebody said or by the usual
 * names, whose case does not matter, nor do spaces around them. */
#ifndef BP_FORMATS_DATA_COLUMNS_H
#define BP_FORMATS_DATA_COLUMNS_H

#include "core/base/digest.h"
#include "tools/formats/files/data_reader.h"

#define BP_COLUMN_NAME 64 /* most bytes of a name that can be meant */
#define BP_NO_COLUMN   UINT32_MAX

/* What a list of labels is (data_documents.h). */
typedef enum bp_label_form {
    BP_LABEL_FORM_FOUND,     /* what it can only be */
    BP_LABEL_FORM_MULTI_HOT, /* of each class whether it holds: 1 or 0 */
    BP_LABEL_FORM_CLASSES    /* the classes that hold, by number or name */
} bp_label_form;

/* How rows are to be read, as far as somebody says it. */
typedef struct bp_data_reading {
    const char *text_column; /* a name, or, without a header, a number from 1 on; NULL: found */
    const char *label_column;
    bool no_header; /* of a table: its first row is one like the others */
    bp_label_form label_form;
} bp_data_reading;

typedef enum bp_column_role {
    BP_COLUMN_TEXT,
    BP_COLUMN_SECOND, /* of a pair of texts */
    BP_COLUMN_LABEL,
    BP_COLUMN_QUESTION, /* these two are the texts of a pair where they come together, as in QNLI */
    BP_COLUMN_SENTENCE,
    BP_COLUMN_ROLES
} bp_column_role;

typedef struct bp_row_column {
    uint32_t number; /* counted from 0; BP_NO_COLUMN: there is none */
    uint32_t rank;   /* 0: asked for in so many letters; higher: a less usual name */
    uint32_t alike;  /* further names of this rank */
    char name[BP_COLUMN_NAME + 1];
} bp_row_column;

/* The columns of a table, or the fields of an object. A plain record. */
typedef struct bp_row_columns {
    const bp_data_reading *reading;
    uint32_t count; /* names that were taken */
    bool object;    /* they are keys of a JSON object; the caller's */
    bool numbers;   /* the others are numbers, which may be called score or y; the caller's */
    bool named;     /* false: of a table without a header, whose columns have numbers */
    bp_row_column of[BP_COLUMN_ROLES];
} bp_row_columns;

/* Begins with no name; `reading` must outlive the record. */
void bp_row_columns_begin(bp_row_columns *columns, const bp_data_reading *reading);

/* The next name, in the order of the row. */
void bp_row_columns_take(bp_row_columns *columns, const char *name, size_t length);

/* All names were taken. BP_ERR_DATA: two of them are equally good for one role, or the column that
 * was asked for is not among them. */
bp_status bp_row_columns_end(bp_row_columns *columns, bp_data_reader *reader) BP_MUST_CHECK;

/* Gives a column to a role, by its number and name. */
void bp_row_columns_set(bp_row_columns *columns, bp_column_role role, uint32_t number,
                        const char *name, size_t length);

bool bp_row_columns_has(const bp_row_columns *columns, bp_column_role role);

/* What of this decides how rows are read, for the key of a file that is made from them. */
void bp_data_reading_key(const bp_data_reading *reading, bp_digest *key);

/* Whether a name is one of a list, the last of which is NULL: without case, spaces around it left
 * out, and _ for spaces and hyphens inside. */
bool bp_column_named(const char *const *list, const char *name, size_t length);

/* Whether this is a usual name of the label. */
bool bp_column_is_label(const char *name, size_t length);

#endif
