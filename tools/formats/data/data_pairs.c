/* SPDX-License-Identifier: MIT */
/* Rows of preferences to tokens. */
#include <string.h>

#include "core/ops/storage_format.h"
#include "tools/formats/data/data_chat_maker.h"
#include "tools/formats/chat/jinja_program.h"

/* Where a text that is encoded lies. */
typedef struct pair_text {
    const char *text;
    size_t length;
} pair_text;

/* The prompt alone, as the template opens an answer, or with an answer behind it. */
static bp_status render_messages(bp_chat_maker *m, const bp_chat_pair *pair, uint32_t answer,
                                 bool opens, pair_text *to)
{
    bp_chat_turns turns = pair->turns;
    turns.messages = pair->prompt;
    if (!opens) {
        BP_TRY(bp_jinja_operate(&m->chat.room, BP_JINJA_ADD, &pair->prompt, &pair->answer[answer],
                                &turns.messages));
    }
    BP_TRY(bp_chat_maker_named(m, bp_chat_render(&m->chat, &turns, opens)));
    *to = (pair_text){m->chat.text, m->chat.length};
    return BP_OK;
}

static bp_status join_texts(bp_chat_maker *m, const bp_chat_pair *pair, uint32_t answer, bool alone,
                            pair_text *to)
{
    bp_jinja_value whole = pair->prompt;
    if (!alone) {
        BP_TRY(bp_chat_maker_named(
            m, bp_jinja_join(&m->chat.room, &whole, &pair->answer[answer], &whole)));
    }
    *to = (pair_text){whole.is.text, whole.count};
    return BP_OK;
}

/* Ids of a text into to->ids, with the end token behind an answer that is a text. */
static bp_status encode_pair(bp_chat_maker *m, const pair_text *text, bool chats, bool ends,
                             bp_chat_ids *to)
{
    const bp_data_chat *work = m->work;
    size_t count = text->length;
    if (work->encoder != NULL) {
        bp_encoder_text(work->encoder, text->text, text->length,
                        chats ? BP_ENCODE_PLAIN : BP_ENCODE_TEMPLATE, to->ids, BP_CHAT_TEXT - 1,
                        &count);
    } else {
        count = count < BP_CHAT_TEXT ? count : BP_CHAT_TEXT;
        for (size_t i = 0; i < count; i++) {
            to->ids[i] = (unsigned char)text->text[i];
        }
    }
    if (count > BP_CHAT_TEXT - 1) {
        return bp_data_refuse_most(&m->reader, "the row has more tokens than can be",
                                   (int64_t)count, BP_CHAT_TEXT - 1);
    }
    if (ends && work->end_token >= 0 &&
        (count == 0 || (int64_t)to->ids[count - 1] != work->end_token)) {
        to->ids[count++] = (uint32_t)work->end_token;
    }
    to->count = count;
    return BP_OK;
}

static bp_status make_ids(bp_chat_maker *m, const bp_chat_pair *pair, uint32_t answer, bool alone,
                          bp_chat_ids *to)
{
    pair_text text;
    BP_TRY(pair->chats ? render_messages(m, pair, answer, alone, &text)
                       : join_texts(m, pair, answer, alone, &text));
    return encode_pair(m, &text, pair->chats, !alone && !pair->chats, to);
}

static size_t common_ids(const bp_chat_ids *a, const bp_chat_ids *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count && a->ids[same] == b->ids[same]) {
        same++;
    }
    return same;
}

/* An example behind the tokens that are written now: a prompt and an answer. */
static bp_status put_pair(bp_chat_maker *m, const bp_chat_ids *prompt, const bp_chat_ids *answer,
                          bp_side side, bp_example *to)
{
    *to = (bp_example){.first = m->writer.head.tokens,
                       .count = prompt->count + answer->count,
                       .prompt = prompt->count,
                       .label = (uint64_t)side};
    BP_TRY(bp_tokens_put(&m->writer, prompt->ids, prompt->count));
    return bp_tokens_put(&m->writer, answer->ids, answer->count);
}

/* A model that is told nothing guesses nothing: the first token of a row has no prediction. */
static bp_status check_pair(bp_chat_maker *m, size_t prompt, size_t whole)
{
    if (whole <= prompt || whole < 2) {
        return bp_data_refuse(&m->reader, "an answer has no token behind its prompt's: there is "
                                          "nothing to learn");
    }
    return BP_OK;
}

static bp_status make_pair(bp_chat_maker *m, const bp_chat_pair *pair)
{
    bp_chat_ids prompt = {m->room.ids, 0};
    bp_chat_ids answer[2] = {{m->room.more[0], 0}, {m->room.more[1], 0}};
    BP_TRY(make_ids(m, pair, 0, true, &prompt));
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(make_ids(m, pair, i, false, &answer[i]));
        const size_t same = common_ids(&prompt, &answer[i]);
        prompt.count = same < prompt.count ? same : prompt.count;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const bp_chat_ids rest = {answer[i].ids + prompt.count, answer[i].count - prompt.count};
        bp_example example;
        BP_TRY(check_pair(m, prompt.count, answer[i].count));
        BP_TRY(put_pair(m, &prompt, &rest, i == 0 ? BP_SIDE_CHOSEN : BP_SIDE_REJECTED, &example));
        BP_TRY(bp_tokens_put_example(&m->writer, &example));
        m->work->learned += rest.count;
    }
    return BP_OK;
}

/* The first row of the block gets the last one's answer, and all examples are written. */
static bp_status end_block(bp_chat_maker *m)
{
    BP_TRY(put_pair(m, &m->first, &m->answer, BP_SIDE_MISMATCHED, &m->room.examples[1]));
    for (uint32_t i = 0; i < 2 * m->block; i++) {
        BP_TRY(bp_tokens_put_example(&m->writer, &m->room.examples[i]));
    }
    m->block = 0;
    return BP_OK;
}

static bp_status make_single(bp_chat_maker *m, const bp_chat_pair *pair, uint32_t which, bool good)
{
    bp_example *examples = m->room.examples + 2 * (size_t)m->block;
    bp_chat_ids prompt = {m->room.ids, 0}, whole = {m->room.more[0], 0};
    m->first.ids = m->room.more[1];
    m->answer.ids = m->room.more[2];
    BP_TRY(make_ids(m, pair, which, true, &prompt));
    BP_TRY(make_ids(m, pair, which, false, &whole));
    prompt.count = common_ids(&prompt, &whole);
    BP_TRY(check_pair(m, prompt.count, whole.count));
    const bp_chat_ids rest = {whole.ids + prompt.count, whole.count - prompt.count};
    BP_TRY(put_pair(m, &prompt, &rest, good ? BP_SIDE_CHOSEN : BP_SIDE_REJECTED, &examples[0]));
    if (m->block > 0) {
        BP_TRY(put_pair(m, &prompt, &m->answer, BP_SIDE_MISMATCHED, &examples[1]));
    } else {
        memcpy(m->first.ids, prompt.ids, prompt.count * sizeof *prompt.ids);
        m->first.count = prompt.count;
    }
    memcpy(m->answer.ids, rest.ids, rest.count * sizeof *rest.ids);
    m->answer.count = rest.count;
    m->work->learned += rest.count;
    m->block++;
    return m->block == m->work->block ? end_block(m) : BP_OK;
}

bp_status bp_chat_maker_pair(bp_chat_maker *m, bp_records *records)
{
    const bool single = m->work->rows == BP_CHAT_SINGLES;
    bp_chat_pair pair;
    BP_TRY(bp_chat_maker_read(m, bp_chat_pair_row(&m->chat, records, single, &pair)));
    if (pair.chats != (m->work->source != NULL)) {
        return bp_data_refuse(&m->reader, "some rows are texts and some lists of messages");
    }
    if (!single) {
        return make_pair(m, &pair);
    }
    const bool desirable = !pair.single || pair.desirable;
    BP_TRY(make_single(m, &pair, 0, desirable));
    return pair.single ? BP_OK : make_single(m, &pair, 1, false);
}

bp_status bp_chat_maker_end_pairs(bp_chat_maker *m)
{
    return m->block > 0 ? end_block(m) : BP_OK;
}
