/* SPDX-License-Identifier: MIT */
/* Which reader a format has, plain text, and labels. */
#include "tools/formats/data/data_documents.h"

#include <string.h>

#include "core/base/number.h"
#include "tools/formats/data/data_texts.h"

const char *const bp_documents_first_names[] = {"text", "sentence1", "premise", "question1", NULL};
const char *const bp_documents_second_names[] = {"text_pair", "sentence2", "hypothesis",
                                                 "question2", NULL};

bool bp_documents_named(const char *const *list, const char *name, size_t length)
{
    while (*list != NULL && (strlen(*list) != length || memcmp(*list, name, length) != 0)) {
        list++;
    }
    return *list != NULL;
}

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

bp_status bp_documents_read(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch)
{
    if (documents->form == BP_FORM_TEXTS) {
        return bp_documents_rows(documents, reader, format, scratch);
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

static bp_status data_documents_class_of(const bp_documents *documents, bp_data_reader *reader,
                                         const char *text, size_t length, uint64_t *class)
{
    bp_number number;
    uint32_t named;
    if (documents->survey != NULL) {
        *class = 0;
        return bp_label_survey_take(documents->survey, reader, text, length);
    }
    if (bp_number_parse(text, length, &number) != BP_OK) {
        if (bp_class_names_find(documents->names, text, length, &named)) {
            *class = named;
            return BP_OK;
        }
        return bp_data_refuse_word(reader,
                                   "the label is neither a number nor the name of a class that "
                                   "the model's id2label has",
                                   text, length);
    }
    if (!number.integer) {
        return bp_data_refuse_word(reader, "the label is not a whole number", text, length);
    }
    if (number.i64 < 0 || number.i64 >= (int64_t)documents->classes) {
        return bp_data_refuse_numbers(reader, "the label is no class of the model", number.i64,
                                      (int64_t)documents->classes - 1);
    }
    *class = (uint64_t)number.i64;
    return BP_OK;
}

bp_status bp_documents_class(const bp_documents *documents, bp_data_reader *reader,
                             const char *text, size_t length, uint64_t *mask)
{
    uint64_t class = 0;
    BP_TRY(data_documents_class_of(documents, reader, text, length, &class));
    *mask |= (uint64_t)1 << (class & 31);
    return BP_OK;
}

static bp_status mask_of(const bp_documents *documents, bp_data_reader *reader, const char *text,
                         size_t length, uint64_t *mask)
{
    *mask = 0;
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && text[end] != ' ') {
            end++;
        }
        if (end > at) {
            BP_TRY(bp_documents_class(documents, reader, text + at, end - at, mask));
        }
        at = end + 1;
    }
    return BP_OK;
}

bp_status bp_documents_label(const bp_documents *documents, bp_data_reader *reader,
                             const char *text, size_t length, uint64_t *label)
{
    if (documents->labels != BP_LABELS_BITS) {
        return data_documents_class_of(documents, reader, text, length, label);
    }
    if (documents->classes > 0) {
        return mask_of(documents, reader, text, length, label);
    }
    bp_number number;
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

bool bp_documents_is_label(const bp_documents *documents, bp_data_reader *reader, const char *text,
                           size_t length)
{
    bp_error unheard = {.code = BP_OK};
    bp_data_reader quiet = *reader;
    uint64_t label;
    if (documents->survey != NULL) {
        return length > 0 && length < BP_DOCUMENTS_LABEL; /* nothing else is known yet */
    }
    quiet.error = &unheard;
    return bp_documents_label(documents, &quiet, text, length, &label) == BP_OK;
}
