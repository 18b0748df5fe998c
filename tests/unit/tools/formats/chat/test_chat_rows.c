/* SPDX-License-Identifier: MIT */
/* Rows of conversations and of preferences: what is taken of them, and what is refused. Rows are
 * written with ' for ". What rows of preferences mean is TRL's extract_prompt, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/chat/chat_row.h"
#include "tools/formats/chat/jinja_program.h"

enum { ROOM = 1 << 20 };

static memory_store memory;
static bp_error error;
static bp_chat chat;
static char told[4096];

static void tell(const bp_jinja_value *value, const char *end)
{
    bp_jinja_value text;
    const size_t used = strlen(told);
    assert_int_equal(bp_jinja_text(&chat.room, value, &text), BP_OK);
    snprintf(told + used, sizeof told - used, "%.*s%s", (int)text.count, text.is.text, end);
}

typedef bp_status (*row_act)(bp_data_reader *reader, void *scratch, bool single);

static bp_status act_pair(bp_data_reader *reader, void *scratch, bool single)
{
    bp_records records;
    bp_chat_pair pair;
    bool there;
    BP_TRY(bp_records_begin(&records, reader, scratch));
    BP_TRY(bp_records_next(&records, &there));
    assert_true(there);
    BP_TRY(bp_chat_pair_row(&chat, &records, single, &pair));
    tell(&pair.prompt, "|");
    tell(&pair.answer[0], pair.single ? (pair.desirable ? "+" : "-") : "|");
    if (!pair.single) {
        tell(&pair.answer[1], "");
    }
    assert_int_equal(pair.chats, pair.answer[0].kind == BP_JINJA_LIST);
    return BP_OK;
}

static bp_status act_row(bp_data_reader *reader, void *scratch, bool single)
{
    bp_records records;
    bp_chat_turns turns;
    bool there;
    (void)single;
    BP_TRY(bp_records_begin(&records, reader, scratch));
    BP_TRY(bp_records_next(&records, &there));
    assert_true(there);
    BP_TRY(bp_chat_row(&chat, &records, &turns));
    for (uint32_t i = 0; i < turns.messages.count; i++) {
        const bp_jinja_dict *message = turns.messages.is.items[i].is.dict;
        const bp_jinja_value *content = bp_jinja_dict_get(message, "content", 7);
        const bp_jinja_value none = bp_jinja_none();
        tell(bp_jinja_dict_get(message, "role", 4), ":");
        tell(content != NULL ? content : &none, ";");
    }
    tell(&turns.tools, "");
    return BP_OK;
}

static bp_status act_is(bp_data_reader *reader, void *scratch, bool single)
{
    bool is, sides;
    (void)single;
    BP_TRY(bp_chat_row_is(reader, scratch, &is));
    BP_TRY(bp_data_reader_begin(reader));
    BP_TRY(bp_chat_pair_row_is(reader, scratch, &sides));
    snprintf(told, sizeof told, "%s%s", is ? "chat" : "text", sides ? " sides" : "");
    return BP_OK;
}

static bp_status row_read(row_act act, const char *text, bool single)
{
    static unsigned char window[512];
    static uint64_t scratch[BP_RECORDS_SCRATCH / 8 + 1];
    static char json[4096], *room;
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    room = room == NULL ? malloc(ROOM) : room;
    assert_non_null(room);
    chat = (bp_chat){.room = {.memory = (void *)room, .bytes = ROOM, .error = &error},
                     .error = &error};
    memory_store_init(&memory);
    memory_store_put(&memory, "r.jsonl", json, length);
    bp_data_reader reader = {.store = &memory.store,
                             .path = "r.jsonl",
                             .buffer = window,
                             .capacity = sizeof window,
                             .error = &error};
    error = (bp_error){.code = BP_OK};
    told[0] = '\0';
    assert_int_equal(memory.store.open_read(&memory.store, "r.jsonl", &reader.file), BP_OK);
    bp_status status = bp_data_reader_begin(&reader);
    status = status == BP_OK ? act(&reader, scratch, single) : status;
    assert_int_equal(memory.store.close(&memory.store, reader.file), BP_OK);
    memory_store_free(&memory);
    return status;
}

typedef struct chat_case {
    const char *text;
    const char *told; /* or a piece of the refusal */
    bool single, refused;
} chat_case;

static void play(row_act act, const chat_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bp_status status = row_read(act, cases[i].text, cases[i].single);
        if (status != (cases[i].refused ? BP_ERR_DATA : BP_OK) ||
            (cases[i].refused ? strstr(error.text, cases[i].told) == NULL
                              : strcmp(told, cases[i].told) != 0)) {
            fail_msg("%s: %d %s: %s: %s", cases[i].text, status, error.name, error.text, told);
        }
        assert_true(!cases[i].refused || strncmp(error.name, "r.jsonl", 7) == 0);
    }
}

#define U(text) "{'role': 'user', 'content': '" text "'}"
#define A(text) "{'role': 'assistant', 'content': '" text "'}"
#define S(text) "{'from': 'gpt', 'value': '" text "'}"
/* How a list of one such message is told. */
#define TU(text) "{'role': 'user', 'content': '" text "'}"
#define TA(text) "{'role': 'assistant', 'content': '" text "'}"

static const chat_case pairs[] = {
    {"{'prompt': 'p', 'chosen': 'c', 'rejected': 'r'}", "p|c|r", false, false},
    {"{'prompt': '', 'chosen': 'c', 'rejected': 'r'}", "|c|r", false, false},
    {"{'chosen': 'ab cd', 'rejected': 'ab ef'}", "ab| cd| ef", false, false},
    {"{'chosen': 'ab', 'rejected': 'ab'}", "a|b|b", false, false},
    {"{'chosen': 'a b', 'rejected': 'a bc'}", "a |b|bc", false, false},
    {"{'chosen': 'x', 'rejected': 'yz'}", "|x|yz", false, false},
    {"{'chosen': ' x', 'rejected': ' y'}", "| x| y", false, false},
    {"{'chosen': '\\u00e9', 'rejected': '\\u00e8'}", "|\xc3\xa9|\xc3\xa8", false, false},
    {"{'chosen': 'a\\u20ac', 'rejected': 'a\\u20ad'}", "a|\xe2\x82\xac|\xe2\x82\xad", false, false},
    {"{'chosen': [" U("q") ", " A("c") "], 'rejected': [" U("q") ", " A("r") "]}",
     "[" TU("q") "]|[" TA("c") "]|[" TA("r") "]", false, false},
    {"{'prompt': 'q', 'chosen': [" U("q") ", " A("c") "], 'rejected': [" U("q") ", " A("r") "]}",
     "[" TU("q") "]|[" TA("c") "]|[" TA("r") "]", false, false},
    {"{'prompt': [" U("q") "], 'chosen': [" A("c") "], 'rejected': [" A("r") "]}",
     "[" TU("q") "]|[" TA("c") "]|[" TA("r") "]", false, false},
    {"{'prompt': [" U("q") "], 'chosen': [" S("c") "], 'rejected': [" S("r") "]}",
     "[" TU("q") "]|[" TA("c") "]|[" TA("r") "]", false, false},
    {"{'prompt': 'p', 'completion': 'c', 'label': true}", "p|c+", true, false},
    {"{'prompt': 'p', 'completion': 'c', 'label': 0}", "p|c-", true, false},
    {"{'prompt': 'p', 'completion': 'c', 'label': 1}", "p|c+", true, false},
    {"{'prompt': [" U("q") "], 'completion': [" A("c") "], 'label': false}",
     "[" TU("q") "]|[" TA("c") "]-", true, false},
    {"{'prompt': 'p', 'chosen': 'c', 'rejected': 'r'}", "p|c|r", true, false},
    {"{'prompt': 'p', 'chosen': 'c', 'rejected': 'r', 'chat_template_kwargs': {'a': 1}}", "p|c|r",
     false, false},
    {"{'prompt': 'p', 'completion': 'c', 'label': 2}", "no label that is true or false", true,
     true},
    {"{'prompt': 'p', 'completion': 'c', 'label': 'x'}", "no label that is true or false", true,
     true},
    {"{'prompt': 'p', 'completion': 'c'}", "no label that is true or false", true, true},
    {"{'completion': 'c', 'label': 1}", "the row has no prompt", true, true},
    {"{'prompt': 'p', 'completion': '', 'label': 1}", "no completion", true, true},
    {"{'prompt': 'p', 'label': 1}", "no completion", true, true},
    {"{'prompt': 'p', 'completion': 'c', 'label': 1}", "no chosen side", false, true},
    {"{'prompt': 'p', 'chosen': 'c'}", "no rejected side", false, true},
    {"{'prompt': 'p', 'chosen': {'a': 1}, 'rejected': 'r'}", "no chosen side", false, true},
    {"{'prompt': 'p', 'chosen': [], 'rejected': 'r'}", "no chosen side", false, true},
    {"{'prompt': 'p', 'chosen': [3], 'rejected': 'r'}", "a message is an object", false, true},
    {"{'prompt': 'p', 'chosen': 'c', 'rejected': [" A("r") "]}", "a text and a list of messages",
     false, true},
    {"{'prompt': [" U("q") "], 'chosen': 'c', 'rejected': 'r'}",
     "the prompt is a text where the answer is a list", false, true},
    {"{'prompt': 'q', 'completion': [" A("c") "], 'label': 1}",
     "the prompt is a text where the answer is a list", true, true},
    {"{'prompt': 3, 'chosen': 'c', 'rejected': 'r'}", "neither a text nor a list", false, true},
    {"{'chosen': [" A("c") "], 'rejected': [" A("r") "]}", "have no message in common", false,
     true},
};

/* verifies formats-23.429b formats-16.301b */
static void preferences_are_taken_or_refused(void **state)
{
    (void)state;
    play(act_pair, pairs, sizeof pairs / sizeof pairs[0]);
}

static const chat_case chats[] = {
    {"{'messages': [" U("q") ", " A("a") "]}", "user:q;assistant:a;None", false, false},
    {"{'messages': [{'role': 'user', 'content': ['a', {'type': 'text', 'text': 'b'}]}]}",
     "user:ab;None", false, false},
    {"{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'b'}]}], 'tools': []}",
     "user:b;None", false, false},
    {"{'messages': [{'role': 'user', 'content': [{'type': 'image'}]}]}",
     "a part of a message is no text", false, true},
    {"{'messages': [{'role': 'assistant', 'tool_calls': [1]}], 'tools': '[1]'}",
     "assistant:None;[1]", false, false},
    {"{'messages': [{'role': 'assistant'}]}", "a message has no text", false, true},
    {"{'messages': [{'role': 'assistant', 'content': 3, 'tool_calls': [1]}]}",
     "a message has no text", false, true},
    {"{'messages': [" U("q") "], 'tools': '{'}", "no JSON", false, true},
    {"{'messages': [" U("q") "], 'tools': '3'}", "`tools` is no list", false, true},
    {"{'messages': [" U("q") "], 'tools': {'a': 1}}", "`tools` is no list", false, true},
    {"{'messages': [" U("q") "], 'tools': [{}]}", "user:q;[{}]", false, false},
    {"{'messages': [" U("q") "], 'tools': [{'a': null, 'b': [null], 'c': 1}]}",
     "user:q;[{'b': [None], 'c': 1}]", false, false},
    {"{'messages': []}", "no list of messages, or an empty one", false, true},
    {"{'messages': 'x'}", "no list of messages, or an empty one", false, true},
    {"{'conversations': [" S("a") "]}", "assistant:a;None", false, false},
    {"{'conversation': [" U("a") "]}", "user:a;None", false, false},
    {"{'conversation': 'x'}", "no list of messages, or an empty one", false, true},
    {"{'conversations': []}", "no list of messages, or an empty one", false, true},
    {"{'conversations': [3]}", "a message is an object", false, true},
    {"{'instruction': 'i', 'output': 'o'}", "user:i;assistant:o;None", false, false},
    {"{'instruction': 'i', 'input': 'n', 'output': 'o', 'system': 's'}",
     "system:s;user:i\n\nn;assistant:o;None", false, false},
    {"{'instruction': 'i', 'input': '', 'output': 'o', 'system': ''}", "user:i;assistant:o;None",
     false, false},
    {"{'instruction': 'i', 'input': 3, 'output': 'o', 'system': 3}", "user:i;assistant:o;None",
     false, false},
    {"{'instruction': 3, 'output': 'o'}", "are strings", false, true},
    {"{'instruction': 'i'}", "are strings", false, true},
    {"{'prompt': [" U("q") "], 'completion': [" A("a") "]}", "user:q;assistant:a;None", false,
     false},
    {"{'prompt': [" U("q") "], 'completion': 'a'}", "the row has no conversation", false, true},
    {"{'prompt': 'q', 'completion': [" A("a") "]}", "the row has no conversation", false, true},
    {"{'messages': null, 'x': {}}", "the row has no conversation", false, true},
};

/* verifies formats-23.429b formats-16.301b */
static void conversations_are_taken_or_refused(void **state)
{
    (void)state;
    play(act_row, chats, sizeof chats / sizeof chats[0]);
}

static const chat_case kinds[] = {
    {"{'messages': [{'a': [[], {}]}], 'x': 1}", "chat", false, false},
    {"{'messages': 'x'}", "chat", false, false},
    {"{'messages': [[{'a': [1]}, 2], [], 3]}", "chat", false, false},
    {"{'text': 'a', 'messages': []}", "text", false, false},
    {"{'next': 'a', 'conversations': []}", "chat", false, false},
    {"{'conversation': []}", "chat", false, false},
    {"{'prompt': [], 'completion': []}", "chat sides", false, false},
    {"{'prompt': [], 'completion': 'a'}", "text", false, false},
    {"{'prompt': 'a', 'completion': []}", "text sides", false, false},
    {"{'prompt': {'a': {'b': []}}, 'completion': 'a'}", "text", false, false},
    {"{'instruction': 'a', 'output': 'b'}", "chat", false, false},
    {"{'instruction': 'a'}", "text", false, false},
    {"{'output': 'a'}", "text", false, false},
    {"{'chosen': [], 'rejected': 'x'}", "text sides", false, false},
    {"{'chosen': 'x', 'rejected': [[{}]]}", "text sides", false, false},
    {"{'chosen': 'x', 'rejected': 'y'}", "text", false, false},
    {"{'messages': [", "text", false, false},
    {"[]", "text", false, false},
};

/* verifies formats-23.429b */
static void the_first_row_says_what_a_file_is(void **state)
{
    (void)state;
    play(act_is, kinds, sizeof kinds / sizeof kinds[0]);
}

/* Texts that the JSON reader hands over in parts are passed over as others are. */
/* verifies formats-23.429b */
static void long_texts_are_passed_over(void **state)
{
    (void)state;
    static const char *const begins[] = {"{\"prompt\": \"", "{\"completion\": [], \"prompt\": \"",
                                         "{\"chosen\": \""};
    static const char *const ends[] = {"\", \"completion\": []}", "\"}", "\", \"rejected\": [1]}"};
    enum { LONG = 40000 };
    static unsigned char window[512];
    static uint64_t scratch[BP_RECORDS_SCRATCH / 8 + 1];
    char *text = malloc(LONG + 100);
    assert_non_null(text);
    for (size_t i = 0; i < 3; i++) {
        size_t at = (size_t)sprintf(text, "%s", begins[i]);
        memset(text + at, 'w', LONG);
        at += LONG;
        at += (size_t)sprintf(text + at, "%s", ends[i]);
        memory_store_init(&memory);
        memory_store_put(&memory, "r.jsonl", text, at);
        bp_data_reader reader = {.store = &memory.store,
                                 .path = "r.jsonl",
                                 .buffer = window,
                                 .capacity = sizeof window,
                                 .error = &error};
        error = (bp_error){.code = BP_OK};
        assert_int_equal(memory.store.open_read(&memory.store, "r.jsonl", &reader.file), BP_OK);
        assert_int_equal(bp_data_reader_begin(&reader), BP_OK);
        assert_int_equal(act_is(&reader, scratch, false), BP_OK);
        assert_string_equal(told, "text sides");
        assert_int_equal(memory.store.close(&memory.store, reader.file), BP_OK);
        memory_store_free(&memory);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preferences_are_taken_or_refused),
        cmocka_unit_test(conversations_are_taken_or_refused),
        cmocka_unit_test(the_first_row_says_what_a_file_is),
        cmocka_unit_test(long_texts_are_passed_over),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(chat.room.memory);
    return failed;
}
