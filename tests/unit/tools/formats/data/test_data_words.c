/* SPDX-License-Identifier: MIT */
/* Sentences of tagged words, as JSON and as columns: what is read of them, through windows of
 * several sizes, and what is refused; then the token files and names that are made of them. JSON is
 * written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_tags.h"
#include "tools/formats/data/data_words.h"

static memory_store memory;
static bp_error error;
static void *scratch;
static char told[1 << 12]; /* "word/tag word;" for each sentence */

static void *own_scratch(void)
{
    scratch = scratch == NULL ? malloc(BP_TAGS_SCRATCH) : scratch;
    assert_non_null(scratch);
    return scratch;
}

static bp_status tell(void *user, bp_data_reader *reader, const bp_sentence *s)
{
    (void)user;
    (void)reader;
    for (uint32_t i = 0; i < s->words.count; i++) {
        const size_t used = strlen(told);
        const uint32_t *w = &s->words.at[i], *t = &s->tags.at[i];
        const bool tags = s->tags.count > 0;
        snprintf(told + used, sizeof told - used, "%s%.*s%s%.*s", i > 0 ? " " : "",
                 (int)(w[1] - w[0]), s->words.text + w[0], tags ? "/" : "",
                 tags ? (int)(t[1] - t[0]) : 0, s->tags.text + (tags ? t[0] : 0));
    }
    const size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, ";");
    return BP_OK;
}

static bp_status words_read(const char *text, size_t length, bp_data_format format, bool may_lack,
                            size_t window)
{
    static unsigned char buffer[4096];
    bp_words words = {.sentence = tell, .may_lack = may_lack};
    memory_store_init(&memory);
    memory_store_put(&memory, "w", text, length);
    bp_data_reader reader = {
        .store = &memory.store, .path = "w", .buffer = buffer, .capacity = window, .error = &error};
    error = (bp_error){.code = BP_OK};
    told[0] = '\0';
    assert_int_equal(memory.store.open_read(&memory.store, "w", &reader.file), BP_OK);
    bp_status status = bp_data_reader_begin(&reader);
    status = status == BP_OK ? bp_words_read(&words, &reader, format, own_scratch()) : status;
    assert_int_equal(memory.store.close(&memory.store, reader.file), BP_OK);
    memory_store_free(&memory);
    return status;
}

/* The text with " for '. */
static const char *quoted(const char *text)
{
    static char json[4096];
    assert_true(strlen(text) < sizeof json);
    for (size_t i = 0; i == 0 || text[i - 1] != '\0'; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    return json;
}

typedef struct words_row {
    const char *text;
    const char *told; /* or a piece of the refusal */
    bool json, may_lack, refused;
} words_row;

static const words_row rows[] = {
    {"EU B-ORG\nrejects O\n\nPeter B-PER\n", "EU/B-ORG rejects/O;Peter/B-PER;", false, false,
     false},
    {"-DOCSTART- -X- O\n\nEU NNP B-ORG\r\n\r\n\n-DOCSTART-\na b\n", "EU/B-ORG;a/b;", false, false,
     false},
    {"-DOCSTARTS x\n-DOCSTART+ y", "-DOCSTARTS/x -DOCSTART+/y;", false, false, false},
    {"New York\tB\n \tC\n", "New York/B  /C;", false, false, false},
    {"a\vx\fy z\n", "a/z;", false, false, false},
    {"a\tb\vc\td\fe\n", "a/d\fe;", false, false, false},
    {"  a  b  \n", "a/b;", false, false, false},
    {"a\nb\n\nc", "a b;c;", false, true, false},
    {"\n\n\n", "", false, false, false},
    {"", "", false, false, false},
    {"a\n", "the words have no tags", false, false, true},
    {"a x\nb\n", "the word has no tag, and those before it have one", false, true, true},
    {"a\nb x\n", "the word has a tag, and those before it have none", false, true, true},
    {"a x\n\nb\n", "all sentences must have tags, or none of them", false, true, true},
    {"a\n\nb x\n", "all sentences must have tags, or none of them", false, true, true},
    {"{'tokens': ['a', 'b'], 'ner_tags': [1, 'B']}\n \t\r\n{'words': ['c'], 'labels': [0]}\n",
     "a/1 b/B;c/0;", true, false, false},
    {"[{'words': ['w'], 'tokens': ['t'], 'tags': [1], 'labels': [2], 'ner_tags': [3], 'x': {}}]",
     "t/3;", true, false, false},
    {"[{'ner_tags': [3], 'labels': [2], 'tokens': ['t'], 'words': ['w'], 'token': 1}, "
     "{'tokens': [], 'tags': []}]",
     "t/3;", true, false, false},
    {"{'version': 1, 'data': [{'tokens': ['a']}], 'more': [1, {}]}", "a;", true, true, false},
    {"{'tokens': ['a'], 'data': {}}\n{'tokens': ['b']}", "a;b;", true, true, false},
    {"{'data': 3, 'tokens': ['a']}\n", "a;", true, true, false},
    {"[]", "", true, false, false},
    {" ", "", true, false, false},
    {"{'tokens': ['a'], 'tags': [1, 2]}", "another number of tags than of words", true, false,
     true},
    {"{'tokens': ['a'], 'tags': []}", "the words have no tags", true, false, true},
    {"{'tags': [1]}", "the object lacks `tokens`, or `words`", true, false, true},
    {"{'tokens': 'a'}", "words and tags are lists", true, false, true},
    {"{'tokens': [1]}", "a word is not a string", true, false, true},
    {"{'tokens': [null]}", "a word is not a string", true, false, true},
    {"{'tokens': ['a'], 'tags': [null]}", "a tag is neither a number nor a name", true, false,
     true},
    {"{'tokens': ['a'], 'tags': [[1]]}", "a tag is neither a number nor a name", true, false, true},
    {"{'tokens': ['a']} x", "behind the end", true, true, true},
    {"{'tokens': ['a']}\n[]", "a line of JSON lines is an object", true, true, true},
    {"[1]", "the array holds something else than objects", true, true, true},
    {"[{'tokens': ['a']}, []]", "the array holds something else than objects", true, true, true},
    {"[{'tokens': ['a']}] 1", "behind the end", true, true, true},
    {"{'data': [{'tokens': ['a']}], 'more': [1, }", "", true, true, true},
    {"3", "the file is neither an object a line", true, true, true},
    {"{\n'a': 1}", "the file is neither an object a line", true, true, true},
    {"{'tokens': ['a'", "", true, true, true},
};

#define TEN(n, form, tag) n "\t" form "\tl\t" tag "\t_\t_\t0\troot\t_\t_\n"

/* Comments of CoNLL-U are free; of other columns only those that cannot be words. */
/* verifies formats-23.429b */
static void comments_are_no_words(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"# this is a comment\n# checked by ann\n" TEN("1", "Dogs", "NOUN")
             TEN("2", "#", "SYM") "\n# later\n#\n" TEN("1", "bark", "VERB"),
         "Dogs/NOUN #/SYM;bark/VERB;"},
        {"#tag O\n# O\na B\n\n#=x O\n#a=b O\n\n# =\n", "#tag/O #/O a/B;#=x/O #a=b/O;#/=;"},
        {"#\tO\na\tB\n\n#=x\tO\n\n# a=b\tO\n", "#/O a/B;#=x/O;# a=b/O;"},
        {"# id=1\na O\n\n#text = b c\n# newdoc x\nb O\n", "a/O;b/O;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bp_status status =
            words_read(cases[i][0], strlen(cases[i][0]), BP_DATA_TEXT, false, 4096);
        if (status != BP_OK || strcmp(told, cases[i][1]) != 0) {
            fail_msg("%s: %d %s: %s", cases[i][0], (int)status, error.text, told);
        }
    }
}

/* verifies formats-23.429b formats-16.301b */
static void sentences_are_read_or_refused(void **state)
{
    static const size_t windows[] = {4096, 64, 7, 1};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const words_row *row = &rows[i];
        const char *text = row->json ? quoted(row->text) : row->text;
        for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
            bp_status status =
                words_read(text, strlen(text), row->json ? BP_DATA_JSONL : BP_DATA_TEXT,
                           row->may_lack, windows[k]);
            if (status != (row->refused ? BP_ERR_DATA : BP_OK) ||
                (row->refused ? strstr(error.text, row->told) == NULL
                              : strcmp(told, row->told) != 0)) {
                fail_msg("%s by %zu: %d %s: %s: %s", text, windows[k], status, error.name,
                         error.text, told);
            }
            assert_true(!row->refused || strncmp(error.name, "w", 1) == 0);
        }
    }
}

/* Strings longer than the reader's room come in parts; a sentence has an end of its own. */
/* verifies formats-16.301b */
static void long_sentences_are_read_up_to_their_limits(void **state)
{
    static char text[2 * BP_WORDS_TEXT];
    (void)state;
    for (int way = 0; way < 2; way++) { /* a word of nearly all bytes, and of one too many */
        const size_t length = BP_WORDS_TEXT + (size_t)way;
        memset(text, 'x', length);
        text[length] = '\n';
        const bp_status status = words_read(text, length + 1, BP_DATA_TEXT, true, 4096);
        assert_int_equal(status, way == 0 ? BP_OK : BP_ERR_DATA);
        assert_true(way == 0 || strstr(error.text, "more bytes than can be") != NULL);
    }
    for (size_t words = BP_WORDS_MAX; words <= BP_WORDS_MAX + 1; words++) {
        for (size_t i = 0; i < words; i++) {
            memcpy(text + 2 * i, "a\n", 2);
        }
        const bp_status status = words_read(text, 2 * words, BP_DATA_TEXT, true, 4096);
        assert_int_equal(status, words == BP_WORDS_MAX ? BP_OK : BP_ERR_DATA);
        assert_true(status == BP_OK || strstr(error.text, "more words than can be") != NULL);
    }
    const size_t part = 5000;
    memcpy(text, "{\"tokens\": [\"", 13);
    memset(text + 13, 'y', part);
    memcpy(text + 13 + part, "\", \"z\"]}", 8);
    assert_int_equal(words_read(text, 13 + part + 8, BP_DATA_JSONL, true, 4096), BP_OK);
    assert_string_equal(told + strlen(told) - 1, "y"); /* the fixture's text is full before z */
}

/* ---- token files and names ---- */

typedef struct tags_fixture {
    bp_data data;
    bp_data_file file;
    bp_tags tags;
    bp_tokens tokens;
    bp_class_names names;
    uint32_t classes;
} tags_fixture;

static tags_fixture fixture;

static void fixture_open(const char *text, size_t length)
{
    memory_store_init(&memory);
    memory_store_put(&memory, "w.txt", text, length);
    error = (bp_error){.code = BP_OK};
    fixture.file = (bp_data_file){.path = "w.txt"};
    assert_int_equal(
        bp_data_open(&fixture.data, &memory.store, &fixture.file, 1, BP_DATA_TEXT, &error), BP_OK);
    fixture.tags = (bp_tags){.data = &fixture.data,
                             .path = "w.tokens",
                             .vocabulary = 256,
                             .classes = 8,
                             .scratch = own_scratch(),
                             .error = &error};
}

static void fixture_close(void)
{
    bp_data_close(&fixture.data);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
}

static const struct {
    const char *text;
    const char *names; /* "a,b," in the order of their bytes */
    uint32_t classes;
} named[] = {
    {"a B\nb A\nc B\nd AB\ne A\nf ABC\n", "A,AB,ABC,B,", 4},
    {"a O\nb B-X\nc I-X\nd 3\n", "B-X,I-X,O,", 3},
    {"a 3\nb 1\nc 5\nd 1024\ne 1023.5\n", "", 6},
    {"a ABC\nb AB\nc A\nd AA\n", "A,AA,AB,ABC,", 4},
    {"a 0\n", "", 1},
    {"a 1023\n", "", 1024},
    {"a\n", "", 0},
};

/* verifies formats-23.429b */
static void names_are_gathered_in_their_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        char all[256] = "";
        fixture_open(named[i].text, strlen(named[i].text));
        assert_int_equal(bp_tags_names(&fixture.tags, &fixture.names, &fixture.classes), BP_OK);
        for (uint32_t k = 0; k < fixture.names.count; k++) {
            strcat(strcat(all, fixture.names.text + fixture.names.start[k]), ",");
        }
        assert_string_equal(all, named[i].names);
        assert_int_equal(fixture.classes, named[i].classes);
        fixture_close();
    }
}

/* One name more than there can be, names of more bytes, a name with a NUL. */
/* verifies formats-16.301b */
static void names_end(void **state)
{
    static char text[1 << 16];
    (void)state;
    for (int way = 0; way < 3; way++) {
        const unsigned count = way == 0 ? BP_CLASS_NAMES_MAX + 1 : 80;
        size_t length = 0;
        for (unsigned i = 0; i < count && way < 2; i++) {
            length += (size_t)snprintf(text + length, sizeof text - length, "a n%0*u\n",
                                       way == 0 ? 4 : 120, i);
        }
        if (way == 2) {
            length = 6;
            memcpy(text, "a b\0c\n", length);
        }
        fixture_open(text, length);
        assert_int_equal(bp_tags_names(&fixture.tags, &fixture.names, &fixture.classes),
                         BP_ERR_DATA);
        assert_non_null(strstr(error.text, "more names than can be"));
        fixture_close();
    }
}

static bool file_holds(const unsigned char *bytes, size_t count)
{
    size_t size;
    const unsigned char *file = memory_store_bytes(&memory, "w.tokens", &size);
    assert_non_null(file);
    for (size_t at = 0; at + count <= size; at++) {
        if (memcmp(file + at, bytes, count) == 0) {
            return true;
        }
    }
    return false;
}

/* Bytes stand for tokens; the labels of a word's later pieces are none, or those of I-X. */
/* verifies formats-23.429b */
static void words_become_labelled_tokens(void **state)
{
    (void)state;
    static const char text[] = "ab B-X\nc O\n\nd I-X\n";
    fixture_open(text, strlen(text));
    assert_int_equal(bp_tags_names(&fixture.tags, &fixture.names, &fixture.classes), BP_OK);
    assert_int_equal(fixture.classes, 3);
    assert_int_equal(bp_tags_inside(&fixture.names, 0), 1);
    assert_int_equal(bp_tags_inside(&fixture.names, 1), 1);
    assert_int_equal(bp_tags_inside(&fixture.names, 3), 3);
    assert_int_equal(bp_tags_inside(NULL, 0), 0);
    fixture.tags.names = &fixture.names;
    fixture.tags.classes = fixture.classes;
    for (int all = 0; all < 2; all++) {
        fixture.tags.all = all != 0;
        assert_int_equal(bp_tags_open(&fixture.tags, &fixture.tokens), BP_OK);
        assert_true(fixture.tags.built);
        assert_int_equal(fixture.tags.sentences, 2);
        bp_tokens_close(&fixture.tokens);
        assert_true(file_holds((const unsigned char[6]){'a', 'b', 'c', 1, all != 0 ? 2 : 0, 3}, 6));
        assert_true(file_holds((const unsigned char[2]){'d', 2}, 2));
        assert_int_equal(bp_tags_open(&fixture.tags, &fixture.tokens), BP_OK);
        assert_false(fixture.tags.built); /* it was there, and fits */
        bp_tokens_close(&fixture.tokens);
    }
    bp_words words = {.sentence = tell};
    told[0] = '\0';
    assert_int_equal(bp_tags_read(&fixture.tags, &words), BP_OK);
    assert_string_equal(told, "ab/B-X c/O;d/I-X;");
    uint32_t ids[2];
    size_t count;
    bp_tags_word(NULL, "xyz", 3, ids, 2, &count);
    assert_int_equal(count, 3);
    assert_true(ids[0] == 'x' && ids[1] == 'y');
    bp_tags_word(NULL, "xyz", 1, ids, 2, &count);
    assert_int_equal(count, 1);
    fixture_close();
}

/* Numbers have no names: the file is that of who asks for no names. */
/* verifies formats-56.3c1c */
static void no_names_are_no_part_of_the_key(void **state)
{
    (void)state;
    fixture_open("a 1\nb 0\n", 8);
    assert_int_equal(bp_tags_names(&fixture.tags, &fixture.names, &fixture.classes), BP_OK);
    assert_int_equal(fixture.names.count, 0);
    assert_int_equal(bp_tags_open(&fixture.tags, &fixture.tokens), BP_OK);
    assert_true(fixture.tags.built);
    bp_tokens_close(&fixture.tokens);
    fixture.tags.names = &fixture.names;
    assert_int_equal(bp_tags_open(&fixture.tags, &fixture.tokens), BP_OK);
    assert_false(fixture.tags.built);
    bp_tokens_close(&fixture.tokens);
    fixture_close();
}

/* verifies formats-16.301b */
static void tags_that_are_no_class_are_refused(void **state)
{
    static const char *const texts[] = {"a 8\n", "a x\n", "a 1\nb -1\n", "\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fixture_open(texts[i], strlen(texts[i]));
        assert_int_equal(bp_tags_open(&fixture.tags, &fixture.tokens), BP_ERR_DATA);
        fixture_close();
    }
}

/* A word that the JSON reader hands over in parts is one word. */
/* verifies formats-23.429b */
static void long_words_are_whole(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    char *text = malloc(LONG + 100);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "{\"tokens\": [\"");
    memset(text + at, 'w', LONG);
    at += LONG;
    at += (size_t)sprintf(text + at, "\"], \"tags\": [1]}\n"); /* for one word */
    const bp_status status = words_read(text, at, BP_DATA_JSONL, true, 4096);
    if (status != BP_OK) {
        fail_msg("%s: %s", error.name, error.text);
    }
    assert_int_equal(strspn(told, "w"), sizeof told - 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_are_read_or_refused),
        cmocka_unit_test(comments_are_no_words),
        cmocka_unit_test(long_sentences_are_read_up_to_their_limits),
        cmocka_unit_test(names_are_gathered_in_their_order),
        cmocka_unit_test(names_end),
        cmocka_unit_test(no_names_are_no_part_of_the_key),
        cmocka_unit_test(words_become_labelled_tokens),
        cmocka_unit_test(tags_that_are_no_class_are_refused),
        cmocka_unit_test(long_words_are_whole),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scratch);
    return failed;
}
