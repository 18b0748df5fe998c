/* SPDX-License-Identifier: MIT */
/* tekken.json: what it gives, its special tokens, and files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

/* Mistral's pattern as it stands in its files. */
#define PATTERN                                                                                    \
    "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"              \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"                        \
    "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|"       \
    "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"      \
    "\\\\s+\""
#define CONFIG(size, specials)                                                                     \
    "\"config\":{\"pattern\":" PATTERN ",\"default_vocab_size\":" #size                            \
    ",\"default_num_special_tokens\":" #specials "},"

/* {config "vocab":[256 bytes and `more`] rest} */
static const char *file_of(const char *config, const char *more, const char *rest)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char text[1 << 16];
    size_t at = (size_t)snprintf(text, sizeof text, "{%s\"vocab\":[", config);
    for (unsigned b = 0; b < 256; b++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%s{\"rank\":%u,\"token_bytes\":\"%c%c==\",\"token_str\":null}",
                               b > 0 ? "," : "", b, digits[b >> 2], digits[(b & 3) << 4]);
    }
    (void)snprintf(text + at, sizeof text - at, "%s]%s}", more, rest);
    return text;
}

/* "bc", "ab", "xa": ranks 256 to 258 */
#define MORE                                                                                       \
    ",{\"rank\":256,\"token_bytes\":\"YmM=\"},{\"rank\":257,\"token_bytes\":\"YWI=\"},"            \
    "{\"rank\":258,\"token_bytes\":\"eGE=\"}"

/* verifies formats-3.2920 */
static void pairs_are_joined_by_rank(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tekken.json", file_of(CONFIG(279, 20), MORE, ""));
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_BYTE_BPE);
    assert_int_equal(bp_tokenizer_tokens(&d.tokenizer), 279);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "[INST]", 6), 3);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->bos, 1);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 2);
    fixture_encoder(&d, 512);
    fixture_encode(&d, "yabc[INST]ab", BP_ENCODE_TEMPLATE);
    /* <s> y a bc [INST] ab: bc comes before ab */
    static const uint32_t wanted[] = {1, 'y' + 20, 'a' + 20, 276, 3, 277};
    assert_int_equal(d.count, 6);
    assert_memory_equal(d.ids, wanted, sizeof wanted);
    fixture_encode(&d, "[INST]", BP_ENCODE_LITERAL);
    assert_int_equal(d.count, 6);
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void special_tokens_have_the_names_of_the_file(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(
        &d, "tekken.json",
        file_of(CONFIG(278, 22), "",
                ",\"special_tokens\":[{\"rank\":0,\"token_str\":\"<unk>\",\"is_control\":true},"
                "{\"rank\":1,\"token_str\":\"<s>\"}],\"more\":{}"));
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<SPECIAL_2>", 11), 2);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<SPECIAL_21>", 12), 21);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "[INST]", 6), -1);
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *more, *rest, *says;
    } rows[] = {
        {"", "", "", "vocab"},
        {"\"config\":{},", "", "", "it needs a pattern"},
        {"\"config\":7,", "", "", "config"},
        {"\"config\":{\"pattern\":\"a+\"},", "", "", "this pattern is not implemented"},
        {CONFIG(x, 20), "", "", "tekken.json"},
        {CONFIG(-1, 20), "", "", "config.default_vocab_size"},
        {CONFIG(276, 3), "", "", "fewer special tokens"},
        {CONFIG(20, 20), "", "", "fewer special tokens"},
        {CONFIG(277, 20), "", "", "fewer tokens than config declares"},
        {CONFIG(277, 20), ",{\"rank\":257,\"token_bytes\":\"YWI=\"}", "", "ranks from 0 on"},
        {CONFIG(277, 20), ",{\"rank\":256,\"token_bytes\":\"\"}", "", "ranks from 0 on"},
        {CONFIG(277, 20), ",{\"rank\":256,\"token_bytes\":\"Y~\"}", "", "base64"},
        {CONFIG(277, 20), ",{\"rank\":256,\"token_bytes\":7}", "", "base64"},
        {CONFIG(277, 20), ",{\"rank\":1.5,\"token_bytes\":\"YWI=\"}", "", "vocab.rank"},
        {CONFIG(277, 20), ",{\"rank\":256,\"token_bytes\":\"YQ==\"}", "", "token"},
        {CONFIG(277, 20), ",7", "", "a token must be an object"},
        {CONFIG(276, 20), "", ",\"special_tokens\":7", "special_tokens"},
        {CONFIG(276, 20), "", ",\"special_tokens\":[7]", "a token must be an object"},
        {CONFIG(276, 20), "", ",\"special_tokens\":[{\"rank\":1,\"token_str\":\"a\"}]",
         "texts and ranks"},
        {CONFIG(276, 20), "", ",\"special_tokens\":[{\"rank\":0,\"token_str\":\"\"}]",
         "texts and ranks"},
        {CONFIG(276, 20), "", "}", "tekken.json"},
        {CONFIG("276", 20), "", "", "config.default_vocab_size"},
        {CONFIG(4194305, 20), "", "", "config.default_vocab_size"},
        {"\"config\":{\"pattern\":7},", "", "", "this pattern is not implemented"},
        {CONFIG(276, 20) "\"vocab\":7,", "", "", "a list behind config"},
        {CONFIG(276, 20) CONFIG(276, 20), "", "", "config: a key is there twice"},
        {CONFIG(276, 20), "", ",\"vocab\":[]", "vocab: a key is there twice"},
        {CONFIG(276, 20) "\"special_tokens\":[],", "", "", "a list behind vocab"},
        {CONFIG(276, 20), "", ",\"special_tokens\":[{\"rank\":0,\"token_str\":7}]",
         "texts and ranks"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tokenizer_fixture d;
        fixture_init(&d);
        fixture_put(&d, "tekken.json", file_of(rows[i].config, rows[i].more, rows[i].rest));
        fixture_refused(&d, rows[i].says);
        fixture_free(&d);
    }
}

/* verifies formats-4.b9c7 */
static void what_is_too_much_is_refused(void **state)
{
    (void)state;
    static char rest[16384], long_text[12000];
    tokenizer_fixture d;
    fixture_init(&d);
    /* 21 special tokens, one more than there may be. */
    size_t at = (size_t)sprintf(rest, ",\"special_tokens\":[");
    for (int i = 0; i < 21; i++) {
        at += (size_t)sprintf(rest + at, "%s{\"rank\":%d,\"token_str\":\"s%d\"}", i > 0 ? "," : "",
                              i, i);
    }
    sprintf(rest + at, "]");
    fixture_put(&d, "tekken.json", file_of(CONFIG(276, 20), "", rest));
    fixture_refused(&d, "texts and ranks");
    /* A name of 300 bytes; a token of 9000. */
    memset(long_text, 'A', sizeof long_text);
    sprintf(rest, ",\"special_tokens\":[{\"rank\":0,\"token_str\":\"%.300s\"}]", long_text);
    fixture_put(&d, "tekken.json", file_of(CONFIG(276, 20), "", rest));
    fixture_refused(&d, "texts and ranks");
    sprintf(rest, ",{\"rank\":256,\"token_bytes\":\"%.12000s\"}", long_text);
    fixture_put(&d, "tekken.json", file_of(CONFIG(277, 20), rest, ""));
    fixture_refused(&d, "base64");
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_joined_by_rank),
        cmocka_unit_test(special_tokens_have_the_names_of_the_file),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(what_is_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
