/* SPDX-License-Identifier: MIT */
/* SentencePiece's own models (ids: tests/golden/test_tokenizer_golden.c): what goes around a text,
 * what is refused, damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

#define GOLDEN "tests/golden/tokenizers/"

static unsigned char *read_model(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void put_model(tokenizer_fixture *d, const char *name, const void *bytes, size_t size)
{
    memory_store_put(&d->memory, name, bytes, size);
}

/* The ids of "a" with its template, under a tokenizer_config.json. */
static void encode_under(tokenizer_fixture *d, const char *config)
{
    fixture_put(d, "tokenizer_config.json", config);
    assert_int_equal(fixture_open(d), BP_OK);
    fixture_encoder(d, 512);
    fixture_encode(d, "a", BP_ENCODE_TEMPLATE);
}

/* verifies formats-29.15c2 */
static void classes_say_what_goes_around_a_text(void **state)
{
    (void)state;
    size_t size;
    tokenizer_fixture d;
    unsigned char *bytes = read_model(GOLDEN "spm_bytes/tokenizer.model", &size);
    fixture_init(&d);
    put_model(&d, "tokenizer.model", bytes, size);
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->unk, 0);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->bos, 1);
    assert_true(bp_tokenizer_is_special(&d.tokenizer, 1));
    fixture_encoder(&d, 512);
    fixture_encode(&d, "a", BP_ENCODE_PLAIN);
    const size_t plain = d.count;
    encode_under(&d, "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\"}");
    assert_int_equal(d.count, plain + 1);
    assert_int_equal(d.ids[0], 1);
    encode_under(&d, "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\", "
                     "\"add_bos_token\": false}");
    assert_int_equal(d.count, plain);
    encode_under(&d, "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"<s>\", "
                     "\"add_bos_token\": true}");
    assert_int_equal(d.count, plain + 1);
    encode_under(&d, "{\"tokenizer_class\": \"T5Tokenizer\", \"eos_token\": \"</s>\"}");
    assert_int_equal(d.count, plain + 1);
    assert_int_equal(d.ids[plain], 2);
    encode_under(&d, "{\"tokenizer_class\": \"T5Tokenizer\", \"eos_token\": \"</none>\"}");
    assert_int_equal(d.count, plain); /* what no token is ends no text */
    fixture_put(&d, "tokenizer_config.json", "{\"tokenizer_class\": \"MBartTokenizer\"}");
    fixture_refused(&d, "of SentencePiece's models only those of LlamaTokenizer");
    fixture_free(&d);
    free(bytes);
}

/* An error may be of no interest, or there before: the first one stays. */
/* verifies formats-4.b9c7 */
static void the_first_error_stays(void **state)
{
    (void)state;
    tokenizer_fixture d;
    bp_error error = {.code = BP_ERR_FIT, .text = "before"};
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", "[]");
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, NULL),
                     BP_ERR_DATA);
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", fixture_scratch, &d.need, &error),
                     BP_ERR_DATA);
    assert_string_equal(error.text, "before");
    fixture_free(&d);
}

/* Ids are bytes only where nothing else is done to a text. */
/* verifies formats-29.15c2 */
static void bytes_are_bytes_where_nothing_is_done(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *more, *merges;
        bp_tokenizer_kind kind;
    } rows[] = {
        {WHOLE, "", "", BP_TOKENIZER_BYTES},
        {LEVEL, "", "", BP_TOKENIZER_BYTE_BPE},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}"
         ",",
         "", "", BP_TOKENIZER_BYTE_BPE},
        {WHOLE "\"normalizer\":{\"type\":\"NFC\"},", "", "", BP_TOKENIZER_BYTE_BPE},
        {WHOLE, ",\"ab\":256", "\"a b\"", BP_TOKENIZER_BYTE_BPE},
        {WHOLE "\"added_tokens\":[{\"id\":256,\"content\":\"<x>\",\"special\":true}],", "", "",
         BP_TOKENIZER_BYTE_BPE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tokenizer_fixture d;
        fixture_init(&d);
        fixture_put(&d, "tokenizer.json",
                    fixture_bpe(rows[i].settings, rows[i].more, rows[i].merges));
        if (fixture_open(&d) != BP_OK) {
            fail_msg("%s: %s: %s", rows[i].settings, d.error.name, d.error.text);
        }
        assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), rows[i].kind);
        fixture_free(&d);
    }
}

static void the_other_name_is_read_too(void **state)
{
    (void)state;
    size_t size;
    tokenizer_fixture d;
    unsigned char *bytes = read_model(GOLDEN "spm_unigram/tokenizer.model", &size);
    fixture_init(&d);
    put_model(&d, "spiece.model", bytes, size);
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_UNIGRAM);
    fixture_free(&d);
    free(bytes);
}

/* XLM-R's pieces have fairseq's ids, by the name of the file or by the class. */
/* verifies formats-3.2920 */
static void pieces_of_xlm_r_have_the_ids_of_fairseq(void **state)
{
    (void)state;
    static const char *const names[] = {"sentencepiece.bpe.model", "spiece.model"};
    size_t size;
    unsigned char *bytes = read_model(GOLDEN "xlmr_own/sentencepiece.bpe.model", &size);
    for (size_t i = 0; i < 2; i++) {
        tokenizer_fixture d;
        fixture_init(&d);
        put_model(&d, names[i], bytes, size);
        if (i == 1) {
            fixture_put(&d, "tokenizer_config.json",
                        "{\"tokenizer_class\": \"XLMRobertaTokenizer\", \"cls_token\": \"<s>\"}");
        }
        assert_int_equal(fixture_open(&d), BP_OK);
        const bp_tokenizer_special *special = bp_tokenizer_special_of(&d.tokenizer);
        const int64_t last = (int64_t)bp_tokenizer_tokens(&d.tokenizer) - 1;
        assert_true(special->bos == 0 && special->cls == 0 && special->pad == 1);
        assert_true(special->eos == 2 && special->sep == 2 && special->unk == 3);
        assert_true(special->mask == last || i == 1);
        assert_int_equal(bp_tokenizer_find(&d.tokenizer, "<mask>", 6), last);
        fixture_encoder(&d, 512);
        fixture_encode(&d, "a  <mask>", BP_ENCODE_TEMPLATE); /* takes the spaces before it */
        assert_int_equal(d.ids[0], 0);
        assert_int_equal(d.ids[d.count - 2], last);
        assert_int_equal(d.ids[d.count - 1], 2);
        uint32_t ids[16];
        uint8_t types[16];
        size_t count, whole;
        assert_int_equal(bp_encoder_pair(&d.encoder, "a", 1, "a", 1, BP_ENCODE_TEMPLATE, ids, types,
                                         16, &count, &whole),
                         BP_OK);
        assert_int_equal(count, 2 * (d.count - 3) + 4);
        assert_true(ids[count / 2 - 1] == 2 && ids[count / 2] == 2 && types[count - 1] == 0);
        fixture_free(&d);
    }
    free(bytes);
}

/* A model of these pieces, each with the score -1, and one field of trainer_spec. */
static size_t make_model(unsigned char *to, const char *const *texts, const uint8_t *types,
                         size_t count, uint8_t field, uint8_t value)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(texts[i]);
        const unsigned char head[] = {0x0a, (unsigned char)(length + 9), 0x0a,
                                      (unsigned char)length};
        const unsigned char tail[] = {0x15, 0, 0, 0x80, 0xbf, 0x18, types[i]};
        memcpy(to + at, head, sizeof head);
        memcpy(to + at + sizeof head, texts[i], length);
        memcpy(to + at + sizeof head + length, tail, sizeof tail);
        at += sizeof head + length + sizeof tail;
    }
    const unsigned char trainer[] = {0x12, 2, (unsigned char)(field << 3), value};
    memcpy(to + at, trainer, field != 0 ? sizeof trainer : 0);
    return at + (field != 0 ? sizeof trainer : 0);
}

typedef struct wrong {
    const char *texts[3];
    uint8_t types[3];
    size_t count;
    uint8_t field, value;
    const char *said;
} wrong;

/* verifies formats-4.b9c7 */
static void what_is_not_implemented_is_named(void **state)
{
    (void)state;
    static const wrong cases[] = {
        {{"a", "<unk>"}, {1, 2}, 2, 3, 3, "model_type: only the types unigram and BPE"},
        {{"a", "b"}, {1, 1}, 2, 0, 0, "pieces: one piece must be of the type unknown"},
        {{"a", "<unk>", "<u>"}, {1, 2, 2}, 3, 0, 0, "pieces: one piece must be of the type"},
        {{"a", "<unk>", "b"}, {1, 2, 4}, 3, 3, 1, "pieces: pieces that users defined"},
        {{"a", "<unk>", "b c"}, {1, 2, 4}, 3, 3, 2, "pieces: pieces of users with a space"},
        {{"a", "<unk>", "b"}, {1, 2, 5}, 3, 3, 2, "pieces: BPE with unused pieces"},
        {{"a", "<unk>", "b"}, {1, 2, 9}, 3, 0, 0, "pieces: a piece needs a text, a score"},
        {{"a", "<unk>", ""}, {1, 2, 1}, 3, 0, 0, "pieces: a piece needs a text, a score"},
        {{"a", "<unk>", "\xff"}, {1, 2, 1}, 3, 0, 0, "pieces: a piece is not UTF-8"},
        {{"a", "<unk>", "<0xG0>"}, {1, 2, 6}, 3, 0, 0, "pieces: a piece of the type byte"},
        {{"a", "<unk>", "a"}, {1, 2, 1}, 3, 0, 0, "vocab: two tokens have the same text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const wrong *w = &cases[i];
        unsigned char model[128];
        tokenizer_fixture d;
        fixture_init(&d);
        put_model(&d, "tokenizer.model", model,
                  make_model(model, w->texts, w->types, w->count, w->field, w->value));
        fixture_refused(&d, w->said);
        fixture_free(&d);
    }
}

/* verifies formats-4.b9c7 */
static void models_that_are_not_of_xlm_r_are_refused(void **state)
{
    (void)state;
    static const char begins[] = "pieces: XLM-R's begin with <unk>, <s> and </s>";
    static const struct {
        const char *texts[5], *said;
        uint8_t types[5];
    } cases[] = {
        {{"<s>", "<unk>", "</s>", "a"}, begins, {3, 2, 3, 1}},
        {{"<unk>", "<s>", "a", "b"}, begins, {2, 3, 1, 1}},
        {{"<unk>", "<s>", "</s>", "a"}, begins, {2, 1, 3, 1}},
        {{"<unk>", "<s>", "</t>", "a"}, begins, {2, 3, 3, 1}},
        {{"<unk>", "<s>", "</s>", "<pad>"}, "an added token has another id", {2, 3, 3, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char model[128];
        tokenizer_fixture d;
        fixture_init(&d);
        put_model(&d, "sentencepiece.bpe.model", model,
                  make_model(model, cases[i].texts, cases[i].types, 4, 0, 0));
        fixture_refused(&d, cases[i].said);
        fixture_free(&d);
    }
}

/* Opened or refused, and what is opened gives ids that decode. */
static void try_damaged(const unsigned char *bytes, size_t size)
{
    tokenizer_fixture d;
    fixture_init(&d);
    put_model(&d, "tokenizer.model", bytes, size);
    if (fixture_open(&d) == BP_OK) {
        fixture_encoder(&d, 512);
        fixture_encode(&d, " It's \xc3\xa9t\xc3\xa9  123 <tool>\n\xe4\xb8\x80", BP_ENCODE_TEMPLATE);
        for (size_t i = 0; i < d.count; i++) {
            assert_true(d.ids[i] < bp_tokenizer_tokens(&d.tokenizer));
        }
    } else {
        assert_int_equal(d.error.code, BP_ERR_DATA);
    }
    fixture_free(&d);
}

/* verifies formats-4.b9c7 */
static void damaged_models_are_refused_or_whole(void **state)
{
    (void)state;
    static const char *const models[] = {GOLDEN "spm_unigram/tokenizer.model",
                                         GOLDEN "spm_bpe/tokenizer.model"};
    for (size_t m = 0; m < 2; m++) {
        size_t size;
        unsigned char *bytes = read_model(models[m], &size);
        for (size_t cut = 0; cut < size; cut += 331) {
            try_damaged(bytes, cut);
        }
        for (size_t at = 0; at < size; at += 211) {
            const unsigned char was = bytes[at];
            bytes[at] = (unsigned char)(was ^ 1u << at % 8);
            try_damaged(bytes, size);
            bytes[at] = was;
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_say_what_goes_around_a_text),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(bytes_are_bytes_where_nothing_is_done),
        cmocka_unit_test(the_other_name_is_read_too),
        cmocka_unit_test(pieces_of_xlm_r_have_the_ids_of_fairseq),
        cmocka_unit_test(models_that_are_not_of_xlm_r_are_refused),
        cmocka_unit_test(what_is_not_implemented_is_named),
        cmocka_unit_test(damaged_models_are_refused_or_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
