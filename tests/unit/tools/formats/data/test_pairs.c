/* SPDX-License-Identifier: MIT */
/* Pairs of texts from their files to the rows of a feed: ids, types and cuts are those of
 * bp_encoder_pair, which tests/golden compares with the tokenizers library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/columns.h"
#include "tests/fixtures/formats/golden_words.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_tokenise.h"

enum { TEXT = 8192, ROWS = 7, LONGEST = 40 };

static const char *const texts[ROWS][2] = {
    {"What is the time?", "It is late."},
    {"", "nothing before"},
    {"nothing behind", ""},
    {"a", "one two three four five six seven eight nine ten eleven twelve"},
    {"one two three four five six seven eight nine ten eleven twelve", "b"},
    {"one two three four five six seven", "eight nine ten eleven twelve thirteen fourteen"},
    {"caf\xc3\xa9 [SEP] x", "\xe6\x97\xa5\xe6\x9c\xac, tab"},
};

typedef struct fixture {
    golden_words words;
    memory_store store;
    uint64_t *scratch;
    bp_error error;
    bp_data data;
    bp_tokens tokens;
    bool may_lack;
} fixture;

/* NULL: no tokenizer, ids are bytes. */
static void fixture_begin(fixture *d, const char *directory)
{
    memset(d, 0, sizeof *d);
    d->scratch = malloc(BP_TOKENISE_SCRATCH);
    memory_store_init(&d->store);
    if (directory != NULL) {
        golden_words_open(&d->words, directory);
    }
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->store.open_files, 0);
    memory_store_free(&d->store);
    golden_words_close(&d->words);
    free(d->scratch);
}

static bp_status tokenise(fixture *d, const char *name, const char *text)
{
    memory_store_put(&d->store, name, text, strlen(text));
    bp_data_file file = {.path = name};
    assert_int_equal(bp_data_open(&d->data, &d->store.store, &file, 1, BP_DATA_AUTO, &d->error),
                     BP_OK);
    const bool bytes = d->words.room == NULL;
    bp_tokenise work = {.data = &d->data,
                        .path = "tokens",
                        .encoder = bytes ? NULL : &d->words.encoder,
                        .vocabulary = bytes ? 256 : d->words.need.tokens,
                        .end_token = -1,
                        .labels = BP_LABELS_CLASS,
                        .classes = ROWS,
                        .may_lack = d->may_lack,
                        .scratch = d->scratch,
                        .error = &d->error};
    bp_status status = bp_tokenise_open(&work, &d->tokens);
    bp_data_close(&d->data);
    return status;
}

/* All rows as a table, or as JSON lines. */
static void put_rows(char file[TEXT], bool table)
{
    size_t used = table ? (size_t)sprintf(file, "label\tsentence1\tid\tsentence2\n") : 0;
    for (int i = 0; i < ROWS; i++) {
        const char *form = table ? "%d\t%s\tx\t%s\n"
                                 : "{\"label\": %d, \"text\": \"%s\", \"text_pair\": \"%s\"}\n";
        used += (size_t)sprintf(file + used, form, i, texts[i][0], texts[i][1]);
    }
}

/* Row i, as it has to be in a row of `sequence`; 0: the template alone does not fit. */
static size_t expected(fixture *d, int i, size_t sequence, int32_t *ids, size_t *second)
{
    uint32_t all[LONGEST];
    uint8_t types[LONGEST];
    size_t count = 0;
    if (bp_encoder_pair(&d->words.encoder, texts[i][0], strlen(texts[i][0]), texts[i][1],
                        strlen(texts[i][1]), BP_ENCODE_TEMPLATE, all, types, sequence, &count,
                        NULL) != BP_OK) {
        return 0;
    }
    *second = 0;
    for (size_t t = 0; t < count; t++) {
        ids[t] = (int32_t)all[t];
        *second = *second == 0 && types[t] == 1 ? t : *second;
    }
    /* Without anything before them, an empty first text leaves no trace of the pair. */
    *second = types[0] == 1 ? 0 : *second;
    return count;
}

static void compare_rows(fixture *d, uint32_t sequence, bool apart)
{
    int32_t ids[LONGEST], labels[LONGEST], right[LONGEST], length, types[LONGEST];
    int32_t scratch[BP_FEED_SCRATCH(LONGEST)];
    bp_group group = columns_of(sequence, ids, labels, &length, types);
    bp_feed feed = {.source = &d->tokens.source,
                    .sequence = sequence,
                    .batch = 1,
                    .group = 1,
                    .vocabulary = d->words.need.tokens,
                    .kind = BP_LABELS_CLASS,
                    .classes = ROWS};
    assert_int_equal(bp_feed_init(&feed, &d->error), BP_OK);
    for (int i = 0; i < ROWS; i++) {
        size_t begins = 0, count = expected(d, i, sequence, right, &begins);
        assert_int_equal(bp_feed_stage(&feed, (uint64_t)i, &group, scratch), BP_OK);
        assert_int_equal(labels[0], i);
        if (count == 0) {
            continue;
        }
        assert_int_equal(length, count);
        assert_memory_equal(ids, right, count * sizeof *ids);
        if (apart) {
            for (size_t t = 0; t < sequence; t++) { /* begins = 0: there is no second text */
                assert_int_equal(types[t], begins > 0 && t >= begins && t < count);
            }
        }
    }
}

static void check(const char *directory, bp_pair_types types)
{
    static char file[TEXT];
    static const char *const names[] = {"a.jsonl", "a.tsv"};
    for (int table = 0; table < 2; table++) {
        fixture d;
        fixture_begin(&d, directory);
        put_rows(file, table == 1);
        assert_int_equal(tokenise(&d, names[table], file), BP_OK);
        assert_int_equal(d.tokens.source.examples, ROWS);
        assert_int_equal(d.tokens.head.texts, 2);
        assert_int_equal(d.tokens.head.types, types);
        for (uint32_t sequence = 1; sequence <= LONGEST; sequence++) {
            compare_rows(&d, sequence, types == BP_PAIR_APART);
        }
        fixture_end(&d);
    }
}

/* verifies formats-23.429b */
static void pairs_are_those_of_the_tokenizer(void **state)
{
    (void)state;
    check("tests/golden/tokenizers/bert_uncased", BP_PAIR_APART);
    check("tests/golden/tokenizers/bert_cased", BP_PAIR_APART);
    check("tests/golden/tokenizers/llama3", BP_PAIR_OTHER);
    check("tests/golden/tokenizers/qwen2", BP_PAIR_APART);
}

/* Without a tokenizer nothing stands around the texts. */
/* verifies formats-23.429b */
static void pairs_of_bytes(void **state)
{
    (void)state;
    fixture d;
    bp_example example;
    int32_t ids[16];
    fixture_begin(&d, NULL);
    assert_int_equal(tokenise(&d, "a.csv", "question,sentence,label\nabc,de,1\n,f,2\ng,,0\n"),
                     BP_OK);
    bp_source *source = &d.tokens.source;
    assert_int_equal(source->examples, 3);
    assert_int_equal(source->count, 7);
    assert_int_equal(source->read(source, 0, 7, ids), BP_OK);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(ids[i], 'a' + i);
    }
    static const uint64_t right[3][4] = {{0, 5, 3, 1}, {5, 1, 0, 2}, {6, 1, 1, 0}};
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(source->example(source, i, &example), BP_OK);
        assert_int_equal(example.first, right[i][0]);
        assert_int_equal(example.count, right[i][1]);
        assert_int_equal(example.second, right[i][2]);
        assert_int_equal(example.label, right[i][3]);
        assert_true(example.prompt == 0 && example.tail == 0 && example.lead + example.join == 0);
    }
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void what_is_no_pair(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *error;
    } cases[] = {
        {"a.jsonl",
         "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"text_pair\": \"b\", \"label\": 1}\n",
         "another number of texts"},
        {"a.jsonl", "{\"text\": \"a\", \"premise\": \"b\", \"label\": 1}\n", "name the same text"},
        {"a.jsonl", "{\"hypothesis\": \"b\", \"label\": 1}\n", "lacks"},
        {"a.tsv", "label\ttext_pair\ttext\n1\ta\tb\n", "is before"},
        {"a.tsv", "label\tquestion2\n1\ta\n", "is the only one"},
        {"a.tsv", "label\tquestion1\tquestion2\n1\ta\n", "number of fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture d;
        fixture_begin(&d, NULL);
        assert_int_equal(tokenise(&d, cases[i].name, cases[i].text), BP_ERR_DATA);
        if (strstr(d.error.text, cases[i].error) == NULL) {
            fail_msg("%s: %s", cases[i].text, d.error.text);
        }
        fixture_end(&d);
    }
    /* A key that names a second text where no labels are wanted is any other key. */
    fixture d;
    fixture_begin(&d, NULL);
    assert_int_equal(tokenise(&d, "a.tsv", "sentence\tquestion\tlabel\n a\tb\t1\n"), BP_ERR_DATA);
    assert_int_equal(tokenise(&d, "b.tsv", "sentence\tlabel\nab\t1\n"), BP_OK);
    assert_int_equal(d.tokens.head.texts, 0);
    fixture_end(&d);
}

/* Where that is allowed all rows may lack their labels: they are no targets. */
/* verifies formats-23.429b */
static void rows_without_labels(void **state)
{
    (void)state;
    static const char *const names[] = {"a.jsonl", "b.tsv", "c.csv"};
    static const char *const files[] = {"{\"text\": \"ab\"}\n{\"text\": \"c\", \"id\": 5}\n",
                                        "id\ttext\n1\tab\n2\tc\n", "sentence\nab\nc\n"};
    for (int i = 0; i < 3; i++) {
        fixture d;
        int32_t ids[4], labels[4], scratch[BP_FEED_SCRATCH(2)];
        bp_example example;
        fixture_begin(&d, NULL);
        assert_int_equal(tokenise(&d, names[i], files[i]), BP_ERR_DATA);
        d.may_lack = true;
        assert_int_equal(tokenise(&d, names[i], files[i]), BP_OK);
        assert_int_equal(d.tokens.head.unlabelled, 1);
        bp_source *source = &d.tokens.source;
        assert_int_equal(source->example(source, 1, &example), BP_OK);
        assert_true(example.label == BP_NO_LABEL);
        for (int bits = 0; bits < 2; bits++) {
            bp_group group = columns_of(2, ids, labels, NULL, NULL);
            bp_feed feed = {.source = source,
                            .sequence = 2,
                            .batch = 2,
                            .group = 2,
                            .vocabulary = 256,
                            .kind = bits ? BP_LABELS_BITS : BP_LABELS_CLASS,
                            .classes = 2};
            assert_int_equal(bp_feed_init(&feed, &d.error), BP_OK);
            assert_int_equal(bp_feed_stage(&feed, 0, &group, scratch), BP_OK);
            assert_int_equal(labels[0], bits ? 0 : -1);
            assert_int_equal(group.valid, bits ? 2 : 0);
        }
        fixture_end(&d);
    }
    fixture d;
    fixture_begin(&d, NULL);
    d.may_lack = true;
    assert_int_equal(tokenise(&d, "a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}"),
                     BP_ERR_DATA);
    assert_int_equal(tokenise(&d, "a.tsv", "label\ttext\n1\tb\n"), BP_OK);
    assert_int_equal(d.tokens.head.unlabelled, 0);
    fixture_end(&d);
}

/* Templates in which one thing is otherwise: types of pairs that no model is given. */
static void types_of_pairs_are_known_or_others(void **state)
{
    (void)state;
    static const bp_pair_types wanted[] = {BP_PAIR_APART, BP_PAIR_OTHER, BP_PAIR_OTHER,
                                           BP_PAIR_OTHER, BP_PAIR_OTHER, BP_PAIR_OTHER,
                                           BP_PAIR_ALIKE};
    fixture d;
    fixture_begin(&d, "tests/golden/tokenizers/bert_uncased");
    const bp_template usual = d.words.tokenizer.rules.pair;
    for (int i = 0; i < 7; i++) {
        bp_template *pair = &d.words.tokenizer.rules.pair;
        *pair = usual;
        pair->type_a = i == 1 ? 1 : 0;
        pair->before.types[0] = i == 2 ? 1 : 0;
        pair->between.types[0] = i == 3 ? 1 : 0;
        pair->type_b = i == 4 ? 2 : i == 6 ? 0 : 1;
        pair->after.types[0] = i == 4 ? 2 : i >= 5 ? 0 : 1;
        assert_int_equal(bp_encoder_pair_types(&d.words.encoder), wanted[i]);
    }
    d.words.tokenizer.rules.pair = usual;
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_those_of_the_tokenizer),
        cmocka_unit_test(pairs_of_bytes),
        cmocka_unit_test(what_is_no_pair),
        cmocka_unit_test(rows_without_labels),
        cmocka_unit_test(types_of_pairs_are_known_or_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
