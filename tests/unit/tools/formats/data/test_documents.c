/* SPDX-License-Identifier: MIT */
/* Documents: plain text, JSON lines, tables; the same through windows of any size. */
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
#include "tools/formats/data/data_documents.h"

enum { SAID = 1 << 20 };

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_data_reader reader;
    bp_documents documents;
    bp_error error;
    uint64_t *scratch;
    char *said; /* what came, as text */
    size_t length;
    int part; /* the part last seen; -1: none of this document */
    uint32_t count;
    bool balks; /* the taker fails */
} fixture;

static void say(fixture *d, const char *text, size_t length)
{
    assert_true(d->length + length < SAID);
    memcpy(d->said + d->length, text, length);
    d->length += length;
    d->said[d->length] = '\0';
}

static bp_status begin(void *user, bp_data_reader *reader)
{
    fixture *d = user;
    assert_ptr_equal(reader, &d->reader);
    d->part = -1;
    say(d, "<", 1);
    return BP_OK;
}

static bp_status piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    fixture *d = user;
    assert_true(count > 0);
    if ((int)part != d->part) {
        assert_true((int)part > d->part);
        say(d, &"TPCS"[part], 1);
        say(d, ":", 1);
    }
    d->part = (int)part;
    say(d, bytes, count);
    return d->balks ? BP_ERR_INTERNAL : BP_OK;
}

static bp_status end(void *user, uint64_t label)
{
    fixture *d = user;
    char text[32];
    bool labelled = d->documents.form == BP_FORM_LABELLED;
    int n = snprintf(text, sizeof text, labelled ? "=%llu>" : ">", (unsigned long long)label);
    say(d, text, (size_t)n);
    d->count++;
    return BP_OK;
}

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->said = malloc(SAID);
    d->scratch = malloc(BP_DOCUMENTS_SCRATCH);
}

static void fixture_end(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->said);
    free(d->scratch);
}

/* Reads `bytes` as a file through a window of `window` bytes. */
static bp_status read_window(fixture *d, const void *bytes, size_t size, bp_data_format format,
                             size_t window)
{
    bp_store *store = &d->faulty.store;
    memory_store_put(&d->memory, "a.file", bytes, size);
    unsigned char *exact = malloc(window); /* so that a sanitizer sees a write beyond it */
    d->error = (bp_error){.code = BP_OK};
    d->length = 0;
    d->said[0] = '\0';
    d->count = 0;
    d->documents.texts = 0;
    d->documents.user = d;
    d->documents.begin = begin;
    d->documents.piece = piece;
    d->documents.end = end;
    d->reader = (bp_data_reader){
        .store = store, .path = "a.file", .buffer = exact, .capacity = window, .error = &d->error};
    assert_int_equal(store->open_read(store, "a.file", &d->reader.file), BP_OK);
    bp_status status = bp_data_reader_begin(&d->reader);
    if (status == BP_OK) {
        status = bp_documents_read(&d->documents, &d->reader, format, d->scratch);
    }
    assert_int_equal(store->close(store, d->reader.file), BP_OK);
    free(exact);
    return status;
}

static const size_t windows[] = {1, 2, 3, 7, 64, 4096};
enum { WINDOWS = sizeof windows / sizeof windows[0] };

static void gives_bytes(const void *bytes, size_t size, bp_data_format format, bool labelled,
                        bp_labels labels, bool numbers, const char *right)
{
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < WINDOWS; i++) {
        d.documents.form = labelled ? BP_FORM_LABELLED : BP_FORM_OPEN;
        d.documents.labels = labels;
        d.documents.classes = numbers ? 0 : 5;
        bp_status status = read_window(&d, bytes, size, format, windows[i]);
        if (status != BP_OK) {
            print_message("%s: %s\n", d.error.name, d.error.text);
        }
        assert_int_equal(status, BP_OK);
        assert_string_equal(d.said, right);
    }
    fixture_end(&d);
}

/* Labels that are numbers, or any of five classes. */
static void gives_bits(const char *text, bp_data_format format, bool numbers, const char *right)
{
    gives_bytes(text, strlen(text), format, true, BP_LABELS_BITS, numbers, right);
}

static void gives(const char *text, bp_data_format format, const char *right)
{
    gives_bytes(text, strlen(text), format, false, BP_LABELS_NEXT_TOKEN, false, right);
}

static void gives_labels(const char *text, bp_data_format format, const char *right)
{
    gives_bytes(text, strlen(text), format, true, BP_LABELS_CLASS, false, right);
}

/* A refusal that names the place and says `text`. */
static void refuses_bytes(const void *bytes, size_t size, bp_data_format format, bool labelled,
                          const char *place, const char *text)
{
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < WINDOWS; i++) {
        d.documents.form = labelled ? BP_FORM_LABELLED : BP_FORM_OPEN;
        d.documents.labels = BP_LABELS_CLASS;
        d.documents.classes = 5;
        assert_int_equal(read_window(&d, bytes, size, format, windows[i]), BP_ERR_DATA);
        assert_int_equal(d.error.code, BP_ERR_DATA);
        if (strncmp(d.error.name, place, strlen(place)) != 0 ||
            strstr(d.error.text, text) == NULL) {
            fail_msg("%s: %s", d.error.name, d.error.text);
        }
    }
    fixture_end(&d);
}

static void refuses(const char *text, bp_data_format format, const char *place, const char *why)
{
    refuses_bytes(text, strlen(text), format, false, place, why);
}

static void refuses_labels(const char *text, bp_data_format format, const char *place,
                           const char *why)
{
    refuses_bytes(text, strlen(text), format, true, place, why);
}

/* verifies formats-23.429b */
static void text_is_one_document(void **state)
{
    (void)state;
    gives("two\r\nlines\n", BP_DATA_TEXT, "<T:two\r\nlines\n>");
    gives("\xef\xbb\xbfmarked", BP_DATA_TEXT, "<T:marked>");
    gives("\xef\xbb\xbf", BP_DATA_TEXT, "");
    gives("\xef\xbb", BP_DATA_TEXT, "<T:\xef\xbb>");
    gives("", BP_DATA_TEXT, "");
    refuses_labels("text", BP_DATA_TEXT, "a.file", "no labels");
    fixture d;
    fixture_begin(&d);
    d.documents.form = BP_FORM_PROMPT;
    assert_int_equal(read_window(&d, "text", 4, BP_DATA_TEXT, 4), BP_ERR_DATA);
    assert_string_equal(d.error.text, "the files before this one hold prompts and completions");
    fixture_end(&d);
}

/* Labels that no number in single precision is, or no list of classes. */
static void refuses_bits(const char *text, bp_data_format format, uint32_t classes, const char *why)
{
    fixture d;
    fixture_begin(&d);
    d.documents.form = BP_FORM_LABELLED;
    d.documents.labels = BP_LABELS_BITS;
    d.documents.classes = classes;
    assert_int_equal(read_window(&d, text, strlen(text), format, 4), BP_ERR_DATA);
    if (strstr(d.error.text, why) == NULL) {
        fail_msg("%s: %s", d.error.name, d.error.text);
    }
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void bad_bits_are_refused(void **state)
{
    (void)state;
    refuses_bits("1e39\tx\n", BP_DATA_TSV, 0, "beyond single precision");
    refuses_bits("-1e39\tx\n", BP_DATA_TSV, 0, "beyond single precision");
    refuses_bits("1\ta\nhot\tx\n", BP_DATA_TSV, 0, "not a number");
    refuses_bits("0 5\tx\n", BP_DATA_TSV, 5, "no class");
    refuses_bits("0\ta\n0 x\tx\n", BP_DATA_TSV, 5, "neither a number nor the name of a class");
    refuses_bits("{\"text\": \"a\", \"label\": [1]}", BP_DATA_JSONL, 0,
                 "neither a number nor a name");
    refuses_bits("{\"text\": \"a\", \"label\": [1, 5]}", BP_DATA_JSONL, 5, "no class");
    refuses_bits("{\"text\": \"a\", \"label\": [1, null]}", BP_DATA_JSONL, 5,
                 "a list of labels holds numbers or names of classes");
    refuses_bits("{\"text\": \"a\", \"label\": [1, \"x\"]}", BP_DATA_JSONL, 5,
                 "neither a number nor the name of a class");
    refuses_bits("{\"text\": \"a\", \"label\": [}", BP_DATA_JSONL, 5, "");
    refuses_bits("{\"text\": \"a\", \"label\": [1 2]}", BP_DATA_JSONL, 5, "");
    refuses_bits("{\"text\": \"a\", \"label\": ", BP_DATA_JSONL, 5, "");
}

/* verifies formats-23.429b */
static void json_lines_with_text(void **state)
{
    (void)state;
    gives("{\"text\": \"one\"}\n{\"id\": [1, {\"text\": 2}], \"text\": \"t\\u0041\\n\"}",
          BP_DATA_JSONL, "<T:one><T:tA\n>");
    /* Blank lines, CR LF, a byte-order mark, an empty text, a label nobody asked for. */
    gives("\xef\xbb\xbf\r\n \t\n{\"text\":\"a\"}\r\n\n{\"text\":\"\", \"label\": \"x\"}\n\n",
          BP_DATA_JSONL, "<T:a><>");
    gives("\n\r\n  \n", BP_DATA_JSONL, "");
    gives("", BP_DATA_JSONL, "");
}

/* verifies formats-23.429b */
static void json_lines_with_prompts(void **state)
{
    (void)state;
    gives("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"
          "{\"completion\": \"late\", \"x\": null, \"prompt\": \"early \"}\n"
          "{\"prompt\": \"\", \"completion\": \"c\"}\n{\"completion\": \"\", \"prompt\": \"p\"}",
          BP_DATA_JSONL, "<P:2+2=C:4><P:early C:late><C:c><P:p>");
}

/* verifies formats-23.429b */
static void json_lines_with_labels(void **state)
{
    (void)state;
    gives_labels("{\"text\": \"good\", \"label\": 4}\n{\"label\": 0, \"text\": \"bad\"}",
                 BP_DATA_JSONL, "<T:good=4><T:bad=0>");
    gives_bits("{\"label\": 1.5, \"text\": \"a\"}", BP_DATA_JSONL, true, "<T:a=1069547520>");
    gives_bits("{\"label\": [4, 0, 4], \"text\": \"a\"}\n{\"label\": [], \"text\": \"b\"}\n"
               "{\"label\": 1, \"text\": \"c\"}",
               BP_DATA_JSONL, false, "<T:a=17><T:b=0><T:c=2>");
    refuses_labels("{\"text\": \"a\"}", BP_DATA_JSONL, "a.file:1", "lacks");
    refuses_labels("\n{\"text\": \"a\", \"label\": 5}", BP_DATA_JSONL, "a.file:2", "no class");
    refuses_labels("{\"text\": \"a\", \"label\": -1}", BP_DATA_JSONL, "a.file:1", "no class");
    refuses_labels("{\"text\": \"a\", \"label\": 1.5}", BP_DATA_JSONL, "a.file:1", "whole number");
    refuses_labels("{\"text\": \"a\", \"label\": [1]}", BP_DATA_JSONL, "a.file:1: byte ",
                   "neither a number nor");
    gives_labels("{\"text\": \"a\", \"label\": \"1\"}", BP_DATA_JSONL, "<T:a=1>");
    refuses_labels("{\"text\": \"a\", \"label\": \"one\"}", BP_DATA_JSONL, "a.file:1",
                   "neither a number nor the name");
}

/* A sentence, or a question with one, where nothing has a usual name. */
/* verifies formats-23.429b */
static void sentences_and_questions(void **state)
{
    (void)state;
    gives_labels("{\"sentence\": \"s\", \"label\": 1}", BP_DATA_JSONL, "<T:s=1>");
    gives_labels("{\"question\": \"q\", \"sentence\": \"s\", \"label\": 1}", BP_DATA_JSONL,
                 "<T:qS:s=1>");
    gives_labels("{\"sentence\": \"s\", \"text\": \"t\", \"label\": 1}", BP_DATA_JSONL, "<T:t=1>");
    refuses_labels("{\"sentence\": \"s\", \"sentence2\": \"t\", \"label\": 1}", BP_DATA_JSONL,
                   "a.file:1", "lacks");
    gives_labels("question\tsentence\tlabel\nq\ts\t1\n", BP_DATA_TSV, "<T:qS:s=1>");
    gives_labels("sentence\tid\tlabel\ns\t7\t1\n", BP_DATA_TSV, "<T:s=1>");
    gives_labels("question\tlabel\nq\t1\n", BP_DATA_TSV, "<T:q=1>");
    gives_labels("question\tid\tlabel\nq\t7\t1\n", BP_DATA_TSV, "<T:q=1>");
    refuses_labels("question\tbody\tlabel\nq\tb\t1\n", BP_DATA_TSV, "a.file:1", "two columns");
}

/* Rows that are guessed need no label; a table without names of columns has one all the same. */
/* verifies formats-23.429b */
static void labels_that_may_lack(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"text\tid\nx\t1\n", "<T:x=18446744073709551615>"},
                                          {"1\tx\n", "<T:x=1>"},
                                          {"text\tlabel\nx\t1\n", "<T:x=1>"}};
    char wide[2048], *at = wide;
    fixture d;
    fixture_begin(&d);
    d.documents.form = BP_FORM_LABELLED;
    d.documents.labels = BP_LABELS_CLASS;
    d.documents.classes = 5;
    d.documents.may_lack = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_window(&d, rows[i][0], strlen(rows[i][0]), BP_DATA_TSV, 4), BP_OK);
        assert_string_equal(d.said, rows[i][1]);
    }
    for (int i = 0; i < 300; i++) {
        at += sprintf(at, "%sc%d", i > 0 ? "\t" : "", i);
    }
    assert_int_equal(read_window(&d, wide, (size_t)(at - wide), BP_DATA_TSV, 4), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "more columns than can be"));
    fixture_end(&d);
}

/* verifies formats-23.429b */
static void arrays_of_objects(void **state)
{
    (void)state;
    gives("[{\"text\": \"one\"},{\"text\":\"two\"}]", BP_DATA_JSONL, "<T:one><T:two>");
    gives(
        "\xef\xbb\xbf \n[\n  {\n\"text\":\n\"}],{\\\"\\\\\", \"x\": [[1], {\"y\": \"]\"}]}\n ,\r\n"
        "{\"text\": \"b\"} ]\n\n",
        BP_DATA_JSONL, "<T:}],{\"\\><T:b>");
    gives("[]", BP_DATA_JSONL, "");
    gives(" [ ] ", BP_DATA_JSONL, "");
    gives("[{\"prompt\": \"p\", \"completion\": \"c\"}]", BP_DATA_JSONL, "<P:pC:c>");
    gives_labels("[{\"text\": \"a\", \"label\": 4},\n{\"label\": 0, \"text\": \"b\"}]",
                 BP_DATA_JSONL, "<T:a=4><T:b=0>");
    refuses_labels("[{\"text\": \"a\", \"label\": 4},\n\n{\"label\": 7, \"text\": \"b\"}]",
                   BP_DATA_JSONL, "a.file:3", "no class");
    refuses("[{\"text\": \"a\"},\n]", BP_DATA_JSONL, "a.file:2", "follows the comma");
    refuses("[{\"text\": \"a\"},,]", BP_DATA_JSONL, "a.file:1", "empty element");
    refuses("[,]", BP_DATA_JSONL, "a.file:1", "empty element");
    refuses("[}", BP_DATA_JSONL, "a.file:1", "empty element");
    refuses("[{\"text\": \"a\"}", BP_DATA_JSONL, "a.file:1", "cut short");
    refuses("[{\"text\": \"a\"},", BP_DATA_JSONL, "a.file:1", "cut short");
    refuses("[", BP_DATA_JSONL, "a.file:1", "cut short");
    refuses("[{\"text\": \"a\"}\n]\n[", BP_DATA_JSONL, "a.file:3", "something follows");
    static const char *const bad[] = {"3",
                                      "[{\"text\": \"a\"}]",
                                      "{\"text\": \"a\"} {}",
                                      "{\"text\": [\"a\"}",
                                      "{\"text\": \"a",
                                      "null"};
    char text[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "[{\"text\": \"good\"},\n\n%s,\n{\"text\": \"good\"}]", bad[i]);
        refuses(text, BP_DATA_JSONL, "a.file:3: byte ", "");
    }
}

/* verifies formats-16.301b */
static void malformed_lines_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"text\": \"a\"",
                                      "{\"text\": \"a\"} x",
                                      "{\"text\": a}",
                                      "[\"text\", \"a\"]",
                                      "\"text\"",
                                      "{\"text\": \"a\",}",
                                      "{\"text\": \"a\\x\"}",
                                      "{\"text\": [\"a\"]}",
                                      "{\"text\": 1}",
                                      "{\"text\": \"a\xff\"}",
                                      "{\"text\": \"a\x01\"}",
                                      "{\"text\":\"a\",\"text\":\"b\"}",
                                      "{\"text\": \"\\ud800\"}",
                                      "\xef\xbb\xbf{}",
                                      "{\"prompt\": null}"};
    char text[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{\"text\": \"good\"}\n\n%s\n{\"text\": \"good\"}\n", bad[i]);
        refuses(text, BP_DATA_JSONL, "a.file:3: byte ", "");
    }
    /* NUL and what follows the line feed of a line that is cut. */
    refuses_bytes("{\"text\": \"a\0b\"}", 15, BP_DATA_JSONL, false, "a.file:1: byte ", "");
    refuses("{\"text\":\n\"a\"}", BP_DATA_JSONL, "a.file:1: byte ", "");
}

/* verifies formats-16.301b */
static void lines_of_other_forms_are_refused(void **state)
{
    (void)state;
    refuses("{\"text\": \"a\"}\n{}", BP_DATA_JSONL, "a.file:2", "neither");
    refuses("{\"prompt\": \"a\"}", BP_DATA_JSONL, "a.file:1", "neither");
    refuses("{\"completion\": \"a\"}", BP_DATA_JSONL, "a.file:1", "neither");
    refuses("{\"text\": \"a\", \"completion\": \"b\"}", BP_DATA_JSONL, "a.file:1", "neither");
    refuses("{\"text\": \"a\", \"prompt\": \"a\", \"completion\": \"b\"}", BP_DATA_JSONL,
            "a.file:1", "neither");
    refuses("{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}", BP_DATA_JSONL,
            "a.file:2", "other fields");
}

/* verifies formats-23.429b */
static void a_huge_line_needs_no_more_memory(void **state)
{
    (void)state;
    enum { LONG = 300000 };
    fixture d;
    fixture_begin(&d);
    char *text = malloc(LONG + 200);
    int n = sprintf(text, "{\"completion\": \"");
    memset(text + n, 'x', LONG);
    strcpy(text + n + LONG, "\", \"prompt\": \"p\"}\n{\"prompt\": \"q\", \"completion\": \"r\"}");
    d.documents.form = BP_FORM_OPEN;
    assert_int_equal(read_window(&d, text, strlen(text), BP_DATA_JSONL, 1000), BP_OK);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.length, LONG + 15);
    assert_memory_equal(d.said, "<P:pC:xxx", 9);
    assert_string_equal(d.said + LONG + 6, "><P:qC:r>");
    /* A key as long is no key that anybody has. */
    n = sprintf(text, "{\"");
    memset(text + n, 'x', LONG);
    strcpy(text + n + LONG, "\": 1, \"text\": \"p\"}");
    d.documents.form = BP_FORM_OPEN;
    assert_int_equal(read_window(&d, text, strlen(text), BP_DATA_JSONL, 1000), BP_ERR_DATA);
    /* As many keys as no good line has. */
    n = sprintf(text, "{");
    for (int i = 0; i < 400; i++) {
        n += sprintf(text + n, "\"k%d\": 0, ", i);
    }
    strcpy(text + n, "\"text\": \"p\"}");
    assert_int_equal(read_window(&d, text, strlen(text), BP_DATA_JSONL, 1000), BP_ERR_DATA);
    assert_int_equal(d.error.code, BP_ERR_DATA);
    free(text);
    fixture_end(&d);
}

/* verifies formats-23.429b */
static void tables_of_tabs(void **state)
{
    (void)state;
    gives_labels("1\tgood film\n0\tbad \"film\"\r\n", BP_DATA_TSV,
                 "<T:good film=1><T:bad \"film\"=0>");
    gives_labels("sentence\tlabel\nfine, really\t1\n\n\r\na\rb\t0", BP_DATA_TSV,
                 "<T:fine, really=1><T:a\rb=0>");
    gives_labels("\xef\xbb\xbfid\ttext\tsource\tlabel\r\n7\t\xc3\xa9t\xc3\xa9\tweb\t2\r\n",
                 BP_DATA_TSV, "<T:\xc3\xa9t\xc3\xa9=2>");
    gives_labels("review\tlabels\nx\t1", BP_DATA_TSV, "<T:x=1>");
    gives_labels("3\t", BP_DATA_TSV, "<=3>");
    gives_labels("", BP_DATA_TSV, "");
    gives_labels("\n\r\n\n", BP_DATA_TSV, "");
    gives_labels("label\ttext\n", BP_DATA_TSV, "");
    gives_bits("-2.5\tcold\n1e0\twarm\n", BP_DATA_TSV, true,
               "<T:cold=3223322624><T:warm=1065353216>");
    gives_bits("0 3\tcold\n\twarm\n 4 \tx", BP_DATA_TSV, false, "<T:cold=9><T:warm=0><T:x=16>");
}

/* verifies formats-23.429b */
static void tables_with_quotes(void **state)
{
    (void)state;
    gives_labels("text,label\n\"a, \"\"b\"\"\r\nc\",1\nplain \"word\",2\n\"\",3\n", BP_DATA_CSV,
                 "<T:a, \"b\"\r\nc=1><T:plain \"word\"=2><=3>");
    gives_labels("\"4\",\"x\"\n0,y", BP_DATA_CSV, "<T:x=4><T:y=0>");
    refuses_labels("1,\"open\n\n", BP_DATA_CSV, "a.file:1", "no end");
    refuses_labels("1,x\n2,\"a\"b\n", BP_DATA_CSV, "a.file:2", "closing quote");
    refuses_labels("1,\"two\nlines\"\n9,x\n", BP_DATA_CSV, "a.file:3", "no class");
}

/* verifies formats-16.301b */
static void bad_tables_are_refused(void **state)
{
    (void)state;
    refuses("1\ttext\n", BP_DATA_TSV, "a.file", "does not learn");
    refuses_labels("1\tgood\n5\tbad\n", BP_DATA_TSV, "a.file:2", "no class");
    refuses_labels("1\tgood\n-1\tbad\n", BP_DATA_TSV, "a.file:2", "no class");
    refuses_labels("1\tgood\n1.5\tbad\n", BP_DATA_TSV, "a.file:2", "whole number");
    refuses_labels("1\tgood\none\tbad\n", BP_DATA_TSV, "a.file:2", "neither a number nor");
    refuses_labels("1\tgood\n\tbad\n", BP_DATA_TSV, "a.file:2", "neither a number nor");
    refuses_labels("1\tgood\n99999999999999999999\tbad\n", BP_DATA_TSV, "a.file:2", "");
    refuses_labels("1\tgood\n1\tbad\tworse\n", BP_DATA_TSV, "a.file:2", "fields");
    refuses_labels("1\tgood\n\n1\n", BP_DATA_TSV, "a.file:3", "fields");
    refuses_labels("1\ta\tb\n", BP_DATA_TSV, "a.file:1", "names no column");
    refuses_labels("label\ttext\tlabel\n", BP_DATA_TSV, "a.file:1", "two columns");
    refuses_labels("text\tlabel\tpremise\n", BP_DATA_TSV, "a.file:1", "two columns");
    refuses_labels("label\ta\tb\n", BP_DATA_TSV, "a.file:1", "none named");
    refuses_labels("1\tgood\n1\tb\xff\n", BP_DATA_TSV, "a.file:2", "not UTF-8");
    refuses_labels("1\tb\xc3\n", BP_DATA_TSV, "a.file:1", "not UTF-8");
    refuses_labels("1\t\xed\xa0\x80\n", BP_DATA_TSV, "a.file:1", "not UTF-8");
    refuses_labels("1\t\xc0\x80\n", BP_DATA_TSV, "a.file:1", "not UTF-8");
    refuses_bytes("1\ta\0b\n", 6, BP_DATA_TSV, true, "a.file:1", "NUL");
    char text[400];
    memset(text, '7', sizeof text);
    memcpy(text, "1\ta\n", 4);
    memcpy(text + 300, "\tx\n", 4);
    refuses_labels(text, BP_DATA_TSV, "a.file:2", "too long to be one");
    memset(text, '\t', 70);
    memcpy(text + 70, "\n", 2);
    refuses_labels(text, BP_DATA_TSV, "a.file:1", "more columns");
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    static const bp_data_format formats[] = {BP_DATA_TEXT, BP_DATA_JSONL, BP_DATA_TSV};
    static const char *const texts[] = {"text of some length", "{\"text\": \"some length\"}\n",
                                        "1\tsome length\n"};
    fixture d;
    fixture_begin(&d);
    for (size_t f = 0; f < 3; f++) {
        for (uint32_t nth = 1; nth <= 3; nth++) {
            d.documents.form = f == 2 ? BP_FORM_LABELLED : BP_FORM_OPEN;
            d.documents.classes = 5;
            faulty_store_arm(&d.faulty, FAULT_READ_AT, nth, false);
            assert_int_equal(read_window(&d, texts[f], strlen(texts[f]), formats[f], 4),
                             BP_ERR_STORE);
            assert_string_equal(d.error.name, "a.file (read)");
        }
    }
    faulty_store_arm(&d.faulty, FAULT_FILE_SIZE, 1, false);
    assert_int_equal(read_window(&d, "x", 1, BP_DATA_TEXT, 4), BP_ERR_STORE);
    faulty_store_arm(&d.faulty, FAULT_READ_AT, 0, false);
    /* What the taker says is passed on. */
    d.balks = true;
    for (size_t f = 0; f < 3; f++) {
        d.documents.form = f == 2 ? BP_FORM_LABELLED : BP_FORM_OPEN;
        assert_int_equal(read_window(&d, texts[f], strlen(texts[f]), formats[f], 4),
                         BP_ERR_INTERNAL);
        assert_int_equal(d.error.code, BP_OK);
    }
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_one_document),
        cmocka_unit_test(json_lines_with_text),
        cmocka_unit_test(json_lines_with_prompts),
        cmocka_unit_test(json_lines_with_labels),
        cmocka_unit_test(bad_bits_are_refused),
        cmocka_unit_test(sentences_and_questions),
        cmocka_unit_test(labels_that_may_lack),
        cmocka_unit_test(arrays_of_objects),
        cmocka_unit_test(malformed_lines_are_named),
        cmocka_unit_test(lines_of_other_forms_are_refused),
        cmocka_unit_test(a_huge_line_needs_no_more_memory),
        cmocka_unit_test(tables_of_tabs),
        cmocka_unit_test(tables_with_quotes),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(storage_that_fails_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
