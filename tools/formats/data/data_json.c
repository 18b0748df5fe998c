/* SPDX-License-Identifier: MIT */
/* JSON lines, and arrays, whose elements are like lines. A line is read once to see that it is
 * whole and which fields it has, and once more for each field, in the order in which they are
 * wanted; so nothing of it needs to be kept. */
#include "tools/formats/data/data_documents.h"

#include <string.h>

#include "core/base/json.h"
#include "tools/formats/files/data_array.h"

enum { TEXT_BYTES = 16384, KEYS = 256, DEPTH = 32 };

/* Texts of language models; of labelled ones the columns say which fields are which. */
typedef enum field { FIELD_TEXT, FIELD_PROMPT, FIELD_COMPLETION, FIELD_LABEL, FIELDS } field;

static const char *const field_names[FIELDS] = {"text", "prompt", "completion", "label"};

/* A line as a document; the fill of the JSON reader. */
typedef struct line {
    bp_documents *documents;
    bp_data_reader *reader;
    uint64_t start;
    uint64_t end;
    uint64_t offset; /* of the next byte to be read */
    bp_json json;
    bp_json_memory memory;
    bp_data_reading reading; /* of the documents; an object has names */
    uint32_t place[FIELDS];  /* of each field among the keys; BP_NO_COLUMN: it is not there */
    uint64_t label;
} line;

/* What a text is called that another is made of, and that one. */
static const char *const source_names[] = {"prompt",   "source",  "input",    "inputs",     "text",
                                           "document", "article", "dialogue", "input_text", NULL};
static const char *const target_names[] = {"completion",  "target",     "output", "targets",
                                           "summary",     "highlights", "labels", "response",
                                           "target_text", NULL};

/* The same of speech, and of images. */
static const char *const audio_names[] = {"audio",      "audio_filepath", "audio_path", "file_name",
                                          "file",       "path",           "wav",        "image",
                                          "image_path", "filepath",       NULL};
static const char *const spoken_names[] = {"text",     "transcription", "transcript",
                                           "sentence", "caption",       NULL};

static bool data_json_named(const char *const *names, const char *name, size_t length)
{
    while (*names != NULL && (strlen(*names) != length || memcmp(*names, name, length) != 0)) {
        names++;
    }
    return *names != NULL;
}

bool bp_documents_spoken(bool audio, const char *said, const char *name, size_t length)
{
    const char *const own[] = {said, NULL};
    const char *const *texts = said != NULL ? own : spoken_names;
    return data_json_named(audio ? audio_names : texts, name, length);
}

static bp_status data_json_fill(void *user, const unsigned char **bytes, size_t *count)
{
    line *l = user;
    BP_TRY(bp_data_look(l->reader, l->offset, bytes, count));
    uint64_t left = l->end - l->offset;
    *count = left < *count ? (size_t)left : *count;
    l->offset += *count;
    return BP_OK;
}

static field field_of(const line *l, const bp_json_event *key)
{
    const char *text = l->documents->reading.text_column;
    uint32_t i = text != NULL ? FIELD_PROMPT : FIELD_TEXT;
    if (l->documents->sources) {
        const bool hears = l->documents->hears;
        const char *const *from = hears ? audio_names : source_names;
        const char *const said[] = {text, NULL};
        const char *const *to = !hears ? target_names : text != NULL ? said : spoken_names;
        return data_json_named(to, key->text, key->length)     ? FIELD_COMPLETION
               : data_json_named(from, key->text, key->length) ? FIELD_PROMPT
                                                               : FIELDS;
    }
    if (text != NULL && strlen(text) == key->length && memcmp(text, key->text, key->length) == 0) {
        return FIELD_TEXT;
    }
    while (i < FIELDS && (strlen(field_names[i]) != key->length ||
                          memcmp(field_names[i], key->text, key->length) != 0)) {
        i++;
    }
    return (field)i;
}

static bp_status start(line *l)
{
    const bp_json_source source = {data_json_fill, l, UINT64_MAX};
    bp_json_event event;
    l->offset = l->start;
    BP_TRY(bp_json_init(&l->json, &source, &l->memory, l->reader->error));
    BP_TRY(bp_json_next(&l->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&l->json, "a line of JSON lines is an object ({...})");
    }
    return BP_OK;
}

/* Reads a string; its parts go to the documents if they are wanted. */
static bp_status take_string(line *l, bp_document_part part, bool wanted)
{
    bp_json_event event;
    do {
        BP_TRY(bp_json_next(&l->json, &event));
        if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
            return bp_json_refuse(&l->json,
                                  "text, text_pair, prompt and completion are strings, not "
                                  "anything else");
        }
        if (wanted && event.length > 0) {
            BP_TRY(l->documents->piece(l->documents->user, part, event.text, event.length));
        }
    } while (event.kind == BP_JSON_TEXT_PART);
    return BP_OK;
}

/* The rest of a list of labels. true and false are 1 and 0. */
static bp_status take_list(line *l)
{
    bp_documents *documents = l->documents;
    bp_label_list list = {.count = 0};
    bp_json_event event;
    BP_TRY(bp_json_next(&l->json, &event));
    while (event.kind == BP_JSON_NUMBER || event.kind == BP_JSON_TEXT ||
           event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE) {
        const bool truth = event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE;
        const char *text = !truth ? event.text : event.kind == BP_JSON_TRUE ? "1.0" : "0.0";
        BP_TRY(bp_documents_list_take(documents, l->reader, text, truth ? 3 : event.length, &list));
        BP_TRY(bp_json_next(&l->json, &event));
    }
    if (event.kind != BP_JSON_ARRAY_END) {
        return bp_json_refuse(&l->json, "a list of labels holds numbers or names of classes");
    }
    return bp_documents_list_end(documents, l->reader, &list, &l->label);
}

static bp_status take_label(line *l)
{
    bp_json_event event;
    bp_documents *documents = l->documents;
    const bool several = documents->labels == BP_LABELS_BITS && documents->classes > 0;
    BP_TRY(bp_json_next(&l->json, &event));
    if (event.kind == BP_JSON_ARRAY_BEGIN && several) {
        return take_list(l);
    }
    if (documents->labels == BP_LABELS_CLASS &&
        (event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE)) {
        /* classes by Python's names of them, as in a table that pandas wrote */
        const char *name = event.kind == BP_JSON_TRUE ? "True" : "False";
        return bp_documents_label(documents, l->reader, name, strlen(name), &l->label);
    }
    if (event.kind != BP_JSON_NUMBER && event.kind != BP_JSON_TEXT) {
        return bp_json_refuse(&l->json, "the label is neither a number nor a name");
    }
    if (several && !(event.kind == BP_JSON_TEXT && bp_documents_listed(event.text, event.length))) {
        bp_label_list list = {.count = 0};
        BP_TRY(bp_documents_list_take(documents, l->reader, event.text, event.length, &list));
        return bp_documents_list_end(documents, l->reader, &list, &l->label);
    }
    return bp_documents_label(documents, l->reader, event.text, event.length, &l->label);
}

/* Notes which fields there are, and sees that the line is a whole object and nothing else. */
static bp_status data_json_survey(line *l)
{
    bp_json_event event;
    bp_row_columns *columns = &l->documents->columns;
    const bool labelled = l->documents->form == BP_FORM_LABELLED;
    l->label = labelled ? BP_NO_LABEL : 0;
    for (uint32_t i = 0; i < FIELDS; i++) {
        l->place[i] = BP_NO_COLUMN;
    }
    bp_row_columns_begin(columns, &l->reading);
    columns->object = true;
    BP_TRY(start(l));
    BP_TRY(bp_json_next(&l->json, &event));
    while (event.kind == BP_JSON_KEY) {
        const field which = labelled ? FIELDS : field_of(l, &event);
        if (which < FIELDS && l->place[which] != BP_NO_COLUMN) {
            return bp_data_refuse(l->reader, "the line has two fields that name the same text");
        }
        if (which < FIELDS) {
            l->place[which] = columns->count;
        }
        if (labelled) {
            bp_row_columns_take(columns, event.text, event.length);
        } else {
            columns->count++;
        }
        BP_TRY(which < FIELD_LABEL ? take_string(l, BP_PART_TEXT, false) : bp_json_skip(&l->json));
        BP_TRY(bp_json_next(&l->json, &event));
    }
    BP_TRY(bp_json_next(&l->json, &event)); /* nothing may follow */
    return labelled ? bp_row_columns_end(columns, l->reader) : BP_OK;
}

/* Goes to the value of the key of this number. The line was surveyed: it is there. */
static bp_status data_json_seek(line *l, uint32_t place)
{
    bp_json_event event;
    BP_TRY(start(l));
    BP_TRY(bp_json_next(&l->json, &event));
    for (uint32_t i = 0; i < place && event.kind == BP_JSON_KEY; i++) {
        BP_TRY(bp_json_skip(&l->json));
        BP_TRY(bp_json_next(&l->json, &event));
    }
    return event.kind == BP_JSON_KEY
               ? BP_OK
               : bp_json_refuse(&l->json, "the file changed while it was read");
}

/* Hands one field over. */
static bp_status hand_over(line *l, uint32_t place, bp_document_part part)
{
    BP_TRY(data_json_seek(l, place));
    return take_string(l, part, true);
}

static bool data_json_has(const line *l, field which)
{
    return l->place[which] != BP_NO_COLUMN;
}

static bp_document_form form_of(const line *l)
{
    const bp_row_columns *columns = &l->documents->columns;
    const bool completion = data_json_has(l, FIELD_COMPLETION);
    if (l->documents->form == BP_FORM_LABELLED) {
        const bool labelled =
            bp_row_columns_has(columns, BP_COLUMN_LABEL) || l->documents->may_lack;
        return bp_row_columns_has(columns, BP_COLUMN_TEXT) && labelled ? BP_FORM_LABELLED
                                                                       : BP_FORM_OPEN;
    }
    if (data_json_has(l, FIELD_TEXT)) {
        return data_json_has(l, FIELD_PROMPT) || completion ? BP_FORM_OPEN : BP_FORM_TEXT;
    }
    return data_json_has(l, FIELD_PROMPT) && completion ? BP_FORM_PROMPT : BP_FORM_OPEN;
}

static bp_status check_form(line *l)
{
    bp_documents *documents = l->documents;
    bp_document_form form = form_of(l);
    if (form == BP_FORM_OPEN && documents->form == BP_FORM_LABELLED) {
        return bp_data_refuse(l->reader, "the line lacks `text` or `label` (--text-column and "
                                         "--label-column name other fields)");
    }
    if (form == BP_FORM_OPEN && documents->hears) {
        return bp_data_refuse(l->reader,
                              "the line lacks speech or its text, or an image or its text: "
                              "`audio` or `image` (or "
                              "audio_filepath, audio_path, image_path, file_name, "
                              "filepath, file, path, wav) with its path, and `text` (or "
                              "caption, transcription, transcript, sentence)");
    }
    if (form == BP_FORM_OPEN && documents->sources) {
        return bp_data_refuse(l->reader,
                              "the line lacks one of its two texts: `source` (or prompt, input, "
                              "inputs, text, document, article, dialogue, input_text) and `target` "
                              "(or completion, output, targets, summary, highlights, labels, "
                              "response, target_text)");
    }
    if (form == BP_FORM_OPEN) {
        return bp_data_refuse(l->reader,
                              "the line has neither `text` nor both `prompt` and `completion`, or "
                              "has them all");
    }
    if (documents->form != BP_FORM_OPEN && documents->form != form) {
        return bp_data_refuse(l->reader, "the lines before have other fields: all must have "
                                         "`text`, or all `prompt` and `completion`");
    }
    documents->form = form;
    return form == BP_FORM_LABELLED
               ? bp_documents_texts(documents, l->reader,
                                    bp_row_columns_has(&documents->columns, BP_COLUMN_SECOND) ? 2
                                                                                              : 1,
                                    bp_row_columns_has(&documents->columns, BP_COLUMN_LABEL))
               : BP_OK;
}

/* Errors of the JSON reader name a byte of the line; here they get the line and the file. */
static bp_status named(line *l, bp_status status)
{
    if (status != BP_OK && l->json.status != BP_OK && status != BP_ERR_STORE) {
        bp_data_name_position(l->reader);
        if (status == BP_ERR_FIT) {
            l->reader->error->code = BP_ERR_DATA; /* more keys than a good line has */
            return BP_ERR_DATA;
        }
    }
    return status;
}

/* The label first: it says what is wrong with a line before anything is written. */
static bp_status read_labelled(line *l)
{
    bp_documents *documents = l->documents;
    const bp_row_column *of = documents->columns.of;
    if (bp_row_columns_has(&documents->columns, BP_COLUMN_LABEL)) {
        BP_TRY(named(l, data_json_seek(l, of[BP_COLUMN_LABEL].number)));
        BP_TRY(named(l, take_label(l)));
    }
    BP_TRY(documents->begin(documents->user, l->reader));
    BP_TRY(named(l, hand_over(l, of[BP_COLUMN_TEXT].number, BP_PART_TEXT)));
    if (bp_row_columns_has(&documents->columns, BP_COLUMN_SECOND)) {
        BP_TRY(named(l, hand_over(l, of[BP_COLUMN_SECOND].number, BP_PART_SECOND)));
    }
    return documents->end(documents->user, l->label);
}

static bp_status read_line(line *l)
{
    bp_documents *documents = l->documents;
    BP_TRY(named(l, data_json_survey(l)));
    BP_TRY(check_form(l));
    if (documents->form == BP_FORM_LABELLED) {
        return read_labelled(l);
    }
    BP_TRY(documents->begin(documents->user, l->reader));
    if (documents->form == BP_FORM_PROMPT) {
        BP_TRY(named(l, hand_over(l, l->place[FIELD_PROMPT], BP_PART_PROMPT)));
        BP_TRY(named(l, hand_over(l, l->place[FIELD_COMPLETION], BP_PART_COMPLETION)));
    } else {
        BP_TRY(named(l, hand_over(l, l->place[FIELD_TEXT], BP_PART_TEXT)));
    }
    return documents->end(documents->user, l->label);
}

/* Whether there is nothing but white space between the line's start and its end. */
static bp_status is_blank(line *l, bool *blank)
{
    *blank = true;
    l->offset = l->start;
    for (;;) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(data_json_fill(l, &bytes, &count));
        for (size_t i = 0; i < count; i++) {
            if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\r') {
                *blank = false;
                return BP_OK;
            }
        }
        if (count == 0) {
            return BP_OK;
        }
    }
}

/* The elements of an array, as lines. The walk reads to an element's end first. */
static bp_status read_array(line *l, bp_data_array *array)
{
    bool more;
    BP_TRY(bp_data_array_next(l->reader, array, &more));
    while (more) {
        l->start = array->start;
        l->end = array->end;
        BP_TRY(read_line(l));
        if (l->documents->first_only) {
            return BP_OK;
        }
        BP_TRY(bp_data_array_next(l->reader, array, &more));
    }
    return BP_OK;
}

bp_status bp_documents_json(bp_documents *documents, bp_data_reader *reader, void *scratch)
{
    bp_data_array array;
    bool is_array;
    line l = {.documents = documents, .reader = reader, .reading = documents->reading};
    char *text = (char *)scratch + bp_json_keys_bytes(KEYS);
    l.memory = (bp_json_memory){text, TEXT_BYTES, scratch, bp_json_keys_bytes(KEYS), DEPTH};
    l.reading.no_header = false;
    reader->line = 0;
    BP_TRY(bp_data_mark(reader, &l.start));
    BP_TRY(bp_data_array_begin(reader, l.start, &array, &is_array));
    if (is_array) {
        return read_array(&l, &array);
    }
    reader->line = 0;
    while (l.start < reader->size) {
        bool blank;
        reader->line++;
        BP_TRY(bp_data_line_end(reader, l.start, &l.end));
        BP_TRY(is_blank(&l, &blank));
        if (!blank) {
            BP_TRY(read_line(&l));
        }
        if (!blank && documents->first_only) {
            return BP_OK;
        }
        l.start = l.end + 1;
    }
    return BP_OK;
}
