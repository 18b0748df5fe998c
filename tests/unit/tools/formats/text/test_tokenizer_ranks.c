/* SPDX-License-Identifier: MIT */
/* tiktoken's tokenizer.model of Llama 3 (ids: tests/golden/test_tokenizer_golden.c): its special
 * tokens, what stands around a text, and files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

/* The 256 bytes, and `more`. */
static const char *file_of(const char *more)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char text[1 << 15];
    size_t at = 0;
    for (unsigned b = 0; b < 256; b++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%c%c== %u\n", digits[b >> 2],
                               digits[(b & 3) << 4], b);
    }
    (void)snprintf(text + at, sizeof text - at, "%s", more);
    return text;
}

#define MORE "YmM= 256\nYWI= 257\n\neGE= 258\n" /* "bc", "ab", "xa" */

/* verifies formats-3.2920 */
static void pairs_are_joined_by_rank(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.model", file_of(MORE));
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_BYTE_BPE);
    assert_int_equal(bp_tokenizer_tokens(&d.tokenizer), 259 + 256);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->bos, 259);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 260);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<|start_header_id|>", 19), 265);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<|eot_id|>", 10), 268);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<|reserved_special_token_3|>", 28), 270);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<|reserved_special_token_247|>", 30), 514);
    fixture_encoder(&d, 512);
    fixture_encode(&d, "yabc<|eot_id|>ab", BP_ENCODE_TEMPLATE);
    /* y a bc: bc comes before ab */
    static const uint32_t wanted[] = {259, 'y', 'a', 256, 268, 257};
    assert_int_equal(d.count, 6);
    assert_memory_equal(d.ids, wanted, sizeof wanted);
    fixture_put(&d, "tokenizer_config.json",
                "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"add_bos_token\": false, "
                "\"eos_token\": \"<|eot_id|>\"}");
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 268);
    fixture_encoder(&d, 512);
    fixture_encode(&d, "ab", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 1);
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const char line[] = "line is a token in base64";
    static const struct {
        const char *more, *says;
    } rows[] = {{"YmM=", line},
                {"YmM= ", line},
                {" 256", line},
                {"Y~M= 256", line},
                {"YmM= 2x6", line},
                {"YmM= 257", line},
                {"YmM= -256", line},
                {"YmM= 1234567890", line},
                {"= 256", line},
                {"YmM= 256\nYmM= 257", "two tokens have the same text"},
                {"YQ== 256", "two tokens have the same text"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tokenizer_fixture d;
        fixture_init(&d);
        fixture_put(&d, "tokenizer.model", file_of(rows[i].more));
        fixture_refused(&d, rows[i].says);
        fixture_free(&d);
    }
}

/* verifies formats-4.b9c7 */
static void other_classes_are_refused(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.model", file_of(""));
    fixture_put(&d, "tokenizer_config.json", "{\"tokenizer_class\": \"XLMRobertaTokenizer\"}");
    fixture_refused(&d, "of tiktoken's files only Llama 3's");
    fixture_put(&d, "tokenizer.model", ""); /* neither this nor a model of SentencePiece's */
    fixture_put(&d, "tokenizer_config.json", "{}");
    fixture_refused(&d, "one piece must be of the type unknown");
    fixture_free(&d);
}

/* A line whose token is too long, and a name of which only the beginning is a token. */
/* verifies formats-4.b9c7 */
static void long_lines_and_names(void **state)
{
    (void)state;
    static char line[4 * BP_TOKENIZER_DECODED_MAX / 3 + 64];
    tokenizer_fixture d;
    fixture_init(&d);
    memset(line, 'Y', 4 * BP_TOKENIZER_DECODED_MAX / 3 + 8);
    strcpy(line + 4 * (BP_TOKENIZER_DECODED_MAX / 3 + 1), " 256");
    fixture_put(&d, "tokenizer.model", file_of(line));
    fixture_refused(&d, "line is a token in base64");
    fixture_put(&d, "tokenizer.model", file_of(""));
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_true(bp_tokenizer_find(&d.tokenizer, "<|eot_id|>", 10) > 0);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<|eot_id|>x", 11), -1);
    fixture_free(&d);
}

/* Merges and scored tokens that are no lists of what they should be, or longer than a token is. */
/* verifies formats-4.b9c7 */
static void lists_that_are_none(void **state)
{
    (void)state;
    enum { LONG = BP_TOKENIZER_DECODED_MAX + 100 };
    static char json[LONG + 1000], word[LONG + 1];
    static const char bpe[] = "{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},"
                              "\"merges\":[[%s%s%s,\"b\"]]}}";
    static const char list[] = "{%s\"model\":{\"type\":\"%s\",\"vocab\":[[\"%s\",0.0]]%s}}";
    tokenizer_fixture d;
    memset(word, 'w', LONG);
    for (int row = 0; row < 4; row++) {
        const bool lengthy = row % 2 != 0;
        fixture_init(&d);
        if (row < 2) {
            snprintf(json, sizeof json, bpe, lengthy ? "\"" : "", lengthy ? word : "1",
                     lengthy ? "\"" : "");
        } else {
            snprintf(json, sizeof json, list, row == 2 ? LEVEL : "", row == 2 ? "BPE" : "Unigram",
                     row == 2 ? "a" : word, row == 2 ? ",\"merges\":[]" : ",\"unk_id\":0");
        }
        fixture_put(&d, "tokenizer.json", json);
        fixture_refused(&d, row < 2 ? "a merge must be a list of two tokens" : "vocab");
        fixture_free(&d);
    }
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    snprintf(json, sizeof json, "{\"eos_token\":{\"content\":\"%s\"}}", word);
    fixture_put(&d, "tokenizer_config.json", json);
    assert_int_equal(fixture_open(&d),
                     BP_OK); /* no name can be so long: it is none of the vocabulary's */
    assert_true(bp_tokenizer_special_of(&d.tokenizer)->eos < 0);
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_joined_by_rank),  cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(other_classes_are_refused), cmocka_unit_test(long_lines_and_names),
        cmocka_unit_test(lists_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
