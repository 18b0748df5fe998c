/* SPDX-License-Identifier: MIT */
/* Rows of preferences to examples: prompts, answers and their sides; ids are bytes. Documents are
 * written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ops/storage_format.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_chat.h"

/* What is opened for an answer need not be what an answer begins with. */
#define TEMPLATE                                                                                   \
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}abc{% endif " \
    "%}"

typedef struct fixture {
    memory_store store;
    bp_data_file file;
    bp_data data;
    bp_data_chat work;
    bp_tokens tokens;
    bp_error error;
    void *scratch;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->store);
    d->scratch = malloc(BP_DATA_PAIRS_SCRATCH + 64);
    assert_non_null(d->scratch);
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    bp_data_close(&d->data);
    assert_int_equal(d->store.open_files, 0);
    memory_store_free(&d->store);
    free(d->scratch);
}

static bp_status make(fixture *d, const char *text, bp_chat_rows rows, const char *source,
                      int64_t end)
{
    const size_t length = strlen(text);
    char *json = malloc(length + 1);
    assert_non_null(json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    memory_store_put(&d->store, "rows.jsonl", json, length);
    free(json);
    d->file = (bp_data_file){.path = "rows.jsonl"};
    assert_int_equal(bp_data_open(&d->data, &d->store.store, &d->file, 1, BP_DATA_JSONL, &d->error),
                     BP_OK);
    d->work = (bp_data_chat){.data = &d->data,
                             .path = "tokens",
                             .vocabulary = 256,
                             .source = source,
                             .source_length = source != NULL ? strlen(source) : 0,
                             .now = {2024, 7, 26, 0, 0, 0},
                             .rows = rows,
                             .block = 2,
                             .end_token = end,
                             .scratch = d->scratch,
                             .error = &d->error};
    return bp_data_chat_open(&d->work, &d->tokens);
}

/* An example: its text with | behind the prompt, and its side. */
typedef struct wanted {
    const char *text;
    bp_side side;
} wanted;

static void has_examples(fixture *d, const wanted *right, size_t count)
{
    bp_source *source = &d->tokens.source;
    assert_int_equal(source->examples, count);
    for (size_t i = 0; i < count; i++) {
        bp_example example;
        int32_t ids[64];
        char text[66] = "";
        assert_int_equal(source->example(source, i, &example), BP_OK);
        assert_in_range(example.count, 1, 64);
        assert_int_equal(source->read(source, example.first, (uint32_t)example.count, ids), BP_OK);
        for (size_t k = 0, at = 0; k < example.count; k++) {
            if (k == example.prompt) {
                text[at++] = '|';
            }
            text[at++] = (char)ids[k];
        }
        assert_string_equal(text, right[i].text);
        assert_int_equal(example.label, right[i].side);
    }
}

#define PAIR(prompt, chosen, rejected)                                                             \
    "{'prompt':'" prompt "','chosen':'" chosen "','rejected':'" rejected "'}\n"
#define SINGLE(prompt, answer, label)                                                              \
    "{'prompt':'" prompt "','completion':'" answer "','label':" label "}\n"

/* verifies formats-23.429b */
static void pairs_become_two_examples(void **state)
{
    (void)state;
    /* The end is put behind an answer that has none. */
    static const wanted right[] = {{"ab|cd.", BP_SIDE_CHOSEN},
                                   {"ab|ce.", BP_SIDE_REJECTED},
                                   {"p|q.", BP_SIDE_CHOSEN},
                                   {"p|rs.", BP_SIDE_REJECTED}};
    static const wanted bare[] = {{"ab|cd", BP_SIDE_CHOSEN}, {"ab|ce", BP_SIDE_REJECTED}};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(
        make(&d, PAIR("ab", "cd", "ce") PAIR("p", "q.", "rs"), BP_CHAT_PAIRS, NULL, '.'), BP_OK);
    has_examples(&d, right, 4);
    assert_int_equal(d.work.learned, 3 + 3 + 2 + 3);
    fixture_end(&d);
    fixture_begin(&d);
    assert_int_equal(make(&d, PAIR("ab", "cd", "ce"), BP_CHAT_PAIRS, NULL, -1), BP_OK);
    has_examples(&d, bare, 2);
    fixture_end(&d);
}

/* Of a template what both begin with is the prompt, and no end is added. */
/* verifies formats-23.429b */
static void messages_are_rendered(void **state)
{
    (void)state;
    static const char row[] = "{'prompt':[{'role':'user','content':'P'}],"
                              "'chosen':[{'role':'assistant','content':'abx'}],"
                              "'rejected':[{'role':'assistant','content':'ay'}]}";
    static const wanted right[] = {{"Pa|bx", BP_SIDE_CHOSEN}, {"Pa|y", BP_SIDE_REJECTED}};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(make(&d, row, BP_CHAT_PAIRS, TEMPLATE, '.'), BP_OK);
    has_examples(&d, right, 2);
    fixture_end(&d);
}

/* One answer each: behind it the prompt with the answer of the row before it in the block. */
/* verifies formats-23.429b */
static void single_answers_are_mixed_in_blocks(void **state)
{
    (void)state;
    static const wanted right[] = {{"a|1", BP_SIDE_CHOSEN},
                                   {"a|2", BP_SIDE_MISMATCHED},
                                   {"b|2", BP_SIDE_REJECTED},
                                   {"b|1", BP_SIDE_MISMATCHED},
                                   /* a pair is two, of which the second is a bad one */
                                   {"c|3", BP_SIDE_CHOSEN},
                                   {"c|4", BP_SIDE_MISMATCHED},
                                   {"c|4", BP_SIDE_REJECTED},
                                   {"c|3", BP_SIDE_MISMATCHED},
                                   /* the last block is one row alone */
                                   {"d|5", BP_SIDE_CHOSEN},
                                   {"d|5", BP_SIDE_MISMATCHED}};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(make(&d,
                          SINGLE("a", "1", "true") SINGLE("b", "2", "false") PAIR("c", "3", "4")
                              SINGLE("d", "5", "true"),
                          BP_CHAT_SINGLES, NULL, -1),
                     BP_OK);
    has_examples(&d, right, 10);
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void rows_that_teach_nothing_are_refused(void **state)
{
    (void)state;
    static const char answers[] = "there is nothing to learn";
    static const char one_word[] = "{'prompt':[{'role':'user','content':'P'}],"
                                   "'chosen':[{'role':'assistant','content':'ab'}],"
                                   "'rejected':[{'role':'assistant','content':'y'}]}";
    static const struct {
        const char *rows;
        bp_chat_rows kind;
        const char *source, *says;
    } cases[] = {
        {PAIR("", "x", "y"), BP_CHAT_PAIRS, NULL, answers}, /* one token has no prediction */
        {"{'prompt':[{'role':'user','content':'P'}],"
         "'chosen':[{'role':'assistant','content':'ab'}],"
         "'rejected':[{'role':'assistant','content':'ab'}]}",
         BP_CHAT_PAIRS, TEMPLATE, answers}, /* all of it is what the template opens */
        {SINGLE("", "x", "true"), BP_CHAT_SINGLES, NULL, answers},
        {one_word, BP_CHAT_PAIRS, NULL, "some rows are texts and some lists"},
        {PAIR("a", "x", "y"), BP_CHAT_PAIRS, TEMPLATE, "some rows are texts and some lists"},
        {SINGLE("a", "x", "3"), BP_CHAT_SINGLES, NULL, "label that is true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture d;
        fixture_begin(&d);
        const bp_status status = make(&d, cases[i].rows, cases[i].kind, cases[i].source, -1);
        if (status != BP_ERR_DATA || strstr(d.error.text, cases[i].says) == NULL) {
            fail_msg("%s: %d %s", cases[i].rows, status, d.error.text);
        }
        assert_non_null(strstr(d.error.name, "rows.jsonl:1"));
        fixture_end(&d);
    }
}

/* head, `count` letters, middle, as many again, tail */
static char *row_of(const char *head, const char *middle, const char *tail, size_t count)
{
    char *row = malloc(2 * count + 256), *at = row;
    assert_non_null(row);
    at = strcpy(at, head) + strlen(head);
    memset(at, 'a', count);
    at = strcpy(at + count, middle) + strlen(middle);
    memset(at, 'b', count);
    strcpy(at + count, tail);
    return row;
}

/* A template of as many bytes of text as there may be, of which one is for the end. */
static const char *full(void)
{
    enum { SIDE = 1024 };
    static char source[SIDE + 100];
    size_t at = (size_t)sprintf(source, "{%% for i in range(%d) %%}", BP_CHAT_TEXT / SIDE);
    memset(source + at, 'x', SIDE);
    strcpy(source + at + SIDE, "{% endfor %}");
    return source;
}

/* Rows of more than there is room for, as a whole or of one text with an answer, are no shorter
 * rows.
 */
/* verifies formats-16.301b */
static void long_rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *middle, *tail;
        size_t count;
        bp_chat_rows kind;
        const char *source, *says;
    } cases[] = {
        {"{'prompt':'", "','chosen':'", "','rejected':'d'}", BP_CHAT_TEXT, BP_CHAT_PAIRS, NULL,
         "more memory than it may have"},
        {"{'messages':[{'role':'user','content':'", "'},{'role':'assistant','content':'", "'}]}",
         BP_CHAT_TEXT, BP_CHAT_ROWS, TEMPLATE, "more memory than it may have"},
        {"{'prompt':[{'role':'user','content':'", "'}],'chosen':[{'role':'assistant','content':'",
         "'}],'rejected':[{'role':'assistant','content':'d'}]}", 1, BP_CHAT_PAIRS, NULL,
         "the row has more tokens than can be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *row = row_of(cases[i].head, cases[i].middle, cases[i].tail, cases[i].count);
        fixture d;
        fixture_begin(&d);
        assert_int_equal(
            make(&d, row, cases[i].kind, cases[i].count == 1 ? full() : cases[i].source, -1),
            BP_ERR_DATA);
        if (strstr(d.error.text, cases[i].says) == NULL) {
            fail_msg("%s", d.error.text);
        }
        assert_non_null(strstr(d.error.name, "rows.jsonl:1"));
        fixture_end(&d);
        free(row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_become_two_examples),
        cmocka_unit_test(messages_are_rendered),
        cmocka_unit_test(single_answers_are_mixed_in_blocks),
        cmocka_unit_test(rows_that_teach_nothing_are_refused),
        cmocka_unit_test(long_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
