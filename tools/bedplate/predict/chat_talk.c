/* SPDX-License-Identifier: MIT */
/* A conversation in the terminal. */
#include "tools/bedplate/predict/chat_talk.h"
#include "tools/bedplate/app/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bedplate/sources/data_conversations.h"
#include "tools/bedplate/models/end_tokens.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/text_stream.h"
#include "tools/bedplate/predict/sample.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/formats/hf/tensor_view.h"

#define LINE_BYTES   65536
#define USUAL_ROOM   4096
#define PROMPT_ROWS  256 /* tokens read at once */
#define ANSWER_BYTES 1048576

static const char where[] = "chat";

/* What was said, one behind the other, each ended by NUL. */
typedef struct talk {
    session *s;
    memory_block memory; /* of the template */
    chat_choice chosen;
    bp_chat chat;
    char *said; /* ANSWER_BYTES */
    size_t used;
    uint32_t at[BP_CHAT_TURNS]; /* where each begins, and the end of the last */
    uint32_t turns;
    bool told; /* the first of them is --system */
    uint32_t room;
    int32_t *read;   /* (room) ids that the model has taken */
    int32_t *wanted; /* (room) ids of the conversation */
    uint32_t taken;  /* of `read` */
    uint32_t count;  /* of `wanted` */
    uint32_t *order; /* for sampling */
    float *scores;
    sampling how;
    end_tokens ends;
    path_list stops;
    text_stream text;
    uint32_t answers;
    uint32_t made;         /* tokens of the last answer; they lie behind its prompt in `read` */
    bool finished;         /* it was, by a token or a string that ends a text */
    double prompt_seconds; /* of reading what came before it */
    double seconds;        /* and of writing it */
    double work;           /* when the first was begun */
    output out;            /* --json */
} talk;

static bp_status talk_outgrown(talk *t, const char *what, int64_t found, int64_t most)
{
    return bp_error_limit(&t->s->error, BP_ERR_USAGE, where,
                          "the conversation and an answer outgrow the context", what, found,
                          BP_LIMIT_MOST, most);
}

static bp_status talk_say(talk *t, const char *text, size_t length)
{
    if (t->turns + 1 == BP_CHAT_TURNS || length + 1 > ANSWER_BYTES - t->used) {
        return talk_outgrown(t, "messages", (int64_t)t->turns + 1, BP_CHAT_TURNS - 1);
    }
    t->at[t->turns++] = (uint32_t)t->used;
    memcpy(t->said + t->used, text, length);
    t->used += length;
    t->said[t->used++] = '\0';
    t->at[t->turns] = (uint32_t)t->used;
    return BP_OK;
}

/* The messages as the template sees them. */
static bp_status talk_turns(talk *t, bp_chat_turns *turns)
{
    bp_jinja_value *items = bp_jinja_take(&t->chat.room, (t->turns + 1) * sizeof *items);
    *turns = (bp_chat_turns){.tools = bp_jinja_none(), .more = bp_jinja_none()};
    if (items == NULL) {
        return BP_ERR_FIT;
    }
    for (uint32_t i = 0; i < t->turns; i++) {
        const bool asks = (i - (t->told ? 1 : 0)) % 2 == 0;
        const bp_jinja_value text =
            bp_jinja_string(t->said + t->at[i], t->at[i + 1] - t->at[i] - 1);
        BP_TRY(bp_chat_message(&t->chat,
                               t->told && i == 0 ? "system"
                               : asks            ? "user"
                                                 : "assistant",
                               &text, &items[i]));
    }
    turns->messages = (bp_jinja_value){.kind = BP_JINJA_LIST, .count = t->turns, .is.items = items};
    return BP_OK;
}

/* The ids of the conversation, with what opens an answer. */
static bp_status talk_encode(talk *t)
{
    bp_chat_turns turns;
    size_t count = 0;
    bp_chat_clear(&t->chat);
    BP_TRY(talk_turns(t, &turns));
    BP_TRY(bp_chat_render(&t->chat, &turns, true));
    if (t->s->run_tokenizer.kind == TOKENIZER_BYTES) {
        for (; count < t->chat.length; count++) {
            if (count < t->room) {
                t->wanted[count] = (unsigned char)t->chat.text[count];
            }
        }
    } else {
        bp_encoder_text(&t->s->run_tokenizer.encoder, t->chat.text, t->chat.length, BP_ENCODE_PLAIN,
                        (uint32_t *)t->wanted, t->room, &count);
    }
    if (count == 0 || count >= t->room) {
        return talk_outgrown(t, "--context", (int64_t)count + 1, t->room);
    }
    t->count = (uint32_t)count;
    return BP_OK;
}

/* The model goes on from what it has read of the same. The last token is always read: the answer
 * follows from its logits. */
static bp_status talk_read(talk *t)
{
    bp_runtime *runtime = &t->s->runtime;
    uint32_t same = 0;
    bool kept = false, again = false;
    while (same < t->taken && same + 1 < t->count && t->read[same] == t->wanted[same]) {
        same++;
    }
    if (same > 0) {
        BP_TRY(bp_runtime_rewind(runtime, same, &kept));
    }
    if (!kept) {
        same = 0;
        BP_TRY(bp_runtime_restart(runtime));
    }
    BP_TRY(bp_runtime_reread(runtime, t->count, &again));
    same = again ? 0 : same;
    BP_TRY(bp_runtime_accept(runtime, t->wanted + same, t->count - same));
    memcpy(t->read, t->wanted, t->count * sizeof *t->read);
    t->taken = t->count;
    return BP_OK;
}

static bp_status talk_draw(talk *t, uint32_t from, uint32_t *id)
{
    const uint32_t vocabulary = t->s->spec.config.vocabulary;
    const float *logits = t->s->runtime.logits_host;
    if (!bp_elements_finite(BP_F32, logits, vocabulary)) {
        return bp_error_set(&t->s->error, BP_ERR_NONFINITE, where, "the logits are not finite",
                            t->s->set->model);
    }
    if (t->how.repetition_penalty != 1.0) {
        memcpy(t->scores, logits, vocabulary * sizeof *logits);
        sample_penalise(&t->how, logits, t->scores, t->read, t->taken);
        logits = t->scores;
    }
    *id = sample_token(&t->how, logits, vocabulary, t->answers, t->taken - from, t->order);
    return BP_OK;
}

/* Shows a piece of the answer and keeps it. */
static void talk_show(talk *t, const char *bytes, size_t count)
{
    if (!t->s->set->json) {
        output_bytes(stdout, bytes, count);
        fflush(stdout);
    }
    if (count < ANSWER_BYTES - t->used) {
        memcpy(t->said + t->used, bytes, count);
        t->used += count;
    }
}

static bp_status talk_write(talk *t)
{
    const settings *set = t->s->set;
    const uint32_t from = t->taken;
    size_t count;
    for (;;) {
        uint32_t id = 0;
        BP_TRY(talk_draw(t, from, &id));
        t->read[t->taken] = (int32_t)id;
        t->made = t->taken + 1 - from;
        const bool ends = end_tokens_has(&t->ends, &t->s->run_tokenizer, &t->s->spec.config, id);
        if (ends && !set->ignore_eos) {
            t->finished = true;
            return BP_OK;
        }
        const char *bytes = text_stream_next(&t->text, (int32_t)id, &count);
        talk_show(t, bytes, count);
        t->finished = t->text.stopped;
        if (t->finished || t->taken + 1 == t->room || t->made == set->max_new_tokens) {
            return BP_OK;
        }
        bool again = false;
        t->taken++;
        BP_TRY(bp_runtime_reread(&t->s->runtime, t->taken, &again));
        const uint32_t first = again ? 0 : t->taken - 1;
        BP_TRY(bp_runtime_accept(&t->s->runtime, t->read + first, t->taken - first));
    }
}

/* The members of `generate --json`, with the message for its text. */
static void talk_json(talk *t)
{
    output *out = &t->out;
    const uint32_t after = t->made - 1; /* the first follows from the prompt's last logits */
    output_begin(out, stdout);
    json_begin(out);
    json_text(out, "role", "assistant");
    bp_json_put_bytes(&out->json, "content", t->said + t->at[t->turns - 1],
                      t->at[t->turns] - t->at[t->turns - 1] - 1);
    json_text(out, "finish_reason", t->finished ? "stop" : "length");
    json_count(out, "tokens", t->made);
    json_real(out, "tokens_per_second", after > 0 ? after / t->seconds : 1.0 / t->prompt_seconds,
              6);
    json_count(out, "prompt_tokens", t->count);
    json_real(out, "prompt_tokens_per_second", t->count / t->prompt_seconds, 6);
    json_seconds(out, t->s->set->began, clock_seconds() - t->work);
    json_count(out, "arena_bytes", t->s->plan.report.arena_bytes);
    json_ids(out, "ids", t->read + t->count, t->made);
    json_end(out);
    output_end(out);
}

/* The model's tokens as text, a message of the conversation. */
static bp_status talk_text(talk *t)
{
    size_t count;
    BP_TRY(text_stream_begin(&t->text, &t->s->run_tokenizer, &t->stops, &t->s->error));
    for (uint32_t i = 0; i < t->taken; i++) {
        text_stream_pass(&t->text, t->read[i]);
    }
    t->at[t->turns++] = (uint32_t)t->used;
    bp_status status = talk_write(t);
    const char *rest = text_stream_end(&t->text, &count);
    talk_show(t, rest, count);
    text_stream_close(&t->text);
    t->said[t->used++] = '\0';
    t->at[t->turns] = (uint32_t)t->used;
    return status;
}

static bp_status talk_answer(talk *t)
{
    double began = clock_seconds();
    t->work = t->answers == 0 ? began : t->work;
    t->finished = false;
    BP_TRY(talk_encode(t));
    BP_TRY(talk_read(t));
    if (t->turns + 1 == BP_CHAT_TURNS) {
        return talk_outgrown(t, "messages", (int64_t)t->turns + 1, BP_CHAT_TURNS - 1);
    }
    t->prompt_seconds = clock_seconds() - began;
    began = clock_seconds();
    bp_status status = talk_text(t);
    t->seconds = clock_seconds() - began;
    t->answers++;
    if (!t->s->set->json) {
        putchar('\n');
        fflush(stdout);
    } else if (status == BP_OK) {
        talk_json(t);
    }
    return status;
}

static void talk_reset(talk *t)
{
    t->turns = t->told ? 1 : 0;
    t->used = t->told ? t->at[1] : 0;
}

/* A line without its end; false: there is none. */
static bool talk_line(char *line, bool shown)
{
    if (shown) {
        output_print(stdout, "> ");
        fflush(stdout);
    }
    if (fgets(line, LINE_BYTES, stdin) == NULL) {
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, "/exit") != 0;
}

static bp_status talk_lines(talk *t)
{
    static char line[LINE_BYTES];
    const bool terminal = isatty(STDIN_FILENO) != 0 && !t->s->set->json;
    while (talk_line(line, terminal)) {
        if (strcmp(line, "/reset") == 0) {
            talk_reset(t);
            continue;
        }
        if (line[0] != '\0') {
            BP_TRY(talk_say(t, line, strlen(line)));
            BP_TRY(talk_answer(t));
        }
    }
    return BP_OK;
}

static bp_status talk_memory(talk *t)
{
    const uint32_t vocabulary = t->s->spec.config.vocabulary;
    t->said = malloc(ANSWER_BYTES);
    t->read = malloc(t->room * sizeof *t->read);
    t->wanted = malloc(t->room * sizeof *t->wanted);
    t->order = malloc((size_t)vocabulary * sizeof *t->order);
    t->scores = malloc((size_t)vocabulary * sizeof *t->scores);
    if (t->said == NULL || t->read == NULL || t->wanted == NULL || t->order == NULL ||
        t->scores == NULL) {
        return bp_error_set(&t->s->error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    return memory_take(&t->memory, CHAT_CHOICE_BYTES + BP_CHAT_SCRATCH, false, "host memory",
                       &t->s->error);
}

/* A turn ends as files say, and as the template does: by a token, else by its text. */
static bp_status talk_ends(talk *t)
{
    session *s = t->s;
    BP_TRY(
        end_tokens_find(&t->ends, s->store, s->set->adapter, &s->run_tokenizer, NULL, &s->error));
    t->ends.turn = chat_turn_end(s, &t->chat);
    t->stops = s->set->stops;
    size_t first = 0, end = t->chat.footer_length;
    while (first < end && isspace((unsigned char)t->chat.footer[first])) {
        first++;
    }
    while (end > first && isspace((unsigned char)t->chat.footer[end - 1])) {
        end--;
    }
    if (t->ends.turn == 0 && end > first && end < BP_CHAT_HEADER &&
        t->stops.count < SETTINGS_PATHS_MAX) {
        t->chat.footer[end] = '\0';
        t->stops.item[t->stops.count++] = t->chat.footer + first;
    }
    return text_stream_check(&t->stops, &s->error);
}

static bp_status talk_begin(talk *t)
{
    session *s = t->s;
    const settings *set = s->set;
    const uint64_t positions = s->spec.config.positions;
    const uint64_t asked = set->context != 0 ? set->context : USUAL_ROOM;
    t->room = (uint32_t)(positions > 0 && asked > positions ? positions : asked);
    BP_TRY(session_find_run_tokenizer(s));
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "a conversation needs a tokenizer, and the model directory has none; "
                            "give --tokenizer",
                            "--chat");
    }
    BP_TRY(session_open_run_tokenizer(s));
    BP_TRY(talk_memory(t));
    BP_TRY(chat_choose(s, t->memory.address, &t->chosen));
    BP_TRY(bp_chat_open(&t->chat, t->chosen.source, t->chosen.length, t->chosen.tokens,
                        t->chosen.token_count, (char *)t->memory.address + CHAT_CHOICE_BYTES,
                        &s->error));
    t->chat.now = t->chosen.now;
    BP_TRY(talk_ends(t));
    if (set->system_message != NULL) {
        t->told = true;
        BP_TRY(talk_say(t, set->system_message, strlen(set->system_message)));
    }
    s->spec.generate_context = t->room;
    s->spec.prefill_rows = t->room < PROMPT_ROWS ? t->room : PROMPT_ROWS;
    t->how = (sampling){.temperature = set->temperature,
                        .top_k = set->top_k,
                        .top_p = set->top_p,
                        .min_p = set->min_p,
                        .repetition_penalty = set->repetition_penalty,
                        .seed = set->seed};
    return session_start(s);
}

bp_status chat_talk(session *s)
{
    static talk t;
    t.s = s;
    bp_status status = talk_begin(&t);
    if (status == BP_OK && s->set->prompt != NULL) {
        status = talk_say(&t, s->set->prompt, strlen(s->set->prompt));
        status = status == BP_OK ? talk_answer(&t) : status;
    } else if (status == BP_OK) {
        status = talk_lines(&t);
    }
    memory_give_back(&t.memory);
    free(t.scores);
    free(t.order);
    free(t.wanted);
    free(t.read);
    free(t.said);
    return status;
}
