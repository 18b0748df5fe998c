/* SPDX-License-Identifier: MIT */
/* Tables of labels and texts: tab-separated, or comma-separated with quotes. Fields come in pieces,
 * so that a text of any length costs the same memory. */
#include "tools/formats/data_documents.h"

#include <string.h>

#define NO_COLUMN UINT32_MAX

enum { LABEL_BYTES = 64, COLUMNS_MAX = 64 };

typedef enum event {
    EVENT_PIECE, /* bytes of the field */
    EVENT_FIELD, /* the field ended, another one of the row follows */
    EVENT_ROW,   /* the field and the row ended */
    EVENT_END    /* of the file */
} event;

typedef struct table {
    bp_documents *documents;
    bp_data_reader *reader;
    char delimiter;
    bool quotes; /* fields may be quoted */
    uint64_t offset;
    uint64_t feeds;  /* line feeds behind us */
    bool in_row;     /* something of the row was there */
    bool in_field;   /* and of the field */
    bool quoted;     /* inside quotes */
    uint32_t utf8;   /* bytes that the present character still needs */
    uint32_t lowest; /* the least and the most that its next byte may be */
    uint32_t highest;
    const char *piece;
    size_t count;
    uint32_t columns;
    uint32_t label_column;
    uint32_t text_column;
    char label[LABEL_BYTES];
    size_t label_length;
} table;

/* The next byte without taking it; -1 at the end of the file. */
static bp_status peek(table *t, uint64_t ahead, int *byte)
{
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(t->reader, t->offset + ahead, &bytes, &count));
    *byte = count > 0 ? *bytes : -1;
    return BP_OK;
}

/* The first byte of a character says how many follow and what the first of them may be (Unicode
 * 15, table 3-7). */
static bool begin_character(table *t, uint32_t byte)
{
    t->lowest = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    t->highest = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    t->utf8 = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    return byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4);
}

static bp_status check_bytes(table *t, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool good;
        if (t->utf8 == 0) {
            good = begin_character(t, bytes[i]);
        } else {
            good = bytes[i] >= t->lowest && bytes[i] <= t->highest;
            t->lowest = 0x80;
            t->highest = 0xbf;
            t->utf8--;
        }
        if (bytes[i] == '\0') {
            return bp_data_refuse(t->reader, "the text holds a NUL byte");
        }
        if (!good) {
            return bp_data_refuse(t->reader, "the text is not UTF-8");
        }
    }
    return BP_OK;
}

/* How many of the bytes are plain content of the field as it stands. */
static size_t plain_run(const table *t, const unsigned char *bytes, size_t count)
{
    size_t n = 0;
    if (t->quoted) {
        const unsigned char *quote = memchr(bytes, '"', count);
        return quote != NULL ? (size_t)(quote - bytes) : count;
    }
    while (n < count && bytes[n] != '\n' && bytes[n] != '\r' &&
           bytes[n] != (unsigned char)t->delimiter) {
        n++;
    }
    return n;
}

static bp_status give_piece(table *t, const unsigned char *bytes, size_t count, event *what)
{
    BP_TRY(check_bytes(t, bytes, count));
    for (size_t i = 0; t->quoted && i < count; i++) {
        t->feeds += bytes[i] == '\n' ? 1 : 0;
    }
    t->piece = (const char *)bytes;
    t->count = count;
    t->offset += count;
    t->in_row = true;
    t->in_field = true;
    *what = EVENT_PIECE;
    return BP_OK;
}

static bp_status end_field(table *t, uint64_t bytes, event which, event *what)
{
    if (t->utf8 != 0) {
        return bp_data_refuse(t->reader, "the text is not UTF-8: a character is cut short");
    }
    t->offset += bytes;
    t->in_row = which == EVENT_FIELD;
    t->in_field = false;
    t->feeds += which == EVENT_ROW && bytes > 0 ? 1 : 0;
    *what = which;
    return BP_OK;
}

/* At a quote inside quotes: doubled it means itself, else the field ends behind it. */
static bp_status at_quote(table *t, bool *closed)
{
    int next;
    BP_TRY(peek(t, 1, &next));
    *closed = next != '"';
    if (!*closed) {
        t->offset++; /* the second one is content */
        return BP_OK;
    }
    t->offset++;
    t->quoted = false;
    if (next >= 0 && next != t->delimiter && next != '\n' && next != '\r') {
        return bp_data_refuse(t->reader, "text follows a closing quote");
    }
    return BP_OK;
}

/* At a byte that is no plain content, outside quotes. */
static bp_status at_mark(table *t, const unsigned char *bytes, event *what)
{
    if (*bytes == (unsigned char)t->delimiter) {
        return end_field(t, 1, EVENT_FIELD, what);
    }
    if (*bytes == '\n') {
        return end_field(t, 1, EVENT_ROW, what);
    }
    int next;
    BP_TRY(peek(t, 1, &next));
    if (next == '\n') {
        return end_field(t, 2, EVENT_ROW, what);
    }
    const unsigned char *again;
    size_t count;
    BP_TRY(bp_data_look(t->reader, t->offset, &again, &count));
    return give_piece(t, again, 1, what); /* a CR by itself is content */
}

static bp_status next_event(table *t, event *what)
{
    for (;;) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(t->reader, t->offset, &bytes, &count));
        if (count == 0 && t->quoted) {
            return bp_data_refuse(t->reader, "a quoted field has no end");
        }
        if (count == 0) {
            *what = EVENT_END;
            return t->in_row ? end_field(t, 0, EVENT_ROW, what) : BP_OK;
        }
        if (!t->quoted && t->quotes && !t->in_field && *bytes == '"') {
            t->quoted = true;
            t->in_field = true;
            t->in_row = true;
            t->offset++;
            continue;
        }
        size_t n = plain_run(t, bytes, count);
        if (n > 0) {
            return give_piece(t, bytes, n, what);
        }
        if (!t->quoted) {
            return at_mark(t, bytes, what);
        }
        bool closed;
        BP_TRY(at_quote(t, &closed));
        if (!closed) {
            BP_TRY(bp_data_look(t->reader, t->offset, &bytes, &count));
            return give_piece(t, bytes, 1, what);
        }
    }
}

/* The names of the first row, as far as they fit. */
typedef struct names {
    char text[COLUMNS_MAX][LABEL_BYTES];
    size_t length[COLUMNS_MAX];
} names;

static bool is_name(const names *n, uint32_t column, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strlen(*list) == n->length[column] &&
            memcmp(*list, n->text[column], n->length[column]) == 0) {
            return true;
        }
    }
    return false;
}

static void choose_columns(table *t, const names *n)
{
    static const char *const labels[] = {"label", "labels", NULL};
    static const char *const texts[] = {"text", "sentence", "content", NULL};
    t->label_column = NO_COLUMN;
    t->text_column = NO_COLUMN;
    for (uint32_t i = 0; i < t->columns; i++) {
        bool label = t->label_column == NO_COLUMN && is_name(n, i, labels);
        bool text = t->text_column == NO_COLUMN && is_name(n, i, texts);
        t->label_column = label ? i : t->label_column;
        t->text_column = text ? i : t->text_column;
    }
    bool other = t->label_column != NO_COLUMN && t->text_column == NO_COLUMN && t->columns == 2;
    t->text_column = other ? 1 - t->label_column : t->text_column;
}

static bp_status read_names(table *t, names *n)
{
    event what = EVENT_PIECE;
    memset(n, 0, sizeof *n);
    t->columns = 0;
    while (what != EVENT_ROW && what != EVENT_END) {
        BP_TRY(next_event(t, &what));
        bool ended = what == EVENT_FIELD || what == EVENT_ROW;
        if (what == EVENT_PIECE && t->columns < COLUMNS_MAX) {
            size_t have = n->length[t->columns];
            size_t fits = LABEL_BYTES - have < t->count ? LABEL_BYTES - have : t->count;
            memcpy(n->text[t->columns] + have, t->piece, fits);
            n->length[t->columns] = have + fits;
        }
        t->columns += ended ? 1 : 0;
    }
    if (t->columns > COLUMNS_MAX) {
        return bp_data_refuse_numbers(t->reader, "the table has more columns than can be",
                                      t->columns, COLUMNS_MAX);
    }
    return BP_OK;
}

/* Blank lines in front of the first row are passed over. */
static bp_status skip_blank(table *t)
{
    int byte;
    BP_TRY(peek(t, 0, &byte));
    while (byte == '\n' || byte == '\r') {
        t->feeds += byte == '\n' ? 1 : 0;
        t->offset++;
        BP_TRY(peek(t, 0, &byte));
    }
    t->reader->line = t->feeds + 1;
    return BP_OK;
}

/* Finds out which columns there are, and leaves the table at its first row of content. */
static bp_status read_heading(table *t, names *n)
{
    BP_TRY(skip_blank(t));
    uint64_t first = t->offset;
    uint64_t feeds = t->feeds;
    BP_TRY(read_names(t, n));
    if (t->columns == 0) {
        return BP_OK;
    }
    choose_columns(t, n);
    if (t->label_column != NO_COLUMN && t->text_column == NO_COLUMN) {
        return bp_data_refuse(t->reader, "the table has a column `label` but none named `text`, "
                                         "`sentence` or `content`");
    }
    if (t->label_column == NO_COLUMN) {
        if (t->columns != 2) {
            return bp_data_refuse_numbers(t->reader,
                                          "a table without names of its columns has two, label "
                                          "and text",
                                          t->columns, 2);
        }
        t->label_column = 0;
        t->text_column = 1;
        t->offset = first;
        t->feeds = feeds;
    }
    return BP_OK;
}

static bp_status take_piece(table *t, uint32_t column)
{
    bp_documents *documents = t->documents;
    if (column == t->text_column) {
        return documents->piece(documents->user, BP_PART_TEXT, t->piece, t->count);
    }
    if (column == t->label_column) {
        if (t->count > LABEL_BYTES - t->label_length) {
            return bp_data_refuse(t->reader, "the label is not a number");
        }
        memcpy(t->label + t->label_length, t->piece, t->count);
        t->label_length += t->count;
    }
    return BP_OK;
}

static bp_status read_row(table *t)
{
    bp_documents *documents = t->documents;
    uint32_t column = 0;
    event what = EVENT_PIECE;
    t->label_length = 0;
    BP_TRY(documents->begin(documents->user, t->reader));
    while (what != EVENT_ROW) {
        BP_TRY(next_event(t, &what));
        if (what == EVENT_END) {
            return bp_data_refuse(t->reader, "the file changed while it was read");
        }
        if (what == EVENT_PIECE) {
            BP_TRY(take_piece(t, column));
        }
        column += what != EVENT_PIECE ? 1 : 0;
    }
    if (column != t->columns) {
        return bp_data_refuse_numbers(t->reader, "the row has another number of fields", column,
                                      t->columns);
    }
    uint64_t label;
    BP_TRY(bp_documents_label(documents, t->reader, t->label, t->label_length, &label));
    return documents->end(documents->user, label);
}

bp_status bp_documents_table(bp_documents *documents, bp_data_reader *reader, char delimiter,
                             void *scratch)
{
    table t = {.documents = documents,
               .reader = reader,
               .delimiter = delimiter,
               .quotes = delimiter == ','};
    if (documents->form != BP_FORM_LABELLED) {
        return bp_data_refuse(reader, "a table holds labels, which this task does not learn (give "
                                      "--data-format text if it is text)");
    }
    BP_TRY(bp_data_mark(reader, &t.offset));
    BP_TRY(read_heading(&t, scratch));
    BP_TRY(skip_blank(&t));
    while (t.offset < reader->size) {
        BP_TRY(read_row(&t));
        BP_TRY(skip_blank(&t));
    }
    return BP_OK;
}
