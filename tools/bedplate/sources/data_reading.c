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
#include "tools/bedplate/models/model_table.h"

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
                              "the option has no effect on data of this format and task", wrong);
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
    const bool texts = config->task == BP_TASK_EMBEDDING && !model_sees(config);
    return (bp_documents){.form = texts ? BP_FORM_TEXTS : BP_FORM_LABELLED,
                          .labels = bp_feed_labels(config->task),
                          .classes = model_task_is_number(config->task) ? 0 : config->classes,
                          .names = &s->names,
                          .may_lack = s->set->predictions != NULL,
                          .reading = data_reading(s->set),
                          .sources = s->spec.source > 0,
                          .hears = model_hears(config) || model_sees(config),
                          .first_only = true};
}

/* Names of classes are the data's: any label that is no number is one. */
static bp_status reading_first_row(bp_documents *documents, bp_data_reader *reader,
                                   bp_data_format format, bool names)
{
    static bp_class_names found; /* large */
    found.count = 0;
    found.used = 0;
    bp_label_survey survey = {.names = &found, .reading = documents->reading};
    if (names) {
        documents->user = &survey;
        documents->survey = &survey;
        documents->classes = 1; /* so that bits are classes, not floats */
    }
    const bp_status status = bp_documents_read(documents, reader, format, reading_scratch);
    return survey.numbers ? BP_OK : status;
}

bp_status data_reading_first(session *s, const data_files *files, bool *stream)
{
    const bp_data *data = &files->data;
    const bp_task task = s->spec.config.task;
    const bool rows = data_learns_rows(&s->spec.config);
    const bool texts = task == BP_TASK_EMBEDDING && !model_sees(&s->spec.config);
    const bool names = rows && !model_task_is_number(task) && !s->classes_named;
    bp_error error = {.code = BP_OK};
    bp_status status = BP_OK;
    *stream = !rows && !texts && data->format == BP_DATA_TEXT;
    if (data->format != BP_DATA_CSV && data->format != BP_DATA_TSV &&
        data->format != BP_DATA_JSONL && !(texts && data->format == BP_DATA_TEXT)) {
        return BP_OK;
    }
    for (uint32_t i = 0; status == BP_OK && i < data->file_count; i++) {
        bp_documents documents = documents_of(s);
        bp_data_reader reader = reading_reader(files, i, &error);
        documents.form = rows || texts ? documents.form : BP_FORM_OPEN;
        status = bp_data_reader_begin(&reader);
        status =
            status == BP_OK ? reading_first_row(&documents, &reader, data->format, names) : status;
        if (status == BP_OK && texts && i == 0 && documents.texts == 1) {
            status = data_one_text(files, &error);
        }
        *stream = documents.form == BP_FORM_TEXT;
    }
    if (status != BP_OK) {
        s->error = error;
    }
    return status;
}

bp_status data_reading_say(session *s, const data_files *files)
{
    const bp_data *data = &files->data;
    const bool table = data->format == BP_DATA_CSV || data->format == BP_DATA_TSV;
    const bool texts = s->spec.config.task == BP_TASK_EMBEDDING && !model_sees(&s->spec.config);
    const bool rows = data_learns_rows(&s->spec.config) || texts;
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
