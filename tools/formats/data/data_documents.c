/* SPDX-License-Identifier: MIT */
/* Which reader a format has, plain text, and labels. */
#include "tools/formats/data/data_documents.h"

#include <string.h>

#include "core/base/number.h"
#include "tools/formats/data/data_texts.h"

bp_status bp_documents_texts(bp_documents *documents, bp_data_reader *reader, uint32_t texts,
                             bool label)
{
    if (documents->texts != 0 && documents->lacks == label) {
        return bp_data_refuse(reader,
                              "what comes before is otherwise: all texts must have labels, or "
                              "none of them");
    }
    documents->lacks = !label;
    if (documents->texts != 0 && documents->texts != texts) {
        return bp_data_refuse(reader,
                              "what comes before has another number of texts: all must have "
                              "one, or all a pair");
    }
    documents->texts = texts;
    return BP_OK;
}

static bp_status data_documents_read_text(bp_documents *documents, bp_data_reader *reader)
{
    uint64_t offset;
    if (documents->form == BP_FORM_LABELLED) {
        return bp_data_refuse(reader, "plain text has no labels; give a table of labels and texts");
    }
    if (documents->form == BP_FORM_PROMPT) {
        return bp_data_refuse(reader, "the files before this one hold prompts and completions");
    }
    documents->form = BP_FORM_TEXT;
    BP_TRY(bp_data_mark(reader, &offset));
    if (offset == reader->size) {
        return BP_OK;
    }
    BP_TRY(documents->begin(documents->user, reader));
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    while (count > 0) {
        BP_TRY(documents->piece(documents->user, BP_PART_TEXT, (const char *)bytes, count));
        offset += count;
        BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    }
    return documents->end(documents->user, 0);
}

static bp_status documents_no_begin(void *user, bp_data_reader *reader)
{
    (void)user;
    (void)reader;
    return BP_OK;
}

static bp_status documents_no_piece(void *user, bp_document_part part, const char *bytes,
                                    size_t count)
{
    (void)user;
    (void)part;
    (void)bytes;
    (void)count;
    return BP_OK;
}

static bp_status documents_no_end(void *user, uint64_t label)
{
    (void)user;
    (void)label;
    return BP_OK;
}

bp_status bp_documents_read(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch)
{
    documents->begin = documents->begin != NULL ? documents->begin : documents_no_begin;
    documents->piece = documents->piece != NULL ? documents->piece : documents_no_piece;
    documents->end = documents->end != NULL ? documents->end : documents_no_end;
    if (documents->form == BP_FORM_TEXTS) {
        return bp_documents_rows(documents, reader, format, scratch);
    }
    if (documents->hears && (format == BP_DATA_TSV || format == BP_DATA_CSV)) {
        return bp_documents_spoken_table(documents, reader, format == BP_DATA_TSV ? '\t' : ',');
    }
    switch (format) {
    case BP_DATA_JSONL:
        return bp_documents_json(documents, reader, scratch);
    case BP_DATA_TSV:
        return bp_documents_table(documents, reader, '\t', scratch);
    case BP_DATA_CSV:
        return bp_documents_table(documents, reader, ',', scratch);
    default:
        return data_documents_read_text(documents, reader);
    }
}

static bp_status number_of(bp_data_reader *reader, const char *text, size_t length,
                           bp_number *number)
{
    bp_status status = bp_number_parse(text, length, number);
    return status == BP_OK ? BP_OK
                           : bp_data_refuse_word(reader, "the label is not a number", text, length);
}

bool bp_documents_whole(const bp_number *number, int64_t *value)
{
    const double most = 9007199254740992.0; /* 2^53 */
    if (number->integer) {
        *value = number->i64;
        return true;
    }
    return bp_number_whole(number->real, -most, most, value);
}

static bp_status class_in_range(const bp_documents *documents, bp_data_reader *reader,
                                int64_t number, uint64_t *class)
{
    if (number < 0 || number >= (int64_t)documents->classes) {
        bp_status status =
            bp_error_limit(reader->error, BP_ERR_DATA, "data", "the label is no class of the model",
                           "", number, number < 0 ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
                           number < 0 ? 0 : (int64_t)documents->classes - 1);
        bp_data_name_position(reader);
        return status;
    }
    *class = (uint64_t)number;
    return BP_OK;
}

bool bp_documents_listed(const char *text, size_t length)
{
    bool digits = false;
    uint32_t numbers = 0;
    for (size_t i = 0; i < length; i++) {
        const bool digit = text[i] >= '0' && text[i] <= '9';
        const bool between = memchr(" ,;|", text[i], 4) != NULL;
        if (!digit && !between && text[i] != '.') {
            return length >= 2 && text[0] == '[' && text[length - 1] == ']';
        }
        numbers += digit && !digits ? 1 : 0;
        digits = (digits || digit) && !between;
    }
    return numbers > 1;
}

/* What Python, numpy and JSON print for a truth: 1 or 0, as in an array of JSON; NULL: it is none.
 */
static const char *printed_truth(const char *text, size_t length)
{
    const bool yes = length == 4 && (memcmp(text, "True", 4) == 0 || memcmp(text, "true", 4) == 0);
    const bool no = length == 5 && (memcmp(text, "False", 5) == 0 || memcmp(text, "false", 5) == 0);
    return yes ? "1.0" : no ? "0.0" : NULL;
}

/* Whether a text is a list and no name: not so one word in brackets, as [INST]. */
static bool documents_only_list(const char *text, size_t length)
{
    const char *word = text + 1;
    if (!bp_documents_listed(text, length) || length < 3 || text[0] != '[') {
        return bp_documents_listed(text, length);
    }
    const bool letter = (word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z');
    bool parts = !letter || printed_truth(word, length - 2) != NULL;
    for (size_t i = 0; i < length - 2; i++) {
        parts = parts || memchr(" ,;|\t\r\n", word[i], 7) != NULL;
    }
    return parts;
}

static bp_status data_documents_class_of(const bp_documents *documents, bp_data_reader *reader,
                                         const char *text, size_t length, uint64_t *class)
{
    bp_number number;
    uint32_t named;
    int64_t value;
    if (documents_only_list(text, length) &&
        !bp_class_names_find(documents->names, text, length, &named)) {
        return bp_data_refuse_word(reader,
                                   "the label is a list written as one text, which --task "
                                   "multi-label-classification reads in brackets, as [a, b]",
                                   text, length);
    }
    if (documents->survey != NULL) {
        *class = 0;
        return bp_label_survey_take(documents->survey, reader, text, length);
    }
    if (bp_number_parse(text, length, &number) != BP_OK) {
        if (bp_class_names_find(documents->names, text, length, &named)) {
            *class = named;
            return BP_OK;
        }
        const bp_status status =
            bp_data_refuse_word(reader,
                                "the label is neither a number nor the name of a class that "
                                "the model's id2label has",
                                text, length);
        bp_error_right(reader->error, "one of its classes, or in training another --num-labels, "
                                      "which makes a new head for so many classes of the data");
        return status;
    }
    if (!bp_documents_whole(&number, &value)) {
        return bp_data_refuse_word(reader, "the label is not a whole number", text, length);
    }
    return class_in_range(documents, reader, value, class);
}

bp_status bp_documents_list_take(bp_documents *documents, bp_data_reader *reader, const char *text,
                                 size_t length, bp_label_list *list)
{
    bp_number number;
    uint64_t class = 0;
    const bool numeric =
        documents->survey == NULL && bp_number_parse(text, length, &number) == BP_OK;
    if (numeric && (number.real == 0.0 || number.real == 1.0)) {
        class = number.real == 1.0 ? 1 : 0; /* which may be none of the model's: see the end */
        list->hot |= list->count < 64 ? class << list->count : 0;
        list->fractions += number.integer ? 0 : 1;
    } else {
        list->others = true;
        BP_TRY(data_documents_class_of(documents, reader, text, length, &class));
    }
    list->twice = list->twice || (list->classes >> (class & 31) & 1) != 0;
    list->classes |= (uint64_t)1 << (class & 31);
    list->count++;
    return BP_OK;
}

/* Whether a list is multi-hot, as far as it can be known. */
static bp_status list_form(const bp_documents *documents, bp_data_reader *reader,
                           const bp_label_list *list, bp_label_form *form)
{
    const uint32_t classes = documents->classes;
    const bool full = list->count == classes && !list->others;
    const bool written = list->count > 0 && list->fractions == list->count;
    const bool only = written || list->twice || list->classes >> classes != 0;
    *form = documents->reading.label_form;
    if (*form == BP_LABEL_FORM_MULTI_HOT && !full) {
        return bp_data_refuse_numbers(reader,
                                      "a multi-hot label has a 0 or 1 for each class of the model",
                                      list->count, classes);
    }
    if (*form != BP_LABEL_FORM_FOUND) {
        return BP_OK;
    }
    if (!full && !list->others && list->count > 1 && (written || list->twice)) {
        return bp_data_refuse_numbers(reader,
                                      "the label looks multi-hot, with another number of 0 and 1 "
                                      "than the model has classes (--num-labels, or --label-form "
                                      "classes)",
                                      list->count, classes);
    }
    if (full && !only) {
        return bp_data_refuse(reader, "the label could be multi-hot or a list of classes: "
                                      "--label-form multi-hot, or classes, decides");
    }
    *form = full ? BP_LABEL_FORM_MULTI_HOT : BP_LABEL_FORM_CLASSES;
    return BP_OK;
}

bp_status bp_documents_list_end(bp_documents *documents, bp_data_reader *reader,
                                const bp_label_list *list, uint64_t *mask)
{
    bp_label_form form;
    uint64_t class;
    *mask = list->classes;
    if (documents->survey != NULL) {
        return BP_OK;
    }
    BP_TRY(list_form(documents, reader, list, &form));
    if (documents->found != BP_LABEL_FORM_FOUND && documents->found != form) {
        return bp_data_refuse(reader, "some labels are multi-hot and some lists of classes: "
                                      "--label-form decides");
    }
    documents->found = form;
    if (form == BP_LABEL_FORM_MULTI_HOT) {
        *mask = list->hot;
        return BP_OK;
    }
    return list->classes >> documents->classes != 0 ? class_in_range(documents, reader, 1, &class)
                                                    : BP_OK;
}

/* A list in a table: separated by spaces, or in brackets as Python prints lists and numpy arrays:
 * by commas if one stands outside quotes, else by white space, its members perhaps quoted. */
typedef struct label_members {
    const char *text;
    size_t length, at;
    bool brackets, commas;
    const char *member;
    size_t count;
    char quoted[BP_DOCUMENTS_LABEL]; /* a member without quotes and backslashes */
} label_members;

static bool is_blank(const label_members *m, size_t at)
{
    return at < m->length && memchr(" \t\r\n", m->text[at], m->brackets ? 4 : 1) != NULL;
}

static bool is_quote(char byte)
{
    return byte == '"' || byte == '\'';
}

static label_members members_begin(const char *text, size_t length)
{
    const bool brackets = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    label_members m = {.text = brackets ? text + 1 : text,
                       .length = brackets ? length - 2 : length,
                       .brackets = brackets};
    char quote = '\0';
    for (size_t i = 0; brackets && i < m.length; i++) {
        const char byte = m.text[i];
        if (quote != '\0') {
            i += byte == '\\' ? 1 : 0;
            quote = byte == quote ? '\0' : quote;
        } else if (is_quote(byte) && (i == 0 || is_blank(&m, i - 1))) {
            quote = byte;
        } else {
            m.commas = m.commas || byte == ',';
        }
    }
    return m;
}

/* A member in quotes, which a backslash gives a quote or a backslash. */
static bp_status take_quoted(label_members *m, bp_data_reader *reader)
{
    const char quote = m->text[m->at++];
    m->member = m->quoted;
    m->count = 0;
    for (; m->at < m->length && m->text[m->at] != quote; m->at++) {
        const bool escapes = m->text[m->at] == '\\' && m->at + 1 < m->length &&
                             (is_quote(m->text[m->at + 1]) || m->text[m->at + 1] == '\\');
        m->at += escapes ? 1 : 0;
        if (m->count == sizeof m->quoted) {
            return bp_data_refuse(reader, "the label is too long to be one");
        }
        m->quoted[m->count++] = m->text[m->at];
    }
    if (m->at == m->length) {
        return bp_data_refuse_word(reader, "a quote in a list of labels is not closed", m->text,
                                   m->length);
    }
    m->at++;
    return BP_OK;
}

/* A member without quotes, of which 0. and 1. lose their point. */
static void take_plain(label_members *m)
{
    m->member = m->text + m->at;
    while (m->at < m->length && (m->commas ? m->text[m->at] != ',' : !is_blank(m, m->at))) {
        m->at++;
    }
    size_t end = m->at;
    while (end > 0 && is_blank(m, end - 1) && m->text + end > m->member) {
        end--;
    }
    m->count = (size_t)(m->text + end - m->member);
    const bool point = m->brackets && m->count > 1 && m->text[end - 1] == '.' &&
                       m->text[end - 2] >= '0' && m->text[end - 2] <= '9';
    m->count -= point ? 1 : 0;
    const char *truth = m->brackets ? printed_truth(m->member, m->count) : NULL;
    m->member = truth != NULL ? truth : m->member;
    m->count = truth != NULL ? 3 : m->count;
}

static bp_status next_member(label_members *m, bp_data_reader *reader, bool *there)
{
    while (is_blank(m, m->at)) {
        m->at++;
    }
    *there = m->at < m->length;
    if (!*there) {
        return BP_OK;
    }
    const bool quoted = m->brackets && is_quote(m->text[m->at]);
    if (quoted) {
        BP_TRY(take_quoted(m, reader));
    } else {
        take_plain(m);
    }
    const size_t end = m->at;
    while (is_blank(m, m->at)) {
        m->at++;
    }
    if (quoted && m->at < m->length && (m->commas ? m->text[m->at] != ',' : m->at == end)) {
        return bp_data_refuse_word(reader,
                                   m->commas ? "a comma is missing behind a quoted label of a list"
                                             : "a space is missing behind a quoted label of a list",
                                   m->text, m->length);
    }
    if (m->count == 0) {
        return bp_data_refuse_word(reader, "a label of a list is empty", m->text, m->length);
    }
    m->at += m->commas && m->at < m->length ? 1 : 0;
    return BP_OK;
}

static bp_status mask_of(bp_documents *documents, bp_data_reader *reader, const char *text,
                         size_t length, uint64_t *mask)
{
    bp_label_list list = {.count = 0};
    label_members m = members_begin(text, length);
    bool there;
    BP_TRY(next_member(&m, reader, &there));
    while (there) {
        uint32_t named;
        bool other = false; /* which would make one name of several */
        for (size_t i = 0; !m.brackets && i < m.count; i++) {
            other = other || memchr(",;|", m.member[i], 3) != NULL;
        }
        if (other && !bp_class_names_find(documents->names, m.member, m.count, &named)) {
            return bp_data_refuse_word(reader,
                                       "a list of labels in a table is separated by spaces, or "
                                       "stands in brackets, as [a, b]",
                                       m.member, m.count);
        }
        BP_TRY(bp_documents_list_take(documents, reader, m.member, m.count, &list));
        BP_TRY(next_member(&m, reader, &there));
    }
    return bp_documents_list_end(documents, reader, &list, mask);
}

bp_status bp_documents_label(bp_documents *documents, bp_data_reader *reader, const char *text,
                             size_t length, uint64_t *label)
{
    const char *first = text;
    size_t count = length;
    bp_number number;
    for (; count > 0 && *first == ' '; count--) {
        first++;
    }
    while (count > 0 && first[count - 1] == ' ') {
        count--;
    }
    if (bp_number_parse(first, count, &number) == BP_OK) { /* a number with spaces around it */
        text = first;
        length = count;
    }
    if (documents->labels != BP_LABELS_BITS) {
        return data_documents_class_of(documents, reader, text, length, label);
    }
    if (documents->classes > 0) {
        return mask_of(documents, reader, text, length, label);
    }
    BP_TRY(number_of(reader, text, length, &number));
    float value = (float)number.real;
    uint32_t bits;
    if (!(value - value == 0.0f)) {
        return bp_data_refuse(reader, "the label is beyond single precision");
    }
    memcpy(&bits, &value, sizeof bits);
    *label = bits;
    return BP_OK;
}
