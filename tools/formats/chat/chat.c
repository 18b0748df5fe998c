/* SPDX-License-Identifier: MIT */
/* Conversations to text, and what of it is learned. */
#include "tools/formats/chat/chat.h"

#include <string.h>

#include "tools/formats/chat/jinja_program.h"

static bp_status variables_add(bp_chat *chat, bp_jinja_value *variables, const char *name,
                               const bp_jinja_value *value)
{
    const bp_jinja_value key = bp_jinja_string(name, strlen(name));
    return bp_jinja_dict_set(&chat->room, variables->is.dict, &key, value);
}

static bp_status make_variables(bp_chat *chat, const bp_chat_turns *turns, bool opens,
                                bp_jinja_value *variables)
{
    const bp_jinja_value none = bp_jinja_none(), opening = bp_jinja_bool(opens);
    BP_TRY(bp_jinja_dict_new(&chat->room, 16, variables));
    for (uint32_t i = 0; i < chat->token_count; i++) {
        const bp_jinja_value text = bp_jinja_string(chat->tokens[i].text, chat->tokens[i].length);
        BP_TRY(variables_add(chat, variables, chat->tokens[i].name, &text));
    }
    BP_TRY(variables_add(chat, variables, "messages", &turns->messages));
    BP_TRY(variables_add(chat, variables, "tools", &turns->tools));
    BP_TRY(variables_add(chat, variables, "documents", &none));
    BP_TRY(variables_add(chat, variables, "add_generation_prompt", &opening));
    for (uint32_t i = 0; turns->more.kind == BP_JINJA_DICT && i < turns->more.is.dict->count; i++) {
        const bp_jinja_pair *pair = &turns->more.is.dict->pairs[i];
        BP_TRY(bp_jinja_dict_set(&chat->room, variables->is.dict, &pair->key, &pair->value));
    }
    return BP_OK;
}

bp_status bp_chat_render(bp_chat *chat, const bp_chat_turns *turns, bool opens)
{
    bp_jinja_value variables;
    if (turns->messages.count > BP_CHAT_TURNS) {
        return bp_jinja_refuse(chat->error, "the conversation has more messages than can be", NULL);
    }
    BP_TRY(make_variables(chat, turns, opens, &variables));
    bp_jinja_render render = {.program = &chat->program,
                              .room = &chat->room,
                              .variables = &variables,
                              .now = chat->now,
                              .out = chat->text,
                              .out_room = BP_CHAT_TEXT,
                              .spans = chat->spans,
                              .span_room = BP_CHAT_TURNS,
                              .turns = &turns->messages,
                              .turn_starts = chat->starts};
    bp_status status = bp_jinja_run(&render);
    chat->length = render.length;
    chat->span_count = render.span_count;
    return status;
}

void bp_chat_clear(bp_chat *chat)
{
    chat->room.used = chat->mark;
}

bp_status bp_chat_message(bp_chat *chat, const char *role, const bp_jinja_value *content,
                          bp_jinja_value *to)
{
    const bp_jinja_value keys[2] = {bp_jinja_string("role", 4), bp_jinja_string("content", 7)};
    const bp_jinja_value who = bp_jinja_string(role, strlen(role));
    BP_TRY(bp_jinja_dict_new(&chat->room, 2, to));
    BP_TRY(bp_jinja_dict_set(&chat->room, to->is.dict, &keys[0], &who));
    return bp_jinja_dict_set(&chat->room, to->is.dict, &keys[1], content);
}

/* A question and an answer. */
static bp_status make_example(bp_chat *chat, bp_chat_turns *turns)
{
    const bp_jinja_value question = bp_jinja_string("?", 1), answer = bp_jinja_string("!BP!", 4);
    bp_jinja_value *messages;
    *turns = (bp_chat_turns){.tools = bp_jinja_none(), .more = bp_jinja_none()};
    BP_TRY(bp_jinja_list_new(&chat->room, 2, &messages, &turns->messages));
    BP_TRY(bp_chat_message(chat, "user", &question, &messages[0]));
    return bp_chat_message(chat, "assistant", &answer, &messages[1]);
}

/* What the template writes of an answer before its text, and, in chat->footer, behind it. */
static bp_status example_header(bp_chat *chat, const bp_chat_turns *turns, bp_jinja_value *to)
{
    BP_TRY(bp_chat_render(chat, turns, false));
    const size_t from = chat->starts[1];
    size_t at = from;
    while (at + 4 <= chat->length && memcmp(chat->text + at, "!BP!", 4) != 0) {
        at++;
    }
    const bool found = at + 4 <= chat->length;
    const size_t rest = found ? chat->length - at - 4 : 0;
    chat->footer_length = rest < BP_CHAT_HEADER ? rest : BP_CHAT_HEADER;
    memcpy(chat->footer, chat->text + chat->length - rest, chat->footer_length);
    return bp_jinja_copy(&chat->room, found ? chat->text + from : "", found ? at - from : 0, to);
}

/* What opens an answer: the most of what stands before an answer's text with which the text of a
 * question ends where an answer is asked for. Nothing, of templates that refuse such an example. */
static bp_status find_header(bp_chat *chat)
{
    bp_error *const heard = chat->room.error;
    bp_error unheard = {.code = BP_OK};
    bp_jinja_value header = bp_jinja_string("", 0);
    bp_chat_turns turns;
    BP_TRY(make_example(chat, &turns));
    chat->room.error = &unheard;
    bp_status status = example_header(chat, &turns, &header);
    turns.messages.count = 1;
    status = status == BP_OK ? bp_chat_render(chat, &turns, true) : status;
    chat->room.error = heard;
    size_t most = header.count < BP_CHAT_HEADER ? header.count : BP_CHAT_HEADER;
    most = status != BP_OK ? 0 : most < chat->length ? most : chat->length;
    while (most > 0 && memcmp(chat->text + chat->length - most, header.is.text, most) != 0) {
        most--;
    }
    memcpy(chat->header, header.is.text, most);
    chat->header_length = most;
    return BP_OK;
}

bp_status bp_chat_open(bp_chat *chat, const char *source, size_t length,
                       const bp_chat_token *tokens, uint32_t token_count, void *scratch,
                       bp_error *error)
{
    char *at = scratch;
    *chat = (bp_chat){.tokens = tokens,
                      .token_count = token_count,
                      .now = {2024, 7, 26, 0, 0, 0},
                      .text = at + BP_CHAT_ROOM,
                      .error = error};
    chat->room = (bp_jinja_room){at, BP_CHAT_ROOM, 0, error};
    chat->spans = (bp_jinja_span *)(void *)(chat->text + BP_CHAT_TEXT);
    chat->starts = (uint32_t *)(void *)(chat->spans + BP_CHAT_TURNS);
    const bp_status status = bp_jinja_compile(&chat->program, &chat->room, source, length);
    if (status != BP_OK) {
        bp_error_prefix(error, "the chat template");
        return status;
    }
    chat->mark = chat->room.used;
    BP_TRY(find_header(chat));
    bp_chat_clear(chat);
    return BP_OK;
}

static bool speaks(const bp_jinja_value *message)
{
    const bp_jinja_value *role = bp_jinja_dict_get(message->is.dict, "role", 4);
    return role != NULL && bp_jinja_is(role, "assistant");
}

/* The text of a turn goes to where the next one begins. */
static uint32_t turn_end(const bp_chat *chat, uint32_t turns, uint32_t start)
{
    uint32_t end = (uint32_t)chat->length;
    for (uint32_t i = 0; i < turns; i++) {
        if (chat->starts[i] > start && chat->starts[i] < end) {
            end = chat->starts[i];
        }
    }
    return end;
}

static void learn_turns(bp_chat *chat, const bp_chat_turns *turns, uint32_t first)
{
    const uint32_t count = turns->messages.count;
    chat->span_count = 0;
    for (uint32_t i = first; i < count; i++) {
        uint32_t from = chat->starts[i];
        if (from >= chat->length || !speaks(&turns->messages.is.items[i])) {
            continue;
        }
        const uint32_t to = turn_end(chat, count, from);
        if (to - from >= chat->header_length &&
            memcmp(chat->text + from, chat->header, chat->header_length) == 0) {
            from += (uint32_t)chat->header_length;
        }
        chat->spans[chat->span_count++] = (bp_jinja_span){from, to};
    }
}

void bp_chat_learned(bp_chat *chat, const bp_chat_turns *turns, bp_chat_loss loss)
{
    const uint32_t count = turns->messages.count;
    const bool last = loss == BP_CHAT_COMPLETION;
    if (loss == BP_CHAT_ALL) {
        chat->spans[0] = (bp_jinja_span){0, (uint32_t)chat->length};
        chat->span_count = 1;
        return;
    }
    const uint32_t first = last && turns->prompt < count ? turns->prompt : 0;
    if (!chat->program.generates) {
        learn_turns(chat, turns, first);
    } else if (first > 0) { /* what is marked behind the prompt */
        uint32_t kept = 0;
        for (uint32_t i = 0; i < chat->span_count; i++) {
            if (chat->starts[first] <= chat->spans[i].from) {
                chat->spans[kept++] = chat->spans[i];
            }
        }
        chat->span_count = kept;
    }
    if (last && first == 0 && chat->span_count > 1) {
        chat->spans[0] = chat->spans[chat->span_count - 1];
        chat->span_count = 1;
    }
}
