/* SPDX-License-Identifier: MIT */
/* Words to labelled tokens. */
#include "tools/formats/data/data_tags.h"

#include <string.h>

#include "core/base/number.h"
#include "core/base/storage.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokenise.h"

#define RULES 0x54414733u /* goes up when the same data would give other tokens */

static const char where[] = "tags";

/* The scratch, cut up. */
typedef struct tags_room {
    void *words;
    unsigned char *window;
    unsigned char *buffer;
    uint32_t *labels; /* BP_TAGS_PIECES */
    uint32_t *ids;    /* BP_TAGS_IDS */
} tags_room;

/* Sentences on their way into a token file. */
typedef struct tags_maker {
    bp_tags *work;
    bp_tokens_writer writer;
    bp_documents rule; /* for labels: nothing is read by it */
    tags_room room;
    const bp_words *words;
    uint32_t pieces; /* of the sentence, so far */
} tags_maker;

static tags_room room_of(void *scratch)
{
    char *at = scratch;
    tags_room r = {.words = at};
    r.labels = (uint32_t *)(void *)(at + BP_WORDS_SCRATCH);
    r.ids = r.labels + BP_TAGS_PIECES;
    r.window = (unsigned char *)(r.ids + BP_TAGS_IDS);
    r.buffer = r.window + BP_TAGS_WINDOW;
    return r;
}

static bp_data_reader reader_of(const bp_tags *work, uint32_t file, const tags_room *r)
{
    const bp_data_file *row = &work->data->files[file];
    return (bp_data_reader){.store = work->data->store,
                            .file = row->file,
                            .path = row->path,
                            .buffer = r->window,
                            .capacity = BP_TAGS_WINDOW,
                            .error = work->error};
}

/* Reads the sentences of all files. */
static bp_status read_all(const bp_tags *work, bp_words *words)
{
    const tags_room r = room_of(work->scratch);
    words->sentences = 0;
    words->rows = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i, &r);
        BP_TRY(bp_data_reader_begin(&reader));
        BP_TRY(bp_words_read(words, &reader, work->data->format, r.words));
    }
    return BP_OK;
}

void bp_tags_word(bp_encoder *encoder, const char *text, size_t length, uint32_t *ids, size_t room,
                  size_t *count)
{
    if (encoder != NULL) {
        bp_encoder_text(encoder, text, length, BP_ENCODE_PLAIN, ids, room, count);
        return;
    }
    *count = length;
    for (size_t i = 0; i < length && i < room; i++) {
        ids[i] = (unsigned char)text[i];
    }
}

uint32_t bp_tags_inside(const bp_class_names *names, uint32_t class_number)
{
    char name[BP_CLASS_NAMES_TEXT];
    uint32_t inside = class_number;
    const char *own = names != NULL && class_number < names->count
                          ? names->text + names->start[class_number]
                          : "";
    if (strncmp(own, "B-", 2) == 0) {
        memcpy(name, own, strlen(own) + 1);
        name[0] = 'I';
        (void)bp_class_names_find(names, name, strlen(name), &inside);
    }
    return inside;
}

/* Writes ids, all but the first of which have `later` for a label; 0: none. */
static bp_status put_pieces(tags_maker *m, bp_data_reader *reader, const uint32_t *ids,
                            size_t count, uint32_t first, uint32_t later)
{
    if (count > BP_TAGS_PIECES - m->pieces) {
        return bp_data_refuse_most(reader, "the sentence has more tokens than can be",
                                   (int64_t)(m->pieces + count), BP_TAGS_PIECES);
    }
    for (size_t i = 0; i < count; i++) {
        m->room.labels[m->pieces++] = i == 0 ? first : later;
    }
    return bp_tokens_put(&m->writer, ids, count);
}

static bp_status put_word(tags_maker *m, bp_data_reader *reader, const bp_sentence *s, uint32_t i)
{
    const bp_tags *work = m->work;
    const char *word = s->words.text + s->words.at[i];
    uint32_t first = 1, later = 0;
    uint64_t class_number = 0;
    size_t count;
    if (s->tags.count > 0) {
        BP_TRY(bp_documents_label(&m->rule, reader, s->tags.text + s->tags.at[i],
                                  s->tags.at[i + 1] - s->tags.at[i], &class_number));
        first = (uint32_t)class_number + 1;
        later = work->all ? bp_tags_inside(work->names, (uint32_t)class_number) + 1 : 0;
    }
    bp_tags_word(work->encoder, word, s->words.at[i + 1] - s->words.at[i], m->room.ids, BP_TAGS_IDS,
                 &count);
    if (count > BP_TAGS_IDS) {
        return bp_data_refuse_most(reader, "a word has more tokens than can be", (int64_t)count,
                                   BP_TAGS_IDS);
    }
    return put_pieces(m, reader, m->room.ids, count, first, later);
}

/* What the post-processor puts at a place of a text. */
static bp_status put_around(tags_maker *m, bp_data_reader *reader, bp_pair_position place)
{
    const uint32_t *ids = NULL;
    const bp_encoder *encoder = m->work->encoder;
    const uint32_t count = encoder != NULL ? bp_encoder_single_ids(encoder, place, &ids) : 0;
    return count > 0 ? put_pieces(m, reader, ids, count, 0, 0) : BP_OK;
}

static bp_status put_sentence(void *user, bp_data_reader *reader, const bp_sentence *s)
{
    tags_maker *m = user;
    bp_example example = {.first = m->writer.head.tokens};
    m->pieces = 0;
    BP_TRY(put_around(m, reader, BP_PAIR_BEFORE));
    for (uint32_t i = 0; i < s->words.count; i++) {
        BP_TRY(put_word(m, reader, s, i));
    }
    BP_TRY(put_around(m, reader, BP_PAIR_BEHIND));
    if (m->pieces == 0) {
        return BP_OK;
    }
    BP_TRY(bp_tokens_at_row(&m->writer, m->words->rows - 1));
    example.count = m->pieces;
    BP_TRY(bp_tokens_put(&m->writer, m->room.labels, m->pieces));
    return bp_tokens_put_example(&m->writer, &example);
}

static bp_status count_sentence(void *user, bp_data_reader *reader, const bp_sentence *s)
{
    (void)user;
    (void)reader;
    (void)s;
    return BP_OK;
}

static bp_status make_file(tags_maker *m)
{
    bp_tags *work = m->work;
    const uint32_t *ids;
    bp_words words = {.user = m,
                      .sentence = count_sentence,
                      .reading = work->reading,
                      .may_lack = work->may_lack};
    BP_TRY(read_all(work, &words));
    BP_TRY(bp_tokens_begin(&m->writer, words.rows));
    words.sentence = put_sentence;
    m->words = &words;
    BP_TRY(read_all(work, &words));
    work->empty = words.rows - m->writer.head.examples;
    if (m->writer.head.examples == 0) {
        return bp_error_set(work->error, BP_ERR_DATA, where, "the data holds no tagged words",
                            work->data->source.name);
    }
    work->sentences = m->writer.head.examples;
    m->writer.head.documents = work->sentences;
    m->writer.head.form = BP_FORM_TAGGED;
    m->writer.head.unlabelled = words.lacks ? 1 : 0;
    m->writer.head.tail =
        work->encoder != NULL ? bp_encoder_single_ids(work->encoder, BP_PAIR_BEHIND, &ids) : 0;
    return bp_tokens_end(&m->writer);
}

static bp_status survey_files(bp_tags *work, const tags_room *r, uint64_t *key)
{
    bp_digest digest;
    uint64_t lines = 0;
    bp_digest_begin(&digest, 0);
    bp_data_key_number(&digest, RULES);
    bp_data_key_number(&digest, work->data->format);
    bp_data_key_number(&digest, work->classes);
    bp_data_key_number(&digest, work->all);
    bp_data_key_number(&digest, work->may_lack);
    bp_data_reading_key(&work->reading, &digest);
    if (work->names != NULL) {
        bp_digest_add(&digest, work->names->text, work->names->used);
    }
    bp_data_key_number(&digest, work->vocabulary);
    bp_data_key_number(&digest,
                       work->encoder != NULL ? bp_tokenizer_digest(work->encoder->tokenizer) : 0);
    work->bytes = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i, r);
        BP_TRY(bp_data_key_file(&reader, &digest, &lines));
        work->bytes += reader.size;
    }
    *key = bp_digest_end(&digest);
    return BP_OK;
}

bp_status bp_tags_open(bp_tags *work, bp_tokens *tokens)
{
    tags_maker m = {.work = work, .room = room_of(work->scratch)};
    const uint32_t most = work->vocabulary > work->classes ? work->vocabulary : work->classes + 1;
    uint64_t key;
    *tokens = (bp_tokens){.open = false};
    work->sentences = 0;
    work->empty = 0;
    work->built = false;
    BP_TRY(survey_files(work, &m.room, &key));
    if (bp_tokens_fits(tokens, work->data->store, work->path, key, m.room.buffer, work->error)) {
        return BP_OK;
    }
    m.rule =
        (bp_documents){.labels = BP_LABELS_CLASS, .classes = work->classes, .names = work->names};
    m.writer = (bp_tokens_writer){.store = work->data->store,
                                  .path = work->path,
                                  .buffer = m.room.buffer,
                                  .error = work->error,
                                  .head = {.width = bp_tokens_width(most), .key = key}};
    bp_status status = make_file(&m);
    if (status != BP_OK) {
        bp_tokens_abandon(&m.writer);
        return status;
    }
    work->built = true;
    return bp_tokens_open(tokens, work->data->store, work->path, NULL, work->error);
}

/* Sentences without a token are no examples. */
typedef struct tags_pass {
    const bp_tags *work;
    bp_words *to;
    tags_room room;
} tags_pass;

static bp_status pass_sentence(void *user, bp_data_reader *reader, const bp_sentence *s)
{
    const tags_pass *p = user;
    const uint32_t *ids;
    bp_encoder *encoder = p->work->encoder;
    size_t count = encoder != NULL ? bp_encoder_single_ids(encoder, BP_PAIR_BEFORE, &ids) +
                                         bp_encoder_single_ids(encoder, BP_PAIR_BEHIND, &ids)
                                   : 0;
    for (uint32_t i = 0; i < s->words.count && count == 0; i++) {
        bp_tags_word(encoder, s->words.text + s->words.at[i], s->words.at[i + 1] - s->words.at[i],
                     p->room.ids, BP_TAGS_IDS, &count);
    }
    return count > 0 ? p->to->sentence(p->to->user, reader, s) : BP_OK;
}

bp_status bp_tags_read(const bp_tags *work, bp_words *words)
{
    tags_pass pass = {.work = work, .to = words, .room = room_of(work->scratch)};
    bp_words all = {
        .user = &pass, .sentence = pass_sentence, .reading = work->reading, .may_lack = true};
    return read_all(work, &all);
}

/* ---- names ---- */

typedef struct naming {
    bp_class_names *names;
    uint32_t largest; /* of tags that are numbers, and one */
} naming;

/* Puts a name at its place among those that are there, which are in the order of their bytes. */
static bp_status insert_name(naming *n, bp_data_reader *reader, const char *text, size_t length)
{
    bp_class_names *names = n->names;
    uint32_t at = 0;
    while (at < names->count) {
        const char *other = names->text + names->start[at];
        const size_t bytes = strlen(other), least = bytes < length ? bytes : length;
        const int order = memcmp(other, text, least);
        if (order == 0 && bytes == length) {
            return BP_OK;
        }
        if (order > 0 || (order == 0 && bytes > length)) {
            break;
        }
        at++;
    }
    if (names->count == BP_CLASS_NAMES_MAX || length + 1 > BP_CLASS_NAMES_TEXT - names->used ||
        memchr(text, '\0', length) != NULL) {
        return bp_data_refuse_word(reader, "the tags have more names than can be", text, length);
    }
    memmove(names->start + at + 1, names->start + at, (names->count - at) * sizeof names->start[0]);
    names->start[at] = names->used;
    memcpy(names->text + names->used, text, length);
    names->text[names->used + length] = '\0';
    names->used += (uint32_t)length + 1;
    names->count++;
    return BP_OK;
}

static bp_status name_sentence(void *user, bp_data_reader *reader, const bp_sentence *s)
{
    naming *n = user;
    for (uint32_t i = 0; i < s->tags.count; i++) {
        const char *tag = s->tags.text + s->tags.at[i];
        const size_t length = s->tags.at[i + 1] - s->tags.at[i];
        bp_number number;
        int64_t value;
        if (bp_number_parse(tag, length, &number) != BP_OK) {
            BP_TRY(insert_name(n, reader, tag, length));
        } else if (bp_documents_whole(&number, &value) && value >= (int64_t)n->largest &&
                   value < BP_CLASS_NAMES_MAX) {
            n->largest = (uint32_t)value + 1;
        }
    }
    return BP_OK;
}

bp_status bp_tags_names(const bp_tags *work, bp_class_names *names, uint32_t *classes)
{
    naming n = {.names = names};
    bp_words words = {
        .user = &n, .sentence = name_sentence, .reading = work->reading, .may_lack = true};
    names->count = 0;
    names->used = 0;
    BP_TRY(read_all(work, &words));
    *classes = names->count > 0 ? names->count : n.largest;
    return BP_OK;
}
