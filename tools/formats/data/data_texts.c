/* SPDX-License-Identifier: MIT */
/* Rows of texts. A row is read once to see what it has, and once more for each text, in the order
 * of their meaning, whatever their order in the row; so nothing of it is kept. */
#include "tools/formats/data/data_texts.h"

#include <string.h>

#include "core/base/number.h"
#include "tools/formats/files/data_array.h"
#include "tools/formats/files/data_records.h"
#include "tools/formats/files/data_table.h"

enum { SCORE = BP_TEXTS_MAX, PASSED_OVER, NAME_BYTES = 32, COLUMN_BYTES = 64, COLUMNS_MAX = 64 };

static const char *const first_names[] = {"anchor",    "query", "question", "sentence1", "premise",
                                          "question1", "text",  "sentence", "content",   NULL};
static const char *const second_names[] = {"positive",  "answer",    "passage",
                                           "document",  "sentence2", "hypothesis",
                                           "question2", "text_pair", NULL};
static const char *const score_names[] = {"score", "similarity_score", "label", NULL};

/* What a row has, by meaning: texts 0 .., and a score. */
typedef struct texts_row {
    bool has[SCORE + 1];
    uint64_t score;
} texts_row;

/* negative, or negative_N */
static uint32_t texts_negative(const char *name, size_t length)
{
    static const char word[] = "negative";
    const size_t bytes = sizeof word - 1;
    if (length < bytes || memcmp(name, word, bytes) != 0) {
        return PASSED_OVER;
    }
    if (length == bytes) {
        return 2;
    }
    const bool one = length == bytes + 2 && name[bytes] == '_';
    const uint32_t number = one ? (uint32_t)(unsigned char)name[bytes + 1] - '0' : 0;
    return number >= 1 && number + 1 < BP_TEXTS_MAX ? number + 1 : PASSED_OVER;
}

static bool texts_asked(const char *asked, const char *name, size_t length)
{
    const char *const list[] = {asked, NULL};
    return asked != NULL && bp_column_named(list, name, length);
}

static uint32_t texts_usual(const char *name, size_t length)
{
    return bp_column_named(first_names, name, length)    ? 0
           : bp_column_named(second_names, name, length) ? 1
           : bp_column_named(score_names, name, length)  ? SCORE
                                                         : texts_negative(name, length);
}

/* What was asked for as the text is the first one, and as the label the score. */
static uint32_t texts_meaning(const bp_documents *documents, const char *name, size_t length)
{
    const bp_data_reading *reading = &documents->reading;
    const uint32_t usual = texts_usual(name, length);
    const bool other = (usual == 0 && reading->text_column != NULL) ||
                       (usual == SCORE && reading->label_column != NULL);
    return texts_asked(reading->text_column, name, length)    ? 0
           : texts_asked(reading->label_column, name, length) ? SCORE
           : other                                            ? PASSED_OVER
                                                              : usual;
}

static void texts_show(bp_documents *documents, uint32_t meaning, uint32_t number, const char *name,
                       size_t length)
{
    if (meaning <= 1 || meaning == SCORE) {
        bp_row_columns_set(&documents->columns,
                           meaning == SCORE ? BP_COLUMN_LABEL
                           : meaning == 1   ? BP_COLUMN_SECOND
                                            : BP_COLUMN_TEXT,
                           number, name, length);
    }
}

static bp_status texts_note(bp_data_reader *reader, texts_row *row, uint32_t meaning)
{
    if (row->has[meaning]) {
        return bp_data_refuse(reader, "two fields name the same text, or the score");
    }
    row->has[meaning] = true;
    return BP_OK;
}

static bp_status texts_score(bp_data_reader *reader, const char *text, size_t length,
                             uint64_t *score)
{
    bp_number number;
    if (bp_number_parse(text, length, &number) != BP_OK) {
        return bp_data_refuse_word(reader, "the score is not a number", text, length);
    }
    const float value = (float)number.real;
    uint32_t bits;
    if (!(value - value == 0.0f)) {
        return bp_data_refuse(reader, "the score is beyond single precision");
    }
    memcpy(&bits, &value, sizeof bits);
    *score = bits;
    return BP_OK;
}

/* How many texts the row has: as many as those before it. A score is that of two texts. */
static bp_status texts_check(bp_documents *documents, bp_data_reader *reader, texts_row *row)
{
    uint32_t count = 0, last = 0;
    while (count < BP_TEXTS_MAX && row->has[count]) {
        count++;
    }
    for (uint32_t i = 0; i < BP_TEXTS_MAX; i++) {
        last = row->has[i] ? i + 1 : last;
    }
    if (count == 0) {
        return bp_data_refuse(reader, "the row has no first text: none of its fields is `anchor`, "
                                      "`query`, `question`, `sentence1`, `text`, `sentence` .. "
                                      "(--text-column names another)");
    }
    if (count < last) {
        return bp_data_refuse(reader, "the row has a further text, but lacks one before it: "
                                      "`anchor`, `positive`, `negative`");
    }
    row->has[SCORE] = row->has[SCORE] && count == 2;
    return bp_documents_texts(documents, reader, count, row->has[SCORE]);
}

static bp_status texts_begin(bp_documents *documents, bp_data_reader *reader)
{
    const char *prompt = documents->prompt;
    BP_TRY(documents->begin(documents->user, reader));
    return prompt != NULL && prompt[0] != '\0'
               ? documents->piece(documents->user, BP_PART_TEXT, prompt, strlen(prompt))
               : BP_OK;
}

static bp_status texts_end(bp_documents *documents, const texts_row *row, uint32_t text)
{
    return documents->end(documents->user, text == 0 && row->has[SCORE] ? row->score : BP_NO_LABEL);
}

/* A text of a JSON object; the reader stands before its value. */
static bp_status json_text(bp_documents *documents, bp_json *json, bool wanted)
{
    bp_json_event event;
    do {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
            return bp_json_refuse(json, "a text is a string, not anything else");
        }
        if (wanted && event.length > 0) {
            BP_TRY(documents->piece(documents->user, BP_PART_TEXT, event.text, event.length));
        }
    } while (event.kind == BP_JSON_TEXT_PART);
    return BP_OK;
}

/* The value of a field: of the survey (text PASSED_OVER), or the text that is wanted. */
static bp_status json_field(bp_documents *documents, bp_record_span *span, texts_row *row,
                            uint32_t meaning, uint32_t text)
{
    bp_json_event event;
    if (meaning == PASSED_OVER || (text != PASSED_OVER && meaning != text)) {
        return bp_json_skip(&span->json);
    }
    if (text == PASSED_OVER) {
        BP_TRY(texts_note(span->reader, row, meaning));
    }
    if (meaning != SCORE) {
        return json_text(documents, &span->json, meaning == text);
    }
    BP_TRY(bp_json_next(&span->json, &event));
    if (event.kind != BP_JSON_NUMBER) {
        return bp_json_refuse(&span->json, "the score is not a number");
    }
    return texts_score(span->reader, event.text, event.length, &row->score);
}

/* One reading of an object. */
static bp_status json_read(bp_documents *documents, bp_record_span *span, texts_row *row,
                           uint32_t text)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&span->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&span->json, "a line of JSON lines is an object ({...})");
    }
    BP_TRY(bp_json_next(&span->json, &event));
    while (event.kind == BP_JSON_KEY) {
        const uint32_t meaning = texts_meaning(documents, event.text, event.length);
        texts_show(documents, meaning, 0, event.text, event.length);
        BP_TRY(json_field(documents, span, row, meaning, text));
        BP_TRY(bp_json_next(&span->json, &event));
    }
    return bp_json_next(&span->json, &event); /* nothing may follow */
}

/* Errors of the JSON reader get the line and the file. */
static bp_status json_named(bp_record_span *span, bp_status status)
{
    if (status != BP_OK && span->json.status != BP_OK && status != BP_ERR_STORE) {
        bp_data_name_position(span->reader);
        span->reader->error->code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    return status;
}

/* The object in these bytes of the file. */
static bp_status json_row(bp_documents *documents, bp_data_reader *reader, uint64_t start,
                          uint64_t end, void *scratch)
{
    bp_record_span span = {.reader = reader};
    texts_row row = {.score = BP_NO_LABEL};
    BP_TRY(bp_record_span_begin(&span, start, end, scratch));
    BP_TRY(json_named(&span, json_read(documents, &span, &row, PASSED_OVER)));
    BP_TRY(texts_check(documents, reader, &row));
    for (uint32_t i = 0; i < documents->texts; i++) {
        BP_TRY(texts_begin(documents, reader));
        BP_TRY(bp_record_span_begin(&span, start, end, scratch));
        BP_TRY(json_named(&span, json_read(documents, &span, &row, i)));
        BP_TRY(texts_end(documents, &row, i));
    }
    return BP_OK;
}

/* Whether there is nothing but white space in these bytes. */
static bp_status is_blank(bp_data_reader *reader, uint64_t start, uint64_t end, bool *blank)
{
    *blank = true;
    while (*blank && start < end) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(reader, start, &bytes, &count));
        for (size_t i = 0; i < count && start < end; i++, start++) {
            *blank = *blank && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r');
        }
    }
    return BP_OK;
}

static bp_status json_rows(bp_documents *documents, bp_data_reader *reader, void *scratch)
{
    bp_data_array array;
    bool is_array, more = true, blank = false;
    uint64_t start, end;
    reader->line = 0;
    BP_TRY(bp_data_mark(reader, &start));
    BP_TRY(bp_data_array_begin(reader, start, &array, &is_array));
    while (is_array) {
        BP_TRY(bp_data_array_next(reader, &array, &more));
        if (!more) {
            return BP_OK;
        }
        BP_TRY(json_row(documents, reader, array.start, array.end, scratch));
        if (documents->first_only) {
            return BP_OK;
        }
    }
    reader->line = 0;
    for (; start < reader->size; start = end + 1) {
        reader->line++;
        BP_TRY(bp_data_line_end(reader, start, &end));
        BP_TRY(is_blank(reader, start, end, &blank));
        if (!blank) {
            BP_TRY(json_row(documents, reader, start, end, scratch));
        }
        if (!blank && documents->first_only) {
            return BP_OK;
        }
    }
    return BP_OK;
}

/* A table with the meanings of its columns. */
typedef struct texts_table {
    bp_documents *documents;
    bp_table table;
    uint32_t columns;
    uint32_t meaning[COLUMNS_MAX];
    texts_row row; /* the same in all rows, but for the score */
    char score[NAME_BYTES];
    size_t score_bytes;
} texts_table;

/* One more column of the first row, called so. */
static bp_status table_name(texts_table *t, const char *name, size_t length)
{
    if (t->columns == COLUMNS_MAX) {
        return bp_data_refuse_most(t->table.reader, "the table has more columns than can be",
                                   COLUMNS_MAX + 1, COLUMNS_MAX);
    }
    const uint32_t meaning =
        length < COLUMN_BYTES ? texts_meaning(t->documents, name, length) : PASSED_OVER;
    texts_show(t->documents, meaning, t->columns, name, length);
    t->meaning[t->columns++] = meaning;
    return meaning == PASSED_OVER ? BP_OK : texts_note(t->table.reader, &t->row, meaning);
}

static bp_status table_heading(texts_table *t)
{
    bp_table_event what = BP_TABLE_PIECE;
    char name[COLUMN_BYTES];
    size_t length = 0;
    while (what != BP_TABLE_ROW && what != BP_TABLE_END) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_PIECE) {
            const size_t room = COLUMN_BYTES - length;
            const size_t fits = t->table.count < room ? t->table.count : room;
            memcpy(name + length, t->table.piece, fits);
            length += fits;
        } else if (what != BP_TABLE_END) {
            BP_TRY(table_name(t, name, length));
            length = 0;
        }
    }
    return texts_check(t->documents, t->table.reader, &t->row);
}

/* A piece of a field: of the score in the survey, else of the text that is wanted. */
static bp_status table_piece(texts_table *t, uint32_t meaning, uint32_t text)
{
    bp_documents *documents = t->documents;
    if (meaning == SCORE && text == PASSED_OVER && t->row.has[SCORE]) {
        if (t->table.count > NAME_BYTES - t->score_bytes) {
            return bp_data_refuse(t->table.reader, "the score is too long to be one");
        }
        memcpy(t->score + t->score_bytes, t->table.piece, t->table.count);
        t->score_bytes += t->table.count;
    }
    return meaning == text && text != PASSED_OVER
               ? documents->piece(documents->user, BP_PART_TEXT, t->table.piece, t->table.count)
               : BP_OK;
}

/* One reading of a row. */
static bp_status table_read(texts_table *t, uint32_t text)
{
    bp_table_event what = BP_TABLE_PIECE;
    uint32_t column = 0;
    while (what != BP_TABLE_ROW) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_END) {
            return bp_data_refuse(t->table.reader, "the file changed while it was read");
        }
        if (what == BP_TABLE_PIECE && column < t->columns) {
            BP_TRY(table_piece(t, t->meaning[column], text));
        }
        column += what != BP_TABLE_PIECE ? 1 : 0;
    }
    return column == t->columns
               ? BP_OK
               : bp_data_refuse_numbers(t->table.reader, "the row has another number of fields",
                                        column, t->columns);
}

static bp_status table_row(texts_table *t)
{
    const bp_table start = t->table;
    bp_table end;
    t->score_bytes = 0;
    BP_TRY(table_read(t, PASSED_OVER));
    end = t->table;
    if (t->row.has[SCORE]) {
        BP_TRY(texts_score(t->table.reader, t->score, t->score_bytes, &t->row.score));
    }
    for (uint32_t i = 0; i < t->documents->texts; i++) {
        t->table = start;
        BP_TRY(texts_begin(t->documents, t->table.reader));
        BP_TRY(table_read(t, i));
        BP_TRY(texts_end(t->documents, &t->row, i));
    }
    t->table = end;
    return BP_OK;
}

static bp_status table_rows(bp_documents *documents, bp_data_reader *reader, char delimiter)
{
    texts_table t = {
        .documents = documents,
        .table = {.reader = reader, .delimiter = delimiter, .quotes = delimiter == ','}};
    BP_TRY(bp_table_begin(&t.table));
    BP_TRY(bp_table_skip_blank(&t.table));
    if (bp_table_ended(&t.table)) {
        return BP_OK;
    }
    BP_TRY(table_heading(&t));
    BP_TRY(bp_table_skip_blank(&t.table));
    while (!bp_table_ended(&t.table)) {
        BP_TRY(table_row(&t));
        BP_TRY(bp_table_skip_blank(&t.table));
        if (documents->first_only) {
            break;
        }
    }
    return BP_OK;
}

/* Bytes start .. end - 1 of the file, without a CR before the line feed. */
static bp_status text_line(bp_documents *documents, bp_data_reader *reader, uint64_t start,
                           uint64_t end)
{
    const texts_row row = {.has = {true}};
    BP_TRY(texts_begin(documents, reader));
    while (start < end) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(reader, start, &bytes, &count));
        count = end - start < count ? (size_t)(end - start) : count;
        const bool last = start + count == end && bytes[count - 1] == '\r';
        if (count > (last ? 1 : 0)) {
            BP_TRY(documents->piece(documents->user, BP_PART_TEXT, (const char *)bytes,
                                    count - (last ? 1 : 0)));
        }
        start += count;
    }
    return texts_end(documents, &row, 0);
}

static bp_status text_rows(bp_documents *documents, bp_data_reader *reader)
{
    uint64_t start, end;
    reader->line = 0;
    BP_TRY(bp_data_mark(reader, &start));
    for (; start < reader->size; start = end + 1) {
        reader->line++;
        BP_TRY(bp_data_line_end(reader, start, &end));
        BP_TRY(bp_documents_texts(documents, reader, 1, false));
        BP_TRY(text_line(documents, reader, start, end));
    }
    return BP_OK;
}

bp_status bp_documents_rows(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch)
{
    bp_row_columns_begin(&documents->columns, &documents->reading);
    if (documents->reading.no_header && format != BP_DATA_JSONL && format != BP_DATA_TEXT) {
        return bp_data_refuse(reader, "the columns of rows of texts are known by their names: "
                                      "--no-header is for labels and texts");
    }
    switch (format) {
    case BP_DATA_JSONL:
        return json_rows(documents, reader, scratch);
    case BP_DATA_TSV:
        return table_rows(documents, reader, '\t');
    case BP_DATA_CSV:
        return table_rows(documents, reader, ',');
    default:
        return text_rows(documents, reader);
    }
}
