/* SPDX-License-Identifier: MIT */
/* Labels by name, each kept once. */
#include "tools/formats/data/label_survey.h"

#include <string.h>

#include "core/base/number.h"
#include "core/base/sort.h"
#include "tools/formats/data/data_documents.h"

enum { WINDOW_BYTES = BP_LABEL_SURVEY_SCRATCH - BP_DOCUMENTS_SCRATCH };

bp_status bp_label_survey_take(bp_label_survey *s, bp_data_reader *reader, const char *text,
                               size_t length)
{
    bp_class_names *names = s->names;
    bp_number number;
    uint32_t known;
    if (bp_number_parse(text, length, &number) == BP_OK) {
        s->numbers = names->count == 0; /* that is known now, and reading ends */
        return bp_data_refuse_word(reader, "the label is a number, and those before it are names",
                                   text, length);
    }
    if (length == 0 || memchr(text, '\0', length) != NULL) {
        return bp_data_refuse(reader, "the label is empty, or has a NUL in it");
    }
    if (bp_class_names_find(names, text, length, &known)) {
        return BP_OK;
    }
    if (names->count == BP_CLASS_NAMES_MAX || length >= BP_CLASS_NAMES_TEXT - names->used) {
        return bp_data_refuse_word(reader,
                                   "the data has more names of labels than a model can have: is "
                                   "this column the label?",
                                   text, length);
    }
    memcpy(names->text + names->used, text, length);
    names->text[names->used + length] = '\0';
    names->start[names->count++] = names->used;
    names->used += (uint32_t)length + 1;
    return BP_OK;
}

/* Names by where they begin, of which no two are the same. */
static bool survey_before(const void *text, uint32_t a, uint32_t b)
{
    return strcmp((const char *)text + a, (const char *)text + b) < 0;
}

static bp_status survey_files(bp_label_survey *s, const bp_data *data, bp_documents *documents,
                              void *scratch, bp_error *error)
{
    for (uint32_t i = 0; i < data->file_count; i++) {
        bp_data_reader reader = {.store = data->store,
                                 .file = data->files[i].file,
                                 .path = data->files[i].path,
                                 .buffer = (unsigned char *)scratch + BP_DOCUMENTS_SCRATCH,
                                 .capacity = WINDOW_BYTES,
                                 .error = error};
        BP_TRY(bp_data_reader_begin(&reader));
        BP_TRY(bp_documents_read(documents, &reader, data->format, scratch));
    }
    bp_order(s->names->start, s->names->count, survey_before, s->names->text);
    return BP_OK;
}

bp_status bp_label_survey_read(bp_label_survey *s, const bp_data *data, bp_labels labels,
                               void *scratch)
{
    bp_documents documents = {.user = s,
                              .form = BP_FORM_LABELLED,
                              .labels = labels,
                              .classes = 1, /* so that bits are classes, not floats */
                              .reading = s->reading,
                              .survey = s};
    bp_error error = {.code = BP_OK};
    s->names->count = 0;
    s->names->used = 0;
    s->numbers = false;
    bp_status status = survey_files(s, data, &documents, scratch, &error);
    if (status == BP_OK || s->numbers) {
        return BP_OK;
    }
    if (data->error != NULL && data->error->code == BP_OK) {
        *data->error = error;
    }
    return status;
}
