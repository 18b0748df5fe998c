/* SPDX-License-Identifier: MIT */
/* JSON lines, and arrays, whose elements are like lines. A line is read once to see that it is
 * whole and which fields it has, and once more for each field, in the order in which they are
 * wanted; so nothing of it needs to be kept. */
#include "tools/formats/data/data_documents.h"

#include <string.h>

#include "core/base/json.h"
#include "tools/formats/files/data_array.h"

enum { TEXT_BYTES = 16384, KEYS = 256, DEPTH = 32 };

typedef enum field {
    FIELD_TEXT,
    FIELD_PROMPT,
    FIELD_COMPLETION,
    FIELD_LABEL,
    FIELD_SECOND,   /* of labelled texts, as the rest */
    FIELD_QUESTION, /* with a sentence a pair, as in QNLI */
    FIELD_SENTENCE,
    FIELDS
} field;

static const char *const question_names[] = {"question", NULL};
static const char *const sentence_names[] = {"sentence", "content", NULL};
static const char *const field_names[FIELD_SECOND] = {"text", "prompt", "completion", "label"};

/* A line as a document; the fill of the JSON reader. */
typedef struct line {
    bp_documents *documents;
    bp_data_reader *reader;
    uint64_t start;
    uint64_t end;
    uint64_t offset; /* of the next byte to be read */
    bp_json json;
    bp_json_memory memory;
    bool has[FIELDS];
    field text, second; /* of labelled texts: which fields they are */
    uint64_t label;
} line;

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
    uint32_t i = 0;
    if (l->documents->form == BP_FORM_LABELLED) {
        if (bp_documents_named(bp_documents_first_names, key->text, key->length)) {
            return FIELD_TEXT;
        }
        if (bp_documents_named(bp_documents_second_names, key->text, key->length)) {
            return FIELD_SECOND;
        }
        if (bp_documents_named(question_names, key->text, key->length)) {
            return FIELD_QUESTION;
        }
        if (bp_documents_named(sentence_names, key->text, key->length)) {
            return FIELD_SENTENCE;
        }
    }
    while (i < FIELD_SECOND && (strlen(field_names[i]) != key->length ||
                                memcmp(field_names[i], key->text, key->length) != 0)) {
        i++;
    }
    return i < FIELD_SECOND ? (field)i : FIELDS;
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

/* The rest of a list of classes. */
static bp_status take_classes(line *l)
{
    bp_json_event event;
    l->label = 0;
    BP_TRY(bp_json_next(&l->json, &event));
    while (event.kind == BP_JSON_NUMBER || event.kind == BP_JSON_TEXT) {
        BP_TRY(bp_documents_class(l->documents, l->reader, event.text, event.length, &l->label));
        BP_TRY(bp_json_next(&l->json, &event));
    }
    if (event.kind != BP_JSON_ARRAY_END) {
        return bp_json_refuse(&l->json, "a list of labels holds numbers or names of classes");
    }
    return BP_OK;
}

static bp_status take_label(line *l)
{
    bp_json_event event;
    if (l->documents->form != BP_FORM_LABELLED) {
        return bp_json_skip(&l->json);
    }
    BP_TRY(bp_json_next(&l->json, &event));
    if (event.kind == BP_JSON_ARRAY_BEGIN && l->documents->labels == BP_LABELS_BITS &&
        l->documents->classes > 0) {
        return take_classes(l);
    }
    if (event.kind != BP_JSON_NUMBER && event.kind != BP_JSON_TEXT) {
        return bp_json_refuse(&l->json, "the label is neither a number nor a name");
    }
    return bp_documents_label(l->documents, l->reader, event.text, event.length, &l->label);
}

/* Labelled texts that have none of the usual names: a sentence, or a question with one. */
static void name_texts(line *l)
{
    const bool usual = l->has[FIELD_TEXT] || l->has[FIELD_SECOND] || !l->has[FIELD_SENTENCE];
    const bool pair = !usual && l->has[FIELD_QUESTION];
    l->text = usual ? FIELD_TEXT : pair ? FIELD_QUESTION : FIELD_SENTENCE;
    l->second = pair ? FIELD_SENTENCE : FIELD_SECOND;
    l->has[FIELD_TEXT] = l->has[FIELD_TEXT] || !usual;
    l->has[FIELD_SECOND] = l->has[FIELD_SECOND] || pair;
}

/* Notes which fields there are, and sees that the line is a whole object and nothing else. */
static bp_status data_json_survey(line *l)
{
    bp_json_event event;
    memset(l->has, 0, sizeof l->has);
    l->label = l->documents->form == BP_FORM_LABELLED ? BP_NO_LABEL : 0;
    BP_TRY(start(l));
    BP_TRY(bp_json_next(&l->json, &event));
    while (event.kind == BP_JSON_KEY) {
        field which = field_of(l, &event);
        if (which >= FIELD_QUESTION) {
            if (which < FIELDS) {
                l->has[which] = true;
            }
            BP_TRY(bp_json_skip(&l->json)); /* a string only where it is one of the texts */
        } else if (l->has[which]) {
            return bp_data_refuse(l->reader, "the line has two fields that name the same text");
        } else {
            l->has[which] = true;
            BP_TRY(which == FIELD_LABEL ? take_label(l) : take_string(l, BP_PART_TEXT, false));
        }
        BP_TRY(bp_json_next(&l->json, &event));
    }
    name_texts(l);
    return bp_json_next(&l->json, &event); /* nothing may follow */
}

/* Hands one field over. The line was surveyed: it is there. */
static bp_status hand_over(line *l, field which, bp_document_part part)
{
    bp_json_event event;
    BP_TRY(start(l));
    BP_TRY(bp_json_next(&l->json, &event));
    while (event.kind == BP_JSON_KEY && field_of(l, &event) != which) {
        BP_TRY(bp_json_skip(&l->json));
        BP_TRY(bp_json_next(&l->json, &event));
    }
    if (event.kind != BP_JSON_KEY) {
        return bp_json_refuse(&l->json, "the file changed while it was read");
    }
    return take_string(l, part, true);
}

static bp_document_form form_of(const line *l)
{
    const bool *has = l->has;
    if (l->documents->form == BP_FORM_LABELLED) {
        const bool labelled = has[FIELD_LABEL] || l->documents->may_lack;
        return has[FIELD_TEXT] && labelled ? BP_FORM_LABELLED : BP_FORM_OPEN;
    }
    if (has[FIELD_TEXT]) {
        return has[FIELD_PROMPT] || has[FIELD_COMPLETION] ? BP_FORM_OPEN : BP_FORM_TEXT;
    }
    return has[FIELD_PROMPT] && has[FIELD_COMPLETION] ? BP_FORM_PROMPT : BP_FORM_OPEN;
}

static bp_status check_form(line *l)
{
    bp_documents *documents = l->documents;
    bp_document_form form = form_of(l);
    if (form == BP_FORM_OPEN && documents->form == BP_FORM_LABELLED) {
        return bp_data_refuse(l->reader, "the line lacks `text` or `label`");
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
               ? bp_documents_texts(documents, l->reader, l->has[FIELD_SECOND] ? 2 : 1,
                                    l->has[FIELD_LABEL])
               : BP_OK;
}

/* Errors of the JSON reader name a byte of the line; here they get the line and the file. */
static bp_status named(line *l, bp_status status)
{
    if (status != BP_OK && l->json.status != BP_OK && status != BP_ERR_STORE) {
        bp_data_name_place(l->reader);
        if (status == BP_ERR_FIT) {
            l->reader->error->code = BP_ERR_DATA; /* more keys than a good line has */
            return BP_ERR_DATA;
        }
    }
    return status;
}

static bp_status read_line(line *l)
{
    bp_documents *documents = l->documents;
    BP_TRY(named(l, data_json_survey(l)));
    BP_TRY(check_form(l));
    BP_TRY(documents->begin(documents->user, l->reader));
    if (documents->form == BP_FORM_PROMPT) {
        BP_TRY(named(l, hand_over(l, FIELD_PROMPT, BP_PART_PROMPT)));
        BP_TRY(named(l, hand_over(l, FIELD_COMPLETION, BP_PART_COMPLETION)));
    } else {
        BP_TRY(named(l, hand_over(l, l->text, BP_PART_TEXT)));
        if (l->has[FIELD_SECOND]) {
            BP_TRY(named(l, hand_over(l, l->second, BP_PART_SECOND)));
        }
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
        BP_TRY(bp_data_array_next(l->reader, array, &more));
    }
    return BP_OK;
}

bp_status bp_documents_json(bp_documents *documents, bp_data_reader *reader, void *scratch)
{
    bp_data_array array;
    bool is_array;
    line l = {.documents = documents, .reader = reader};
    char *text = (char *)scratch + bp_json_keys_bytes(KEYS);
    l.memory = (bp_json_memory){text, TEXT_BYTES, scratch, bp_json_keys_bytes(KEYS), DEPTH};
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
        l.start = l.end + 1;
    }
    return BP_OK;
}
