/* SPDX-License-Identifier: MIT */
/* Documents to token files, once: bytes, and several tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/golden_words.h"
#include "tests/fixtures/columns.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_tokenise.h"

static const char path[] = "a.tokens";

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    uint64_t *scratch;
    bp_error error;
    bp_data data;
    bp_data_file files[4];
    uint32_t count;
    bp_tokenise work;
    bp_tokens tokens;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->scratch = malloc(BP_TOKENISE_SCRATCH);
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->scratch);
}

static bool there(fixture *d, const char *name)
{
    size_t size;
    return memory_store_bytes(&d->memory, name, &size) != NULL;
}

static void fixture_put(fixture *d, const char *name, const char *text)
{
    memory_store_put(&d->memory, name, text, strlen(text));
    uint32_t i = 0;
    while (i < d->count && strcmp(d->files[i].path, name) != 0) {
        i++;
    }
    d->files[i].path = name;
    d->count = i < d->count ? d->count : i + 1;
}

/* Tokenises what was put, as bytes. */
static bp_status tokenise(fixture *d, bp_data_format format, bp_labels labels, int64_t end_token)
{
    bp_tokens_close(&d->tokens);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(
        bp_data_open(&d->data, &d->faulty.store, d->files, d->count, format, &d->error), BP_OK);
    d->work = (bp_tokenise){.data = &d->data,
                            .path = path,
                            .vocabulary = 256,
                            .end_token = end_token,
                            .labels = labels,
                            .classes = 3,
                            .scratch = d->scratch,
                            .error = &d->error};
    bp_status status = bp_tokenise_open(&d->work, &d->tokens);
    bp_data_close(&d->data);
    return status;
}

static void holds(fixture *d, const char *text, size_t count)
{
    int32_t ids[200];
    assert_int_equal(d->tokens.source.count, count);
    assert_int_equal(d->tokens.source.read(&d->tokens.source, 0, (uint32_t)count, ids), BP_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], (unsigned char)text[i]);
    }
}

static void has_example(fixture *d, uint64_t index, uint64_t first, uint64_t count, uint64_t prompt,
                        uint64_t label)
{
    bp_example example;
    assert_int_equal(d->tokens.source.example(&d->tokens.source, index, &example), BP_OK);
    assert_int_equal(example.first, first);
    assert_int_equal(example.count, count);
    assert_int_equal(example.prompt, prompt);
    assert_int_equal(example.label, label);
    assert_int_equal(example.tail, 0);
}

/* verifies formats-23.429b */
static void documents_are_packed(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "0.txt", ""); /* nothing ends before the first token */
    fixture_put(&d, "a.txt", "one\n");
    fixture_put(&d, "b.txt", "");
    fixture_put(&d, "c.txt", "two");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    holds(&d, "one\n\0two", 8);
    assert_int_equal(d.tokens.source.examples, 0);
    assert_int_equal(d.work.documents, 2);
    assert_int_equal(d.work.bytes, 7);
    assert_true(d.work.built);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, -1), BP_OK);
    holds(&d, "one\ntwo", 7);
    fixture_end(&d);
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n{\"text\": \"bc\"}");
    fixture_put(&d, "b.jsonl", "\n{\"text\": \"d\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 10), BP_OK);
    holds(&d, "a\nbc\nd\n", 7);
    assert_int_equal(d.tokens.source.examples, 0);
    assert_int_equal(d.work.documents, 3);
    assert_int_equal(d.work.empty, 1);
    assert_int_equal(d.tokens.head.form, BP_FORM_TEXT);
    fixture_end(&d);
}

/* verifies formats-23.429b */
static void prompts_and_labels_are_examples(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl",
                "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n"
                "{\"completion\": \"yes\", \"prompt\": \"\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    holds(&d, "1+1=2\0yes\0", 10);
    assert_int_equal(d.tokens.source.examples, 2);
    has_example(&d, 0, 0, 6, 4, 0);
    has_example(&d, 1, 6, 4, 0, 0);
    fixture_end(&d);
    fixture_begin(&d);
    fixture_put(&d, "a.tsv", "2\tgood\n0\tbad\n1\t\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_CLASS, 0), BP_OK);
    holds(&d, "goodbad", 7);
    assert_int_equal(d.tokens.source.examples, 2);
    has_example(&d, 0, 0, 4, 0, 2);
    has_example(&d, 1, 4, 3, 0, 0);
    assert_int_equal(d.work.empty, 1);
    fixture_end(&d);
}

/* verifies formats-56.3c1c */
static void a_file_is_made_once(void **state)
{
    (void)state;
    fixture d;
    size_t size;
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", "{\"text\": \"one\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    assert_true(d.work.built);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    assert_false(d.work.built);
    holds(&d, "one\0", 4);
    /* Another end token, another text, a file more: another key. */
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_true(d.work.built);
    fixture_put(&d, "a.jsonl", "{\"text\": \"onf\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_true(d.work.built);
    holds(&d, "onf\1", 4);
    fixture_put(&d, "b.jsonl", "");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_true(d.work.built);
    /* Damaged, cut, or something else under that name: made anew. */
    bp_tokens_close(&d.tokens);
    unsigned char *bytes = memory_store_bytes(&d.memory, path, &size);
    bytes[size - 1] ^= 1;
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_true(d.work.built);
    holds(&d, "onf\1", 4);
    bp_tokens_close(&d.tokens);
    memory_store_put(&d.memory, path, "what?", 5);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_true(d.work.built);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 1), BP_OK);
    assert_false(d.work.built);
    fixture_end(&d);
}

static void refuses(const char *name, const char *text, bp_labels labels, const char *place,
                    const char *why)
{
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, name, text);
    memory_store_put(&d.memory, path, "earlier", 7);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, labels, 0), BP_ERR_DATA);
    if (strcmp(d.error.name, place) != 0 || strstr(d.error.text, why) == NULL) {
        fail_msg("%s: %s", d.error.name, d.error.text);
    }
    assert_false(there(&d, "a.tokens.tmp"));
    size_t size;
    assert_memory_equal(memory_store_bytes(&d.memory, path, &size), "earlier", 7);
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void bad_documents_are_refused(void **state)
{
    (void)state;
    refuses("a.jsonl", "", BP_LABELS_NEXT_TOKEN, "a.jsonl", "no document");
    refuses("a.jsonl", "\n \n\r\n", BP_LABELS_NEXT_TOKEN, "a.jsonl", "no document");
    refuses("a.jsonl", "{\"text\": \"\"}", BP_LABELS_NEXT_TOKEN, "a.jsonl", "no document");
    refuses("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\\u0000c\"}", BP_LABELS_NEXT_TOKEN,
            "a.jsonl:2", "ends documents");
    refuses("a.jsonl", "{\"prompt\": \"a\", \"completion\": \"\"}", BP_LABELS_NEXT_TOKEN,
            "a.jsonl:1", "completion is empty");
    refuses("a.jsonl", "{\"prompt\": \"\", \"completion\": \"\"}", BP_LABELS_NEXT_TOKEN,
            "a.jsonl:1", "completion is empty");
    refuses("a.tsv", "1\ta\n3\tb\n", BP_LABELS_CLASS, "a.tsv:2", "no class");
    refuses("a.tsv", "1\ta\n", BP_LABELS_NEXT_TOKEN, "a.tsv", "does not learn");
}

/* Ids put together: those of texts by themselves, and single ones. */
typedef struct listing {
    uint32_t ids[64];
    size_t count;
} listing;

static void put_id(listing *l, uint32_t id)
{
    l->ids[l->count++] = id;
}

static void put_text(listing *l, golden_words *w, const char *text)
{
    size_t count;
    bp_encoder_text(&w->encoder, text, strlen(text), BP_ENCODE_PLAIN, l->ids + l->count,
                    64 - l->count, &count);
    assert_true(count > 0);
    l->count += count;
}

/* Tokenises one file with a tokenizer and compares all ids. */
static void tokenises(fixture *d, golden_words *w, const char *name, const char *text,
                      bp_labels labels, int64_t end_token, const listing *right)
{
    int32_t ids[64];
    fixture_put(d, name, text);
    assert_int_equal(
        bp_data_open(&d->data, &d->faulty.store, d->files, d->count, BP_DATA_AUTO, &d->error),
        BP_OK);
    d->work = (bp_tokenise){.data = &d->data,
                            .path = path,
                            .encoder = &w->encoder,
                            .vocabulary = w->need.tokens,
                            .end_token = end_token,
                            .labels = labels,
                            .classes = 3,
                            .scratch = d->scratch,
                            .error = &d->error};
    assert_int_equal(bp_tokenise_open(&d->work, &d->tokens), BP_OK);
    bp_data_close(&d->data);
    bp_source *source = &d->tokens.source;
    assert_int_equal(source->count, right->count);
    assert_int_equal(source->read(source, 0, (uint32_t)right->count, ids), BP_OK);
    assert_memory_equal(ids, right->ids, right->count * sizeof *ids);
}

/* Two documents, and a prompt with its completion, with a tokenizer that puts `first` (-1: nothing)
 * before a text. A completion goes on with its prompt: both are the tokens of one text. */
static void begins_with(const char *directory, int64_t first)
{
    static const char texts[] = "{\"text\": \"What is it?\"}\n{\"text\": \" Ale\"}\n";
    static const char sums[] = "{\"prompt\": \"What is it?\", \"completion\": \" Ale\"}";
    enum { END = 5 };
    fixture d;
    golden_words w;
    golden_words_open(&w, directory);
    for (int prompts = 0; prompts < 2; prompts++) {
        listing right = {.count = 0};
        if (first >= 0) {
            put_id(&right, (uint32_t)first);
        }
        put_text(&right, &w, "What is it?");
        const size_t prompt = right.count;
        if (prompts == 0) {
            put_id(&right, END);
            if (first >= 0) {
                put_id(&right, (uint32_t)first);
            }
            put_text(&right, &w, " Ale");
        } else {
            right.count = first >= 0 ? 1 : 0;
            put_text(&right, &w, "What is it? Ale");
        }
        put_id(&right, END);
        fixture_begin(&d);
        tokenises(&d, &w, "a.jsonl", prompts == 0 ? texts : sums, BP_LABELS_NEXT_TOKEN, END,
                  &right);
        if (prompts == 1) {
            has_example(&d, 0, 0, right.count, prompt, 0);
        }
        fixture_end(&d);
    }
    golden_words_close(&w);
}

/* verifies formats-23.429b */
static void the_first_token_of_a_text(void **state)
{
    (void)state;
    begins_with("tests/golden/tokenizers/llama2", 1);
    begins_with("tests/golden/tokenizers/gpt2_small", -1);
    /* Behind plain text nothing is put. */
    fixture d;
    golden_words w;
    listing right = {.count = 0};
    golden_words_open(&w, "tests/golden/tokenizers/gpt2_small");
    put_text(&right, &w, "What is it?");
    fixture_begin(&d);
    tokenises(&d, &w, "a.txt", "What is it?", BP_LABELS_NEXT_TOKEN, 5, &right);
    fixture_end(&d);
    golden_words_close(&w);
}

enum { CLS = 2, SEP = 3, MASK = 4 }; /* of bert_uncased */

/* The three rows as the feed stages them, four ids each: the first is cut, the second padded. */
static void stages_labelled(fixture *d, golden_words *w, const listing *all)
{
    enum { ROWS = 3, LENGTH = 4, PADDING = 9 };
    const int32_t right[2 * LENGTH] = {
        CLS, (int32_t)all->ids[1], (int32_t)all->ids[2], SEP, CLS, SEP, PADDING, PADDING};
    int32_t ids[ROWS * LENGTH], labels[ROWS * LENGTH], lengths[ROWS];
    int32_t scratch[BP_FEED_SCRATCH(LENGTH)];
    bp_group group = columns_of(LENGTH, ids, labels, lengths, NULL);
    bp_feed feed = {.source = &d->tokens.source,
                    .sequence = LENGTH,
                    .batch = ROWS,
                    .group = ROWS,
                    .vocabulary = w->need.tokens,
                    .kind = BP_LABELS_CLASS,
                    .classes = 3,
                    .padding = PADDING};
    assert_int_equal(bp_feed_init(&feed, &d->error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, 0, &group, scratch), BP_OK);
    assert_memory_equal(ids, right, sizeof right);
    assert_int_equal(lengths[0], 4);
    assert_int_equal(lengths[1], 2);
    assert_int_equal(labels[0], 1);
    assert_int_equal(labels[LENGTH], 2);
    assert_int_equal(labels[2 * LENGTH], 0);
    assert_int_equal(group.valid, 3);
}

/* verifies formats-23.429b */
static void what_frames_a_labelled_text(void **state)
{
    (void)state;
    fixture d;
    golden_words w;
    listing right = {.count = 0};
    golden_words_open(&w, "tests/golden/tokenizers/bert_uncased");
    put_id(&right, CLS);
    put_text(&right, &w, "What is it?");
    put_id(&right, SEP);
    size_t first = right.count;
    put_id(&right, CLS);
    put_id(&right, SEP);
    put_id(&right, CLS);
    put_text(&right, &w, "Ale");
    put_id(&right, SEP);
    fixture_begin(&d);
    tokenises(&d, &w, "a.tsv", "1\tWhat is it?\n2\t\n0\tAle\n", BP_LABELS_CLASS, -1, &right);
    bp_example example;
    bp_source *source = &d.tokens.source;
    assert_int_equal(source->examples, 3);
    assert_int_equal(source->example(source, 1, &example), BP_OK);
    assert_int_equal(example.first, first);
    assert_int_equal(example.count, 2);
    assert_int_equal(example.label, 2);
    assert_int_equal(example.tail, 1); /* [SEP] stays when a row is cut */
    stages_labelled(&d, &w, &right);
    fixture_end(&d);
    /* Special tokens spelt out are special tokens, as in the tokenizers library. */
    right.count = 0;
    put_id(&right, CLS);
    put_text(&right, &w, "is");
    put_id(&right, MASK);
    put_text(&right, &w, "it");
    put_id(&right, SEP);
    fixture_begin(&d);
    tokenises(&d, &w, "a.jsonl", "{\"text\": \"is [MASK] it\"}", BP_LABELS_NEXT_TOKEN, SEP, &right);
    fixture_end(&d);
    golden_words_close(&w);
}

/* Whatever call of the store fails, and wherever power goes: the file is the earlier one, or the
 * new one, or is made anew; never something between. */
/* verifies formats-24.7573 */
static void faults_while_tokenising(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_READ_AT, FAULT_OPEN_WRITE, FAULT_WRITE_AT,
                                       FAULT_SYNC,    FAULT_CLOSE,      FAULT_RENAME};
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", "{\"text\": \"one\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bp_tokens_close(&d.tokens);
        fixture_put(&d, "a.jsonl", i % 2 == 0 ? "{\"text\": \"two\"}" : "{\"text\": \"one\"}");
        assert_int_equal(bp_data_open(&d.data, &d.faulty.store, d.files, 1, BP_DATA_AUTO, &d.error),
                         BP_OK);
        d.error = (bp_error){.code = BP_OK};
        /* The first close is that of the earlier file, which was only read. */
        faulty_store_arm(&d.faulty, kinds[i], kinds[i] == FAULT_CLOSE ? 2 : 1, false);
        assert_int_equal(bp_tokenise_open(&d.work, &d.tokens), BP_ERR_STORE);
        bp_data_close(&d.data);
        assert_int_equal(d.memory.open_files, 0);
        assert_false(there(&d, "a.tokens.tmp"));
        assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
        holds(&d, i % 2 == 0 ? "two\0" : "one\0", 4);
    }
    fixture_end(&d);
}

/* Texts for vectors: no end token stands behind them, an empty one is refused, and the prompt
 * before them is part of the key. */
/* verifies formats-23.429b */
static void texts_are_examples(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", "{\"anchor\": \"ab\", \"positive\": \"c\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_TEXTS, 0), BP_OK);
    holds(&d, "abc", 3);
    assert_int_equal(d.tokens.source.examples, 2);
    assert_int_equal(d.tokens.head.texts, 2);
    for (int i = 0; i < 2; i++) {
        bp_tokens_close(&d.tokens);
        d.work.prompt = "p";
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(
            bp_data_open(&d.data, &d.faulty.store, d.files, d.count, BP_DATA_AUTO, &d.error),
            BP_OK);
        assert_int_equal(bp_tokenise_open(&d.work, &d.tokens), BP_OK);
        bp_data_close(&d.data);
        assert_int_equal(d.work.built, i == 0);
        holds(&d, "pabpc", 5);
    }
    fixture_end(&d);
    refuses("a.jsonl", "{\"text\": \"\"}", BP_LABELS_TEXTS, "a.jsonl:1", "text is empty");
    fixture_begin(&d);
    fixture_put(&d, "a.tsv", "1\tab\n2\tc\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_BITS, 0), BP_OK);
    holds(&d, "abc", 3);
    fixture_end(&d);
}

/* A pair's second text comes in parts, or is empty. */
/* verifies formats-23.429b */
static void second_texts_begin_once(void **state)
{
    (void)state;
    enum { LONG = 40000 };
    char *text = malloc(LONG + 100);
    fixture d;
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "{\"sentence1\": \"a\", \"label\": 1, \"sentence2\": \"");
    memset(text + at, 'w', LONG);
    at += LONG;
    sprintf(text + at, "\"}\n{\"sentence1\": \"b\", \"label\": 0, \"sentence2\": \"\"}\n");
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", text);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_CLASS, 0), BP_OK);
    assert_int_equal(d.tokens.source.examples, 2);
    assert_int_equal(d.tokens.source.count, 1 + LONG + 1);
    bp_example example;
    assert_int_equal(d.tokens.source.example(&d.tokens.source, 0, &example), BP_OK);
    assert_int_equal(example.second, 1);
    assert_int_equal(example.count, 1 + LONG);
    fixture_end(&d);
    free(text);
}

/* Where the store cannot say whether the file is there, it is made anew. */
/* verifies formats-56.3c1c */
static void a_file_nobody_knows_of_is_made(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.jsonl", "{\"text\": \"one\"}\n");
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    faulty_store_arm(&d.faulty, FAULT_EXISTS, 1, false);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    assert_true(d.work.built);
    assert_int_equal(tokenise(&d, BP_DATA_AUTO, BP_LABELS_NEXT_TOKEN, 0), BP_OK);
    assert_false(d.work.built);
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_packed),
        cmocka_unit_test(prompts_and_labels_are_examples),
        cmocka_unit_test(a_file_is_made_once),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(the_first_token_of_a_text),
        cmocka_unit_test(what_frames_a_labelled_text),
        cmocka_unit_test(faults_while_tokenising),
        cmocka_unit_test(texts_are_examples),
        cmocka_unit_test(second_texts_begin_once),
        cmocka_unit_test(a_file_nobody_knows_of_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
