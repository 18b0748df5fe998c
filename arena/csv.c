/* SPDX-License-Identifier: MIT */
/* Planner instances as CSV: reading and checking. */
#include "arena/csv.h"

#include "arena/csv_line.h"

#include <string.h>

/* What a header may call a column. `refused` ones are known and not supported. */
typedef enum csv_meaning {
    MEANS_ID,
    MEANS_LOWER,
    MEANS_UPPER,
    MEANS_SIZE,
    MEANS_END,
    MEANS_REFUSED,
    MEANS_NOTHING
} csv_meaning;

static const struct {
    const char *name;
    csv_meaning meaning;
} csv_names[] = {
    {"id", MEANS_ID},          {"buffer", MEANS_ID},         {"buffer_id", MEANS_ID},
    {"lower", MEANS_LOWER},    {"begin", MEANS_LOWER},       {"start", MEANS_LOWER},
    {"upper", MEANS_UPPER},    {"end", MEANS_END},           {"size", MEANS_SIZE},
    {"offset", MEANS_REFUSED}, {"alignment", MEANS_REFUSED}, {"gaps", MEANS_REFUSED},
};

static const char *const csv_columns[BP_CSV_COLUMNS] = {"id", "lower", "upper", "size"};

bool csv_line_next(const bp_csv *csv, csv_line *line)
{
    while (line->next < csv->length) {
        const char *start = csv->text + line->next;
        size_t left = csv->length - line->next;
        const char *end = memchr(start, '\n', left);
        size_t length = end == NULL ? left : (size_t)(end - start);
        line->next += length + (end == NULL ? 0 : 1);
        line->number++;
        while (length > 0 && (start[length - 1] == '\r' || start[length - 1] == ' ')) {
            length--;
        }
        line->text = start;
        line->length = length;
        if (length > 0) {
            return true;
        }
    }
    return false;
}

void csv_line_first(const bp_csv *csv, csv_line *line)
{
    bool mark = csv->length >= 3 && memcmp(csv->text, "\xef\xbb\xbf", 3) == 0;
    *line = (csv_line){.next = mark ? 3 : 0};
}

bool csv_field_at(const csv_line *line, uint32_t index, csv_field *field)
{
    size_t start = 0;
    for (uint32_t i = 0;; i++) {
        size_t end = start;
        while (end < line->length && line->text[end] != ',') {
            end++;
        }
        if (i == index) {
            while (start < end && line->text[start] == ' ') {
                start++;
            }
            size_t stop = end;
            while (stop > start && line->text[stop - 1] == ' ') {
                stop--;
            }
            *field = (csv_field){line->text + start, stop - start};
            return true;
        }
        if (end == line->length) {
            return false;
        }
        start = end + 1;
    }
}

static bp_status csv_fail(bp_csv_error *error, uint64_t line, const char *column, const char *text)
{
    *error = (bp_csv_error){.line = line, .column = column, .text = text};
    return BP_ERR_DATA;
}

static csv_meaning csv_meaning_of(const csv_field *field, const char **name)
{
    for (size_t i = 0; i < sizeof csv_names / sizeof csv_names[0]; i++) {
        *name = csv_names[i].name;
        if (strlen(*name) == field->length && memcmp(*name, field->text, field->length) == 0) {
            return csv_names[i].meaning;
        }
    }
    return MEANS_NOTHING;
}

static bp_status csv_header(bp_csv *csv, const csv_line *line, bp_csv_error *error)
{
    csv_field field;
    for (uint32_t i = 0; i < BP_CSV_COLUMNS; i++) {
        csv->place[i] = UINT32_MAX;
    }
    for (csv->fields = 0; csv_field_at(line, csv->fields, &field); csv->fields++) {
        const char *name;
        csv_meaning meaning = csv_meaning_of(&field, &name);
        if (meaning == MEANS_NOTHING) {
            continue;
        }
        if (meaning == MEANS_REFUSED) {
            return csv_fail(error, line->number, name, "this column is not supported");
        }
        if (meaning == MEANS_END) {
            csv->inclusive = true;
            meaning = MEANS_UPPER;
        }
        if (csv->place[meaning] != UINT32_MAX) {
            return csv_fail(error, line->number, csv_columns[meaning],
                            "this column is named twice");
        }
        csv->place[meaning] = csv->fields;
    }
    for (uint32_t i = 0; i < BP_CSV_COLUMNS; i++) {
        if (csv->place[i] == UINT32_MAX) {
            return csv_fail(error, line->number, csv_columns[i], "the header lacks this column");
        }
    }
    return BP_OK;
}

bp_status bp_csv_open(bp_csv *csv, const char *text, size_t length, bp_csv_error *error)
{
    *csv = (bp_csv){.text = text, .length = length};
    *error = (bp_csv_error){.column = "", .text = ""};
    csv_line line;
    csv_line_first(csv, &line);
    if (!csv_line_next(csv, &line)) {
        return csv_fail(error, 0, "", "the file is empty; a header line is needed");
    }
    BP_TRY(csv_header(csv, &line, error));
    uint64_t rows = 0;
    while (csv_line_next(csv, &line)) {
        rows++;
        if (rows == UINT32_MAX) {
            return csv_fail(error, line.number, "", "more rows than can be planned");
        }
    }
    csv->rows = (uint32_t)rows;
    return BP_OK;
}

/* A whole number of at most `most`; NULL, or what is wrong with it. */
static const char *csv_number(const csv_field *field, uint64_t most, uint64_t *value)
{
    *value = 0;
    if (field->length == 0) {
        return "a number is missing";
    }
    for (size_t i = 0; i < field->length; i++) {
        char digit = field->text[i];
        if (digit < '0' || digit > '9') {
            return "not a whole number";
        }
        *value = bp_size_add(bp_size_mul(*value, 10), (uint64_t)(digit - '0'));
    }
    return *value > most ? "the number is too large" : NULL;
}

/* Reads the number of a column that is known to be there. */
static bp_status csv_value(const bp_csv *csv, const csv_line *line, bp_csv_column column,
                           uint64_t *value, bp_csv_error *error)
{
    /* Sizes may be anything below what their sum may be; times must fit 32 bits after the end was
     * made exclusive. */
    uint64_t most = UINT32_MAX - (column == BP_CSV_UPPER && csv->inclusive ? 1 : 0);
    most = column == BP_CSV_SIZE ? ((uint64_t)1 << 62) - 1 : most;
    csv_field field;
    (void)csv_field_at(line, csv->place[column], &field);
    const char *wrong = csv_number(&field, most, value);
    return wrong == NULL ? BP_OK : csv_fail(error, line->number, csv_columns[column], wrong);
}

static bp_status csv_row(const bp_csv *csv, const csv_line *line, bp_interval *buffer,
                         bp_csv_error *error)
{
    csv_field field;
    if (csv_field_at(line, csv->fields, &field)) {
        return csv_fail(error, line->number, "", "more fields than the header names");
    }
    if (!csv_field_at(line, csv->fields - 1, &field)) {
        return csv_fail(error, line->number, "", "fewer fields than the header names");
    }
    (void)csv_field_at(line, csv->place[BP_CSV_ID], &field);
    if (field.length == 0) {
        return csv_fail(error, line->number, "id", "the id is empty");
    }
    uint64_t lower;
    uint64_t upper;
    *buffer = (bp_interval){.offset = 0};
    BP_TRY(csv_value(csv, line, BP_CSV_LOWER, &lower, error));
    BP_TRY(csv_value(csv, line, BP_CSV_UPPER, &upper, error));
    BP_TRY(csv_value(csv, line, BP_CSV_SIZE, &buffer->size, error));
    upper += csv->inclusive ? 1 : 0;
    if (lower > upper) {
        return csv_fail(error, line->number, "upper", "the lifetime ends before it begins");
    }
    buffer->lower = (uint32_t)lower;
    buffer->upper = (uint32_t)upper;
    return BP_OK;
}

bp_status bp_csv_read(const bp_csv *csv, bp_interval *buffers, bp_csv_error *error)
{
    csv_line line;
    csv_line_first(csv, &line);
    (void)csv_line_next(csv, &line);
    uint64_t sum = 0;
    for (uint32_t row = 0; row < csv->rows; row++) {
        (void)csv_line_next(csv, &line);
        BP_TRY(csv_row(csv, &line, &buffers[row], error));
        sum += buffers[row].size;
        if (sum >= (uint64_t)1 << 62) {
            return csv_fail(error, line.number, "size", "the sizes add up to 2^62 bytes or more");
        }
    }
    return BP_OK;
}
