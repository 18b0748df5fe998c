/* SPDX-License-Identifier: MIT */
/* Tables of labels and texts: tab-separated, or comma-separated with quotes. Fields come in pieces,
 * so that a text of any length costs the same memory. */
#include "tools/formats/data/data_documents.h"
#include "tools/formats/files/data_table.h"

#include <string.h>

enum { LABEL_BYTES = BP_DOCUMENTS_LABEL, COLUMNS_MAX = 64 };

/* A table of labels and texts. */
typedef struct labelled {
    bp_documents *documents;
    bp_table table;
    uint32_t columns;
    uint32_t column[BP_COLUMN_LABEL + 1]; /* by role */
    char label[LABEL_BYTES];
    size_t label_length;
} labelled;

/* The first two fields of the first row, as far as they fit. */
typedef struct fields {
    char text[2][LABEL_BYTES + 1];
    size_t length[2];
} fields;

static void add_field(fields *f, uint32_t column, const bp_table *table, char *name, size_t *length)
{
    const size_t room = LABEL_BYTES + 1 - *length;
    const size_t fits = room < table->count ? room : table->count;
    memcpy(name + *length, table->piece, fits);
    *length += fits;
    if (column < 2) {
        memcpy(f->text[column], name, *length);
        f->length[column] = *length;
    }
}

/* Takes the first row as names of columns. */
static bp_status read_names(labelled *t, fields *f)
{
    bp_table_event what = BP_TABLE_PIECE;
    bp_row_columns *columns = &t->documents->columns;
    char name[LABEL_BYTES + 1];
    size_t length = 0;
    memset(f, 0, sizeof *f);
    bp_row_columns_begin(columns, &t->documents->reading);
    while (what != BP_TABLE_ROW && what != BP_TABLE_END) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_PIECE) {
            add_field(f, columns->count, &t->table, name, &length);
        } else if (what != BP_TABLE_END) {
            bp_row_columns_take(columns, name, length);
            length = 0;
        }
    }
    t->columns = columns->count;
    if (t->columns > COLUMNS_MAX) {
        return bp_data_refuse_most(t->table.reader, "the table has more columns than can be",
                                   t->columns, COLUMNS_MAX);
    }
    return bp_row_columns_end(columns, t->table.reader);
}

/* Whether a field can only be a label: it is a number, or the name of a class. */
static bool data_labelled_evident(const labelled *t, const fields *f, uint32_t column)
{
    bp_number number;
    uint32_t class;
    const char *text = f->text[column];
    const size_t length = f->length[column];
    size_t first = 0;
    while (first < length && text[first] != ' ') {
        first++;
    }
    const bool many = t->documents->labels == BP_LABELS_BITS && t->documents->classes > 0;
    const size_t bytes = many ? first : length; /* of several the first */
    return bytes > 0 && bytes <= LABEL_BYTES &&
           (bp_number_parse(text, bytes, &number) == BP_OK ||
            bp_class_names_find(t->documents->names, text, bytes, &class));
}

static bp_status refuse_heading(const labelled *t, const char *text, const fields *f)
{
    const size_t length = f->length[0] < LABEL_BYTES ? f->length[0] : LABEL_BYTES;
    return bp_data_refuse_word(t->table.reader, text, f->text[0], length);
}

/* The columns of a table without a header: those that are asked for, else of two the label is the
 * one that can only be one. Where that is neither or both the first is it if the header was denied.
 */
static bp_status bare_columns(labelled *t, const fields *f)
{
    bp_row_columns *columns = &t->documents->columns;
    const bool denied = t->documents->reading.no_header;
    const bool text = bp_row_columns_has(columns, BP_COLUMN_TEXT);
    const bool label = bp_row_columns_has(columns, BP_COLUMN_LABEL);
    const bool first = data_labelled_evident(t, f, 0), second = data_labelled_evident(t, f, 1);
    if (!(text && label) && t->columns != 2) {
        return denied ? bp_data_refuse_numbers(t->table.reader,
                                               "a table without a header has two columns, label "
                                               "and text, or --text-column and --label-column "
                                               "give their numbers",
                                               t->columns, 2)
                      : refuse_heading(t,
                                       "the first row names no column that is known as the label "
                                       "(--label-column and --text-column name them), and a table "
                                       "without a header has two columns, or --no-header and their "
                                       "numbers",
                                       f);
    }
    if (!denied && first == second) {
        return refuse_heading(t,
                              first ? "each column of the first row could be the label: "
                                      "--no-header selects the first one, --label-column another"
                                    : "the first row names no column that is known as the label, "
                                      "and holds no label: --label-column and --text-column name "
                                      "them, --no-header makes the row data",
                              f);
    }
    const uint32_t found = !first && second ? 1 : 0;
    const uint32_t at = label  ? columns->of[BP_COLUMN_LABEL].number
                        : text ? 1 - columns->of[BP_COLUMN_TEXT].number
                               : found;
    if (!label) {
        bp_row_columns_set(columns, BP_COLUMN_LABEL, at, "", 0);
    }
    if (!text) {
        bp_row_columns_set(columns, BP_COLUMN_TEXT, 1 - at, "", 0);
    }
    columns->of[BP_COLUMN_SECOND].number = BP_NO_COLUMN;
    columns->named = false;
    return BP_OK;
}

/* The columns of a table whose first row is a header. */
static bp_status headed_columns(labelled *t, const fields *f)
{
    bp_row_columns *columns = &t->documents->columns;
    const bp_row_column *text = &columns->of[BP_COLUMN_TEXT];
    const bp_row_column *second = &columns->of[BP_COLUMN_SECOND];
    if (text->number == BP_NO_COLUMN && t->columns == 2) {
        const uint32_t other = 1 - columns->of[BP_COLUMN_LABEL].number;
        bp_row_columns_set(columns, BP_COLUMN_TEXT, other, f->text[other],
                           f->length[other] < LABEL_BYTES ? f->length[other] : LABEL_BYTES);
    }
    if (text->number == BP_NO_COLUMN) {
        return bp_data_refuse(t->table.reader,
                              "the table has a column of labels but none named `text`, `sentence`, "
                              "`review`, `content` or the like (--text-column names another)");
    }
    if (second->number <= text->number) {
        return bp_data_refuse(
            t->table.reader,
            "the column of the second text is before that of the first, or is the only one");
    }
    return BP_OK;
}

/* Finds out which columns there are, and leaves the table at its first row of content. */
static bp_status read_heading(labelled *t, fields *f)
{
    bp_documents *documents = t->documents;
    bp_row_columns *columns = &documents->columns;
    BP_TRY(bp_table_skip_blank(&t->table));
    const bp_table first = t->table;
    BP_TRY(read_names(t, f));
    if (t->columns == 0) {
        return BP_OK;
    }
    const bool named =
        columns->named && (bp_row_columns_has(columns, BP_COLUMN_LABEL) ||
                           (documents->may_lack && bp_row_columns_has(columns, BP_COLUMN_TEXT)));
    BP_TRY(named ? headed_columns(t, f) : bare_columns(t, f));
    for (uint32_t i = 0; i <= BP_COLUMN_LABEL; i++) {
        t->column[i] = columns->of[i].number;
    }
    if (!named) {
        t->table = first;
    }
    return BP_OK;
}

static bp_status take_piece(labelled *t, uint32_t column)
{
    bp_documents *documents = t->documents;
    if (column == t->column[BP_COLUMN_TEXT]) {
        return documents->piece(documents->user, BP_PART_TEXT, t->table.piece, t->table.count);
    }
    if (column == t->column[BP_COLUMN_SECOND]) {
        return documents->piece(documents->user, BP_PART_SECOND, t->table.piece, t->table.count);
    }
    if (column == t->column[BP_COLUMN_LABEL]) {
        if (t->table.count > LABEL_BYTES - t->label_length) {
            return bp_data_refuse(t->table.reader, "the label is too long to be one");
        }
        memcpy(t->label + t->label_length, t->table.piece, t->table.count);
        t->label_length += t->table.count;
    }
    return BP_OK;
}

static bp_status data_labelled_read_row(labelled *t)
{
    bp_documents *documents = t->documents;
    uint32_t column = 0;
    bp_table_event what = BP_TABLE_PIECE;
    t->label_length = 0;
    BP_TRY(documents->begin(documents->user, t->table.reader));
    while (what != BP_TABLE_ROW) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_END) {
            return bp_data_refuse(t->table.reader, "the file changed while it was read");
        }
        if (what == BP_TABLE_PIECE) {
            BP_TRY(take_piece(t, column));
        }
        column += what != BP_TABLE_PIECE ? 1 : 0;
    }
    if (column != t->columns) {
        return bp_data_refuse_numbers(t->table.reader, "the row has another number of fields",
                                      column, t->columns);
    }
    uint64_t label = BP_NO_LABEL;
    if (t->column[BP_COLUMN_LABEL] != BP_NO_COLUMN) {
        BP_TRY(bp_documents_label(documents, t->table.reader, t->label, t->label_length, &label));
    }
    return documents->end(documents->user, label);
}

bp_status bp_documents_table(bp_documents *documents, bp_data_reader *reader, char delimiter,
                             void *scratch)
{
    labelled t = {.documents = documents,
                  .table = {.reader = reader, .delimiter = delimiter, .quotes = delimiter == ','}};
    if (documents->form != BP_FORM_LABELLED) {
        return bp_data_refuse(reader, "a table holds labels, which this task does not learn (give "
                                      "--data-format text if it is text)");
    }
    BP_TRY(bp_table_begin(&t.table));
    BP_TRY(read_heading(&t, scratch));
    BP_TRY(bp_table_skip_blank(&t.table));
    if (!bp_table_ended(&t.table)) {
        BP_TRY(bp_documents_texts(documents, reader,
                                  t.column[BP_COLUMN_SECOND] != BP_NO_COLUMN ? 2 : 1,
                                  t.column[BP_COLUMN_LABEL] != BP_NO_COLUMN));
    }
    while (!bp_table_ended(&t.table)) {
        BP_TRY(data_labelled_read_row(&t));
        BP_TRY(bp_table_skip_blank(&t.table));
        if (documents->first_only) {
            break;
        }
    }
    return BP_OK;
}
