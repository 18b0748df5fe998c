/* SPDX-License-Identifier: MIT */
/* Columns of data, as they are asked for and as they are said. */
#include "tools/bedplate/sources/data_reading.h"

#include <stdio.h>
#include <string.h>

#include "tools/bedplate/sources/data_tokenised.h"
#include "tools/bedplate/app/options.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/files/data_records.h"
#include "tools/bedplate/app/output.h"

static const char where[] = "data";

bp_data_reading data_reading(const settings *set)
{
    const char *form = set->label_form;
    return (bp_data_reading){.text_column = set->text_column,
                             .label_column = set->label_column,
                             .no_header = set->no_header,
                             .label_form = strcmp(form, "multi-hot") == 0 ? BP_LABEL_FORM_MULTI_HOT
                                           : strcmp(form, "classes") == 0 ? BP_LABEL_FORM_CLASSES
                                                                          : BP_LABEL_FORM_FOUND};
}

bp_status data_reading_check(session *s, const data_files *files)
{
    const settings *set = s->set;
    const bp_data_format format = files->data.format;
    const bp_task task = s->spec.config.task;
    const bool json = format == BP_DATA_JSONL;
    const bool table = format == BP_DATA_CSV || format == BP_DATA_TSV;
    const bool listed = format == BP_DATA_FOLDER, words = task == BP_TASK_TOKENS;
    const bool bare = task == BP_TASK_RECONSTRUCTION;
    const bool rows = data_learns_rows(&s->spec.config) || task == BP_TASK_EMBEDDING;
    const bool preferences = s->spec.preference.kind != BP_PREFERENCE_NONE;
    const bool texts = task != BP_TASK_ANSWERS && !preferences && s->spec.config.vocabulary > 0;
    const bool text_column = texts && (json || (table && rows));
    const bool label_column = (rows && (json || table || listed) && !bare) || (words && json);
    const char *wrong = set->text_column != NULL && !text_column       ? "--text-column"
                        : set->label_column != NULL && !label_column   ? "--label-column"
                        : set->no_header && !(rows && table) && !words ? "--no-header"
                        : option_said(set, "label-form") && task != BP_TASK_LABELS ? "--label-form"
                                                                                   : NULL;
    return wrong == NULL || format == BP_DATA_TOKENS
               ? BP_OK
               : bp_error_set(&s->error, BP_ERR_USAGE, where,
                              "the option says nothing about data of this format and task", wrong);
}

/* ` text in column 2 "review"` */
static void put_column(char *line, size_t room, const char *what, const bp_row_columns *columns,
                       bp_column_role role, bool table)
{
    const bp_row_column *column = &columns->of[role];
    const size_t length = strlen(line);
    char place[32] = "";
    if (column->number == BP_NO_COLUMN) {
        return;
    }
    if (table) {
        snprintf(place, sizeof place, " column %u", column->number + 1);
    }
    snprintf(line + length, room - length, "%s %s in%s", length > 0 ? "," : "", what, place);
    if (!table || columns->named) {
        const size_t used = strlen(line);
        snprintf(line + used, room - used, " \"%s\"", column->name);
    }
}

/* One line on stderr, unless it is the same as before. */
static void say_line(const char *path, const char *line, char *before, size_t room)
{
    if (strcmp(line, before) != 0) {
        output_print(stderr, "bedplate: %s:%s\n", path, line);
        snprintf(before, room, "%s", line);
    }
}

enum { LINE = 512 };

static void put_columns(char *line, const bp_row_columns *columns, const bp_documents *documents,
                        bool table)
{
    line[0] = '\0';
    put_column(line, LINE, "text", columns, BP_COLUMN_TEXT, table);
    if (documents->texts > 1) {
        put_column(line, LINE, "second text", columns, BP_COLUMN_SECOND, table);
    }
    if (!documents->lacks) {
        put_column(line, LINE, documents->form == BP_FORM_TEXTS ? "score" : "label", columns,
                   BP_COLUMN_LABEL, table);
    }
    const size_t used = strlen(line);
    snprintf(line + used, LINE - used, "%s%s",
             documents->lacks && documents->form == BP_FORM_LABELLED ? ", no label" : "",
             table && !columns->named ? ", no header" : "");
}

static bp_status reading_begin(void *user, bp_data_reader *reader)
{
    (void)user;
    (void)reader;
    return BP_OK;
}

static bp_status reading_piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    (void)user;
    (void)part;
    (void)bytes;
    (void)count;
    return BP_OK;
}

static bp_status reading_end(void *user, uint64_t label)
{
    (void)user;
    (void)label;
    return BP_OK;
}

static uint64_t reading_scratch[(BP_DOCUMENTS_SCRATCH + 65536) / 8];

static bp_data_reader reading_reader(const data_files *files, uint32_t file, bp_error *error)
{
    return (bp_data_reader){.store = files->data.store,
                            .file = files->data.files[file].file,
                            .path = files->data.files[file].path,
                            .buffer = (unsigned char *)reading_scratch + BP_DOCUMENTS_SCRATCH,
                            .capacity = sizeof reading_scratch - BP_DOCUMENTS_SCRATCH,
                            .error = error};
}

static bp_documents documents_of(const session *s)
{
    const bp_model_config *config = &s->spec.config;
    const bool texts = config->task == BP_TASK_EMBEDDING;
    return (bp_documents){.begin = reading_begin,
                          .piece = reading_piece,
                          .end = reading_end,
                          .form = texts ? BP_FORM_TEXTS : BP_FORM_LABELLED,
                          .labels = bp_feed_labels(config->task),
                          .classes = config->task == BP_TASK_REGRESSION ? 0 : config->classes,
                          .names = &s->names,
                          .may_lack = s->set->predictions != NULL,
                          .reading = data_reading(s->set),
                          .first_only = true};
}

bp_status data_reading_say(session *s, const data_files *files)
{
    const bp_data *data = &files->data;
    const bool table = data->format == BP_DATA_CSV || data->format == BP_DATA_TSV;
    const bool rows = data_learns_rows(&s->spec.config) || s->spec.config.task == BP_TASK_EMBEDDING;
    char line[LINE], before[LINE] = "";
    if (!rows || !(table || data->format == BP_DATA_JSONL)) {
        return BP_OK;
    }
    for (uint32_t i = 0; i < data->file_count; i++) {
        bp_documents documents = documents_of(s);
        bp_data_reader reader = reading_reader(files, i, &s->error);
        BP_TRY(bp_data_reader_begin(&reader));
        BP_TRY(bp_documents_read(&documents, &reader, data->format, reading_scratch));
        put_columns(line, &documents.columns, &documents, table);
        say_line(reader.path, line, before, sizeof before);
    }
    return BP_OK;
}

bp_status data_reading_say_numbers(const data_files *files, const bp_numbers *work)
{
    char line[LINE], before[LINE] = "";
    const bp_data_format format = files->data.format;
    const bool table = format == BP_DATA_CSV || format == BP_DATA_TSV || format == BP_DATA_FOLDER;
    for (uint32_t i = 0; table && !work->bare && i < files->data.file_count; i++) {
        bp_row_columns columns;
        BP_TRY(bp_numbers_columns(work, i, &columns));
        line[0] = '\0';
        put_column(line, sizeof line, "label", &columns, BP_COLUMN_LABEL, true);
        const size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s", columns.named ? "" : ", no header");
        say_line(files->data.files[i].path, line, before, sizeof before);
    }
    return BP_OK;
}

/* ---- what a row is ---- */

enum {
    KEYS_LABEL,
    KEYS_WORDS,
    KEYS_TAGS,
    KEYS_QUESTION,
    KEYS_CONTEXT,
    KEYS_CHOSEN,
    KEYS_REJECTED,
    KEYS_PROMPT,
    KEYS_COMPLETION,
    KEYS
};

/* Which of these keys the first object of a file has. What cannot be read has none: the reader of
 * the task says what is wrong with it. */
static void reading_keys(const data_files *files, uint32_t file, bool has[KEYS])
{
    static const char *const names[KEYS][4] = {[KEYS_LABEL] = {"label", "labels"},
                                               [KEYS_WORDS] = {"tokens", "words"},
                                               [KEYS_TAGS] = {"ner_tags", "tags", "labels"},
                                               [KEYS_QUESTION] = {"question"},
                                               [KEYS_CONTEXT] = {"context"},
                                               [KEYS_CHOSEN] = {"chosen"},
                                               [KEYS_REJECTED] = {"rejected"},
                                               [KEYS_PROMPT] = {"prompt"},
                                               [KEYS_COMPLETION] = {"completion"}};
    bp_error unheard = {.code = BP_OK};
    bp_data_reader reader = reading_reader(files, file, &unheard);
    bp_records records;
    bp_json_event event = {.kind = BP_JSON_END};
    bool there = false;
    memset(has, 0, KEYS * sizeof *has);
    bp_status status = bp_data_reader_begin(&reader);
    status = status == BP_OK ? bp_records_begin(&records, &reader, reading_scratch) : status;
    status = status == BP_OK ? bp_records_next(&records, &there) : status;
    status = status == BP_OK && there ? bp_json_next(&records.span.json, &event) : status;
    while (status == BP_OK && event.kind == BP_JSON_KEY) {
        for (uint32_t i = 0; i < KEYS; i++) {
            has[i] = has[i] || bp_column_named(names[i], event.text, event.length);
        }
        status = bp_json_skip(&records.span.json);
        status = status == BP_OK ? bp_json_next(&records.span.json, &event) : status;
    }
}

bp_status data_reading_ignored(session *s, const data_files *files)
{
    const bp_labels kind = bp_feed_labels(s->spec.config.task);
    const bool learns = (kind == BP_LABELS_NEXT_TOKEN || kind == BP_LABELS_MASKED) &&
                        s->spec.preference.kind == BP_PREFERENCE_NONE;
    for (uint32_t i = 0;
         learns && files->data.format == BP_DATA_JSONL && i < files->data.file_count; i++) {
        bool has[KEYS];
        reading_keys(files, i, has);
        if (has[KEYS_LABEL]) {
            output_print(stderr,
                         "bedplate: %s: rows have labels, which a language model does not learn "
                         "(--task classification, regression or kto learn them)\n",
                         files->data.files[i].path);
        }
    }
    return BP_OK;
}

typedef struct reading_most {
    uint64_t label;
} reading_most;

static bp_status reading_note(void *user, uint64_t label)
{
    reading_most *most = user;
    most->label = label > most->label ? label : most->label;
    return BP_OK;
}

/* Whether files can be read so; `all` of them, or the first row. */
static bool reading_can(const data_files *files, bp_documents documents, bool all)
{
    bp_status status = BP_OK;
    documents.first_only = !all;
    for (uint32_t i = 0; status == BP_OK && i < (all ? files->data.file_count : 1); i++) {
        bp_error unheard = {.code = BP_OK};
        bp_data_reader reader = reading_reader(files, i, &unheard);
        status = bp_data_reader_begin(&reader);
        status = status == BP_OK
                     ? bp_documents_read(&documents, &reader, files->data.format, reading_scratch)
                     : status;
    }
    return status == BP_OK;
}

/* Labelled rows, as classes by number, numbers, lists or names. */
static const char *reading_labelled(session *s, const data_files *files, uint32_t *classes)
{
    static bp_class_names names;
    reading_most most = {0};
    bp_label_survey survey = {.names = &names};
    bp_documents documents = documents_of(s);
    documents.form = BP_FORM_LABELLED;
    documents.may_lack = false;
    documents.names = NULL;
    documents.user = &most;
    documents.end = reading_note;
    documents.labels = BP_LABELS_CLASS;
    documents.classes = BP_CLASS_NAMES_MAX;
    if (reading_can(files, documents, true)) {
        *classes = (uint32_t)most.label + 1;
        return "classification";
    }
    documents.labels = BP_LABELS_BITS;
    documents.classes = 0;
    if (reading_can(files, documents, true)) {
        return "regression";
    }
    names.count = names.used = 0;
    documents.survey = &survey;
    documents.labels = BP_LABELS_CLASS;
    documents.classes = 1;
    if (reading_can(files, documents, false)) {
        return "classification";
    }
    documents.labels = BP_LABELS_BITS;
    return reading_can(files, documents, false) ? "multi-label-classification" : NULL;
}

bp_status data_reading_task(session *s, const data_files *files, const char **task,
                            uint32_t *classes)
{
    const bp_data_format format = files->data.format;
    bool has[KEYS] = {false};
    *task = "auto";
    *classes = 0;
    if (format != BP_DATA_JSONL && format != BP_DATA_CSV && format != BP_DATA_TSV) {
        return BP_OK;
    }
    if (format == BP_DATA_JSONL) {
        reading_keys(files, 0, has);
    }
    const bool prompt = has[KEYS_PROMPT] && has[KEYS_COMPLETION];
    const char *named = has[KEYS_CHOSEN] && has[KEYS_REJECTED]    ? "dpo"
                        : prompt && has[KEYS_LABEL]               ? "kto"
                        : prompt                                  ? "auto"
                        : has[KEYS_WORDS] && has[KEYS_TAGS]       ? "token-classification"
                        : has[KEYS_QUESTION] && has[KEYS_CONTEXT] ? "question-answering"
                                                                  : NULL;
    bp_documents texts = documents_of(s);
    texts.form = BP_FORM_TEXTS;
    const char *labelled = named == NULL ? reading_labelled(s, files, classes) : NULL;
    bool pairs = named == NULL && labelled == NULL && reading_can(files, texts, false);
    *task = named != NULL ? named : labelled != NULL ? labelled : *task;
    if (pairs) { /* texts alone are a language model's */
        texts.texts = 1;
        texts.lacks = true;
        pairs = !reading_can(files, texts, false);
    }
    *task = pairs ? "embedding" : *task;
    return BP_OK;
}
