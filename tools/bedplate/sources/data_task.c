/* SPDX-License-Identifier: MIT */
/* What rows are, and the task that learns them. */
#include "tools/bedplate/sources/data_task.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/policy/policy_run.h"
#include "tools/bedplate/sources/data_reading.h"
#include "tools/formats/data/data_chat.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/data/data_words.h"
#include "tools/formats/family/preset.h"
#include "tools/formats/files/data_records.h"

#define WINDOW       65536
#define LABELS_LISTS 32 /* classes of a task of which several may hold */
#define TAG_CLASSES  64 /* of words, as columns without prefixes have them */

static const char where[] = "task";

enum field {
    FIELD_TEXT,
    FIELD_LABEL,
    FIELD_WORDS,
    FIELD_TAGS,
    FIELD_QUESTION,
    FIELD_CONTEXT,
    FIELD_CHOSEN,
    FIELD_REJECTED,
    FIELD_PROMPT,
    FIELD_COMPLETION,
    FIELD_TALK,
    FIELD_ANSWER,
    FIELD_SQUAD,
    FIELDS
};

/* The fields of a first row, as they are written there. */
typedef struct task_fields {
    char name[FIELDS][BP_COLUMN_NAME + 1]; /* empty: there is no such field */
} task_fields;

typedef enum row_form {
    ROW_OTHER, /* nothing that is known */
    ROW_TEXT,
    ROW_PROMPT,
    ROW_ASKED,
    ROW_TALK,
    ROW_PREFERENCE,
    ROW_JUDGED,
    ROW_LABELLED,
    ROW_TAGGED,
    ROW_QUESTION,
    ROW_TEXTS,
    ROW_TOKENS,
    ROW_FORMS
} row_form;

/* What rows hold, the task that they are for, and all that learn from such. */
static const struct {
    const char *holds;
    const char *task; /* NULL: a language model's own */
    const char *tasks;
} row_forms[ROW_FORMS] = {
    [ROW_TEXT] = {"plain text", NULL, "causal-lm, masked-lm or embedding"},
    [ROW_PROMPT] = {"prompts with completions", NULL, "causal-lm or masked-lm"},
    [ROW_ASKED] = {"prompts with answers to compare with", NULL, "grpo"},
    [ROW_TALK] = {"conversations", NULL, "causal-lm"},
    [ROW_PREFERENCE] = {"preferences", "dpo", "dpo, orpo, simpo or kto"},
    [ROW_JUDGED] = {"judged completions", "kto", "kto, causal-lm or masked-lm"},
    [ROW_LABELLED] = {"labelled texts", "classification",
                      "classification, multi-label-classification, regression or reranking"},
    [ROW_TAGGED] = {"words with tags", "token-classification", "token-classification"},
    [ROW_QUESTION] = {"questions about texts", "question-answering", "question-answering"},
    [ROW_TEXTS] = {"texts that are compared", "embedding", "embedding"},
    [ROW_TOKENS] = {"tokens", NULL, "causal-lm or masked-lm"}};

/* Everything that looking takes; given back before the run begins. */
typedef struct task_look {
    session s; /* settings, store, configuration and error alone */
    data_files files;
    bool open;
    task_fields fields;
    row_form form;
    bool embedder;     /* the model directory says how vectors are made */
    bool weights;      /* and it has weights */
    bool numbers;      /* labels are numbers */
    double first;      /* then the first of them */
    uint32_t texts;    /* that are compared in each row */
    uint32_t parts;    /* texts of a row of the last reading */
    bool pairs;        /* a row with a label has two of them */
    bool scored;       /* and have a score */
    uint32_t classes;  /* 0: not counted */
    const char *kind;  /* of labelled rows: the task */
    uint64_t rows;     /* of the last reading */
    uint64_t most;     /* the highest label, or bit of one */
    char columns[256]; /* "column label", "columns chosen and rejected" */
    bp_class_names names;
    uint64_t scratch[(BP_DOCUMENTS_SCRATCH + WINDOW) / 8];
} task_look;

/* ---- fields ---- */

static bp_data_reader task_reader(const data_files *files, uint32_t file, uint64_t *scratch,
                                  bp_error *error)
{
    return (bp_data_reader){.store = files->data.store,
                            .file = files->data.files[file].file,
                            .path = files->data.files[file].path,
                            .buffer = (unsigned char *)scratch + BP_DOCUMENTS_SCRATCH,
                            .capacity = WINDOW,
                            .error = error};
}

static void task_note_field(task_fields *fields, const char *name, size_t length)
{
    static const char *const names[FIELDS][10] = {
        [FIELD_TEXT] = {"text"},
        [FIELD_LABEL] = {"label", "labels"},
        [FIELD_WORDS] = {"tokens", "words"},
        [FIELD_TAGS] = {"ner_tags", "tags", "labels"},
        [FIELD_QUESTION] = {"question"},
        [FIELD_CONTEXT] = {"context"},
        [FIELD_CHOSEN] = {"chosen"},
        [FIELD_REJECTED] = {"rejected"},
        [FIELD_PROMPT] = {"prompt"},
        [FIELD_COMPLETION] = {"completion"},
        [FIELD_TALK] = {"messages", "conversations", "conversation", "instruction"},
        [FIELD_ANSWER] = {"answer"},
        [FIELD_SQUAD] = {"paragraphs"}};
    for (uint32_t i = 0; i < FIELDS; i++) {
        if (fields->name[i][0] == '\0' && bp_column_named(names[i], name, length)) {
            snprintf(fields->name[i], sizeof fields->name[i], "%.*s",
                     (int)(length < BP_COLUMN_NAME ? length : BP_COLUMN_NAME), name);
        }
    }
}

/* The fields of the first object of a file. What cannot be read has none: the reader of the task
 * says what is wrong with it. */
static void task_fields_read(const data_files *files, uint32_t file, uint64_t *scratch,
                             task_fields *fields)
{
    bp_error unheard = {.code = BP_OK};
    bp_data_reader reader = task_reader(files, file, scratch, &unheard);
    bp_records records;
    bp_json_event event = {.kind = BP_JSON_END};
    bool there = false;
    memset(fields, 0, sizeof *fields);
    bp_status status = bp_data_reader_begin(&reader);
    status = status == BP_OK ? bp_records_begin(&records, &reader, scratch) : status;
    status = status == BP_OK ? bp_records_next(&records, &there) : status;
    status = status == BP_OK && there ? bp_json_next(&records.span.json, &event) : status;
    while (status == BP_OK && event.kind == BP_JSON_KEY) {
        task_note_field(fields, event.text, event.length);
        status = bp_json_skip(&records.span.json);
        status = status == BP_OK ? bp_json_next(&records.span.json, &event) : status;
    }
}

static bool has(const task_fields *fields, enum field field)
{
    return fields->name[field][0] != '\0';
}

/* A record's keys and its end are taken before the next one is. */
static void task_count_rows(const data_files *files, uint32_t file, uint64_t *scratch,
                            uint64_t *rows)
{
    bp_error unheard = {.code = BP_OK};
    bp_data_reader reader = task_reader(files, file, scratch, &unheard);
    bp_records records;
    bp_json_event event = {.kind = BP_JSON_END};
    bool there = false;
    bp_status status = bp_data_reader_begin(&reader);
    status = status == BP_OK ? bp_records_begin(&records, &reader, scratch) : status;
    status = status == BP_OK ? bp_records_next(&records, &there) : status;
    while (status == BP_OK && there) {
        *rows += 1;
        status = bp_json_next(&records.span.json, &event);
        while (status == BP_OK && event.kind == BP_JSON_KEY) {
            status = bp_json_skip(&records.span.json);
            status = status == BP_OK ? bp_json_next(&records.span.json, &event) : status;
        }
        status = status == BP_OK ? bp_records_next(&records, &there) : status;
    }
}

bp_status data_task_count(session *s, const path_list *list, uint64_t *rows)
{
    static data_files files; /* large */
    const bp_error none = s->error;
    memory_block memory;
    if (list->count == 0) {
        return BP_OK;
    }
    BP_TRY(
        memory_take(&memory, BP_DOCUMENTS_SCRATCH + WINDOW, false, "memory for rows", &s->error));
    files = (data_files){.look = true};
    if (data_files_find(&files, s, list) == BP_OK && files.data.format == BP_DATA_JSONL) {
        for (uint32_t i = 0; i < files.data.file_count; i++) {
            task_count_rows(&files, i, memory.address, rows);
        }
    }
    data_files_close(&files);
    s->error = none;
    memory_give_back(&memory);
    return BP_OK;
}

bp_status data_task_ignored(session *s, const data_files *files)
{
    const bp_labels kind = bp_feed_labels(s->spec.config.task);
    const bool learns = (kind == BP_LABELS_NEXT_TOKEN || kind == BP_LABELS_MASKED) &&
                        s->spec.preference.kind == BP_PREFERENCE_NONE;
    memory_block memory;
    task_fields fields;
    if (!learns || files->data.format != BP_DATA_JSONL) {
        return BP_OK;
    }
    BP_TRY(
        memory_take(&memory, BP_DOCUMENTS_SCRATCH + WINDOW, false, "memory for rows", &s->error));
    for (uint32_t i = 0; i < files->data.file_count; i++) {
        task_fields_read(files, i, memory.address, &fields);
        if (has(&fields, FIELD_LABEL)) {
            output_print(stderr,
                         "bedplate: %s: rows have labels, which a language model does not learn "
                         "(--task classification, regression or kto learn them)\n",
                         files->data.files[i].path);
        }
    }
    memory_give_back(&memory);
    return BP_OK;
}

/* ---- labels ---- */

static bp_status task_begin(void *user, bp_data_reader *reader)
{
    task_look *look = user;
    (void)reader;
    look->rows++;
    return BP_OK;
}

static bp_status task_note_class(void *user, uint64_t label)
{
    task_look *look = user;
    look->most = label > look->most ? label : look->most;
    return BP_OK;
}

static bp_status task_note_classes(void *user, uint64_t mask)
{
    task_look *look = user;
    while (mask >> look->most > 1) {
        look->most++;
    }
    return BP_OK;
}

static bp_status task_note_number(void *user, uint64_t label)
{
    task_look *look = user;
    const uint32_t bits = (uint32_t)label;
    float number;
    memcpy(&number, &bits, sizeof number);
    look->first = (double)number;
    return BP_OK;
}

static bp_documents task_documents(task_look *look, bp_document_form form)
{
    look->most = 0;
    return (bp_documents){.user = look,
                          .begin = task_begin,
                          .end = task_note_class,
                          .form = form,
                          .labels = BP_LABELS_CLASS,
                          .classes = BP_CLASS_NAMES_MAX,
                          .reading = data_reading(look->s.set)};
}

/* Whether the files can be read so: all rows, or the first one, which is there. */
static bool task_can(task_look *look, bp_documents *documents, bool all)
{
    bp_status status = BP_OK;
    documents->first_only = !all;
    look->rows = 0;
    for (uint32_t i = 0; status == BP_OK && i < (all ? look->files.data.file_count : 1); i++) {
        bp_error unheard = {.code = BP_OK};
        bp_data_reader reader = task_reader(&look->files, i, look->scratch, &unheard);
        status = bp_data_reader_begin(&reader);
        status = status == BP_OK
                     ? bp_documents_read(documents, &reader, look->files.data.format, look->scratch)
                     : status;
    }
    look->parts = documents->texts;
    return status == BP_OK && look->rows > 0;
}

/* Lists of classes by number, or a 0 or 1 for each class. */
static bool task_find_lists(task_look *look, bp_documents *documents)
{
    documents->labels = BP_LABELS_BITS;
    documents->end = task_note_classes;
    documents->reading.label_form = BP_LABEL_FORM_MULTI_HOT;
    for (uint32_t classes = 2; classes <= LABELS_LISTS; classes++) {
        documents->classes = classes;
        if (task_can(look, documents, false) && task_can(look, documents, true)) {
            look->classes = classes;
            return true;
        }
    }
    look->most = 0;
    documents->classes = LABELS_LISTS;
    documents->reading.label_form = BP_LABEL_FORM_CLASSES;
    look->classes = task_can(look, documents, true) ? (uint32_t)look->most + 1 : 0;
    return look->classes > 0;
}

/* Names of classes, one for each row or lists of them: of all rows, or of the first. */
static bool task_find_names(task_look *look, bool lists, bool all)
{
    bp_documents documents = task_documents(look, BP_FORM_LABELLED);
    bp_label_survey survey = {.names = &look->names};
    look->names.count = look->names.used = 0;
    documents.survey = &survey;
    documents.labels = lists ? BP_LABELS_BITS : BP_LABELS_CLASS;
    documents.classes = 1;
    const bool can = task_can(look, &documents, all);
    look->classes = can && all ? look->names.count : 0;
    return can;
}

/* Labelled rows: of a class by number, of a number, of several classes, of a class by name. */
static const char *task_find_kind(task_look *look)
{
    bp_documents documents = task_documents(look, BP_FORM_LABELLED);
    bp_documents numbers = documents;
    numbers.labels = BP_LABELS_BITS;
    numbers.classes = 0;
    numbers.end = task_note_number;
    look->numbers = true;
    if (task_can(look, &numbers, false)) {
        if (task_can(look, &documents, true)) {
            look->classes = (uint32_t)look->most + 1;
            return "classification";
        }
        return "regression";
    }
    documents = task_documents(look, BP_FORM_LABELLED);
    bp_documents lists = documents;
    if (task_find_lists(look, &lists)) {
        return "multi-label-classification";
    }
    look->numbers = false;
    if (task_find_names(look, false, true)) {
        return "classification";
    }
    return task_find_names(look, true, true) || task_find_names(look, true, false)
               ? "multi-label-classification"
           : task_find_names(look, false, false) ? "classification"
                                                 : NULL;
}

/* ---- forms ---- */

static void task_say_columns(task_look *look, const char *first, const char *second)
{
    snprintf(look->columns, sizeof look->columns, "%s %s%s%s",
             second != NULL ? "columns" : "column", first, second != NULL ? " and " : "",
             second != NULL ? second : "");
}

/* The column of the label, by its name, or by its number where it has none. */
static void task_say_label(task_look *look)
{
    bp_documents first = task_documents(look, BP_FORM_LABELLED);
    char number[16];
    first.may_lack = true;
    first.labels = BP_LABELS_BITS;
    first.classes = 0; /* a number */
    bp_label_survey survey = {.names = &look->names};
    look->names.count = look->names.used = 0;
    first.survey = look->numbers && look->kind != NULL && look->kind[0] != 'm' ? NULL : &survey;
    const bool read = task_can(look, &first, false);
    const bp_row_column *column = &first.columns.of[BP_COLUMN_LABEL];
    snprintf(number, sizeof number, "%u", column->number + 1);
    if (column->number != BP_NO_COLUMN && (read || column->name[0] != '\0')) {
        task_say_columns(look, column->name[0] != '\0' ? column->name : number, NULL);
    } else {
        task_say_columns(look, "label", NULL);
    }
}

/* Whether a table names a column of labels, though the first of them cannot be read as one: the
 * reader of the task refuses it. */
static bool task_names_label(task_look *look)
{
    bp_documents first = task_documents(look, BP_FORM_LABELLED);
    (void)task_can(look, &first, false);
    return first.columns.named && first.columns.of[BP_COLUMN_LABEL].number != BP_NO_COLUMN;
}

/* Whether rows are of texts that are compared, and not of two texts with a label to learn. */
static bool task_are_texts(task_look *look)
{
    const bool labelled = has(&look->fields, FIELD_LABEL) && look->kind != NULL;
    bp_documents texts = task_documents(look, BP_FORM_TEXTS);
    if (!task_can(look, &texts, false) || texts.texts < 2) {
        return false;
    }
    const bool question = has(&look->fields, FIELD_ANSWER); /* which a language model answers */
    const bool generates = look->s.spec.config.task == BP_TASK_CAUSAL_LM;
    if (question && generates && !look->embedder) {
        return false;
    }
    look->texts = texts.texts;
    look->scored = !texts.lacks;
    snprintf(look->columns, sizeof look->columns, "%u texts a row%s", texts.texts,
             texts.lacks ? "" : " with a score");
    return texts.lacks || look->embedder || !labelled;
}

/* What the fields of a row of JSON say by themselves. */
static row_form task_form_of_fields(task_look *look)
{
    const task_fields *of = &look->fields;
    static const struct {
        row_form form;
        enum field first, second;
    } pairs[] = {{ROW_PREFERENCE, FIELD_CHOSEN, FIELD_REJECTED},
                 {ROW_TAGGED, FIELD_WORDS, FIELD_TAGS},
                 {ROW_QUESTION, FIELD_QUESTION, FIELD_CONTEXT},
                 {ROW_QUESTION, FIELD_SQUAD, FIELD_SQUAD},
                 {ROW_PROMPT, FIELD_PROMPT, FIELD_COMPLETION}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (has(of, pairs[i].first) && has(of, pairs[i].second)) {
            const bool judged = pairs[i].form == ROW_PROMPT && has(of, FIELD_LABEL);
            const char *first = of->name[judged ? FIELD_COMPLETION : pairs[i].first];
            const bool alone = pairs[i].first == pairs[i].second;
            task_say_columns(look, first,
                             alone ? NULL : of->name[judged ? FIELD_LABEL : pairs[i].second]);
            return judged ? ROW_JUDGED : pairs[i].form;
        }
    }
    bool talks = false;
    bp_error unheard = {.code = BP_OK};
    if (has(of, FIELD_TALK) &&
        bp_data_chat_is(&look->files.data, &unheard, look->scratch, &talks) == BP_OK && talks) {
        task_say_columns(look, of->name[FIELD_TALK], NULL);
        return ROW_TALK;
    }
    const settings *set = look->s.set;
    const bool named = set->text_column != NULL || set->label_column != NULL;
    const bool generates = look->s.spec.config.task == BP_TASK_CAUSAL_LM;
    if (generates && !named && has(of, FIELD_PROMPT) && has(of, FIELD_ANSWER) &&
        !has(of, FIELD_TEXT)) {
        task_say_columns(look, of->name[FIELD_PROMPT], of->name[FIELD_ANSWER]);
        return ROW_ASKED;
    }
    return ROW_OTHER;
}

/* Numbers that judge pairs or documents are labels only where nothing else is to be learned: text
 * that a language model learns often has some beside it. */
static bool task_is_beside(const task_look *look)
{
    static const char *const names[] = {"score", "y", "tag", "tags", "topic", "rating", NULL};
    const char *name = look->columns + sizeof "column";
    const bool generates = look->s.spec.config.task == BP_TASK_CAUSAL_LM;
    return generates && look->files.data.format == BP_DATA_JSONL &&
           look->s.set->label_column == NULL && bp_column_named(names, name, strlen(name));
}

/* What the beginning of a file has as columns of words and tags. */
typedef struct tag_columns {
    size_t columns, lines, sentences;
    bool typed; /* each tag is O or has a prefix, and one has */
    bool begins;
    bool tabs;  /* only tabs part the columns */
    bool upper; /* no tag has a lower-case letter */
    size_t classes, capitals;
    struct {
        const char *text;
        size_t length;
    } class_of[TAG_CLASSES];
} tag_columns;

/* Notes a tag: O, or a prefix, a hyphen and a type; or a class of words, of which there are few. */
static bool task_note_tag(tag_columns *of, const char *text, size_t length)
{
    const bool prefix = length > 2 && text[1] == '-' && strchr("BIESLU", text[0]) != NULL;
    const bool capital = text[0] >= 'A' && text[0] <= 'Z';
    of->begins = of->begins || prefix;
    of->typed = of->typed && (prefix || (length == 1 && text[0] == 'O'));
    for (size_t i = 0; i < length; i++) {
        of->upper = of->upper && !(text[i] >= 'a' && text[i] <= 'z');
        if (text[i] <= ' ' || text[i] > '~') {
            return of->typed;
        }
    }
    for (size_t i = 0; i < of->classes; i++) {
        if (of->class_of[i].length == length && memcmp(of->class_of[i].text, text, length) == 0) {
            return true;
        }
    }
    if (of->classes == TAG_CLASSES || (text[0] >= '0' && text[0] <= '9')) {
        return of->typed;
    }
    of->class_of[of->classes].text = text;
    of->class_of[of->classes++].length = length;
    of->capitals += capital ? 1 : 0;
    return true;
}

/* Notes a line with fields, and whether it can be one of words and tags. */
static bool task_note_line(tag_columns *of, const char *at, const char *end, size_t fields,
                           const char *last)
{
    const size_t length = strcspn(last, " \t\r\n");
    if (strncmp(at, "-DOCSTART-", 10) == 0) {
        return true;
    }
    of->columns = of->lines++ == 0 ? fields : of->columns;
    of->tabs = of->tabs && memchr(at, ' ', (size_t)(end - at)) == NULL;
    return fields >= 2 && fields == of->columns && task_note_tag(of, last, length);
}

/* Whether a file has columns of words and tags: each line of its beginning has a word and ends with
 * a tag, as many fields as the others, and a blank line ends a sentence. Tags without prefixes are
 * taken for such only where nothing else looks so: few classes in several sentences, which tabs
 * part from the words or which have no lower-case letter. */
static bool task_are_tagged(task_look *look)
{
    bp_error unheard = {.code = BP_OK};
    bp_data_reader reader = task_reader(&look->files, 0, look->scratch, &unheard);
    const unsigned char *bytes;
    size_t count = 0;
    tag_columns of = {.typed = true, .tabs = true, .upper = true};
    bool ended = false, open = false;
    if (bp_data_reader_begin(&reader) != BP_OK ||
        bp_data_look(&reader, 0, &bytes, &count) != BP_OK) {
        return false;
    }
    const char *at = (const char *)bytes, *const end = at + count, *next;
    if (bp_words_is_universal(at, count)) {
        return true;
    }
    for (; at < end && (next = memchr(at, '\n', (size_t)(end - at))) != NULL; at = next + 1) {
        const char *last = at;
        size_t fields = 0, length = 1;
        if (!open && bp_words_is_comment(at, (size_t)(next - at))) {
            continue;
        }
        for (const char *word = at; word < next && length > 0; word += length) {
            word += strspn(word, " \t\r");
            length = word < next ? strcspn(word, " \t\r\n") : 0;
            last = length > 0 ? word : last;
            fields += length > 0 ? 1 : 0;
        }
        ended = ended || (fields == 0 && of.lines > 0);
        of.sentences += fields > 0 && !open ? 1 : 0;
        open = fields > 0;
        if (open && !task_note_line(&of, at, next, fields, last)) {
            return false;
        }
    }
    const bool plain = of.capitals >= 2 && of.upper;
    return ended && (of.typed ? of.begins
                              : (plain || of.tabs) && of.classes >= 2 && of.sentences >= 2 &&
                                    of.lines >= 4 * of.classes && of.lines >= 2 * of.sentences);
}

/* What a token file of bedplate's own was made of. */
static row_form task_form_of_tokens(task_look *look)
{
    static const row_form forms[] = {
        [BP_FORM_OPEN] = ROW_TOKENS,      [BP_FORM_TEXT] = ROW_TOKENS,
        [BP_FORM_PROMPT] = ROW_PROMPT,    [BP_FORM_LABELLED] = ROW_LABELLED,
        [BP_FORM_NUMBERS] = ROW_OTHER,    [BP_FORM_TAGGED] = ROW_TAGGED,
        [BP_FORM_ANSWERS] = ROW_QUESTION, [BP_FORM_CHAT] = ROW_TALK,
        [BP_FORM_TEXTS] = ROW_TEXTS,      [BP_FORM_PAIRS] = ROW_PREFERENCE,
        [BP_FORM_PACKED] = ROW_TOKENS};
    bp_error unheard = {.code = BP_OK};
    bp_tokens tokens;
    if (bp_tokens_open(&tokens, look->s.store, look->files.data.source.name, NULL, &unheard) !=
        BP_OK) {
        return ROW_OTHER;
    }
    const uint32_t form = tokens.head.form;
    const bool judged = tokens.head.unlabelled == 0;
    look->pairs = tokens.head.texts == 2 && tokens.head.types == BP_PAIR_APART;
    bp_tokens_close(&tokens);
    const row_form found = form < sizeof forms / sizeof forms[0] ? forms[form] : ROW_OTHER;
    return found == ROW_LABELLED && !judged ? ROW_OTHER : found;
}

static row_form task_find_form(task_look *look)
{
    const bp_data_format format = look->files.data.format;
    const bool json = format == BP_DATA_JSONL;
    const bool text = format == BP_DATA_TEXT || format == BP_DATA_BYTES;
    if (format == BP_DATA_LLMC || format == BP_DATA_NANOGPT || format == BP_DATA_TOKENS) {
        snprintf(look->columns, sizeof look->columns, "a token file");
        return format == BP_DATA_TOKENS ? task_form_of_tokens(look) : ROW_TOKENS;
    }
    if ((format == BP_DATA_TEXT || format == BP_DATA_TSV) && task_are_tagged(look)) {
        snprintf(look->columns, sizeof look->columns, "columns of words and tags");
        return ROW_TAGGED;
    }
    if (text) {
        snprintf(look->columns, sizeof look->columns, "plain text");
        return ROW_TEXT;
    }
    if (!json && format != BP_DATA_CSV && format != BP_DATA_TSV) {
        return ROW_OTHER;
    }
    if (json) {
        task_fields_read(&look->files, 0, look->scratch, &look->fields);
    }
    const row_form plain = json ? task_form_of_fields(look) : ROW_OTHER;
    if (plain != ROW_OTHER) {
        return plain;
    }
    look->kind = task_find_kind(look);
    look->pairs = look->kind != NULL && look->parts == 2;
    if (task_are_texts(look)) {
        return ROW_TEXTS;
    }
    const bool labelled = has(&look->fields, FIELD_LABEL) || (!json && task_names_label(look));
    if (look->kind != NULL || labelled) {
        task_say_label(look);
        if (!task_is_beside(look)) {
            return ROW_LABELLED;
        }
    }
    if (has(&look->fields, FIELD_TEXT)) {
        task_say_columns(look, look->fields.name[FIELD_TEXT], NULL);
        return ROW_TEXT;
    }
    return ROW_OTHER;
}

/* ---- the task ---- */

static bool task_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && strchr(" ,", at[length]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether the first label is one that a task of that word learns: those behind it are for the
 * reader of the task, as is what may be a name with spaces. */
static bool task_reads_label(const task_look *look, const char *word)
{
    const bp_task own = look->s.spec.config.task;
    const bool lists =
        look->kind != NULL && look->kind[0] == 'm' && look->files.data.format == BP_DATA_JSONL;
    if (look->kind == NULL || (own >= BP_TASK_CLASSES && own <= BP_TASK_REGRESSION) ||
        own == BP_TASK_RANKING) {
        return true; /* classification is what the model's files say it is */
    }
    if (strcmp(word, "regression") == 0 || strcmp(word, "reranking") == 0) {
        return look->numbers && !lists;
    }
    const bool whole = floor(look->first) == look->first;
    return strcmp(word, "classification") != 0 || (!lists && (!look->numbers || whole));
}

/* Whether rows have what a task of that word reads. */
static bool task_reads(const task_look *look, const char *word)
{
    const settings *set = look->s.set;
    const bool language = task_listed("causal-lm masked-lm", word);
    const bool judges = task_listed(row_forms[ROW_LABELLED].tasks, word);
    const bp_data_format format = look->files.data.format;
    const bool columns = format == BP_DATA_TEXT || format == BP_DATA_TSV || format == BP_DATA_CSV;
    if (columns && strcmp(word, "token-classification") == 0) {
        return true; /* columns of words and tags look like any others */
    }
    const bp_family *family = look->s.spec.config.family;
    if (family != NULL && family->whole_class != NULL && strcmp(word, "causal-lm") == 0) {
        return true;
    }
    if (look->form == ROW_OTHER || task_listed(row_forms[look->form].tasks, word)) {
        return look->form != ROW_LABELLED || task_reads_label(look, word);
    }
    if (language && (has(&look->fields, FIELD_TEXT) || set->text_column != NULL ||
                     (format != BP_DATA_JSONL && format != BP_DATA_TOKENS))) {
        return true;
    }
    if (judges && (look->form == ROW_TEXT || look->form == ROW_TEXTS)) {
        return set->predictions != NULL || set->label_column != NULL || look->scored;
    }
    return look->form == ROW_LABELLED && strcmp(word, "embedding") == 0;
}

/* "classification: FILE holds conversations (column messages)", as an error. */
static bp_status task_contradicts(task_look *look, const char *what, const char *found,
                                  const char *expected)
{
    char name[BP_ERROR_NAME_MAX];
    const char *path = look->files.data.files[0].path;
    const char *slash = strrchr(path, '/');
    bp_error *error = &look->s.error;
    snprintf(name, sizeof name, "--task: %.60s holds %s (%.60s)", slash != NULL ? slash + 1 : path,
             row_forms[look->form].holds, look->columns);
    const bp_status status = bp_error_set(error, BP_ERR_USAGE, where, what, name);
    bp_error_found(error, found, strlen(found));
    bp_error_right(error, expected);
    return status;
}

/* The word of the task that the data are for, NULL for the model's own. */
static bp_status task_decide(task_look *look, const char **word)
{
    const bp_task own = look->s.spec.config.task;
    const bool language = own < BP_TASK_CLASSES;
    const bool judges =
        own == BP_TASK_CLASSES || own == BP_TASK_LABELS || model_task_is_number(own);
    const char *theirs = row_forms[look->form].task;
    *word = NULL;
    if (own == BP_TASK_MASKED_LM &&
        (look->form == ROW_TALK || look->form == ROW_PREFERENCE || look->form == ROW_JUDGED)) {
        const bool judged = look->form == ROW_JUDGED;
        return task_contradicts(
            look,
            judged ? "a model that reads in both directions cannot learn from judgements"
                   : "a model that reads in both directions cannot learn them",
            model_task_word((uint32_t)own),
            look->form == ROW_TALK ? "a causal model, or labelled texts"
            : judged ? "a causal model, or --task masked-lm to learn the texts without labels"
                     : "a causal model");
    }
    if (language && look->form == ROW_ASKED) {
        BP_TRY(policy_check_others(&look->s));
        return task_contradicts(
            look, "what is learned from needs a `completion`; rewards need a --reward",
            model_task_word((uint32_t)own), "grpo");
    }
    if (own == BP_TASK_CAUSAL_LM && (look->form == ROW_TAGGED || look->form == ROW_QUESTION)) {
        return task_contradicts(look,
                                "their tasks need bert, or another model that reads both ways",
                                model_task_word((uint32_t)own), "an encoder");
    }
    if (look->form == ROW_LABELLED && look->files.data.format == BP_DATA_TOKENS && !judges) {
        return task_contradicts(
            look,
            "it does not say whether its labels are classes or numbers: name the "
            "task it was made for",
            "auto", row_forms[ROW_LABELLED].tasks);
    }
    if (look->form == ROW_LABELLED) {
        *word = judges ? NULL : look->kind != NULL ? look->kind : theirs;
    } else if (look->form == ROW_TEXTS) {
        *word = judges ? NULL : theirs;
    } else if (look->form == ROW_TAGGED || look->form == ROW_QUESTION) {
        *word = theirs;
    } else {
        *word = own == BP_TASK_CAUSAL_LM ? theirs : NULL;
    }
    const settings *set = look->s.set;
    const bool headless = language && look->weights && set->adapter == NULL &&
                          set->command == COMMAND_EVAL && !set->allow_missing;
    if (*word != NULL && headless && look->form >= ROW_LABELLED && look->form != ROW_TEXTS) {
        return task_contradicts(look,
                                "the model has no head for this task: train one first, or evaluate "
                                "the text alone by naming its task",
                                *word, model_task_word((uint32_t)own));
    }
    return BP_OK;
}

static void task_say(const task_look *look, settings *set, const char *word, uint32_t classes)
{
    char *line = set->task_from;
    snprintf(line, sizeof set->task_from, "%s", look->columns);
    set->task_classes = classes;
    if (set->quiet) {
        return;
    }
    output_print(stderr, "bedplate: task: %s", word);
    if (classes > 0) {
        output_print(stderr, ", %u classes", classes);
    }
    output_print(stderr, ", from %s\n", line);
}

/* The tasks that the data are for. */
static const char *task_expected(const task_look *look)
{
    const char *task = row_forms[look->form].task;
    return task == NULL                                       ? row_forms[look->form].tasks
           : look->form == ROW_LABELLED && look->kind != NULL ? look->kind
                                                              : task;
}

/* As many classes as labels that are numbers need, of a task that the data are for. A model whose
 * files name its classes has them. */
static void task_count_classes(const task_look *look, settings *set, const char *word)
{
    const char *theirs = look->kind != NULL ? look->kind : row_forms[ROW_LABELLED].task;
    const bool same = strcmp(word, model_task_word((uint32_t)look->s.spec.config.task)) == 0;
    const bool counts = look->form == ROW_LABELLED && word[0] != 'r' && strcmp(word, theirs) == 0;
    if (!same && counts && look->numbers && look->classes > 2 && set->num_labels == 0) {
        set->num_labels = look->classes;
    }
}

/* What rows are to a plan, which reads no more of the data than this. */
static void task_note_rows(const task_look *look, settings *set)
{
    const bool joined = look->form == ROW_TEXT || look->form == ROW_TOKENS;
    set->rows = look->form == ROW_OTHER || look->form == ROW_ASKED ? SETTINGS_ROWS_UNSEEN
                : joined && !set->packing                          ? SETTINGS_ROWS_JOINED
                                                                   : SETTINGS_ROWS_PADDED;
    set->row_pairs = look->form == ROW_LABELLED && look->pairs;
}

/* Whether the first line of a file has semicolons, no comma, and no quote that a later one closes.
 */
static bool task_has_semicolons(task_look *look, uint32_t file)
{
    bp_error unheard = {.code = BP_OK};
    bp_data_reader reader = task_reader(&look->files, file, look->scratch, &unheard);
    const unsigned char *bytes;
    size_t count = 0;
    if (bp_data_reader_begin(&reader) != BP_OK ||
        bp_data_look(&reader, 0, &bytes, &count) != BP_OK) {
        return false;
    }
    const char *end = memchr(bytes, '\n', count);
    const size_t line = end != NULL ? (size_t)(end - (const char *)bytes) : count;
    bool open = false;
    for (size_t i = 0; i < line; i++) {
        open = open != (bytes[i] == '"');
    }
    return memchr(bytes, ';', line) != NULL && memchr(bytes, ',', line) == NULL && !open;
}

/* Tables as spreadsheets of many countries write them. A first file of a known form has commas. */
static bp_status task_check_commas(task_look *look)
{
    const data_files *files = &look->files;
    bp_error *error = &look->s.error;
    const bool csv = files->data.format == BP_DATA_CSV;
    for (uint32_t i = look->form == ROW_OTHER ? 0 : 1; csv && i < files->data.file_count; i++) {
        if (task_has_semicolons(look, i)) {
            const bp_status status =
                bp_error_set(error, BP_ERR_DATA, where, "the columns are separated by semicolons",
                             files->data.files[i].path);
            bp_error_right(error, "commas, or tabs in a .tsv");
            return status;
        }
    }
    return BP_OK;
}

/* What was found becomes the settings'. */
static bp_status task_apply(task_look *look, settings *set)
{
    const bp_model_config *own = &look->s.spec.config;
    const char *word;
    if (model_sees(own)) {
        set->rows = SETTINGS_ROWS_PADDED; /* an image and a text each */
        if (!set->quiet) {
            output_print(stderr, "bedplate: task: image-text, images and their texts\n");
        }
        return BP_OK;
    }
    if (model_makes_texts(own) && strcmp(set->task, "auto") == 0) {
        set->rows = SETTINGS_ROWS_PADDED; /* two texts each, whatever they are called */
        if (model_hears(own) && !set->quiet) {
            output_print(stderr, "bedplate: task: causal-lm, texts of speech\n");
        }
        return BP_OK;
    }
    if (strcmp(set->task, "auto") != 0) {
        if (!task_reads(look, set->task)) {
            /* What makes texts of texts has no head for most tasks that rows are for. */
            const bool whole = own->family != NULL && own->family->whole_class != NULL;
            return task_contradicts(look, "the data contradict the task", set->task,
                                    whole
                                        ? "rows for that task, or causal-lm with source and target"
                                        : task_expected(look));
        }
        task_count_classes(look, set, set->task);
        return BP_OK;
    }
    BP_TRY(task_decide(look, &word));
    const bool same = word == NULL || strcmp(word, model_task_word((uint32_t)own->task)) == 0;
    if (look->form == ROW_OTHER) {
        return BP_OK;
    }
    const bool counts = look->form == ROW_LABELLED && (word == NULL || word[0] != 'r') &&
                        own->task != BP_TASK_RANKING;
    uint32_t classes = !counts                ? 0
                       : set->num_labels != 0 ? (uint32_t)set->num_labels
                       : same                 ? own->classes
                                              : look->classes;
    if (!same) {
        set->task = word;
        task_count_classes(look, set, word);
    }
    task_say(look, set, !same ? word : model_task_word((uint32_t)own->task), classes);
    return BP_OK;
}

/* ---- images ---- */

/* How many directories one has; 0: it has none, or is none. */
static uint32_t task_count_folders(const char *directory)
{
    uint32_t count = 0;
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[BP_STORE_PATH_MAX];
        struct stat about;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        count += entry->d_name[0] != '.' && (size_t)length < sizeof path &&
                         stat(path, &about) == 0 && S_ISDIR(about.st_mode)
                     ? 1
                     : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder); /* only read */
    }
    return count;
}

/* A model of images that is given a directory of directories. */
static void task_find_images(task_look *look, settings *set)
{
    const bool open = strcmp(set->data_format, "auto") == 0;
    const bool named = strcmp(set->data_format, "imagefolder") == 0;
    const uint32_t count =
        set->data.count == 1 && (open || named) ? task_count_folders(set->data.item[0]) : 0;
    if (count == 0) {
        return;
    }
    set->data_format = "imagefolder";
    snprintf(look->columns, sizeof look->columns, "the folders of %.120s", set->data.item[0]);
    if (strcmp(set->task, "auto") == 0) {
        task_say(look, set, model_task_word((uint32_t)look->s.spec.config.task), count);
    }
}

/* ---- looking ---- */

static bool task_has_file(const settings *set, bp_store *store, const char *name)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    return bp_storage_join(path, set->model, name, NULL) == BP_OK &&
           store->exists(store, path, &there) == BP_OK && there;
}

/* Opens the data. False: they, or the model, cannot be read, and the command will say why. */
static bool task_open(task_look *look, settings *set)
{
    session *s = &look->s;
    s->set = set;
    if (set->data.count == 0 || set->model == NULL || !model_config(set->model, &s->spec.config) ||
        bp_store_posix_init(&s->posix, "") != BP_OK) {
        return false;
    }
    s->store = &s->posix.store;
    look->embedder = task_has_file(set, s->store, "modules.json");
    look->weights =
        bp_preset_find(set->model) == NULL || task_has_file(set, s->store, "config.json");
    if (s->spec.config.vocabulary == 0) {
        task_find_images(look, set);
        return false;
    }
    look->files.look = true;
    look->open = data_files_find(&look->files, s, &set->data) == BP_OK;
    return look->open && look->files.data.file_count > 0;
}

bp_status data_task_resolve(settings *set)
{
    memory_block memory;
    bp_error error = {.code = BP_OK};
    if ((set->command & (COMMAND_TRAIN | COMMAND_PLAN | COMMAND_EVAL)) == 0) {
        return BP_OK;
    }
    if (memory_take(&memory, sizeof(task_look), false, "memory for rows", &error) != BP_OK) {
        return BP_OK; /* the run itself will need more */
    }
    task_look *look = memory.address;
    bp_status status = BP_OK;
    if (task_open(look, set)) {
        look->form = task_find_form(look);
        task_note_rows(look, set);
        status = task_check_commas(look);
        status = status == BP_OK ? task_apply(look, set) : status;
    } else if (look->files.lost) {
        status = look->s.error.code; /* the command would find the rest of it */
    }
    if (status != BP_OK) {
        (void)report_error(&look->s.error);
    }
    data_files_close(&look->files);
    memory_give_back(&memory);
    return status;
}

void data_task_json(output *out, const session *s)
{
    const settings *set = s->set;
    const bool said = strcmp(set->task, "auto") != 0;
    json_text(out, "task", said ? set->task : model_task_word((uint32_t)s->spec.config.task));
    if (set->task_from[0] != '\0') {
        json_text(out, "task_from", set->task_from);
    }
    if (bp_task_scores_samples(s->spec.config.task) && s->spec.config.task < BP_TASK_EMBEDDING) {
        json_count(out, "num_labels", s->spec.config.classes);
    }
}
