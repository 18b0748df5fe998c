/* SPDX-License-Identifier: MIT */
/* Rows of prompts to ids and texts. */
#include "tools/bedplate/rollout/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/formats/chat/jinja_json.h"
#include "tools/formats/data/data_tokenise.h"

static const char where[] = "rollout";

#define WINDOW 65536

/* Where things lie in `work`. */
#define WORK_CHAT   (CHAT_CHOICE_BYTES + 64)
#define WORK_LINE   (WORK_CHAT + BP_CHAT_SCRATCH)
#define WORK_WINDOW (WORK_LINE + ROLLOUT_LINE_MAX)
#define WORK_BYTES  (WORK_WINDOW + WINDOW)

/* A pass over the files: it counts, or fills what was counted. */
typedef struct prompts_pass {
    rollout_prompts *p;
    bp_data_reader reader;
    char *line;
    size_t length;
    int32_t *ids; /* NULL: it counts */
    char *bytes;
} prompts_pass;

static char *prompts_chat_room(const rollout_prompts *p)
{
    const uintptr_t at = (uintptr_t)p->work.address + CHAT_CHOICE_BYTES;
    return (char *)p->work.address + CHAT_CHOICE_BYTES + (64 - at % 64) % 64;
}

/* The template is asked for when the first row needs it. */
static bp_status prompts_open_chat(rollout_prompts *p)
{
    const chat_choice *chosen = &p->chosen;
    BP_TRY(chat_choose(p->s, p->work.address, &p->chosen));
    BP_TRY(bp_chat_open(&p->chat, chosen->source, chosen->length, chosen->tokens,
                        chosen->token_count, prompts_chat_room(p), &p->s->error));
    p->chats = true;
    return BP_OK;
}

static bp_status prompts_parse(rollout_prompts *p, const char *line, size_t length,
                               bp_jinja_value *to)
{
    if (p->chats) {
        bp_chat_clear(&p->chat);
        return bp_jinja_json_bytes(&p->chat.room, line, length, to);
    }
    p->room = (bp_jinja_room){prompts_chat_room(p), BP_CHAT_ROOM, 0, &p->s->error};
    return bp_jinja_json_bytes(&p->room, line, length, to);
}

bp_status rollout_prompts_values(rollout_prompts *p, const rollout_row *row, bp_jinja_value *to)
{
    return prompts_parse(p, row->line, row->line_bytes, to);
}

uint32_t rollout_prompt_turns(const bp_jinja_value *messages)
{
    const bp_jinja_value *last =
        messages->count > 0 ? &messages->is.items[messages->count - 1] : NULL;
    const bp_jinja_value *role = last != NULL && last->kind == BP_JINJA_DICT
                                     ? bp_jinja_dict_get(last->is.dict, "role", 4)
                                     : NULL;
    return messages->count - (role != NULL && bp_jinja_is(role, "assistant") ? 1 : 0);
}

static const bp_jinja_value *prompts_get(const bp_jinja_value *row, const char *key,
                                         bp_jinja_kind kind)
{
    const bp_jinja_value *value = bp_jinja_dict_get(row->is.dict, key, strlen(key));
    return value != NULL && value->kind == (uint8_t)kind ? value : NULL;
}

static bp_status prompts_check_messages(prompts_pass *pass, const bp_jinja_value *messages)
{
    for (uint32_t i = 0; i < messages->count; i++) {
        const bp_jinja_value *m = &messages->is.items[i];
        if (m->kind != BP_JINJA_DICT || prompts_get(m, "role", BP_JINJA_STRING) == NULL) {
            return bp_data_refuse(&pass->reader, "a message is an object of role and content");
        }
    }
    return BP_OK;
}

/* Messages as text, in the chat's memory. */
static bp_status prompts_render(prompts_pass *pass, const bp_jinja_value *row,
                                const bp_jinja_value *messages, uint32_t count)
{
    const bp_jinja_value *tools = prompts_get(row, "tools", BP_JINJA_LIST);
    const bp_jinja_value *more = prompts_get(row, "chat_template_kwargs", BP_JINJA_DICT);
    bp_chat_turns turns = {.messages = *messages,
                           .tools = tools != NULL ? *tools : bp_jinja_none(),
                           .more = more != NULL ? *more : bp_jinja_none()};
    turns.messages.count = count;
    BP_TRY(prompts_check_messages(pass, messages));
    if (count == 0) {
        return bp_data_refuse(&pass->reader, "the prompt has no messages");
    }
    return bp_chat_render(&pass->p->chat, &turns, true);
}

/* An error of what was read says where. */
static bp_status prompts_named(prompts_pass *pass, bp_status status)
{
    if (status != BP_OK) {
        bp_data_name_position(&pass->reader);
    }
    return status;
}

/* The row's values, and its messages, or NULL where its prompt is a text. */
static bp_status prompts_row(prompts_pass *pass, bp_jinja_value *row,
                             const bp_jinja_value **messages, uint32_t *turns)
{
    BP_TRY(prompts_named(pass, prompts_parse(pass->p, pass->line, pass->length, row)));
    if (row->kind != BP_JINJA_DICT) {
        return bp_data_refuse(&pass->reader, "a line of JSON lines is an object ({...})");
    }
    *messages = NULL;
    if (prompts_get(row, "prompt", BP_JINJA_STRING) != NULL) {
        return BP_OK;
    }
    const bp_jinja_value *list = prompts_get(row, "prompt", BP_JINJA_LIST);
    *messages = list != NULL ? list : prompts_get(row, "messages", BP_JINJA_LIST);
    if (*messages == NULL) {
        return bp_data_refuse(&pass->reader, "the row has no prompt: `prompt`, a text or a list of "
                                             "messages, or `messages`");
    }
    *turns = list != NULL ? list->count : rollout_prompt_turns(*messages);
    return BP_OK;
}

/* Finds the text of the row whose line was read. */
static bp_status prompts_text(prompts_pass *pass, bp_jinja_value *row, const char **text,
                              size_t *length)
{
    rollout_prompts *p = pass->p;
    const bp_jinja_value *messages;
    uint32_t turns = 0;
    BP_TRY(prompts_row(pass, row, &messages, &turns));
    if (messages == NULL) {
        const bp_jinja_value *plain = prompts_get(row, "prompt", BP_JINJA_STRING);
        *text = plain->is.text;
        *length = plain->count;
        return BP_OK;
    }
    if (!p->chats) { /* its memory is where the values are */
        BP_TRY(prompts_open_chat(p));
        BP_TRY(prompts_row(pass, row, &messages, &turns));
    }
    BP_TRY(prompts_render(pass, row, messages, turns));
    *text = p->chat.text;
    *length = p->chat.length;
    return BP_OK;
}

/* The ids of a text: where it is no chat's, with the beginning token. ids NULL: only their count.
 */
static uint32_t prompts_encode(rollout_prompts *p, const char *text, size_t length, bool rendered,
                               int32_t *ids)
{
    size_t count = 0;
    uint32_t before = 0;
    if (p->s->run_tokenizer.kind == TOKENIZER_BYTES) {
        for (; ids != NULL && count < length; count++) {
            ids[count] = (unsigned char)text[count];
        }
        return (uint32_t)length;
    }
    bp_encoder *encoder = &p->s->run_tokenizer.encoder;
    if (p->begins && !rendered) {
        if (ids != NULL) {
            *ids++ = (int32_t)bp_tokenizer_special_of(encoder->tokenizer)->bos;
        }
        before = 1;
    }
    bp_encoder_text(encoder, text, length, BP_ENCODE_PLAIN, NULL, 0, &count);
    if (ids != NULL) { /* ids are below 2^31, so the sign is no matter */
        bp_encoder_text(encoder, text, length, BP_ENCODE_PLAIN, (uint32_t *)ids, count, &count);
    }
    return before + (uint32_t)count;
}

/* Puts bytes behind those that are held, or counts them. */
static const char *prompts_keep(prompts_pass *pass, const char *bytes, size_t count)
{
    char *to = pass->bytes != NULL ? pass->bytes + pass->p->byte_count : NULL;
    if (to != NULL && count > 0) {
        memcpy(to, bytes, count);
    }
    pass->p->byte_count += count;
    return to;
}

/* The column `answer`, as text. */
static bp_status prompts_answer(prompts_pass *pass, const bp_jinja_value *row, rollout_row *to)
{
    const bp_jinja_value *answer = bp_jinja_dict_get(row->is.dict, "answer", 6);
    bp_jinja_room *room = pass->p->chats ? &pass->p->chat.room : &pass->p->room;
    bp_jinja_value text;
    if (answer == NULL || answer->kind == BP_JINJA_NONE) {
        return BP_OK;
    }
    BP_TRY(prompts_named(pass, bp_jinja_text(room, answer, &text)));
    to->answer = prompts_keep(pass, text.is.text, text.count);
    to->answer_bytes = text.count;
    return BP_OK;
}

static bp_status prompts_take(prompts_pass *pass)
{
    rollout_prompts *p = pass->p;
    rollout_row row = {.line_bytes = pass->length};
    bp_jinja_value values;
    const char *text = "";
    BP_TRY(prompts_text(pass, &values, &text, &row.text_bytes));
    row.ids = pass->ids != NULL ? pass->ids + p->id_count : NULL;
    row.rendered = p->chats && text == p->chat.text;
    row.count = prompts_encode(p, text, row.text_bytes, row.rendered,
                               pass->ids != NULL ? pass->ids + p->id_count : NULL);
    if (row.count == 0) {
        return bp_data_refuse(&pass->reader, "the prompt is empty: nothing can follow it");
    }
    row.text = prompts_keep(pass, text, row.text_bytes);
    row.line = prompts_keep(pass, pass->line, row.line_bytes);
    BP_TRY(prompts_answer(pass, &values, &row));
    if (pass->ids != NULL) {
        p->rows[p->count] = row;
    }
    p->id_count += row.count;
    p->longest = row.count > p->longest ? row.count : p->longest;
    p->count++;
    return BP_OK;
}

/* A line without its end into pass->line; *next is where the one behind it begins. */
static bp_status prompts_line(prompts_pass *pass, uint64_t from, uint64_t *next)
{
    uint64_t end;
    BP_TRY(bp_data_line_end(&pass->reader, from, &end));
    *next = end + 1;
    pass->length = 0;
    if (end - from > ROLLOUT_LINE_MAX) {
        return bp_data_refuse_most(&pass->reader, "the line is longer than a row may be",
                                   (int64_t)(end - from), ROLLOUT_LINE_MAX);
    }
    while (from < end) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(&pass->reader, from, &bytes, &count));
        count = count < end - from ? count : (size_t)(end - from);
        memcpy(pass->line + pass->length, bytes, count);
        pass->length += count;
        from += count;
    }
    while (pass->length > 0 && strchr(" \t\r", pass->line[pass->length - 1]) != NULL) {
        pass->length--;
    }
    return BP_OK;
}

static bp_status prompts_file(prompts_pass *pass)
{
    uint64_t at, next;
    BP_TRY(bp_data_reader_begin(&pass->reader));
    BP_TRY(bp_data_mark(&pass->reader, &at));
    for (pass->reader.line = 1; at < pass->reader.size; at = next, pass->reader.line++) {
        BP_TRY(prompts_line(pass, at, &next));
        if (pass->length > 0) {
            BP_TRY(prompts_take(pass));
        }
    }
    return BP_OK;
}

static bp_status prompts_read(rollout_prompts *p, int32_t *ids, char *bytes)
{
    const bp_data *data = &p->files.data;
    p->count = p->id_count = p->byte_count = 0;
    for (uint32_t i = 0; i < data->file_count; i++) {
        char *work = p->work.address;
        prompts_pass pass = {.p = p,
                             .line = work + WORK_LINE,
                             .ids = ids,
                             .bytes = bytes,
                             .reader = {.store = data->store,
                                        .file = data->files[i].file,
                                        .path = data->files[i].path,
                                        .buffer = (unsigned char *)work + WORK_WINDOW,
                                        .capacity = WINDOW,
                                        .error = &p->s->error}};
        BP_TRY(prompts_file(&pass));
    }
    return BP_OK;
}

static bp_status prompts_check(rollout_prompts *p)
{
    session *s = p->s;
    if (p->files.data.format != BP_DATA_JSONL) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "prompts are JSON lines; give --data-format jsonl where the name does "
                            "not say so",
                            p->files.data.source.name);
    }
    if (s->run_tokenizer.kind == TOKENIZER_NONE) {
        return bp_error_set(&s->error, BP_ERR_DATA, where,
                            "prompts are texts, and the model directory has no tokenizer; give "
                            "--tokenizer",
                            s->set->model);
    }
    return BP_OK;
}

typedef struct prompts_pieces {
    int32_t *ids;
    char *bytes;
} prompts_pieces;

static void prompts_place(rollout_prompts *p, prompts_pieces *pieces, bp_arena *memory)
{
    p->rows = bp_arena_take(memory, p->count, sizeof *p->rows);
    pieces->ids = bp_arena_take(memory, p->id_count, sizeof *pieces->ids);
    pieces->bytes = bp_arena_take(memory, p->byte_count, 1);
}

bp_status rollout_prompts_open(rollout_prompts *p, session *s, const path_list *list)
{
    uint32_t tail;
    p->s = s;
    BP_TRY(data_files_find(&p->files, s, list));
    BP_TRY(session_open_run_tokenizer(s));
    BP_TRY(prompts_check(p));
    if (s->run_tokenizer.kind == TOKENIZER_TOKENIZER) {
        bp_tokenise_template(&s->run_tokenizer.encoder, &p->begins, &tail);
    }
    BP_TRY(memory_take(&p->work, WORK_BYTES, false, "host memory", &s->error));
    BP_TRY(prompts_read(p, NULL, NULL));
    if (p->count == 0) {
        return bp_error_set(&s->error, BP_ERR_DATA, where, "the data holds no prompt",
                            p->files.data.source.name);
    }
    prompts_pieces pieces;
    bp_arena memory;
    bp_arena_count(&memory);
    prompts_place(p, &pieces, &memory);
    BP_TRY(memory_take(&p->held, bp_arena_counted(&memory), false, "host memory", &s->error));
    bp_arena_init(&memory, p->held.address, p->held.bytes);
    prompts_place(p, &pieces, &memory);
    return prompts_read(p, pieces.ids, pieces.bytes);
}

uint64_t rollout_prompts_work(void)
{
    return WORK_BYTES;
}

void rollout_prompts_close(rollout_prompts *p)
{
    memory_give_back(&p->held);
    memory_give_back(&p->work);
    data_files_close(&p->files);
}

static bp_status text_add(rollout_text *text, session *s, const char *bytes, size_t count)
{
    if (text->count + count > text->room) {
        const size_t wanted = 2 * (text->count + count);
        char *grown = realloc(text->bytes, wanted);
        if (grown == NULL) {
            return bp_error_set(&s->error, BP_ERR_FIT, where, "no memory for the text", "");
        }
        text->bytes = grown;
        text->room = wanted;
    }
    if (count > 0) {
        memcpy(text->bytes + text->count, bytes, count);
    }
    text->count += count;
    return BP_OK;
}

/* The token that ends a text is no part of it, whatever it is. */
static bp_status text_fill(rollout_text *text, session *s, text_stream *stream,
                           const rollout_prompt *prompt, const rollout_completion *c)
{
    const uint32_t count = c->count - (c->finish == ROLLOUT_STOP ? 1 : 0);
    const char *bytes;
    size_t length;
    for (uint32_t i = 0; i < prompt->count; i++) {
        text_stream_pass(stream, prompt->ids[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        bytes = text_stream_next(stream, c->ids[i], &length);
        BP_TRY(text_add(text, s, bytes, length));
    }
    bytes = text_stream_end(stream, &length);
    return text_add(text, s, bytes, length);
}

bp_status rollout_text_make(rollout_text *text, session *s, const rollout_prompt *prompt,
                            const rollout_completion *completion)
{
    static const path_list none;
    text_stream stream = {.held = 0};
    text->count = 0;
    BP_TRY(text_stream_begin(&stream, &s->run_tokenizer, &none, &s->error));
    const bp_status status = text_fill(text, s, &stream, prompt, completion);
    text_stream_close(&stream);
    return status;
}

void rollout_text_free(rollout_text *text)
{
    free(text->bytes);
    *text = (rollout_text){.bytes = NULL};
}
