/* SPDX-License-Identifier: MIT */
/* Names of columns. */
#include "tools/formats/data/data_columns.h"

#include <string.h>

/* Ranks of names: what was asked for, letter by letter or without case; what a row of this kind
 * calls it in any case; what many data sets call it. */
enum { RANK_EXACT, RANK_ASKED, RANK_USUAL, RANK_OTHER, RANK_NONE };

static const char *const first_names[] = {"text", "sentence1", "premise", "question1", NULL};
static const char *const second_names[] = {"text_pair", "sentence2", "hypothesis", "question2",
                                           NULL};
static const char *const other_names[] = {
    "sentence", "content",   "review",      "body",     "document", "comment", "message",
    "tweet",    "post",      "article",     "passage",  "question", "query",   "utterance",
    "input",    "full_text", "description", "headline", NULL};
static const char *const label_names[] = {"label", "labels", NULL};
static const char *const other_label_names[] = {
    "class",    "category", "sentiment", "target", "classes", "categories", "targets",
    "intent",   "emotion",  "topic",     "rating", "stars",   "polarity",   "score",
    "class_id", "label_id", "gold",      "y",      "tag",     "tags",       NULL};
static const char *const number_label_names[] = {"label", "labels",  "target", "targets",
                                                 "class", "classes", NULL};
static const char *const question_names[] = {"question", "query", NULL};
static const char *const sentence_names[] = {"sentence", "content", "passage", "document", NULL};

/* As names are compared. */
static char column_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == ' ' || c == '-' ? '_' : c;
}

static void column_trim(const char **name, size_t *length)
{
    while (*length > 0 && (**name == ' ' || **name == '\t')) {
        ++*name;
        --*length;
    }
    while (*length > 0 && ((*name)[*length - 1] == ' ' || (*name)[*length - 1] == '\t')) {
        --*length;
    }
}

static bool column_alike(const char *right, const char *name, size_t length)
{
    size_t i = 0;
    column_trim(&name, &length);
    while (i < length && right[i] != '\0' && column_letter(right[i]) == column_letter(name[i])) {
        i++;
    }
    return i == length && right[i] == '\0';
}

bool bp_column_named(const char *const *list, const char *name, size_t length)
{
    while (*list != NULL && !column_alike(*list, name, length)) {
        list++;
    }
    return *list != NULL;
}

bool bp_column_is_label(const char *name, size_t length)
{
    return bp_column_named(label_names, name, length) ||
           bp_column_named(other_label_names, name, length);
}

void bp_data_reading_key(const bp_data_reading *reading, bp_digest *key)
{
    const char *names[] = {reading->text_column, reading->label_column};
    const unsigned char form[] = {reading->no_header ? 1 : 0, (unsigned char)reading->label_form};
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[i] != NULL ? names[i] : "";
        bp_digest_add(key, name, strlen(name) + 1);
    }
    bp_digest_add(key, form, sizeof form);
}

void bp_row_columns_begin(bp_row_columns *columns, const bp_data_reading *reading)
{
    *columns = (bp_row_columns){.reading = reading, .named = !reading->no_header};
    for (uint32_t i = 0; i < BP_COLUMN_ROLES; i++) {
        columns->of[i].number = BP_NO_COLUMN;
        columns->of[i].rank = RANK_NONE;
    }
}

/* How good a name is that somebody asked for. */
static uint32_t rank_asked(const char *asked, const char *name, size_t length)
{
    const bool exact = strlen(asked) == length && memcmp(asked, name, length) == 0;
    return exact ? RANK_EXACT : column_alike(asked, name, length) ? RANK_ASKED : RANK_NONE;
}

static uint32_t rank_listed(const char *const *usual, const char *const *other, const char *name,
                            size_t length)
{
    return bp_column_named(usual, name, length)   ? RANK_USUAL
           : bp_column_named(other, name, length) ? RANK_OTHER
                                                  : RANK_NONE;
}

/* How good a name is for a role. What is asked for as the one is never the other. */
static uint32_t rank_of(const bp_row_columns *columns, bp_column_role role, const char *name,
                        size_t length)
{
    static const char *const none[] = {NULL};
    const bp_data_reading *reading = columns->reading;
    const char *text = reading->text_column, *label = reading->label_column;
    const bool is_text = text != NULL && rank_asked(text, name, length) < RANK_NONE;
    const bool is_label = label != NULL && rank_asked(label, name, length) < RANK_NONE;
    const char *asked = role == BP_COLUMN_TEXT ? text : role == BP_COLUMN_LABEL ? label : NULL;
    if (asked != NULL) {
        return rank_asked(asked, name, length);
    }
    if (is_text || is_label || reading->no_header) {
        return RANK_NONE;
    }
    switch (role) {
    case BP_COLUMN_TEXT:
        return rank_listed(first_names, other_names, name, length);
    case BP_COLUMN_SECOND:
        return rank_listed(second_names, none, name, length);
    case BP_COLUMN_LABEL:
        return columns->numbers ? rank_listed(number_label_names, none, name, length)
                                : rank_listed(label_names, other_label_names, name, length);
    case BP_COLUMN_QUESTION:
        return rank_listed(question_names, none, name, length);
    default:
        return rank_listed(sentence_names, none, name, length);
    }
}

void bp_row_columns_set(bp_row_columns *columns, bp_column_role role, uint32_t number,
                        const char *name, size_t length)
{
    bp_row_column *column = &columns->of[role];
    column_trim(&name, &length);
    length = length < BP_COLUMN_NAME ? length : BP_COLUMN_NAME;
    column->number = number;
    memcpy(column->name, name, length);
    column->name[length] = '\0';
}

/* A column's number as it is asked for, from 1 on. */
static size_t write_number(uint32_t number, char to[16])
{
    char digits[16];
    size_t count = 0, length = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        to[length++] = digits[--count];
    }
    return length;
}

void bp_row_columns_take(bp_row_columns *columns, const char *name, size_t length)
{
    char number[16];
    if (columns->reading->no_header) {
        length = write_number(columns->count + 1, number);
        name = number;
    }
    for (uint32_t i = 0; i < BP_COLUMN_ROLES && length <= BP_COLUMN_NAME; i++) {
        const uint32_t rank = rank_of(columns, (bp_column_role)i, name, length);
        bp_row_column *column = &columns->of[i];
        if (rank < column->rank) {
            bp_row_columns_set(columns, (bp_column_role)i, columns->count, name, length);
            column->rank = rank;
            column->alike = 0;
        } else if (rank < RANK_NONE && rank == column->rank) {
            column->alike++;
        }
    }
    columns->count++;
}

bool bp_row_columns_has(const bp_row_columns *columns, bp_column_role role)
{
    return columns->of[role].number != BP_NO_COLUMN;
}

/* A question with a sentence is a pair. */
static void resolve_question(bp_row_columns *columns)
{
    const bp_row_column *question = &columns->of[BP_COLUMN_QUESTION];
    const bp_row_column *sentence = &columns->of[BP_COLUMN_SENTENCE];
    bp_row_column *text = &columns->of[BP_COLUMN_TEXT];
    if (text->rank == RANK_OTHER && text->alike == 1 &&
        !bp_row_columns_has(columns, BP_COLUMN_SECOND) && question->number != BP_NO_COLUMN &&
        question->alike == 0 && sentence->number != BP_NO_COLUMN && sentence->alike == 0) {
        columns->of[BP_COLUMN_SECOND] = *sentence;
        *text = *question; /* whose rank is that of a usual name */
    }
}

/* Two names of one meaning. */
static bp_status refuse_alike(const bp_row_columns *columns, const bp_row_column *column,
                              bp_data_reader *reader)
{
    return bp_data_refuse_word(reader,
                               columns->object
                                   ? "the line has two fields that could be the label, or name "
                                     "the same text (--label-column and --text-column select one)"
                                   : "the table has two columns that could be the label, or the "
                                     "text (--label-column and --text-column select one)",
                               column->name, strlen(column->name));
}

bp_status bp_row_columns_end(bp_row_columns *columns, bp_data_reader *reader)
{
    const char *asked[BP_COLUMN_LABEL + 1] = {[BP_COLUMN_TEXT] = columns->reading->text_column,
                                              [BP_COLUMN_LABEL] = columns->reading->label_column};
    resolve_question(columns);
    if (bp_row_columns_has(columns, BP_COLUMN_SECOND) &&
        columns->of[BP_COLUMN_TEXT].rank == RANK_OTHER) {
        columns->of[BP_COLUMN_TEXT].number = BP_NO_COLUMN; /* not the first of a pair */
        columns->of[BP_COLUMN_TEXT].alike = 0;
    }
    for (uint32_t i = 0; i <= BP_COLUMN_LABEL; i++) {
        const bp_row_column *column = &columns->of[i];
        if (asked[i] != NULL && column->number == BP_NO_COLUMN) {
            return bp_data_refuse_word(reader,
                                       i == BP_COLUMN_TEXT
                                           ? "the data has no column that --text-column names"
                                           : "the data has no column that --label-column names",
                                       asked[i], strlen(asked[i]));
        }
        if (column->alike > 0) {
            return refuse_alike(columns, column, reader);
        }
    }
    return BP_OK;
}
