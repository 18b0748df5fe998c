/* SPDX-License-Identifier: MIT */
/* Rows of texts: what comes of each form, through windows of any size; what is refused, where; and
 * nothing is lost or goes on when reading, or who takes the texts, fails at any call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_texts.h"

enum { SAID = 44000, WINDOW = 4096 };

typedef struct fixture {
    bp_error error;
    const char *prompt;
    size_t window;
    size_t reads;  /* the read that fails; 0: none */
    size_t taking; /* the call of the taker that fails; 0: none */
    size_t calls;
    char said[SAID];
    size_t length;
} fixture;

static void say(fixture *d, const char *text, size_t length)
{
    assert_true(d->length + length < SAID);
    memcpy(d->said + d->length, text, length);
    d->length += length;
    d->said[d->length] = '\0';
}

static bp_status taken(fixture *d)
{
    return ++d->calls == d->taking ? BP_ERR_INTERNAL : BP_OK;
}

static bp_status begin(void *user, bp_data_reader *reader)
{
    (void)reader;
    say(user, "<", 1);
    return taken(user);
}

static bp_status piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    assert_int_equal(part, BP_PART_TEXT);
    assert_true(count > 0);
    say(user, bytes, count);
    return taken(user);
}

static bp_status end(void *user, uint64_t label)
{
    char text[32];
    float score;
    const uint32_t bits = (uint32_t)label;
    memcpy(&score, &bits, sizeof score);
    const int n = label == BP_NO_LABEL ? sprintf(text, ">") : sprintf(text, "=%g>", (double)score);
    say(user, text, (size_t)n);
    return taken(user);
}

static bp_status read_rows(fixture *d, bp_data_format format, const char *text, size_t length)
{
    static uint64_t scratch[BP_DOCUMENTS_SCRATCH / 8];
    static unsigned char window[WINDOW];
    memory_store memory;
    faulty_store faulty;
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    memory_store_put(&memory, "f", text, length);
    d->error = (bp_error){.code = BP_OK};
    d->length = 0;
    d->calls = 0;
    d->said[0] = '\0';
    bp_data_reader reader = {.store = &faulty.store,
                             .path = "f",
                             .buffer = window,
                             .capacity = d->window,
                             .error = &d->error};
    assert_int_equal(faulty.store.open_read(&faulty.store, "f", &reader.file), BP_OK);
    assert_int_equal(bp_data_reader_begin(&reader), BP_OK);
    if (d->reads > 0) {
        faulty_store_arm(&faulty, FAULT_READ_AT, d->reads, false);
    }
    bp_documents documents = {.user = d,
                              .begin = begin,
                              .piece = piece,
                              .end = end,
                              .form = BP_FORM_TEXTS,
                              .prompt = d->prompt};
    const bp_status status = bp_documents_read(&documents, &reader, format, scratch);
    (void)faulty.store.close(&faulty.store, reader.file);
    memory_store_free(&memory);
    return status;
}

typedef struct rows_case {
    bp_data_format format;
    const char *text, *said;
} rows_case;

static const rows_case good[] = {
    {BP_DATA_TEXT, "one\r\ntwo\n\nthree", "<one><two><><three>"},
    {BP_DATA_JSONL, "{\"text\": \"a\"}\n \t\r\n{\"x\": [1], \"sentence\": \"\"}\n", "<a><>"},
    {BP_DATA_JSONL, "{\"score\": 0.5, \"sentence2\": \"b\", \"sentence1\": \"a\"}", "<a=0.5><b>"},
    {BP_DATA_JSONL,
     "[{\"query\": \"a\", \"positive\": \"b\", \"negative\": \"c\"}, {\"negative\": \"f\", "
     "\"answer\": \"e\", \"anchor\": \"d\"}]",
     "<a><b><c><d><e><f>"},
    {BP_DATA_JSONL,
     "{\"negative_2\": \"3\", \"negative_1\": \"2\", \"anchor\": \"0\", \"positive\": \"1\", "
     "\"negative_9\": \"x\", \"negatives\": 4, \"label\": 1}",
     "<0><1><2><3>"},
    {BP_DATA_TSV, "id\tquestion1\tquestion2\tlabel\n\n7\ta\tb\t-2\n8\tc\td\t1e2\n",
     "<a=-2><b><c=100><d>"},
    {BP_DATA_CSV, "anchor,positive\n\"a, \"\"b\"\"\",c\nd,\n", "<a, \"b\"><c><d><>"},
    {BP_DATA_JSONL, "{\"text\": \"a\", \"otherwise\": 3, \"negative-1\": 4, \"negative_0\": 5}",
     "<a>"},
    {BP_DATA_JSONL,
     "{\"negative_6\": \"7\", \"negative_5\": \"6\", \"negative_4\": \"5\", \"negative_3\": \"4\", "
     "\"negative_2\": \"3\", \"negative\": \"2\", \"positive\": \"1\", \"anchor\": \"0\"}",
     "<0><1><2><3><4><5><6><7>"},
    {BP_DATA_TSV, "text\tscore\na\t5\n", "<a>"},
    {BP_DATA_TSV, "text\tanswer", ""},
    {BP_DATA_CSV, "\n\n", ""},
    {BP_DATA_CSV, "text\n\"a\"", "<a>"},
    {BP_DATA_CSV, "text,\"answer\"", ""},
    {BP_DATA_JSONL, "\n", ""},
};

static const rows_case bad[] = {
    {BP_DATA_JSONL, "{\"text\": 5}", "a text is a string, not anything else"},
    {BP_DATA_JSONL, "\n5", "f:2: byte "},
    {BP_DATA_JSONL, "{\"text\": \"a\"} x", "f:1: "},
    {BP_DATA_JSONL, "{\"text\": \"a\", \"query\": \"b\"}",
     "two fields name the same text, or the score"},
    {BP_DATA_JSONL, "{\"positive\": \"a\"}", "the row has no first text"},
    {BP_DATA_JSONL, "{\"text\": \"a\", \"negative\": \"b\"}", "the row has a further text"},
    {BP_DATA_JSONL, "{\"text\": \"a\"}\n{\"text\": \"a\", \"positive\": \"b\"}", "f:2: "},
    {BP_DATA_JSONL, "{\"text\": \"a\", \"answer\": \"b\", \"score\": \"c\"}",
     "the score is not a number"},
    {BP_DATA_JSONL, "{\"text\": \"a\", \"answer\": \"b\", \"score\": 1e99}",
     "beyond single precision"},
    {BP_DATA_JSONL, "[{\"text\": \"a\"}, 5]", "f:"},
    {BP_DATA_JSONL, "[{\"text\": \"a\"}", "f:"},
    {BP_DATA_TSV, "id\tname\n1\t2\n", "the row has no first text"},
    {BP_DATA_TSV, "text\tquery\na\tb\n", "two fields name the same text"},
    {BP_DATA_TSV, "text\tanswer\na\n", "the row has another number of fields"},
    {BP_DATA_TSV, "text\tanswer\na\tb\tc\n", "the row has another number of fields"},
    {BP_DATA_TSV, "text\tanswer\tscore\na\tb\tc\n", "the score is not a number"},
    {BP_DATA_TSV, "text\tanswer\tscore\na\tb\t0.00000000000000000000000000000000001\n",
     "the score is too long"},
    {BP_DATA_CSV, "text\n\"a", "f:2: "},
    {BP_DATA_CSV, "text\n\"a\"b", "text follows a closing quote"},
    {BP_DATA_CSV, "text\n\xe0\x9f\x80", "the text is not UTF-8"},
    {BP_DATA_CSV, "text\n\xed\xa0\x80", "the text is not UTF-8"},
    {BP_DATA_CSV, "text\n\xc3(", "the text is not UTF-8"},
};

/* verifies formats-23.429b */
static void what_comes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        for (size_t window = 1; window <= WINDOW; window = window * 3 + 1) {
            fixture d = {.window = window};
            assert_int_equal(read_rows(&d, good[i].format, good[i].text, strlen(good[i].text)),
                             BP_OK);
            assert_string_equal(d.said, good[i].said);
        }
    }
    fixture d = {.window = WINDOW, .prompt = "p: "};
    assert_int_equal(read_rows(&d, good[2].format, good[2].text, strlen(good[2].text)), BP_OK);
    assert_string_equal(d.said, "<p: a=0.5><p: b>");
}

/* verifies formats-16.301b */
static void what_is_refused(void **state)
{
    (void)state;
    char wide[1024];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t window = 1; window <= WINDOW; window = window * 5 + 2) {
            fixture d = {.window = window};
            char whole[700];
            const bp_status status = read_rows(&d, bad[i].format, bad[i].text, strlen(bad[i].text));
            if (status != BP_ERR_DATA) {
                fail_msg("%s: %d, %s", bad[i].text, (int)status, d.said);
            }
            snprintf(whole, sizeof whole, "%s: %s", d.error.name, d.error.text);
            if (strstr(whole, bad[i].said) == NULL) {
                fail_msg("%s: %s", bad[i].text, whole);
            }
        }
    }
    size_t used = (size_t)sprintf(wide, "text");
    for (int i = 0; i < 64; i++) {
        used += (size_t)sprintf(wide + used, "\tc%d", i);
    }
    used += (size_t)sprintf(wide + used, "\n");
    fixture d = {.window = WINDOW};
    assert_int_equal(read_rows(&d, BP_DATA_TSV, wide, used), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "more columns than can be"));
}

/* Each read and each call of the taker fails once; the answer is its, and nothing comes after it.
 */
/* verifies formats-24.7573 */
static void failures_end_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const size_t length = strlen(good[i].text);
        bp_status status = BP_ERR_INTERNAL;
        for (size_t at = 1; status != BP_OK; at++) {
            fixture d = {.window = 7, .taking = at, .prompt = i % 2 == 0 ? "p" : ""};
            status = read_rows(&d, good[i].format, good[i].text, length);
            assert_true(status == (d.calls >= at ? BP_ERR_INTERNAL : BP_OK));
            assert_true(d.calls <= at);
        }
        status = BP_ERR_STORE;
        for (size_t at = 1; status != BP_OK; at++) {
            fixture d = {.window = 7, .reads = at};
            status = read_rows(&d, good[i].format, good[i].text, length);
            assert_true(status == BP_OK || status == BP_ERR_STORE);
        }
    }
}

/* A text that the JSON reader hands over in parts is one text, and a refusal of it names its line.
 */
/* verifies formats-23.429b */
static void long_texts_come_in_pieces(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    static const char *const begins[] = {"{\"text\": \"", "{\"data\": \""};
    static const char *const ends[] = {"\"}\n", "\", \"text\": \"w\"}\n", "\", 5}\n"};
    char *text = malloc(LONG + 100);
    assert_non_null(text);
    for (size_t i = 0; i < 3; i++) {
        size_t at = (size_t)sprintf(text, "%s", begins[i == 1 ? 1 : 0]);
        memset(text + at, 'w', LONG);
        at += LONG;
        at += (size_t)sprintf(text + at, "%s", ends[i]);
        fixture d = {.window = WINDOW};
        const bp_status status = read_rows(&d, BP_DATA_JSONL, text, at);
        assert_int_equal(status, i == 2 ? BP_ERR_DATA : BP_OK);
        if (i == 2) {
            assert_string_equal(d.error.name, "f:1: byte 40013");
        } else {
            assert_int_equal(d.length, 2 + (i == 0 ? LONG : 1));
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(failures_end_it),
        cmocka_unit_test(long_texts_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
