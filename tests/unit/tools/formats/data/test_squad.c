/* SPDX-License-Identifier: MIT */
/* Questions about texts in both of their forms: what is read of them, and what is refused by the
 * place where it stands. Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_squad.h"
#include "tools/formats/files/data_records.h"

enum { WINDOW = 256 }; /* bytes of the file in memory */

static memory_store memory;
static bp_error error;
static void *scratch;
static char told[2 * BP_SQUAD_CONTEXT]; /* "id|question|context|answer@7,..;" for each question */

static bp_status tell(void *user, bp_data_reader *reader, const bp_question *q)
{
    (void)user;
    (void)reader;
    size_t used = strlen(told);
    used += (size_t)snprintf(told + used, sizeof told - used, "%.*s|%.*s|%.*s%s|",
                             (int)q->id_length, q->id, (int)q->question_length, q->question,
                             (int)q->context_length, q->context, q->same ? " again" : "");
    for (uint32_t i = 0; i < q->answers; i++) {
        used += (size_t)snprintf(told + used, sizeof told - used, "%.*s@%u,",
                                 (int)(q->answer_at[i + 1] - q->answer_at[i]),
                                 q->answer + q->answer_at[i], (unsigned)q->begins[i]);
    }
    snprintf(told + used, sizeof told - used, "%s", q->answered ? ";" : "?;");
    return BP_OK;
}

/* Reads q.json by a window of so many bytes. */
static bp_status read_store(bp_store *store, size_t length, size_t bytes, bool may_lack)
{
    static unsigned char window[WINDOW];
    bp_squad squad = {.question = tell, .may_lack = may_lack};
    bp_data_reader reader = {
        .store = store, .path = "q.json", .buffer = window, .capacity = bytes, .error = &error};
    error = (bp_error){.code = BP_OK};
    told[0] = '\0';
    assert_int_equal(store->open_read(store, "q.json", &reader.file), BP_OK);
    reader.size = length;
    bp_status status = bp_squad_read(&squad, &reader, scratch);
    assert_int_equal(store->close(store, reader.file), BP_OK);
    return status;
}

static bp_status read_bytes(const char *text, size_t length, bool may_lack)
{
    memory_store_init(&memory);
    memory_store_put(&memory, "q.json", text, length);
    const bp_status status = read_store(&memory.store, length, WINDOW, may_lack);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

static bp_status read_text(const char *text, bool may_lack)
{
    static char json[8192];
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    return read_bytes(json, length, may_lack);
}

#define ASK(members)    "{'context': 'a b', 'question': 'q', " members "}"
#define NESTED(members) "{'data': [{'title': 't', 'paragraphs': [" members "]}]}"
#define PAR(members)    NESTED("{'context': 'a b', 'qas': [" members "]}")

static const struct {
    const char *text;
    bool may_lack;
    const char *told;
} rows[] = {
    {ASK("'id': 'i', 'answers': {'text': ['a', 'b'], 'answer_start': [0, 2]}"), false,
     "i|q|a b|a@0,b@2,;"},
    {ASK("'answers': {'answer_start': 2, 'text': 'b', 'more': [1, {}]}"), false, "|q|a b|b@2,;"},
    {ASK("'answers': [{'text': 'a', 'answer_start': 0}, {'text': 'b', 'answer_start': 2}]"), false,
     "|q|a b|a@0,b@2,;"},
    {ASK("'answers': []"), false, "|q|a b|;"},
    {ASK("'answers': null"), false, "|q|a b|;"},
    {ASK("'answers': {'text': [], 'answer_start': []}"), false, "|q|a b|;"},
    {ASK("'is_impossible': true"), false, "|q|a b|;"},
    {ASK("'is_impossible': true, 'answers': [{'text': 'a', 'answer_start': 0}]"), false,
     "|q|a b|;"},
    {ASK("'is_impossible': false, 'other': {'answers': 3}"), true, "|q|a b|?;"},
    {ASK("'id': 'x'") "\n" ASK("'id': 'y'"), true, "x|q|a b|?;y|q|a b again|?;"},
    {PAR("{'id': 'i', 'question': 'q', 'answers': [{'text': 'b', 'answer_start': 2}]}, "
         "{'question': 'r', 'is_impossible': true}"),
     false, "i|q|a b|b@2,;|r|a b again|;"},
    {NESTED("{'qas': [{'question': 'q', 'answers': []}], 'context': 'late', 'n': [1]}"), false,
     "|q|late|;"},
    {NESTED("{'context': 'c', 'qas': []}, {'context': 'd', 'qas': [{'question': 'q', 'answers': "
            "[]}]}"),
     false, "|q|d|;"},
    {NESTED(""), false, ""},
};

/* verifies formats-23.429b */
static void both_forms_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (read_text(rows[i].text, rows[i].may_lack) != BP_OK) {
            fail_msg("%s: %s: %s", rows[i].text, error.name, error.text);
        }
        assert_string_equal(told, rows[i].told);
    }
}

static const struct {
    const char *text;
    bool may_lack;
    const char *said;
} refused[] = {
    {"{'context': 'a'}", false, "the object lacks `question` or `context`"},
    {"{'question': 'a'}", false, "the object lacks `question` or `context`"},
    {"{'question': 3, 'context': 'a'}", false, "is no string"},
    {"{'question': 'a', 'context': []}", false, "is no string"},
    {ASK("'id': 7"), true, "is no string"},
    {ASK("'id': null"), false, "is no string"},
    {ASK("'more': 1"), false, "the question has no `answers`"},
    {ASK("'answers': 3"), false, "answers are an object or a list of objects"},
    {ASK("'answers': [3]"), false, "answers are an object or a list of objects"},
    {ASK("'answers': [[]]"), false, "answers are an object or a list of objects"},
    {ASK("'answers': {'text': 3, 'answer_start': 0}"), false, "an answer is no string"},
    {ASK("'answers': {'text': ['a', null], 'answer_start': 0}"), false, "an answer is no string"},
    {ASK("'answers': {'text': 'a', 'answer_start': '0'}"), false, "answer_start"},
    {ASK("'answers': {'text': 'a', 'answer_start': -1}"), false, "answer_start"},
    {ASK("'answers': {'text': 'a', 'answer_start': 0.5}"), false, "answer_start"},
    {ASK("'answers': {'text': ['a', 'b'], 'answer_start': [0]}"), false,
     "an answer lacks its text or its answer_start"},
    {ASK("'answers': {'text': 'a'}"), false, "an answer lacks its text or its answer_start"},
    {ASK("'is_impossible': 1"), false, "is_impossible is neither true nor false"},
    {ASK("'answers': []") "\n" ASK("'id': 'x'"), true, "what comes before is otherwise"},
    {ASK("'id': 'x'") "\n" ASK("'answers': []"), true, "what comes before is otherwise"},
    {"{'data': [{'paragraphs': 3}]}", false, "`paragraphs` is no list"},
    {NESTED("3"), false, "a paragraph is no object"},
    {NESTED("{'context': 'c', 'qas': 3}"), false, "`qas` is no list"},
    {PAR("3"), false, "a question is no object"},
    {PAR("{'answers': []}"), false, "the object lacks `question` or `context`"},
    {NESTED("{'qas': [{'question': 'q', 'answers': []}]}"), false, "the paragraph lacks `context`"},
    {NESTED("{'context': 3, 'qas': []}"), false, "is no string"},
    {PAR("{'question': 'q', 'answers': 7}"), false, "answers are an object or a list of objects"},
};

/* verifies formats-16.301b */
static void what_is_none_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const bp_status status = read_text(refused[i].text, refused[i].may_lack);
        if (status != BP_ERR_DATA || strstr(error.text, refused[i].said) == NULL) {
            fail_msg("%s: %d %s: %s", refused[i].text, (int)status, error.name, error.text);
        }
        assert_non_null(strstr(error.name, "q.json:"));
    }
}

/* A file that ends anywhere is refused, unless the end falls between objects. */
/* verifies formats-16.301b */
static void files_may_end_anywhere(void **state)
{
    static char part[4096];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t cut = 1; cut < strlen(rows[i].text); cut++) {
            const bool between = rows[i].text[cut] == '\n' || rows[i].text[cut - 1] == '\n';
            memcpy(part, rows[i].text, cut);
            part[cut] = '\0';
            assert_int_equal(read_text(part, rows[i].may_lack), between ? BP_OK : BP_ERR_DATA);
        }
    }
}

/* One byte or one answer more than can be. */
/* verifies formats-16.301b */
static void what_is_too_long_is_refused(void **state)
{
    static const struct {
        const char *before, *after;
        size_t most;
        const char *said;
    } cases[] = {
        {"{\"context\": \"", "\", \"question\": \"q\", \"answers\": []}", BP_SQUAD_CONTEXT,
         "a question, a context or its answers are longer than can be"},
        {"{\"context\": \"c\", \"question\": \"", "\", \"answers\": []}", BP_SQUAD_QUESTION,
         "a question, a context or its answers are longer than can be"},
        {"{\"context\": \"c\", \"question\": \"q\", \"answers\": {\"answer_start\": 0, \"text\": "
         "\"",
         "\"}}", BP_SQUAD_QUESTION, "the answers are longer than can be (64 KiB)"},
    };
    char *text = malloc(BP_SQUAD_CONTEXT + 4096);
    assert_non_null(text);
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        const size_t row = i / 2, begin = strlen(cases[row].before), most = cases[row].most + i % 2;
        memcpy(text, cases[row].before, begin);
        memset(text + begin, 'x', most);
        memcpy(text + begin + most, cases[row].after, strlen(cases[row].after));
        const bp_status status = read_bytes(text, begin + most + strlen(cases[row].after), false);
        assert_int_equal(status, i % 2 == 0 ? BP_OK : BP_ERR_DATA);
        assert_true(i % 2 == 0 || strstr(error.text, cases[row].said) != NULL);
    }
    for (unsigned extra = 0; extra < 3; extra++) { /* one text, then one start, too many */
        size_t length = 0;
        length += (size_t)sprintf(text, "{\"context\": \"c\", \"question\": \"q\", \"answers\": "
                                        "{\"text\": [\"a\"");
        for (unsigned i = 1; i < BP_SQUAD_ANSWERS + (extra == 1); i++) {
            length += (size_t)sprintf(text + length, ", \"a\"");
        }
        length += (size_t)sprintf(text + length, "], \"answer_start\": [0");
        for (unsigned i = 1; i < BP_SQUAD_ANSWERS + (extra == 2); i++) {
            length += (size_t)sprintf(text + length, ", 0");
        }
        length += (size_t)sprintf(text + length, "]}}");
        assert_int_equal(read_bytes(text, length, false), extra == 0 ? BP_OK : BP_ERR_DATA);
        assert_true(extra == 0 || strstr(error.text, "more than 64 answers") != NULL);
    }
    free(text);
}

/* A store that fails from some read on while questions are read has failed, also where a paragraph
 * is read again for its context: the data is not called wrong. */
/* verifies formats-24.7573 */
static void failing_reads_are_the_store_s(void **state)
{
    (void)state;
    static const char text[] = "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"qas\": "
                               "[{\"question\": \"q\", \"answers\": "
                               "[]}], \"context\": \"c\"}]}]}";
    bp_status status = BP_ERR_STORE;
    size_t n = 0;
    while (status != BP_OK) {
        faulty_store faulty;
        memory_store_init(&memory);
        memory_store_put(&memory, "q.json", text, strlen(text));
        faulty_store_init(&faulty, &memory.store);
        faulty_store_arm(&faulty, FAULT_READ_AT, ++n, true);
        status = read_store(&faulty.store, strlen(text), 16, false);
        if (status != (faulty.failures > 0 ? BP_ERR_STORE : BP_OK) || error.code != status) {
            fail_msg("%zu: %d %s: %s; %s", n, status, error.name, error.text, told);
        }
        memory_store_free(&memory);
    }
    assert_string_equal(told, "|q|c|;");
    assert_true(n > 8);
}

/* What the reader of records says of them: a line, unless the store failed; more keys than there
 * can be are the file's fault, also where nobody wants to hear. A long text under "data" is none.
 */
/* verifies formats-16.301b */
static void errors_of_records_have_a_place(void **state)
{
    (void)state;
    static const struct {
        bp_status json, status, right;
        bool named;
    } cases[] = {{BP_ERR_STORE, BP_ERR_STORE, BP_ERR_STORE, false},
                 {BP_ERR_FIT, BP_ERR_FIT, BP_ERR_DATA, true},
                 {BP_ERR_DATA, BP_ERR_DATA, BP_ERR_DATA, true},
                 {BP_OK, BP_ERR_FIT, BP_ERR_FIT, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int heard = 0; heard < 2; heard++) {
            bp_error own = {.code = cases[i].status};
            bp_data_reader reader = {.path = "q.json", .error = heard != 0 ? &own : NULL};
            bp_records records = {.span = {.reader = &reader}};
            records.span.json.status = cases[i].json;
            assert_int_equal(bp_records_named(&records, cases[i].status), cases[i].right);
            assert_true(heard == 0 || own.code == cases[i].right);
            assert_true(heard == 0 || (strstr(own.name, "q.json") != NULL) == cases[i].named);
        }
    }
    char *text = malloc(40100);
    size_t at = (size_t)sprintf(text, "{\"data\": \"");
    memset(text + at, 'w', 40000);
    strcpy(text + at + 40000, "\"}");
    assert_int_equal(read_bytes(text, strlen(text), false), BP_ERR_DATA);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_read),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(files_may_end_anywhere),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(failing_reads_are_the_store_s),
        cmocka_unit_test(errors_of_records_have_a_place),
    };
    assert_int_equal(posix_memalign(&scratch, 64, BP_SQUAD_SCRATCH), 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scratch);
    return failed;
}
