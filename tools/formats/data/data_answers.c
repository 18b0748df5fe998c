/* SPDX-License-Identifier: MIT */
/* Windows of contexts. */
#include "tools/formats/data/data_answers.h"

#include <string.h>

#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokenise.h"

#define RULES 0x51415732u /* goes up when the same data would give other tokens */

static const char where[] = "answers";

/* The scratch, cut up. */
typedef struct answers_room {
    void *squad;
    unsigned char *window;
    unsigned char *buffer;
    uint32_t *ids, *starts, *ends; /* of a context */
    uint32_t *question;            /* ids of it */
} answers_room;

typedef struct answers_maker {
    bp_answers *work;
    answers_room room;
    const bp_answer_pass *pass;
    bp_tokens_writer *writer; /* NULL: nothing is written */
    uint64_t windows;         /* so far */
    uint32_t tokens;          /* of the context */
    uint32_t asked;           /* of the question */
} answers_maker;

static answers_room room_of(void *scratch)
{
    answers_room r = {.squad = scratch};
    r.window = (unsigned char *)scratch + BP_SQUAD_SCRATCH;
    r.buffer = r.window + BP_ANSWERS_WINDOW;
    r.ids = (uint32_t *)(void *)(r.buffer + 2 * (size_t)BP_TOKENS_BUFFER);
    r.starts = r.ids + BP_SQUAD_CONTEXT;
    r.ends = r.starts + BP_SQUAD_CONTEXT;
    r.question = r.ends + BP_SQUAD_CONTEXT;
    return r;
}

static bp_data_reader reader_of(const bp_answers *work, uint32_t file, const answers_room *r)
{
    const bp_data_file *row = &work->data->files[file];
    return (bp_data_reader){.store = work->data->store,
                            .file = row->file,
                            .path = row->path,
                            .buffer = r->window,
                            .capacity = BP_ANSWERS_WINDOW,
                            .error = work->error};
}

/* Records what a number has to be below. */
static bp_status answers_refuse(bp_data_reader *reader, const char *text, int64_t found,
                                int64_t wanted)
{
    bp_status status =
        bp_error_limit(reader->error, BP_ERR_DATA, where, text, "", found, BP_LIMIT_BELOW, wanted);
    bp_data_name_position(reader);
    return status;
}

/* Tokens that the template puts at a place. */
static uint32_t around(const answers_maker *m, bp_pair_position place, const uint32_t **ids)
{
    return bp_encoder_pair_ids(m->work->encoder, place, ids);
}

/* The byte at which character number `character` of a text begins: its length for the end, and one
 * more for all behind it. */
static uint32_t byte_of(const char *text, uint32_t length, uint64_t character)
{
    for (uint32_t at = 0; at < length; at++) {
        if (((unsigned char)text[at] & 0xc0) != 0x80 && character-- == 0) {
            return at;
        }
    }
    return character == 0 ? length : length + 1;
}

static uint64_t characters_of(const char *text, uint32_t length)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < length; i++) {
        count += ((unsigned char)text[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return count;
}

/* Where the first answer lies in a window: its tokens are the last that begins at or before the
 * answer, and the first that ends at or behind it. Not found: both are 0. */
static uint64_t find_answer(const bp_question *q, const bp_answer_window *w)
{
    if (q->answers == 0 || w->count == 0) {
        return 0;
    }
    const uint64_t first = q->begins[0];
    const uint32_t length = q->answer_at[1] - q->answer_at[0];
    const uint32_t begin = byte_of(q->context, q->context_length, first);
    const uint32_t end =
        byte_of(q->context, q->context_length, first + characters_of(q->answer, length));
    uint32_t i = w->first, k = w->first + w->count - 1;
    if (w->starts[i] > begin || w->ends[k] < end) {
        return 0;
    }
    while (i < w->first + w->count && w->starts[i] <= begin) {
        i++;
    }
    while (k > w->first && w->ends[k - 1] >= end) {
        k--;
    }
    const uint64_t from = (uint64_t)w->before + i - 1 - w->first;
    return from | ((uint64_t)w->before + k - w->first) << 16;
}

static bp_status write_window(answers_maker *m, const bp_question *q, const bp_answer_window *w)
{
    bp_tokens_writer *writer = m->writer;
    const uint32_t *ids;
    bp_example example = {.first = writer->head.tokens, .prompt = w->before};
    uint32_t count = around(m, BP_PAIR_BEFORE, &ids);
    BP_TRY(bp_tokens_put(writer, ids, count));
    BP_TRY(bp_tokens_put(writer, m->room.question, m->asked));
    count = around(m, BP_PAIR_BETWEEN, &ids);
    BP_TRY(bp_tokens_put(writer, ids, count));
    BP_TRY(bp_tokens_put(writer, m->room.ids + w->first, w->count));
    count = around(m, BP_PAIR_BEHIND, &ids);
    BP_TRY(bp_tokens_put(writer, ids, count));
    example.count = writer->head.tokens - example.first;
    example.label = q->answered ? find_answer(q, w) | m->work->questions << 32 : BP_NO_LABEL;
    return bp_tokens_put_example(writer, &example);
}

static bp_status show_window(answers_maker *m, const bp_question *q, const bp_answer_window *w)
{
    if (m->writer != NULL) {
        BP_TRY(write_window(m, q, w));
    }
    m->windows++;
    return m->pass != NULL ? m->pass->window(m->pass->user, q, w) : BP_OK;
}

/* Cuts the context into windows where there is room for `most` of its tokens. */
static bp_status show_windows(answers_maker *m, bp_data_reader *reader, const bp_question *q,
                              uint32_t before, uint32_t most)
{
    bp_answer_window w = {.before = before, .starts = m->room.starts, .ends = m->room.ends};
    if (m->tokens > most && m->work->stride >= most) {
        return answers_refuse(reader,
                              "the question leaves so little of a row to its context that "
                              "windows would not move on (--doc-stride, --max-seq-length)",
                              m->work->stride, most);
    }
    uint32_t end;
    do {
        w.index = m->windows;
        w.count = m->tokens - w.first < most ? m->tokens - w.first : most;
        BP_TRY(show_window(m, q, &w));
        end = w.first + w.count;
        w.first += most - m->work->stride;
    } while (end < m->tokens);
    return BP_OK;
}

static bp_status encode_question(answers_maker *m, bp_data_reader *reader, const bp_question *q)
{
    size_t count;
    bp_encoder_text(m->work->encoder, q->question, q->question_length, BP_ENCODE_PLAIN,
                    m->room.question, BP_SQUAD_QUESTION, &count);
    m->asked = (uint32_t)count;
    if (!q->same) { /* else the tokens of the question before are those */
        BP_TRY(bp_encoder_offsets(m->work->encoder, q->context, q->context_length,
                                  &(bp_encoder_trace){.ids = m->room.ids,
                                                      .starts = m->room.starts,
                                                      .ends = m->room.ends,
                                                      .room = BP_SQUAD_CONTEXT,
                                                      .memory = m->work->offsets},
                                  &count));
        if (count > BP_SQUAD_CONTEXT) {
            return bp_data_refuse(reader, "the context has more tokens than can be");
        }
        m->tokens = (uint32_t)count;
    }
    return BP_OK;
}

static bp_status take_question(void *user, bp_data_reader *reader, const bp_question *q)
{
    answers_maker *m = user;
    const uint32_t *ids;
    BP_TRY(encode_question(m, reader, q));
    const uint32_t before =
        around(m, BP_PAIR_BEFORE, &ids) + m->asked + around(m, BP_PAIR_BETWEEN, &ids);
    const uint32_t whole = before + around(m, BP_PAIR_BEHIND, &ids);
    if (whole >= m->work->sequence) {
        return answers_refuse(reader,
                              "the question leaves no room for its context: it has more "
                              "tokens than --max-seq-length takes",
                              whole, m->work->sequence);
    }
    BP_TRY(show_windows(m, reader, q, before, m->work->sequence - whole));
    m->work->questions++;
    return m->pass != NULL ? m->pass->end(m->pass->user, q) : BP_OK;
}

static bp_status read_all(answers_maker *m)
{
    bp_answers *work = m->work;
    bp_squad squad = {.user = m, .question = take_question, .may_lack = work->may_lack};
    m->windows = 0;
    work->questions = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i, &m->room);
        BP_TRY(bp_data_reader_begin(&reader));
        BP_TRY(bp_squad_read(&squad, &reader, m->room.squad));
    }
    work->impossible = squad.impossible;
    work->lacks = squad.lacks;
    return BP_OK;
}

static bp_status make_file(answers_maker *m, bp_tokens_writer *writer)
{
    bp_answers *work = m->work;
    const uint32_t *ids;
    BP_TRY(read_all(m));
    if (m->windows == 0) {
        return bp_error_set(work->error, BP_ERR_DATA, where, "the data holds no question",
                            work->data->source.name);
    }
    BP_TRY(bp_tokens_begin(writer, m->windows));
    m->writer = writer;
    BP_TRY(read_all(m));
    writer->head.form = BP_FORM_ANSWERS;
    writer->head.documents = work->questions;
    writer->head.unlabelled = work->lacks ? 1 : 0;
    writer->head.impossible = work->impossible > 0 ? 1 : 0;
    writer->head.texts = 2;
    writer->head.types = bp_encoder_pair_types(work->encoder);
    writer->head.lead = around(m, BP_PAIR_BEFORE, &ids);
    writer->head.join = around(m, BP_PAIR_BETWEEN, &ids);
    writer->head.tail = around(m, BP_PAIR_BEHIND, &ids);
    return bp_tokens_end(writer);
}

static bp_status survey_files(bp_answers *work, const answers_room *r, uint64_t *key)
{
    bp_digest digest;
    uint64_t lines = 0;
    bp_digest_begin(&digest, 0);
    bp_data_key_number(&digest, RULES);
    bp_data_key_number(&digest, work->sequence);
    bp_data_key_number(&digest, work->stride);
    bp_data_key_number(&digest, work->may_lack);
    bp_data_key_number(&digest, work->vocabulary);
    bp_data_key_number(&digest, bp_tokenizer_digest(work->encoder->tokenizer));
    work->bytes = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i, r);
        BP_TRY(bp_data_key_file(&reader, &digest, &lines));
        work->bytes += reader.size;
    }
    *key = bp_digest_end(&digest);
    return BP_OK;
}

static bp_status check_tokenizer(const bp_answers *work)
{
    const uint32_t *ids;
    const bool words = bp_tokenizer_kind_of(work->encoder->tokenizer) == BP_TOKENIZER_WORDPIECE;
    const bool pairs = bp_encoder_pair_ids(work->encoder, BP_PAIR_BEFORE, &ids) > 0 &&
                       bp_encoder_pair_types(work->encoder) == BP_PAIR_APART;
    return words && pairs ? BP_OK
                          : bp_error_set(work->error, BP_ERR_USAGE, where,
                                         "question-answering needs a WordPiece tokenizer that puts "
                                         "[CLS] and [SEP] around pairs of texts",
                                         work->data->source.name);
}

bp_status bp_answers_open(bp_answers *work, bp_tokens *tokens)
{
    answers_maker m = {.work = work, .room = room_of(work->scratch)};
    uint64_t key;
    *tokens = (bp_tokens){.open = false};
    work->questions = 0;
    work->built = false;
    BP_TRY(check_tokenizer(work));
    BP_TRY(survey_files(work, &m.room, &key));
    if (bp_tokens_fits(tokens, work->data->store, work->path, key, m.room.buffer, work->error)) {
        work->questions = tokens->head.documents;
        return BP_OK;
    }
    bp_tokens_writer writer = {.store = work->data->store,
                               .path = work->path,
                               .buffer = m.room.buffer,
                               .error = work->error,
                               .head = {.width = bp_tokens_width(work->vocabulary), .key = key}};
    bp_status status = make_file(&m, &writer);
    if (status != BP_OK) {
        bp_tokens_abandon(&writer);
        return status;
    }
    work->built = true;
    return bp_tokens_open(tokens, work->data->store, work->path, NULL, work->error);
}

bp_status bp_answers_read(bp_answers *work, const bp_answer_pass *pass)
{
    answers_maker m = {.work = work, .room = room_of(work->scratch), .pass = pass};
    return read_all(&m);
}
