/* SPDX-License-Identifier: MIT */
/* Tables of labels and texts: tab-separated, or comma-separated with quotes. Fields come in pieces,
 * so that a text of any length costs the same memory. */
#include "tools/formats/data/data_documents.h"
#include "tools/formats/files/data_table.h"

#include <string.h>

#define NO_COLUMN UINT32_MAX

enum { LABEL_BYTES = BP_DOCUMENTS_LABEL, COLUMNS_MAX = 64 };

/* A table of labels and texts. */
typedef struct labelled {
    bp_documents *documents;
    bp_table table;
    uint32_t columns;
    uint32_t label_column;
    uint32_t text_column;
    uint32_t second_column; /* of pairs */
    char label[LABEL_BYTES];
    size_t label_length;
} labelled;

/* The names of the first row, as far as they fit. */
typedef struct names {
    char text[COLUMNS_MAX][LABEL_BYTES];
    size_t length[COLUMNS_MAX];
} names;

static bool is_name(const names *n, uint32_t column, const char *const *list)
{
    return bp_documents_named(list, n->text[column], n->length[column]);
}

static uint32_t find_column(const labelled *t, const names *n, const char *const *list)
{
    uint32_t i = 0;
    while (i < t->columns && !is_name(n, i, list)) {
        i++;
    }
    return i < t->columns ? i : NO_COLUMN;
}

/* Two columns of one meaning: which is meant nobody can know. */
static bp_status check_once(const labelled *t, const names *n, const char *const *list)
{
    const uint32_t first = find_column(t, n, list);
    for (uint32_t i = first == NO_COLUMN ? t->columns : first + 1; i < t->columns; i++) {
        if (is_name(n, i, list)) {
            return bp_data_refuse_word(t->table.reader,
                                       "the table has two columns that could be the label, or the "
                                       "text",
                                       n->text[i], n->length[i]);
        }
    }
    return BP_OK;
}

static bp_status choose_columns(labelled *t, const names *n)
{
    static const char *const labels[] = {"label", "labels", NULL};
    static const char *const single[] = {"sentence", "content", NULL};
    static const char *const asked[] = {"question", NULL};
    const uint32_t one = find_column(t, n, single), question = find_column(t, n, asked);
    BP_TRY(check_once(t, n, labels));
    BP_TRY(check_once(t, n, bp_documents_first_names));
    BP_TRY(check_once(t, n, bp_documents_second_names));
    t->label_column = find_column(t, n, labels);
    t->text_column = find_column(t, n, bp_documents_first_names);
    t->second_column = find_column(t, n, bp_documents_second_names);
    if (t->text_column == NO_COLUMN && t->second_column == NO_COLUMN) {
        const bool both = question != NO_COLUMN && one != NO_COLUMN; /* QNLI */
        t->text_column = both ? question : one;
        t->second_column = both ? one : NO_COLUMN;
    }
    bool other = t->label_column != NO_COLUMN && t->text_column == NO_COLUMN && t->columns == 2;
    t->text_column = other ? 1 - t->label_column : t->text_column;
    return BP_OK;
}

static bp_status read_names(labelled *t, names *n)
{
    bp_table_event what = BP_TABLE_PIECE;
    memset(n, 0, sizeof *n);
    t->columns = 0;
    while (what != BP_TABLE_ROW && what != BP_TABLE_END) {
        BP_TRY(bp_table_next(&t->table, &what));
        bool ended = what == BP_TABLE_FIELD || what == BP_TABLE_ROW;
        if (what == BP_TABLE_PIECE && t->columns < COLUMNS_MAX) {
            size_t have = n->length[t->columns];
            size_t fits = LABEL_BYTES - have < t->table.count ? LABEL_BYTES - have : t->table.count;
            memcpy(n->text[t->columns] + have, t->table.piece, fits);
            n->length[t->columns] = have + fits;
        }
        t->columns += ended ? 1 : 0;
    }
    if (t->columns > COLUMNS_MAX) {
        return bp_data_refuse_numbers(t->table.reader, "the table has more columns than can be",
                                      t->columns, COLUMNS_MAX);
    }
    return BP_OK;
}

/* Without names of columns the label is the first one, unless only the second can be one. */
static uint32_t label_column(const labelled *t, const names *n)
{
    bool first = bp_documents_is_label(t->documents, t->table.reader, n->text[0], n->length[0]);
    bool second = bp_documents_is_label(t->documents, t->table.reader, n->text[1], n->length[1]);
    return !first && second ? 1 : 0;
}

/* Finds out which columns there are, and leaves the table at its first row of content. */
static bp_status read_heading(labelled *t, names *n)
{
    BP_TRY(bp_table_skip_blank(&t->table));
    uint64_t first = t->table.offset;
    uint64_t feeds = t->table.feeds;
    BP_TRY(read_names(t, n));
    if (t->columns == 0) {
        return BP_OK;
    }
    BP_TRY(choose_columns(t, n));
    const bool named =
        t->label_column != NO_COLUMN || (t->documents->may_lack && t->text_column != NO_COLUMN);
    if (named && t->text_column == NO_COLUMN) {
        return bp_data_refuse(t->table.reader,
                              "the table has a column `label` but none named `text`, "
                              "`sentence`, `sentence1`, `premise`, `question1` or `content`");
    }
    if (named && t->second_column <= t->text_column) {
        return bp_data_refuse(t->table.reader,
                              "the column of the second text stands before that of "
                              "the first, or is the only one");
    }
    if (!named) {
        if (t->columns != 2) {
            return bp_data_refuse_numbers(t->table.reader,
                                          "a table without names of its columns has two, label "
                                          "and text",
                                          t->columns, 2);
        }
        t->label_column = label_column(t, n);
        t->text_column = 1 - t->label_column;
        t->second_column = NO_COLUMN;
        t->table.offset = first;
        t->table.feeds = feeds;
    }
    return BP_OK;
}

static bp_status take_piece(labelled *t, uint32_t column)
{
    bp_documents *documents = t->documents;
    if (column == t->text_column) {
        return documents->piece(documents->user, BP_PART_TEXT, t->table.piece, t->table.count);
    }
    if (column == t->second_column) {
        return documents->piece(documents->user, BP_PART_SECOND, t->table.piece, t->table.count);
    }
    if (column == t->label_column) {
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
    if (t->label_column != NO_COLUMN) {
        BP_TRY(bp_documents_label(documents, t->table.reader, t->label, t->label_length, &label));
    }
    return documents->end(documents->user, label);
}

bp_status bp_documents_table(bp_documents *documents, bp_data_reader *reader, char delimiter,
                             void *scratch)
{
    labelled t = {.documents = documents,
                  .second_column = NO_COLUMN,
                  .table = {.reader = reader, .delimiter = delimiter, .quotes = delimiter == ','}};
    if (documents->form != BP_FORM_LABELLED) {
        return bp_data_refuse(reader, "a table holds labels, which this task does not learn (give "
                                      "--data-format text if it is text)");
    }
    BP_TRY(bp_table_begin(&t.table));
    BP_TRY(read_heading(&t, scratch));
    BP_TRY(bp_table_skip_blank(&t.table));
    if (!bp_table_ended(&t.table)) {
        BP_TRY(bp_documents_texts(documents, reader, t.second_column != NO_COLUMN ? 2 : 1,
                                  t.label_column != NO_COLUMN));
    }
    while (!bp_table_ended(&t.table)) {
        BP_TRY(data_labelled_read_row(&t));
        BP_TRY(bp_table_skip_blank(&t.table));
    }
    return BP_OK;
}
