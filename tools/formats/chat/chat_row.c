/* SPDX-License-Identifier: MIT */
/* Rows to conversations. */
#include "tools/formats/chat/chat_row.h"

#include <string.h>

#include "tools/formats/chat/jinja_json.h"
#include "tools/formats/chat/jinja_program.h"

typedef enum row_key {
    ROW_MESSAGES,
    ROW_CONVERSATIONS,
    ROW_CONVERSATION,
    ROW_PROMPT,
    ROW_COMPLETION,
    ROW_INSTRUCTION,
    ROW_INPUT,
    ROW_OUTPUT,
    ROW_TOOLS,
    ROW_MORE,
    ROW_SYSTEM,
    ROW_CHOSEN,
    ROW_REJECTED,
    ROW_LABEL,
    ROW_KEYS
} row_key;

static const char *const row_names[ROW_KEYS] = {
    "messages",    "conversations", "conversation", "prompt", "completion",
    "instruction", "input",         "output",       "tools",  "chat_template_kwargs",
    "system",      "chosen",        "rejected",     "label"};

typedef struct row_reading {
    bp_chat *chat;
    bp_records *records;
    bp_jinja_value values[ROW_KEYS]; /* undefined: not there */
} row_reading;

static uint32_t key_of(const bp_json_event *event)
{
    uint32_t i = 0;
    while (i < ROW_KEYS && (strlen(row_names[i]) != event->length ||
                            memcmp(row_names[i], event->text, event->length) != 0)) {
        i++;
    }
    return i;
}

static bp_status row_refuse(row_reading *r, const char *text)
{
    return bp_data_refuse(r->records->span.reader, text);
}

static bp_status take_values(row_reading *r)
{
    bp_json *json = &r->records->span.json;
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        const uint32_t key = key_of(&event);
        if (key < ROW_KEYS) {
            BP_TRY(bp_jinja_json(&r->chat->room, json, true, &r->values[key]));
            if (r->values[key].kind == BP_JINJA_NONE) {
                r->values[key] = bp_jinja_undefined(NULL);
            }
        } else {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

/* As templates call those who speak. */
static const char *role_of(const bp_jinja_value *who)
{
    static const char *const names[][2] = {
        {"user", "user"},           {"human", "user"},       {"assistant", "assistant"},
        {"gpt", "assistant"},       {"model", "assistant"},  {"chatgpt", "assistant"},
        {"bing", "assistant"},      {"bard", "assistant"},   {"system", "system"},
        {"developer", "developer"}, {"tool", "tool"},        {"function", "function"},
        {"ipython", "ipython"},     {"observation", "tool"}, {"function_response", "tool"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (bp_jinja_is(who, names[i][0])) {
            return names[i][1];
        }
    }
    return NULL;
}

/* A content of several texts becomes one. */
static bp_status join_contents(row_reading *r, bp_jinja_value *content)
{
    bp_jinja_value whole = bp_jinja_string("", 0);
    for (uint32_t i = 0; i < content->count; i++) {
        const bp_jinja_value *part = &content->is.items[i];
        const bp_jinja_value *text =
            part->kind == BP_JINJA_DICT ? bp_jinja_dict_get(part->is.dict, "text", 4) : part;
        if (text == NULL || text->kind != BP_JINJA_STRING) {
            return row_refuse(r, "a part of a message is no text");
        }
        BP_TRY(bp_jinja_join(&r->chat->room, &whole, text, &whole));
    }
    *content = whole;
    return BP_OK;
}

static bp_status check_role(row_reading *r, const bp_jinja_value *who, const char **role)
{
    *role = who != NULL ? role_of(who) : NULL;
    if (*role != NULL) {
        return BP_OK;
    }
    if (who == NULL || who->kind != BP_JINJA_STRING) {
        return row_refuse(r, "a message has no role (`role`, or `from`)");
    }
    return bp_data_refuse_word(
        r->records->span.reader,
        "the role of a message is unknown: expected system, developer, user, "
        "assistant or tool",
        who->is.text, who->count);
}

static bp_status check_message(row_reading *r, bp_jinja_value *message, bool shared)
{
    const char *role;
    const bp_jinja_value keys[2] = {bp_jinja_string("role", 4), bp_jinja_string("content", 7)};
    if (message->kind != BP_JINJA_DICT) {
        return row_refuse(r, "a message is an object of role and content");
    }
    bp_jinja_dict *dict = message->is.dict;
    BP_TRY(check_role(r, bp_jinja_dict_get(dict, shared ? "from" : "role", 4), &role));
    const bp_jinja_value *found =
        bp_jinja_dict_get(dict, shared ? "value" : "content", shared ? 5 : 7);
    bp_jinja_value content = found != NULL ? *found : bp_jinja_undefined(NULL);
    if (content.kind == BP_JINJA_LIST) {
        BP_TRY(join_contents(r, &content));
    }
    if (content.kind != BP_JINJA_STRING &&
        (content.kind != BP_JINJA_UNDEFINED || bp_jinja_dict_get(dict, "tool_calls", 10) == NULL)) {
        return row_refuse(r, "a message has no text (`content`, or `value`)");
    }
    if (shared) {
        return bp_chat_message(r->chat, role, &content, message);
    }
    return content.kind == BP_JINJA_STRING
               ? bp_jinja_dict_set(&r->chat->room, dict, &keys[1], &content)
               : BP_OK;
}

static bp_status check_messages(row_reading *r, const bp_jinja_value *list, bool shared,
                                bp_jinja_value *to)
{
    bp_jinja_value *items;
    if (list->kind != BP_JINJA_LIST || list->count == 0) {
        return row_refuse(r, "the conversation is no list of messages, or an empty one");
    }
    BP_TRY(bp_jinja_list_new(&r->chat->room, list->count, &items, to));
    for (uint32_t i = 0; i < list->count; i++) {
        items[i] = list->is.items[i];
        BP_TRY(check_message(r, &items[i], shared));
    }
    return BP_OK;
}

/* instruction and input are what the user says, the latter behind an empty line. */
static bp_status alpaca_messages(row_reading *r, bp_jinja_value *to)
{
    const bp_jinja_value gap = bp_jinja_string("\n\n", 2);
    const bp_jinja_value *input = &r->values[ROW_INPUT], *system = &r->values[ROW_SYSTEM];
    bp_jinja_value question = r->values[ROW_INSTRUCTION];
    bp_jinja_value *items;
    const bool told = system->kind == BP_JINJA_STRING && system->count > 0;
    if (question.kind != BP_JINJA_STRING || r->values[ROW_OUTPUT].kind != BP_JINJA_STRING) {
        return row_refuse(r, "`instruction` and `output` are strings");
    }
    if (input->kind == BP_JINJA_STRING && input->count > 0) {
        BP_TRY(bp_jinja_join(&r->chat->room, &question, &gap, &question));
        BP_TRY(bp_jinja_join(&r->chat->room, &question, input, &question));
    }
    BP_TRY(bp_jinja_list_new(&r->chat->room, told ? 3 : 2, &items, to));
    if (told) {
        BP_TRY(bp_chat_message(r->chat, "system", system, items++));
    }
    BP_TRY(bp_chat_message(r->chat, "user", &question, &items[0]));
    return bp_chat_message(r->chat, "assistant", &r->values[ROW_OUTPUT], &items[1]);
}

/* Tools may be JSON in a string. */
static bp_status take_tools(row_reading *r, bp_chat_turns *turns)
{
    const bp_jinja_value *tools = &r->values[ROW_TOOLS];
    turns->tools = tools->kind == BP_JINJA_UNDEFINED ? bp_jinja_none() : *tools;
    if (tools->kind == BP_JINJA_STRING) {
        bp_error *const heard = r->chat->room.error;
        bp_error unheard = {.code = BP_OK};
        r->chat->room.error = &unheard;
        bp_status status =
            bp_jinja_json_bytes(&r->chat->room, tools->is.text, tools->count, &turns->tools);
        r->chat->room.error = heard;
        if (status != BP_OK) {
            return row_refuse(r, "`tools` is a string that is no JSON");
        }
    }
    if (turns->tools.kind == BP_JINJA_LIST && turns->tools.count == 0) {
        turns->tools = bp_jinja_none();
    }
    return turns->tools.kind == BP_JINJA_NONE || turns->tools.kind == BP_JINJA_LIST
               ? BP_OK
               : row_refuse(r, "`tools` is no list");
}

bp_status bp_chat_row(bp_chat *chat, bp_records *records, bp_chat_turns *turns)
{
    row_reading r = {.chat = chat, .records = records};
    const bp_jinja_value *v = r.values;
    BP_TRY(bp_records_named(records, take_values(&r)));
    *turns =
        (bp_chat_turns){.more = v[ROW_MORE].kind == BP_JINJA_DICT ? v[ROW_MORE] : bp_jinja_none()};
    BP_TRY(take_tools(&r, turns));
    if (v[ROW_MESSAGES].kind != BP_JINJA_UNDEFINED) {
        return check_messages(&r, &v[ROW_MESSAGES], false, &turns->messages);
    }
    const row_key shared =
        v[ROW_CONVERSATIONS].kind != BP_JINJA_UNDEFINED ? ROW_CONVERSATIONS : ROW_CONVERSATION;
    if (v[shared].kind != BP_JINJA_UNDEFINED) {
        const bp_jinja_value *first =
            v[shared].kind == BP_JINJA_LIST && v[shared].count > 0 ? &v[shared].is.items[0] : NULL;
        const bool roles = first != NULL && first->kind == BP_JINJA_DICT &&
                           bp_jinja_dict_get(first->is.dict, "role", 4) != NULL;
        return check_messages(&r, &v[shared], !roles, &turns->messages);
    }
    if (v[ROW_INSTRUCTION].kind != BP_JINJA_UNDEFINED) {
        return alpaca_messages(&r, &turns->messages);
    }
    if (v[ROW_PROMPT].kind == BP_JINJA_LIST && v[ROW_COMPLETION].kind == BP_JINJA_LIST) {
        bp_jinja_value both;
        BP_TRY(
            bp_jinja_operate(&chat->room, BP_JINJA_ADD, &v[ROW_PROMPT], &v[ROW_COMPLETION], &both));
        turns->prompt = v[ROW_PROMPT].count;
        return check_messages(&r, &both, false, &turns->messages);
    }
    return row_refuse(&r, "the row has no conversation: `messages`, `conversations`, or "
                          "`instruction` and `output`");
}

/* A side of a row of preferences: a string that is not empty, or messages. */
static bp_status take_side(row_reading *r, row_key key, bp_jinja_value *to)
{
    const bp_jinja_value *value = &r->values[key];
    const bool first = value->kind == BP_JINJA_LIST && value->count > 0 &&
                       value->is.items[0].kind == BP_JINJA_DICT;
    const bool shared = first && bp_jinja_dict_get(value->is.items[0].is.dict, "role", 4) == NULL;
    if (value->count == 0) { /* or of another kind: only texts and lists have a count */
        static const char *const texts[ROW_KEYS] = {
            [ROW_PROMPT] = "the prompt is neither a text nor a list of messages",
            [ROW_COMPLETION] = "the row has no completion: `completion` is a text or a list of "
                               "messages, and not empty",
            [ROW_CHOSEN] = "the row has no chosen side: `chosen` is a text or a list of messages, "
                           "and not empty",
            [ROW_REJECTED] = "the row has no rejected side: `rejected` is a text or a list of "
                             "messages, and not empty"};
        return row_refuse(r, texts[key]);
    }
    *to = *value;
    return value->kind == BP_JINJA_LIST ? check_messages(r, value, shared, to) : BP_OK;
}

/* What both sides begin with, as TRL's extract_prompt has it: messages, or bytes of texts, of which
 * a space goes to the answer; at least one is left of each. */
static bp_status take_common(row_reading *r, bp_chat_pair *pair)
{
    bp_jinja_value *a = &pair->answer[0], *b = &pair->answer[1];
    const bool list = a->kind == BP_JINJA_LIST;
    const uint32_t most = (a->count < b->count ? a->count : b->count) - 1;
    uint32_t same = 0;
    while (same < most && (list ? bp_jinja_equal(&a->is.items[same], &b->is.items[same])
                                : a->is.text[same] == b->is.text[same])) {
        same++;
    }
    pair->prompt = *a;
    if (!list) {
        const bool differ = a->is.text[same] != b->is.text[same];
        while (same > 0 && ((unsigned char)a->is.text[same] & 0xc0) == 0x80) {
            same--; /* between characters */
        }
        same -= differ && same > 0 && a->is.text[same - 1] == ' ' ? 1 : 0;
    }
    pair->prompt.count = same;
    for (uint32_t i = 0; i < 2; i++) {
        bp_jinja_value *answer = &pair->answer[i];
        answer->count -= same;
        if (list) {
            answer->is.items += same;
        } else {
            answer->is.text += same;
        }
    }
    return list && same == 0 ? row_refuse(r, "chosen and rejected have no message in common, and "
                                             "there is no prompt")
                             : BP_OK;
}

/* A text and a label. */
static bp_status take_single(row_reading *r, bp_chat_pair *pair)
{
    const bp_jinja_value *label = &r->values[ROW_LABEL];
    double value = 0.0;
    const bool truth = bp_jinja_number(label, &value) && (value == 0.0 || value == 1.0);
    BP_TRY(take_side(r, ROW_COMPLETION, &pair->answer[0]));
    if (!truth) {
        return row_refuse(r, "the row has no label that is true or false (`label`)");
    }
    pair->single = true;
    pair->desirable = value == 1.0;
    return BP_OK;
}

bp_status bp_chat_pair_row(bp_chat *chat, bp_records *records, bool single, bp_chat_pair *pair)
{
    row_reading r = {.chat = chat, .records = records};
    const bp_jinja_value *v = r.values;
    BP_TRY(bp_records_named(records, take_values(&r)));
    *pair = (bp_chat_pair){.single = false};
    pair->turns =
        (bp_chat_turns){.more = v[ROW_MORE].kind == BP_JINJA_DICT ? v[ROW_MORE] : bp_jinja_none()};
    BP_TRY(take_tools(&r, &pair->turns));
    if (single && v[ROW_CHOSEN].kind == BP_JINJA_UNDEFINED) {
        BP_TRY(take_single(&r, pair));
    } else {
        BP_TRY(take_side(&r, ROW_CHOSEN, &pair->answer[0]));
        BP_TRY(take_side(&r, ROW_REJECTED, &pair->answer[1]));
        if (pair->answer[0].kind != pair->answer[1].kind) {
            return row_refuse(&r, "chosen and rejected are a text and a list of messages");
        }
    }
    const uint8_t kind = pair->answer[0].kind;
    pair->chats = kind == BP_JINJA_LIST;
    const bool told = v[ROW_PROMPT].kind != BP_JINJA_UNDEFINED;
    if (pair->single ? !told : !told || (pair->chats && v[ROW_PROMPT].kind == BP_JINJA_STRING)) {
        return pair->single ? row_refuse(&r, "the row has no prompt (`prompt`)")
                            : take_common(&r, pair);
    }
    if (v[ROW_PROMPT].kind == BP_JINJA_STRING && !pair->chats) {
        pair->prompt = v[ROW_PROMPT];
        return BP_OK;
    }
    BP_TRY(take_side(&r, ROW_PROMPT, &pair->prompt));
    return pair->prompt.kind == kind
               ? BP_OK
               : row_refuse(&r, "the prompt is a text where the answer is a list of messages, or "
                                "the other way round");
}

/* Past a value; *list: it is one. */
static bp_status pass_value(bp_json *json, bool *list)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    const uint32_t depth = event.depth;
    *list = event.kind == BP_JSON_ARRAY_BEGIN;
    bool inside = *list || event.kind == BP_JSON_OBJECT_BEGIN;
    while (inside || event.kind == BP_JSON_TEXT_PART) {
        BP_TRY(bp_json_next(json, &event));
        inside = inside && event.depth != depth; /* what is within has a greater depth */
    }
    return BP_OK;
}

static bp_status look_at_row(bp_data_reader *reader, void *scratch, bool sides, bool *is)
{
    bp_records records;
    bp_json_event event;
    bool there;
    bool text = false;
    bool has[ROW_KEYS + 1] = {false};
    BP_TRY(bp_records_begin(&records, reader, scratch));
    BP_TRY(bp_records_next(&records, &there));
    if (!there) {
        return BP_OK;
    }
    BP_TRY(bp_json_next(&records.span.json, &event));
    while (event.kind == BP_JSON_KEY) {
        const uint32_t key = key_of(&event);
        bool list;
        text = text || (event.length == 4 && memcmp(event.text, "text", 4) == 0);
        BP_TRY(pass_value(&records.span.json, &list));
        has[key] = list || (key != ROW_PROMPT && key != ROW_COMPLETION && key < ROW_CHOSEN);
        BP_TRY(bp_json_next(&records.span.json, &event));
    }
    if (sides) {
        *is = has[ROW_CHOSEN] || has[ROW_REJECTED] || has[ROW_COMPLETION];
        return BP_OK;
    }
    *is = !text &&
          (has[ROW_MESSAGES] || has[ROW_CONVERSATIONS] || has[ROW_CONVERSATION] ||
           (has[ROW_PROMPT] && has[ROW_COMPLETION]) || (has[ROW_INSTRUCTION] && has[ROW_OUTPUT]));
    return BP_OK;
}

static bp_status look_unheard(bp_data_reader *reader, void *scratch, bool sides, bool *is)
{
    bp_error unheard = {.code = BP_OK};
    bp_error *const heard = reader->error;
    *is = false;
    reader->error = &unheard;
    bp_status status = look_at_row(reader, scratch, sides, is);
    reader->error = heard;
    return status == BP_ERR_STORE ? status : BP_OK; /* what is wrong is said when it is read */
}

bp_status bp_chat_row_is(bp_data_reader *reader, void *scratch, bool *is)
{
    return look_unheard(reader, scratch, false, is);
}

bp_status bp_chat_pair_row_is(bp_data_reader *reader, void *scratch, bool *is)
{
    return look_unheard(reader, scratch, true, is);
}
