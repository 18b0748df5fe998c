/* SPDX-License-Identifier: MIT */
/* vocab.json, merges.txt, vocab.txt and tokenizer_config.json, and files that change while they are
 * read. Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/formats/tokenizer_fixture.h"

static void put_quoted(tokenizer_fixture *d, const char *name, const char *text)
{
    static char json[JSON_MAX];
    size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    fixture_put(d, name, json);
}

/* A vocab.json of all bytes and `more`. */
static void put_vocabulary(tokenizer_fixture *d, const char *more)
{
    const char *json = strstr(fixture_bpe("", more, ""), "\"vocab\":") + 8;
    size_t length = (size_t)(strstr(json, "},\"merges\"") - json) + 1;
    memory_store_put(&d->memory, "vocab.json", json, length);
}

static void opens(tokenizer_fixture *d)
{
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
    fixture_encoder(d, BP_ENCODER_WORD_MIN);
}

static void gives(tokenizer_fixture *d, const char *text, unsigned flags, const uint32_t *ids,
                  size_t count)
{
    fixture_encode(d, text, flags);
    assert_int_equal(d->count, count);
    assert_memory_equal(d->ids, ids, count * sizeof *ids);
}

#define GIVES(d, text, flags, ...)                                                                 \
    gives(d, text, flags, (const uint32_t[]){__VA_ARGS__},                                         \
          sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

#define MORE ",\"ab\":256,\"<|endoftext|>\":257,\"\xc4\xa0\x61\":258"

/* verifies formats-4.b9c7 */
static void merges_are_two_tokens_a_line(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"a b c\n", "not two tokens with one space between them"},
        {"a  b\n", "not two tokens with one space between them"},
        {"ab\n", "not two tokens with one space between them"},
        {"a b\n#version: 0.2\n", "a token that the vocabulary lacks"},
        {" ab\n", "a merge must be of two tokens"},
        {"ab \n", "a merge must be of two tokens"},
        {"a zz\n", "a token that the vocabulary lacks"},
        {"zz a\n", "a token that the vocabulary lacks"},
        {"b a\n", "a token that the vocabulary lacks"},
        {"a \xe4\xb8\x80\n", "a token that the vocabulary lacks"},
        {"\xe4\xb8\x80 a\n", "a token that the vocabulary lacks"},
        {"a b\n\xf0\x90\x80", "a line is not UTF-8"},
        {"a b\n\xf0\x90\x80z z\n", "a line is not UTF-8"},
    };
    static const char *const good[] = {"#version: 0.2\na b\n", "#version: 0.2\n\n\na b", "a b\r\n",
                                       "\na b\n"};
    tokenizer_fixture d;
    fixture_init(&d);
    put_vocabulary(&d, MORE);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fixture_put(&d, "merges.txt", refused[i][0]);
        fixture_refused(&d, refused[i][1]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fixture_put(&d, "merges.txt", good[i]);
        opens(&d);
        GIVES(&d, "ab", BP_ENCODE_PLAIN, 256);
    }
    char line[2 * BP_TOKENIZER_DECODED_MAX + 70];
    memset(line, 'a', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    fixture_put(&d, "merges.txt", line);
    fixture_refused(&d, "a line is too long");
    line[9000] = ' ';
    line[9002] = '\0';
    fixture_put(&d, "merges.txt", line);
    fixture_refused(&d, "a merge must be of two tokens");
    line[1] = ' ';
    line[9000] = 'a';
    fixture_put(&d, "merges.txt", line);
    fixture_refused(&d, "a merge must be of two tokens");
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void the_configuration_sets_gpt2(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    put_vocabulary(&d, MORE);
    fixture_put(&d, "merges.txt", "a b\n\xc4\xa0 a\n");
    opens(&d);
    GIVES(&d, "ab", BP_ENCODE_TEMPLATE, 256);
    put_quoted(&d, "tokenizer_config.json", "{'add_bos_token':true,'bos_token':'<|endoftext|>'}");
    opens(&d);
    GIVES(&d, "ab", BP_ENCODE_TEMPLATE, 257, 256);
    assert_int_equal(bp_encoder_pair(&d.encoder, "ab", 2, "ab", 2, BP_ENCODE_TEMPLATE, d.ids, NULL,
                                     IDS, &d.count, NULL),
                     BP_OK);
    assert_int_equal(d.count, 4);
    assert_int_equal(d.ids[0], 257);
    assert_int_equal(d.ids[2], 257);
    put_quoted(&d, "tokenizer_config.json", "{'add_bos_token':true,'bos_token':null}");
    opens(&d);
    GIVES(&d, "ab", BP_ENCODE_TEMPLATE, 256);
    put_quoted(&d, "tokenizer_config.json", "{'add_bos_token':null,'add_prefix_space':true}");
    opens(&d);
    GIVES(&d, "ac", BP_ENCODE_TEMPLATE, 258, 'c');
    GIVES(&d, " ac", BP_ENCODE_TEMPLATE, 258, 'c');
    put_quoted(&d, "tokenizer_config.json", "{'tokenizer_class':'BertTokenizer'}");
    fixture_refused(
        &d, "of vocab.json with merges.txt only GPT2Tokenizer and CLIPTokenizer are implemented");
    put_quoted(&d, "tokenizer_config.json", "{'tokenizer_class':'GPT2TokenizerFast'}");
    opens(&d);
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void names_of_special_tokens(void **state)
{
    (void)state;
    static char longest[40000];
    static const char *const refused[][2] = {
        {"{'add_prefix_space':3}", "add_prefix_space: this must be true, false or null"},
        {"{'add_bos_token':'x'}", "add_bos_token: this must be true, false or null"},
        {"{'tokenize_chinese_chars':[]}", "tokenize_chinese_chars: this must be true"},
        {"{'strip_accents':3}", "strip_accents: this must be true, false or null"},
        {"{'eos_token':{'content':3}}", "eos_token: the content must be a text"},
        {"{'eos_token':[]}", "eos_token: this must be a text, an object"},
        {"{'eos_token':{'content'", "tokenizer_config.json"},
        {"{'eos_token':'a", "tokenizer_config.json"},
        {"{'eos_token':{'other':[}", "tokenizer_config.json"},
        {"{'other':[}", "tokenizer_config.json"},
        {"{'eos_token':'a'} x", "tokenizer_config.json"},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    put_vocabulary(&d, MORE);
    fixture_put(&d, "merges.txt", "a b\n");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        put_quoted(&d, "tokenizer_config.json", refused[i][0]);
        fixture_refused(&d, refused[i][1]);
    }
    put_quoted(&d, "tokenizer_config.json",
               "{'eos_token':{'lstrip':false,'content':'ab','other':[1,{}]},'pad_token':'a'}");
    opens(&d);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 256);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->pad, 'a');
    /* A text that no name can be, short of what is read at once and beyond it. */
    for (int length = 64; length < 20000; length += 18000) {
        snprintf(longest, sizeof longest, "{'eos_token':'%0*d','pad_token':{'content':'%0*d'}}",
                 length, 0, length, 0);
        put_quoted(&d, "tokenizer_config.json", longest);
        opens(&d);
        assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, -1);
        assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->pad, -1);
    }
    snprintf(longest, sizeof longest, "{'eos_token':'%018000d", 0);
    put_quoted(&d, "tokenizer_config.json", longest);
    fixture_refused(&d, "tokenizer_config.json");
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void the_configuration_sets_bert(void **state)
{
    (void)state;
    static const char words[] =
        "[UNK]\n[CLS]\n[SEP]\ne\n\xc3\xa9\n\xe4\xb8\xad\n##\xe4\xb8\xad\nE\n";
    static const char two[] = "\xe4\xb8\xad\xe4\xb8\xad";
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "vocab.txt", words);
    opens(&d);
    GIVES(&d, "\xc3\xa9", BP_ENCODE_TEMPLATE, 1, 3, 2);
    GIVES(&d, two, BP_ENCODE_PLAIN, 5, 5);
    put_quoted(&d, "tokenizer_config.json",
               "{'tokenize_chinese_chars':false,'strip_accents':false,'tokenizer_class':"
               "'BertTokenizerFast'}");
    opens(&d);
    GIVES(&d, "\xc3\xa9", BP_ENCODE_PLAIN, 4);
    GIVES(&d, two, BP_ENCODE_PLAIN, 5, 6);
    put_quoted(&d, "tokenizer_config.json", "{'do_lower_case':false,'strip_accents':true}");
    opens(&d);
    GIVES(&d, "\xc3\x89", BP_ENCODE_PLAIN, 7);
    put_quoted(&d, "tokenizer_config.json", "{'do_lower_case':true,'strip_accents':null}");
    opens(&d);
    GIVES(&d, "\xc3\x89", BP_ENCODE_PLAIN, 3);
    put_quoted(&d, "tokenizer_config.json", "{'tokenizer_class':'GPT2Tokenizer'}");
    fixture_refused(&d, "of vocab.txt only BertTokenizer is implemented");
    fixture_free(&d);
}

/* ---- Storage ---- */

static bp_status too_long(bp_store *store, bp_file file, uint64_t *bytes)
{
    (void)store;
    (void)file;
    *bytes = (uint64_t)BP_TOKENIZER_FILE_MAX + 1;
    return BP_OK;
}

/* verifies formats-4.b9c7 */
static void files_that_cannot_be_read(void **state)
{
    (void)state;
    static char path[BP_STORE_PATH_MAX + 8];
    static char words[40000] = "[UNK]\n[CLS]\n[SEP]\n";
    tokenizer_fixture d;
    faulty_store faulty;
    fixture_init(&d);
    for (unsigned i = 0; i < 4000; i++) {
        snprintf(words + strlen(words), 9, "t%u\n", i);
    }
    fixture_put(&d, "vocab.txt", words);
    bp_store store = d.memory.store;
    store.file_size = too_long;
    assert_int_equal(fixture_open_with(&d, &store), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "the file is too long"));
    assert_int_equal(d.error.found, (int64_t)BP_TOKENIZER_FILE_MAX + 1);
    memset(path, 'p', sizeof path - 1);
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, path, fixture_scratch, &d.need, NULL),
                     BP_ERR_USAGE);
    /* Every read fails once; the file takes several. */
    uint32_t call = 0;
    bp_status status;
    do {
        faulty_store_init(&faulty, &d.memory.store);
        faulty_store_arm(&faulty, FAULT_READ_AT, ++call, false);
        status = fixture_open_with(&d, &faulty.store);
        assert_true(status == BP_ERR_STORE || status == BP_OK);
    } while (status == BP_ERR_STORE);
    assert_true(call > 6);
    /* Nobody has to want the error. */
    fixture_put(&d, "vocab.txt", "a\n");
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, NULL),
                     BP_OK);
    assert_int_equal(bp_tokenizer_open(&d.tokenizer, &d.memory.store, "", &d.need, d.tables,
                                       fixture_scratch, NULL),
                     BP_ERR_DATA);
    fixture_free(&d);
}

/* Every read of a document that takes several fails once. */
/* verifies formats-4.b9c7 */
static void documents_that_cannot_be_read(void **state)
{
    (void)state;
    static char more[60000];
    tokenizer_fixture d;
    faulty_store faulty;
    fixture_init(&d);
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(more + strlen(more), 20, ",\"x%04u\":%u", i, 1000 + i);
    }
    strcat(more, ",\"ab\":256");
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL "\"added_tokens\":[],", more, "\"a b\""));
    uint32_t call = 0;
    bp_status status;
    do {
        faulty_store_init(&faulty, &d.memory.store);
        faulty_store_arm(&faulty, FAULT_READ_AT, ++call, false);
        status = fixture_open_with(&d, &faulty.store);
        assert_true(status == BP_ERR_STORE || status == BP_OK);
    } while (status == BP_ERR_STORE);
    assert_true(call > 12);
    fixture_free(&d);
}

/* verifies formats-60.9449 */
static void files_that_are_others_than_were_measured(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    opens(&d);
    const bp_tokenizer_need need = d.need;
    for (int i = 0; i < 8; i++) {
        bp_tokenizer_need other = need;
        other.files = i == 0 ? BP_TOKENIZER_BERT : other.files;
        other.bytes += i == 1;
        other.tokens += i == 2;
        other.entries += i == 3;
        other.merges += i == 4;
        other.added += i == 5;
        other.text_bytes += i == 6;
        other.map_bytes += i == 7;
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_tokenizer_open(&d.tokenizer, &d.memory.store, "", &other, d.tables,
                                           fixture_scratch, &d.error),
                         BP_ERR_DATA);
        assert_string_equal(d.error.text, "the tokenizer's files changed since they were measured");
    }
    tokenizer_fixture none;
    fixture_init(&none);
    assert_int_equal(bp_tokenizer_open(&d.tokenizer, &none.memory.store, "", &need, d.tables,
                                       fixture_scratch, &d.error),
                     BP_ERR_DATA);
    fixture_free(&none);
    fixture_free(&d);
}

/* A store whose tokenizer.json is another one from the n-th opening on. */
static struct {
    memory_store *memory;
    const char *other;
    int left;
} turning;

static bp_status open_turning(bp_store *store, const char *path, bp_file *file)
{
    if (--turning.left == 0) {
        memory_store_put(turning.memory, "tokenizer.json", turning.other, strlen(turning.other));
    }
    return turning.memory->store.open_read(store, path, file);
}

/* verifies formats-60.9449 */
static void files_that_change_between_passes(void **state)
{
    (void)state;
#define TWO_ADDED "\"added_tokens\":[{\"id\":97,\"content\":\"a\"},{\"id\":98,\"content\":\"b\"}],"
    static char many[12000], merges[12000];
    for (unsigned i = 0; i < 300; i++) {
        snprintf(many + strlen(many), 20, ",\"%c%c\":%u", 'a' + (int)(i / 26), 'a' + (int)(i % 26),
                 300 + i);
        snprintf(merges + strlen(merges), 20, "%s\"%c %c\"", i > 0 ? "," : "", 'a' + (int)(i / 26),
                 'a' + (int)(i % 26));
    }
    char first[800];
    char long_one[700];
    memset(long_one, 'z', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    snprintf(first, sizeof first, ",\"aa\":900,\"%s\":901", long_one);
    char longer[3000];
    snprintf(longer, sizeof longer, ",\"%02500d\":900", 0);
    const struct {
        const char *settings, *more, *merges; /* of the other file */
        int pass;                             /* that finds it: the second or the third */
        const char *name;
    } cases[] = {
        {LEVEL, ",\"aa\":1900", "", 2, "tokenizer.json: vocab"},
        {LEVEL, many, "", 2, "tokenizer.json: vocab"},
        {LEVEL, longer, "", 2, "tokenizer.json: vocab"},
        {LEVEL TWO_ADDED, ",\"aa\":900", "", 3, "tokenizer.json: added_tokens"},
        {LEVEL, many, merges, 3, "tokenizer.json: merges"},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char other[JSON_MAX];
        snprintf(other, sizeof other, "%s",
                 fixture_bpe(cases[i].settings, cases[i].more, cases[i].merges));
        const char *more = cases[i].pass == 2 ? first : many;
        fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, more, ""));
        d.error = (bp_error){.code = BP_OK};
        free(d.tables);
        assert_int_equal(
            bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, &d.error), BP_OK);
        d.tables = malloc((size_t)d.need.bytes);
        turning.memory = &d.memory;
        turning.other = other;
        turning.left = cases[i].pass;
        bp_store store = d.memory.store;
        store.open_read = open_turning;
        assert_int_equal(bp_tokenizer_open(&d.tokenizer, &store, "", &d.need, d.tables,
                                           fixture_scratch, &d.error),
                         BP_ERR_DATA);
        assert_string_equal(d.error.name, cases[i].name);
        assert_string_equal(d.error.text, "the file changed while it was read");
    }
    fixture_free(&d);
}

/* Scores have a place where the file had them when it was measured. */
/* verifies formats-60.9449 */
static void scores_that_come_between_passes(void **state)
{
    (void)state;
    static const char scored[] =
        "{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":[[\"a\",-1]],\"merges\":[]}}";
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, "", ""));
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, &d.error),
                     BP_OK);
    d.tables = malloc((size_t)d.need.bytes);
    turning.memory = &d.memory;
    turning.other = scored;
    turning.left = 2;
    bp_store store = d.memory.store;
    store.open_read = open_turning;
    assert_int_equal(
        bp_tokenizer_open(&d.tokenizer, &store, "", &d.need, d.tables, fixture_scratch, &d.error),
        BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "is the vocabulary of Unigram alone"));
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_two_tokens_a_line),
        cmocka_unit_test(the_configuration_sets_gpt2),
        cmocka_unit_test(names_of_special_tokens),
        cmocka_unit_test(the_configuration_sets_bert),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(documents_that_cannot_be_read),
        cmocka_unit_test(files_that_are_others_than_were_measured),
        cmocka_unit_test(files_that_change_between_passes),
        cmocka_unit_test(scores_that_come_between_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
