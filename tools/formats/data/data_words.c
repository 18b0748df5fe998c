/* SPDX-License-Identifier: MIT */
/* Sentences of words. */
#include "tools/formats/data/data_words.h"

#include <string.h>

/* The lists that a JSON object may have, in the order in which they are looked for. */
enum { LISTS = 5, WORD_LISTS = 2 };

static const char *const list_names[LISTS] = {"tokens", "words", "ner_tags", "tags", "labels"};

typedef struct reading {
    bp_words *words;
    bp_data_reader *reader;
    bp_sentence sentence;
    bp_records records;
    void *scratch;
    bool lines; /* columns: a sentence is a row */
} reading;

static void list_clear(bp_word_list *list)
{
    list->count = 0;
    list->at[0] = 0;
    list->at[1] = 0;
}

/* Adds bytes to the text that is being made, whose end at[count + 1] is. */
static bp_status list_add(reading *r, bp_word_list *list, const char *text, size_t length)
{
    uint32_t *end = &list->at[list->count + 1];
    if (list->count == BP_WORDS_MAX) {
        return bp_data_refuse_most(r->reader, "the sentence has more words than can be",
                                   (int64_t)list->count + 1, BP_WORDS_MAX);
    }
    if (length > BP_WORDS_TEXT - *end) {
        return bp_data_refuse_most(r->reader, "the sentence has more bytes than can be",
                                   (int64_t)(*end + length), BP_WORDS_TEXT);
    }
    memcpy(list->text + *end, text, length);
    *end += (uint32_t)length;
    return BP_OK;
}

static void list_end(bp_word_list *list)
{
    list->count++;
    list->at[list->count + 1] = list->at[list->count];
}

static bp_status give_sentence(reading *r)
{
    bp_words *words = r->words;
    const uint32_t count = r->sentence.words.count, tags = r->sentence.tags.count;
    if (count == 0) {
        return BP_OK;
    }
    words->rows += r->lines ? 1 : 0;
    if (tags != 0 && tags != count) {
        return bp_data_refuse_numbers(r->reader,
                                      "the sentence has another number of tags than of "
                                      "words",
                                      tags, count);
    }
    if (tags == 0 && !words->may_lack) {
        return bp_data_refuse(r->reader, "the words have no tags (`ner_tags`, `tags` or `labels`, "
                                         "or a column behind the word)");
    }
    if (words->sentences > 0 && words->lacks != (tags == 0)) {
        return bp_data_refuse(r->reader, "what comes before is otherwise: all sentences must have "
                                         "tags, or none of them");
    }
    words->lacks = tags == 0;
    words->sentences++;
    return words->sentence(words->user, r->reader, &r->sentence);
}

/* ---- JSON ---- */

static bp_status take_list(reading *r, bp_word_list *list, bool numbers)
{
    bp_json *json = &r->records.span.json;
    bp_json_event event;
    list_clear(list);
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return bp_json_refuse(json, "words and tags are lists: [\"..\", ..]");
    }
    for (;;) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        const bool text = event.kind == BP_JSON_TEXT || event.kind == BP_JSON_TEXT_PART;
        if (!text && (!numbers || event.kind != BP_JSON_NUMBER)) {
            return bp_json_refuse(json, numbers ? "a tag is neither a number nor a name"
                                                : "a word is not a string");
        }
        BP_TRY(list_add(r, list, event.text, event.length));
        if (event.kind != BP_JSON_TEXT_PART) {
            list_end(list);
        }
    }
}

static bool is_asked(const char *name, const bp_json_event *key)
{
    return name != NULL && strlen(name) == key->length && memcmp(name, key->text, key->length) == 0;
}

static uint32_t list_of(const bp_data_reading *rule, const bp_json_event *key)
{
    uint32_t i = 0;
    if (is_asked(rule->text_column, key)) {
        return 0;
    }
    if (is_asked(rule->label_column, key)) {
        return WORD_LISTS;
    }
    while (i < LISTS && (strlen(list_names[i]) != key->length ||
                         memcmp(list_names[i], key->text, key->length) != 0)) {
        i++;
    }
    const char *asked = i < WORD_LISTS ? rule->text_column : rule->label_column;
    return asked == NULL ? i : LISTS;
}

static bp_status take_object(reading *r)
{
    bp_json *json = &r->records.span.json;
    bp_json_event event;
    uint32_t words = LISTS, tags = LISTS; /* which of the lists was taken */
    list_clear(&r->sentence.words);
    list_clear(&r->sentence.tags);
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        const uint32_t which = list_of(&r->words->reading, &event);
        uint32_t *taken = which < WORD_LISTS ? &words : &tags;
        if (which < *taken) {
            *taken = which;
            BP_TRY(take_list(r, which < WORD_LISTS ? &r->sentence.words : &r->sentence.tags,
                             which >= WORD_LISTS));
        } else {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return words < LISTS ? BP_OK : bp_json_refuse(json, "the object lacks `tokens`, or `words`");
}

static bp_status read_json(reading *r)
{
    bool there;
    BP_TRY(bp_records_begin(&r->records, r->reader, r->scratch));
    BP_TRY(bp_records_next(&r->records, &there));
    while (there) {
        r->words->rows++;
        BP_TRY(bp_records_named(&r->records, take_object(r)));
        BP_TRY(give_sentence(r));
        BP_TRY(bp_records_next(&r->records, &there));
    }
    return BP_OK;
}

/* ---- columns ---- */

/* Bytes of a line are taken one by one: a line may lie across windows. */
typedef struct columns {
    reading *r;
    uint64_t offset;
    char parting;    /* of fields: '\t', or ' ' for any white space */
    uint32_t fields; /* of the line, so far */
    bool inside;     /* of a field */
    bool universal;  /* CoNLL-U, whose columns have these numbers */
    bool no_word;    /* its line is of a range, or of an empty node */
} columns;

enum { UNIVERSAL_FORM = 2, UNIVERSAL_TAG = 4, UNIVERSAL_COLUMNS = 10 };

bool bp_words_is_comment(const char *line, size_t length)
{
    static const char *const names[] = {"# newdoc", "# newpar"};
    size_t name = 1;
    if (length == 0 || line[0] != '#' || memchr(line, '\t', length) != NULL) {
        return false; /* a tab is before a tag */
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t own = strlen(names[i]);
        if (length >= own && memcmp(line, names[i], own) == 0) {
            return true;
        }
    }
    while (name < length && line[name] == ' ') {
        name++;
    }
    const char *equal = memchr(line + name, '=', length - name);
    const bool apart = equal != NULL && equal[-1] == ' ' && equal + 1 < line + length;
    return equal != NULL && equal > line + name && (name > 1 || (apart && equal[1] == ' '));
}

bool bp_words_is_universal(const char *text, size_t length)
{
    const char *end = text + length, *next;
    for (; (next = memchr(text, '\n', (size_t)(end - text))) != NULL; text = next + 1) {
        uint32_t fields = 1;
        for (const char *at = text; at < next; at++) {
            fields += *at == '\t' ? 1 : 0;
        }
        if (next == text || text[0] == '\r' || (text[0] == '#' && fields == 1)) {
            continue;
        }
        return fields == UNIVERSAL_COLUMNS && text[0] == '1' && (text[1] == '\t' || text[1] == '-');
    }
    return false;
}

/* Whether a tab stands in the line; fields may then have spaces in them. */
static bp_status find_parting(columns *c, uint64_t end)
{
    c->parting = ' ';
    for (uint64_t at = c->offset; at < end;) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(c->r->reader, at, &bytes, &count));
        const size_t n = end - at < count ? (size_t)(end - at) : count;
        c->parting = n > 0 && memchr(bytes, '\t', n) != NULL ? '\t' : c->parting;
        at += n > 0 ? n : end - at;
    }
    return BP_OK;
}

/* The list that the field at hand is for; NULL: none. Of the first field the word is made, of each
 * later one the tag, which the next one replaces. */
static bp_word_list *columns_list(const columns *c)
{
    bp_sentence *s = &c->r->sentence;
    if (!c->universal) {
        return c->fields == 1 ? &s->words : &s->tags;
    }
    return c->no_word                    ? NULL
           : c->fields == UNIVERSAL_FORM ? &s->words
           : c->fields == UNIVERSAL_TAG  ? &s->tags
                                         : NULL;
}

static bp_status take_byte(columns *c, char byte)
{
    bp_sentence *s = &c->r->sentence;
    const bool parts =
        byte == c->parting || byte == '\r' || (c->parting == ' ' && (byte == '\v' || byte == '\f'));
    if (parts) {
        c->inside = false;
        return BP_OK;
    }
    if (!c->inside) {
        c->inside = true;
        c->fields++;
        if (!c->universal || c->fields == UNIVERSAL_TAG) {
            s->tags.at[s->tags.count + 1] = s->tags.at[s->tags.count];
        }
    }
    c->no_word = c->no_word || (c->universal && c->fields == 1 && (byte == '-' || byte == '.'));
    bp_word_list *list = columns_list(c);
    return list != NULL ? list_add(c->r, list, &byte, 1) : BP_OK;
}

static bool is_document_start(const bp_word_list *words)
{
    static const char start[] = "-DOCSTART-";
    const uint32_t first = words->at[words->count], length = words->at[words->count + 1] - first;
    return length == sizeof start - 1 && memcmp(words->text + first, start, length) == 0;
}

/* Whether the first line has the names of columns, as no text has words and tags. */
static bool is_header(const columns *c)
{
    static const char *const word_names[] = {"word", "words", "token", "tokens", NULL};
    static const char *const tag_names[] = {"tag", "tags",    "label",    "labels",
                                            "ner", "ner_tag", "ner_tags", "pos",
                                            "iob", "bio",     "entity",   NULL};
    const bp_sentence *s = &c->r->sentence;
    return c->r->reader->line == 1 && c->fields > 1 && !c->r->words->reading.no_header &&
           bp_column_named(word_names, s->words.text, s->words.at[1]) &&
           bp_column_named(tag_names, s->tags.text, s->tags.at[1]);
}

/* A line has been taken: a word with its tag, or the end of a sentence. */
static bp_status end_line(columns *c)
{
    bp_sentence *s = &c->r->sentence;
    if (is_header(c)) {
        list_clear(&s->words);
        list_clear(&s->tags);
        return BP_OK;
    }
    const bool start = c->fields > 0 && is_document_start(&s->words);
    if (c->fields == 0 || start) {
        BP_TRY(give_sentence(c->r));
        list_clear(&s->words);
        list_clear(&s->tags);
        return BP_OK;
    }
    if (c->no_word) {
        return BP_OK;
    }
    if (c->universal && c->fields != UNIVERSAL_COLUMNS) {
        return bp_data_refuse_numbers(c->r->reader,
                                      "the line of CoNLL-U has too few columns or many", c->fields,
                                      UNIVERSAL_COLUMNS);
    }
    if (c->fields > 1 && s->tags.count != s->words.count) {
        return bp_data_refuse(c->r->reader, "the word has a tag, and those before it have none");
    }
    if (c->fields == 1 && s->tags.count > 0) {
        return bp_data_refuse(c->r->reader, "the word has no tag, and those before it have one");
    }
    list_end(&s->words);
    if (c->fields > 1) {
        list_end(&s->tags);
    }
    return BP_OK;
}

static bp_status take_line(columns *c, uint64_t end)
{
    bp_data_reader *reader = c->r->reader;
    BP_TRY(find_parting(c, end));
    c->fields = 0;
    c->inside = false;
    c->no_word = false;
    if (c->r->sentence.words.count == 0 && c->offset < end) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(reader, c->offset, &bytes, &count));
        const size_t length = end - c->offset < count ? (size_t)(end - c->offset) : count;
        if (length > 0 && c->universal ? bytes[0] == '#'
                                       : bp_words_is_comment((const char *)bytes, length)) {
            return BP_OK;
        }
    }
    while (c->offset < end) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(reader, c->offset, &bytes, &count));
        if (count == 0) {
            return bp_data_refuse(reader, "the file changed while it was read");
        }
        for (size_t i = 0; i < count && c->offset < end; i++, c->offset++) {
            BP_TRY(take_byte(c, (char)bytes[i]));
        }
    }
    return end_line(c);
}

static bp_status read_columns(reading *r)
{
    bp_data_reader *reader = r->reader;
    columns c = {.r = r};
    const unsigned char *bytes;
    size_t count;
    list_clear(&r->sentence.words);
    list_clear(&r->sentence.tags);
    BP_TRY(bp_data_mark(reader, &c.offset));
    BP_TRY(bp_data_look(reader, c.offset, &bytes, &count));
    c.universal = bp_words_is_universal((const char *)bytes, count);
    while (c.offset < reader->size) {
        uint64_t end;
        reader->line++;
        BP_TRY(bp_data_line_end(reader, c.offset, &end));
        BP_TRY(take_line(&c, end));
        c.offset = end + 1;
    }
    return give_sentence(r);
}

bp_status bp_words_read(bp_words *words, bp_data_reader *reader, bp_data_format format,
                        void *scratch)
{
    char *at = (char *)scratch + BP_RECORDS_SCRATCH;
    uint32_t *places = (uint32_t *)(void *)(at + 2 * BP_WORDS_TEXT);
    reading r = {.words = words, .reader = reader, .scratch = scratch};
    r.sentence.words = (bp_word_list){.text = at, .at = places};
    r.sentence.tags = (bp_word_list){.text = at + BP_WORDS_TEXT, .at = places + BP_WORDS_MAX + 2};
    r.lines = format != BP_DATA_JSONL;
    return format == BP_DATA_JSONL ? read_json(&r) : read_columns(&r);
}
