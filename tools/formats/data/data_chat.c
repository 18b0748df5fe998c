/* SPDX-License-Identifier: MIT */
/* Conversations to tokens of which some are learned. */
#include "tools/formats/data/data_chat.h"

#include <string.h>

#include "tools/formats/data/data_chat_maker.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokenise.h"

#define RULES 0x43484132u /* goes up when the same data would give other tokens */

static const char where[] = "conversations";

static bp_chat_maker_room room_of(void *scratch, bool pairs)
{
    bp_chat_maker_room r = {.chat = scratch};
    char *at = r.chat + BP_CHAT_SCRATCH;
    r.ids = (uint32_t *)(void *)at;
    at += 4 * BP_CHAT_TEXT;
    r.records = at;
    r.window = (unsigned char *)at + BP_RECORDS_SCRATCH;
    r.buffer = r.window + BP_DATA_CHAT_WINDOW;
    r.piece = (char *)r.buffer + 2 * BP_TOKENS_BUFFER;
    at = r.piece + BP_TOKENIZER_DECODED_MAX;
    for (size_t i = 0; pairs && i < 4; i++) {
        r.more[i] = (uint32_t *)(void *)at;
        at += 4 * BP_CHAT_TEXT;
    }
    r.examples = pairs ? (bp_example *)(void *)at : NULL;
    return r;
}

static bp_data_reader reader_of(const bp_data *data, uint32_t file, const bp_chat_maker_room *r,
                                bp_error *error)
{
    const bp_data_file *row = &data->files[file];
    return (bp_data_reader){.store = data->store,
                            .file = row->file,
                            .path = row->path,
                            .buffer = r->window,
                            .capacity = BP_DATA_CHAT_WINDOW,
                            .error = error};
}

/* Where in the text the bytes of a token lie, from *at on. White space that an added token takes
 * with it is in no token's bytes. */
static bool find_piece(const bp_chat *chat, const char *piece, size_t length, size_t *at)
{
    while (*at < chat->length) {
        const size_t left = chat->length - *at;
        if (length <= left && memcmp(chat->text + *at, piece, length) == 0) {
            return true;
        }
        const char c = chat->text[*at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
            return false;
        }
        ++*at;
    }
    return length == 0;
}

static bool is_learned(const bp_chat *chat, size_t from, size_t to, uint32_t *span)
{
    while (*span < chat->span_count && chat->spans[*span].to <= from) {
        ++*span;
    }
    return *span < chat->span_count && chat->spans[*span].from < to && from < to;
}

/* Whether the space with which a piece begins is one that the tokenizer puts before a text: always,
 * or where the text has none. Texts begin behind added tokens; before the first one most decoders
 * leave that space out. */
static bool is_prefixed(const bp_chat_maker *m, uint32_t before, bool first, size_t at,
                        size_t length)
{
    const bp_tokenizer *t = m->work->encoder->tokenizer;
    const bp_chat *chat = &m->chat;
    const bool begins = first ? t->rules.strip == BP_STRIP_NOTHING : bp_tokenizer_is_cut(t, before);
    const bool there =
        length <= chat->length - at && memcmp(chat->text + at, m->room.piece, length) == 0;
    switch (t->rules.prefix) {
    case BP_PREFIX_PREPEND:
        return begins;
    case BP_PREFIX_META:
    case BP_PREFIX_SPACE:
        return begins && !there;
    case BP_PREFIX_META_FIRST:
        return begins && !there && first;
    default:
        return false;
    }
}

/* The text of a token, without a space that is in no text. */
static bp_status take_piece(const bp_chat_maker *m, bp_decoder *decoder, const uint32_t ids[2],
                            size_t at, const char **piece, size_t *length)
{
    const bool first = !decoder->begun;
    *piece = m->room.piece;
    BP_TRY(bp_decoder_next(decoder, m->work->encoder->tokenizer, ids[1], m->room.piece, length));
    if (*length > 0 && (*piece)[0] == ' ' && is_prefixed(m, ids[0], first, at, *length)) {
        ++*piece;
        --*length;
    }
    return BP_OK;
}

/* Doubles the ids, plus one for those that are learned: a space that is in no text with what
 * stands behind it. */
static bp_status mark_ids(bp_chat_maker *m, uint32_t *ids, size_t count, uint64_t *learned)
{
    const bp_chat *chat = &m->chat;
    bp_decoder decoder = {false};
    size_t at = 0;
    uint32_t span = 0, pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        const char *piece;
        size_t length = 1;
        if (m->work->encoder != NULL) {
            pair[0] = pair[1];
            pair[1] = ids[i];
            BP_TRY(take_piece(m, &decoder, pair, at, &piece, &length));
            if (!find_piece(chat, piece, length, &at)) {
                return bp_data_refuse(&m->reader,
                                      "the tokenizer changes the text (as it normalises it), so "
                                      "that it is not known which tokens are learned");
            }
        }
        const bool target = is_learned(chat, at, at + (length > 0 ? length : 1), &span);
        ids[i] = 2 * ids[i] + (target ? 1 : 0);
        *learned += target ? 1 : 0;
        at += length;
    }
    return BP_OK;
}

static bp_status put_conversation(bp_chat_maker *m)
{
    bp_data_chat *work = m->work;
    const bp_chat *chat = &m->chat;
    bp_example example = {.first = m->writer.head.tokens};
    size_t count = chat->length;
    uint64_t learned = 0;
    if (work->encoder != NULL) {
        bp_encoder_text(work->encoder, chat->text, chat->length, BP_ENCODE_PLAIN, m->room.ids,
                        BP_CHAT_TEXT, &count);
    } else {
        for (size_t i = 0; i < count; i++) {
            m->room.ids[i] = (unsigned char)chat->text[i];
        }
    }
    if (count > BP_CHAT_TEXT) {
        return bp_data_refuse_most(&m->reader, "the conversation has more tokens than can be",
                                   (int64_t)count, BP_CHAT_TEXT);
    }
    BP_TRY(mark_ids(m, m->room.ids, count, &learned));
    if (learned == 0) {
        work->empty++;
        return BP_OK;
    }
    work->learned += learned;
    example.count = count;
    BP_TRY(bp_tokens_put(&m->writer, m->room.ids, count));
    return bp_tokens_put_example(&m->writer, &example);
}

bp_status bp_chat_maker_named(bp_chat_maker *m, bp_status status)
{
    if (status == BP_ERR_FIT && m->work->error != NULL) {
        m->work->error->code = BP_ERR_DATA;
        status = BP_ERR_DATA;
    }
    if (status == BP_ERR_DATA) {
        bp_data_name_position(&m->reader);
    }
    return status;
}

bp_status bp_chat_maker_read(bp_chat_maker *m, bp_status status)
{
    return status == BP_ERR_FIT ? bp_chat_maker_named(m, status) : status;
}

static bp_status make_row(bp_chat_maker *m, bp_records *records)
{
    bp_chat_turns turns;
    bp_chat_clear(&m->chat);
    if (m->work->rows != BP_CHAT_ROWS) {
        return bp_chat_maker_pair(m, records);
    }
    BP_TRY(bp_chat_maker_read(m, bp_chat_row(&m->chat, records, &turns)));
    BP_TRY(bp_chat_maker_named(m, bp_chat_render(&m->chat, &turns, false)));
    bp_chat_learned(&m->chat, &turns, m->work->loss);
    return put_conversation(m);
}

static bp_status make_file(bp_chat_maker *m, uint64_t lines)
{
    bp_data_chat *work = m->work;
    const bool pairs = work->rows != BP_CHAT_ROWS;
    /* two examples a row; a row of a pair may become two singles */
    BP_TRY(bp_tokens_begin(&m->writer, pairs ? bp_size_mul(lines, 4) : lines));
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_records records;
        bool there;
        m->reader = reader_of(work->data, i, &m->room, work->error);
        BP_TRY(bp_data_reader_begin(&m->reader));
        BP_TRY(bp_records_begin(&records, &m->reader, m->room.records));
        BP_TRY(bp_records_next(&records, &there));
        while (there) {
            BP_TRY(make_row(m, &records));
            BP_TRY(bp_records_next(&records, &there));
        }
    }
    if (pairs) {
        BP_TRY(bp_chat_maker_end_pairs(m));
    }
    if (m->writer.head.examples == 0) {
        return bp_error_set(work->error, BP_ERR_DATA, where,
                            pairs ? "the data holds no row of preferences"
                                  : "the data holds no conversation of which something is learned",
                            work->data->source.name);
    }
    work->conversations = m->writer.head.examples / (pairs ? 2 : 1);
    m->writer.head.documents = work->conversations;
    m->writer.head.form = pairs ? BP_FORM_PAIRS : BP_FORM_CHAT;
    return bp_tokens_end(&m->writer);
}

static bp_status survey_files(bp_data_chat *work, const bp_chat_maker_room *r, uint64_t *key,
                              uint64_t *lines)
{
    bp_digest digest;
    *lines = 0;
    bp_digest_begin(&digest, 0);
    bp_data_key_number(&digest, RULES);
    bp_data_key_number(&digest, work->loss);
    bp_data_key_number(&digest, work->vocabulary);
    bp_digest_add(&digest, &work->now, sizeof work->now);
    bp_digest_add(&digest, work->source != NULL ? work->source : "", work->source_length);
    if (work->rows != BP_CHAT_ROWS) {
        bp_data_key_number(&digest, (uint64_t)work->rows << 32 | work->block);
        bp_data_key_number(&digest, (uint64_t)work->end_token);
    }
    for (uint32_t i = 0; i < work->token_count; i++) {
        bp_digest_add(&digest, work->tokens[i].text, work->tokens[i].length);
    }
    bp_data_key_number(&digest,
                       work->encoder != NULL ? bp_tokenizer_digest(work->encoder->tokenizer) : 0);
    work->bytes = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work->data, i, r, work->error);
        BP_TRY(bp_data_key_file(&reader, &digest, lines));
        work->bytes += reader.size;
    }
    *lines += work->data->file_count;
    *key = bp_digest_end(&digest);
    return BP_OK;
}

/* Preferences that are texts need no template, but a room for values. */
static bp_status open_chat(bp_chat_maker *m)
{
    const bp_data_chat *work = m->work;
    if (work->source == NULL) {
        m->chat =
            (bp_chat){.room = {m->room.chat, BP_CHAT_ROOM, 0, work->error}, .error = work->error};
        return BP_OK;
    }
    return bp_chat_open(&m->chat, work->source, work->source_length, work->tokens,
                        work->token_count, m->room.chat, work->error);
}

bp_status bp_data_chat_open(bp_data_chat *work, bp_tokens *tokens)
{
    bp_chat_maker m = {.work = work, .room = room_of(work->scratch, work->rows != BP_CHAT_ROWS)};
    uint64_t key;
    uint64_t lines;
    *tokens = (bp_tokens){.open = false};
    work->conversations = work->empty = work->learned = 0;
    work->built = false;
    BP_TRY(survey_files(work, &m.room, &key, &lines));
    if (bp_tokens_fits(tokens, work->data->store, work->path, key, m.room.buffer, work->error)) {
        return BP_OK;
    }
    BP_TRY(open_chat(&m));
    m.chat.now = work->now;
    const uint32_t width =
        bp_tokens_width(work->rows == BP_CHAT_ROWS ? 2 * work->vocabulary : work->vocabulary);
    m.writer = (bp_tokens_writer){.store = work->data->store,
                                  .path = work->path,
                                  .buffer = m.room.buffer,
                                  .error = work->error,
                                  .head = {.width = width, .key = key}};
    bp_status status = make_file(&m, lines);
    if (status != BP_OK) {
        bp_tokens_abandon(&m.writer);
        return status;
    }
    work->built = true;
    return bp_tokens_open(tokens, work->data->store, work->path, NULL, work->error);
}

bp_status bp_data_chat_first_pair(bp_data_chat *work)
{
    bp_chat_maker m = {.work = work, .room = room_of(work->scratch, true)};
    bp_records records;
    bp_chat_pair pair;
    bool there = false;
    work->source = NULL; /* no template: nothing is rendered */
    BP_TRY(open_chat(&m));
    for (uint32_t i = 0; i < work->data->file_count && !there; i++) {
        m.reader = reader_of(work->data, i, &m.room, work->error);
        BP_TRY(bp_data_reader_begin(&m.reader));
        BP_TRY(bp_records_begin(&records, &m.reader, m.room.records));
        BP_TRY(bp_records_next(&records, &there));
    }
    const bool single = work->rows == BP_CHAT_SINGLES;
    return there ? bp_chat_maker_read(&m, bp_chat_pair_row(&m.chat, &records, single, &pair))
                 : BP_OK;
}

/* Begins to read the first file. */
static bp_status begin_first(bp_data *data, bp_error *error, void *scratch, bp_data_reader *reader)
{
    *reader = (bp_data_reader){.store = data->store,
                               .file = data->files[0].file,
                               .path = data->files[0].path,
                               .buffer = (unsigned char *)scratch + BP_RECORDS_SCRATCH,
                               .capacity = 65536,
                               .error = error};
    return bp_data_reader_begin(reader);
}

bp_status bp_data_chat_is(bp_data *data, bp_error *error, void *scratch, bool *is)
{
    bp_data_reader reader;
    BP_TRY(begin_first(data, error, scratch, &reader));
    return bp_chat_row_is(&reader, scratch, is);
}

bp_status bp_data_chat_pairs(bp_data *data, bp_error *error, void *scratch, bool *are)
{
    bp_data_reader reader;
    BP_TRY(begin_first(data, error, scratch, &reader));
    return bp_chat_pair_row_is(&reader, scratch, are);
}
