/* SPDX-License-Identifier: MIT */
/* Tokenizers' files: those that are right, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/formats/tokenizer_fixture.h"
#include "tools/formats/text/byte_tokenizer.h"

static void a_tokenizer_over_bytes_passes_every_byte(void **state)
{
    (void)state;
    tokenizer_fixture d;
    char json[BP_BYTE_TOKENIZER_TEXT];
    unsigned char bytes[256];
    size_t length;
    fixture_init(&d);
    assert_int_equal(bp_byte_tokenizer_text(json, &length), BP_OK);
    memory_store_put(&d.memory, "tokenizer.json", json, length);
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_BYTES);
    assert_int_equal(bp_tokenizer_tokens(&d.tokenizer), 256);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, -1);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "\xc4\xa0", 2), ' ');
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "ab", 2), -1);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN);
    for (int i = 0; i < 256; i++) {
        bytes[i] = (unsigned char)(255 - i);
    }
    bp_encoder_text(&d.encoder, bytes, 256, BP_ENCODE_PLAIN, d.ids, IDS, &d.count);
    assert_int_equal(d.count, 256);
    bp_decoder decoder = {.begun = false};
    for (int i = 0; i < 256; i++) {
        char text[BP_TOKENIZER_DECODED_MAX];
        assert_int_equal(d.ids[i], bytes[i]);
        assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, d.ids[i], text, &length), BP_OK);
        assert_int_equal(length, 1);
        assert_int_equal((unsigned char)text[0], bytes[i]);
    }
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void bad_vocabularies_and_merges_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        const char *merges;
        const char *wanted;
    } cases[] = {
        {",\"a\":256", "", "two tokens have the same text"},
        {",\"ab\":255", "", "two tokens have the same id"},
        {",\"ab\":-1", "", "out of range"},
        {",\"ab\":4194304", "", "out of range"},
        {",\"ab\":99999999999999999999999", "", "must be a whole number"},
        {",\"ab\":1e400", "", "tokenizer.json"},
        {",\"ab\":256.0", "", "must be a whole number"},
        {",\"ab\":\"256\"", "", "must be a whole number"},
        {",\"ab\":[256]", "", "must be a whole number"},
        {",\"ab\":4000000", "", "too many ids below the largest have no token"},
        {"", "\"a b\"", "a token that the vocabulary lacks"},
        {",\"ab\":256", "\"a x y\"", "one space between"},
        {",\"ab\":256", "\"ab\"", "one space between"},
        {",\"ab\":256", "\" ab\"", "a merge must be of two tokens"},
        {",\"ab\":256", "\"a b\",\"a b\"", "a pair is merged twice"},
        {",\"ab\":256", "[\"a\"]", "a list of two tokens"},
        {",\"ab\":256", "[\"a\",\"b\",\"c\"]", "a list of two tokens"},
        {",\"ab\":256", "[\"a\",1]", "a list of two tokens"},
        {",\"ab\":256", "3", "a text or a list of two"},
        {",\"ab\":256", "\"\xe4\xb8\x80 b\"", "a token that the vocabulary lacks"},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, cases[i].more, cases[i].merges));
        fixture_refused(&d, cases[i].wanted);
    }
    fixture_put(&d, "tokenizer.json",
                fixture_bpe(LEVEL, ",\"ab\":256,\"\xe4\xb8\x80\":260", "[\"a\",\"b\"]"));
    assert_int_equal(fixture_open(&d), BP_OK); /* 257 .. 259 have no token */
    char text[BP_TOKENIZER_DECODED_MAX];
    size_t length;
    bp_decoder decoder = {.begun = false};
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 258, text, &length), BP_ERR_DATA);
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 261, text, &length), BP_ERR_DATA);
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 260, text, &length), BP_OK);
    assert_int_equal(length, 3); /* a text that is made of no byte characters stays as it is */
    fixture_free(&d);
}

/* Opens a tokenizer with each of the settings and sees it refused with the text beside it. */
static void each_is_refused(const char *const (*cases)[2], size_t count)
{
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < count; i++) {
        fixture_put(&d, "tokenizer.json", fixture_bpe(cases[i][0], "", ""));
        fixture_refused(&d, cases[i][1]);
    }
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void settings_of_text_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"chat\":1,", "chat: this part"},
        {LEVEL LEVEL, "a key is there twice"},
        {"\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},",
         "model BPE.byte_fallback"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"x\":1},", "pre_tokenizer ByteLevel.x"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":1},",
         "use_regex: this setting must"},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"type\":\"ByteLevel\"},",
         "a key is there twice"},
        {LEVEL "\"normalizer\":3,", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"NFC\",\"x\":1},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"x\"},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"Prepend\",\"x\":\"x\"},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"Replace\",\"x\":1},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"}},",
         "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"}},",
         "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":1},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":1},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"BertNormalizer\",\"handle_chinese_chars\":1},",
         "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"BertNormalizer\",\"strip_accents\":1},", "normalizer"},
        {LEVEL "\"normalizer\":{\"type\":\"BertNormalizer\",\"x\":1},", "normalizer"},
        {"\"pre_tokenizer\":3,", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"x\":1},", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\"},", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":true},",
         "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
         "\"pattern\":{\"String\":\"x\"}},",
         "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"x\":1},", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"x\"},", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\"},", "pre_tokenizer"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"X\"}]},",
         "pre_tokenizer"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0]);
}

/* verifies formats-4.b9c7 */
static void decoders_and_tokens_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {LEVEL "\"decoder\":3,", "decoder"},
        {LEVEL "\"decoder\":{\"type\":\"Sequence\"},", "decoder"},
        {LEVEL "\"post_processor\":3,", "post_processor"},
        {LEVEL "\"post_processor\":{\"type\":\"Sequence\"},", "post_processor"},
        {LEVEL "\"normalizer\":{\"type\":\"Lowercase\"},", "normalizer Lowercase"},
        {LEVEL "\"normalizer\":{\"type\":\"Sequence\"},", "normalizer Sequence.normalizers"},
        {LEVEL "\"decoder\":{\"type\":\"CTC\"},", "decoder CTC"},
        {LEVEL "\"post_processor\":{\"type\":\"X\"},", "post_processor X"},
        {LEVEL
         "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",900],\"cls\":[\"a\",1]},",
         "adds an id that no token has"},
        {LEVEL "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":900,\"cls\":[\"a\",1]},",
         "cls and sep must be"},
        {LEVEL "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"pair\":[],"
               "\"special_tokens\":{}},",
         "post_processor TemplateProcessing.single"},
        {LEVEL "\"added_tokens\":[{\"id\":1,\"content\":\"zz\"}],", "the id of another token"},
        {LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"a\"}],",
         "another id in the vocabulary"},
        {LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"\"}],", "empty or too long"},
        {LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"\xc4\xa0x\"}],", "stand for bytes"},
        {LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"zz\",\"single_word\":1}],",
         "added_tokens.single_word"},
        {LEVEL "\"added_tokens\":[{\"id\":300}],", "needs an id and a content"},
        {LEVEL
         "\"added_tokens\":[{\"id\":300,\"content\":\"zz\"},{\"id\":300,\"content\":\"zz\"}],",
         "there twice"},
        {LEVEL "\"added_tokens\":{},", "added_tokens: this part must be a list"},
        {LEVEL
         "\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"id\":300,\"content\":\"zz\"}],",
         "normalized true"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0]);
}

/* verifies formats-4.b9c7 */
static void deep_and_long_documents_are_refused(void **state)
{
    (void)state;
    tokenizer_fixture d;
    char settings[8192] = "\"normalizer\":";
    fixture_init(&d);
    memset(settings + strlen(settings), '[', 100);
    fixture_put(&d, "tokenizer.json", fixture_bpe(settings, "", ""));
    fixture_refused(&d, "");
    /* more nodes than a tree has */
    static char long_text[60000];
    size_t at = (size_t)snprintf(long_text, sizeof long_text, "\"decoder\":[1");
    while (at < 3000) {
        at += (size_t)snprintf(long_text + at, sizeof long_text - at, ",1");
    }
    snprintf(long_text + at, sizeof long_text - at, "],");
    fixture_put(&d, "tokenizer.json", fixture_bpe(long_text, "", ""));
    fixture_refused(&d, "too many parts");
    /* more text than a tree has, in pieces and in one string */
    at = (size_t)snprintf(long_text, sizeof long_text, "\"decoder\":[\"x\"");
    while (at < 30000) {
        at += (size_t)snprintf(long_text + at, sizeof long_text - at, ",\"%0200d\"", 0);
    }
    snprintf(long_text + at, sizeof long_text - at, "],");
    fixture_put(&d, "tokenizer.json", fixture_bpe(long_text, "", ""));
    fixture_refused(&d, "too long");
    snprintf(long_text, sizeof long_text, "\"decoder\":\"%030000d\",", 0);
    fixture_put(&d, "tokenizer.json", fixture_bpe(long_text, "", ""));
    fixture_refused(&d, "too long");
    snprintf(long_text, sizeof long_text, ",\"%09000d\":300", 0);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, long_text, ""));
    fixture_refused(&d, "too long");
    fixture_free(&d);
}

/* verifies formats-18.2618 */
static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    const char *json = fixture_bpe(LEVEL, ",\"ab\":256", "\"a b\"");
    size_t length = strlen(json);
    for (size_t cut = 0; cut < length; cut += 1 + cut / 64) {
        memory_store_put(&d.memory, "tokenizer.json", json, cut);
        fixture_refused(&d, "tokenizer.json");
    }
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void other_files_are_checked_too(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, &d.error),
                     BP_OK);
    assert_int_equal(d.need.files, BP_TOKENIZER_NONE);
    fixture_put(&d, "tokenizer.model", "x");
    fixture_refused(&d, "neither a model of SentencePiece nor tiktoken's");
    fixture_put(&d, "tokenizer.model", "\n");
    fixture_refused(&d, "the model is cut off");
    fixture_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##b\n");
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->cls, 1);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->mask, -1);
    assert_true(bp_tokenizer_is_special(&d.tokenizer, 2));
    assert_false(bp_tokenizer_is_special(&d.tokenizer, 3));
    uint64_t digest = bp_tokenizer_digest(&d.tokenizer);
    fixture_put(&d, "vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n##b");
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "##b", 3), 4);
    assert_true(digest != bp_tokenizer_digest(&d.tokenizer));
    fixture_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\na\n");
    fixture_refused(&d, "the same text");
    fixture_put(&d, "vocab.txt", "[UNK]\n[SEP]\n");
    fixture_refused(&d, "[CLS] and [SEP]");
    fixture_put(&d, "vocab.txt", "[CLS]\n[SEP]\n");
    fixture_refused(&d, "unknown words");
    fixture_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n\xc3\n");
    fixture_refused(&d, "not UTF-8");
    fixture_put(&d, "vocab.txt", "");
    fixture_refused(&d, "empty");
    fixture_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
    fixture_put(&d, "tokenizer_config.json", "{\"tokenizer_class\": \"RobertaTokenizer\"}");
    fixture_refused(&d, "RobertaTokenizer");
    fixture_put(&d, "tokenizer_config.json", "{\"do_lower_case\": 1}");
    fixture_refused(&d, "do_lower_case");
    fixture_put(&d, "tokenizer_config.json", "{\"unk_token\": 1}");
    fixture_refused(&d, "unk_token");
    fixture_put(&d, "tokenizer_config.json", "[]");
    fixture_refused(&d, "one JSON object");
    fixture_put(&d, "tokenizer_config.json",
                "{\"pad_token\": {\"content\": \"[CLS]\"}, \"sep_token\": null, \"other\": [{}]}");
    fixture_refused(&d, "[CLS] and [SEP]"); /* null: none */
    fixture_put(&d, "vocab.json", "{\"a\": 0}");
    fixture_free(&d);
    fixture_init(&d);
    fixture_put(&d, "vocab.json", "{\"a\": 0}");
    fixture_refused(&d, "merges.txt is missing");
    fixture_put(&d, "merges.txt", "#version: 0.2\n");
    fixture_refused(&d, "no token for a byte");
    fixture_free(&d);
}

/* verifies formats-60.9449 */
static void a_vocabulary_that_changes_is_noticed(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, ",\"ab\":256,\"bc\":257", "\"a b\""));
    assert_int_equal(bp_tokenizer_open(&d.tokenizer, &d.memory.store, "", &d.need, d.tables,
                                       fixture_scratch, &d.error),
                     BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "changed"));
    fixture_free(&d);
}

/* verifies formats-24.7573 */
static void every_failing_read_is_reported(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_EXISTS};
    tokenizer_fixture d;
    faulty_store faulty;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    fixture_put(&d, "tokenizer_config.json", "{\"eos_token\": \"ab\"}");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t failures = 0;
        for (uint32_t call = 1; call < 40; call++) {
            faulty_store_init(&faulty, &d.memory.store);
            faulty_store_arm(&faulty, kinds[i], call, false);
            bp_status status = fixture_open_with(&d, &faulty.store);
            failures += status == BP_ERR_STORE;
            assert_true(status == BP_ERR_STORE || status == BP_OK);
            assert_int_equal(d.memory.open_files, 0);
        }
        assert_true(failures >= 6 && failures < 39);
    }
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 256);
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_over_bytes_passes_every_byte),
        cmocka_unit_test(bad_vocabularies_and_merges_are_refused),
        cmocka_unit_test(settings_of_text_that_are_not_implemented_are_named),
        cmocka_unit_test(decoders_and_tokens_that_are_not_implemented_are_named),
        cmocka_unit_test(deep_and_long_documents_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(other_files_are_checked_too),
        cmocka_unit_test(a_vocabulary_that_changes_is_noticed),
        cmocka_unit_test(every_failing_read_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
