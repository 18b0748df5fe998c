/* SPDX-License-Identifier: MIT */
/* Tokenizers: hostile files, and what the golden lines do not show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/store_faulty.h"
#include "tests/support/store_memory.h"
#include "tools/formats/byte_tokenizer.h"
#include "tools/formats/tokenizer.h"

enum { JSON_MAX = 1 << 17, IDS = 4096 };

typedef struct desk {
    memory_store memory;
    bp_tokenizer_need need;
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    bp_error error;
    void *tables;
    void *work;
    uint32_t ids[IDS];
    size_t count;
} desk;

static uint64_t scratch[BP_TOKENIZER_SCRATCH / 8];

static void desk_init(desk *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
}

static void desk_free(desk *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->tables);
    free(d->work);
}

static void put(desk *d, const char *name, const char *text)
{
    memory_store_put(&d->memory, name, text, strlen(text));
}

/* Measures and opens in memory of exactly the size that was measured. */
static bp_status open_with(desk *d, bp_store *store)
{
    d->error = (bp_error){.code = BP_OK};
    free(d->tables);
    d->tables = NULL;
    BP_TRY(bp_tokenizer_measure(store, "", scratch, &d->need, &d->error));
    assert_int_not_equal(d->need.files, BP_TOKENIZER_NONE);
    d->tables = malloc((size_t)d->need.bytes);
    return bp_tokenizer_open(&d->tokenizer, store, "", &d->need, d->tables, scratch, &d->error);
}

static bp_status desk_open(desk *d)
{
    return open_with(d, &d->memory.store);
}

static void desk_encoder(desk *d, uint32_t word_bytes)
{
    free(d->work);
    d->work = malloc((size_t)bp_encoder_bytes(word_bytes));
    assert_int_equal(bp_encoder_init(&d->encoder, &d->tokenizer, word_bytes, d->work), BP_OK);
}

static void encode(desk *d, const char *text, unsigned flags)
{
    bp_encoder_text(&d->encoder, text, strlen(text), flags, d->ids, IDS, &d->count);
    assert_true(d->count <= IDS);
}

/* Byte-level tokens 0 .. 255 and more of them, some settings, some merges. */
static const char *bpe(const char *settings, const char *more, const char *merges)
{
    static char json[JSON_MAX];
    size_t at =
        (size_t)snprintf(json, sizeof json, "{%s\"model\":{\"type\":\"BPE\",\"vocab\":{", settings);
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        unsigned c = prints ? byte : next++;
        char utf8[3] = {(char)c, 0, 0};
        if (c >= 0x80) {
            utf8[0] = (char)(0xc0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 0x3f));
        }
        at += (size_t)snprintf(json + at, sizeof json - at, "%s\"%s%s\":%u", byte > 0 ? "," : "",
                               c == '"' || c == '\\' ? "\\" : "", utf8, byte);
    }
    snprintf(json + at, sizeof json - at, "%s},\"merges\":[%s]}}", more, merges);
    return json;
}

#define LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define WHOLE                                                                                      \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"

static void refused(desk *d, const char *wanted)
{
    char message[512];
    assert_int_equal(desk_open(d), BP_ERR_DATA);
    assert_int_equal(d->error.code, BP_ERR_DATA);
    snprintf(message, sizeof message, "%s: %s", d->error.name, d->error.text);
    if (strstr(message, wanted) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", message, wanted);
    }
}

static void a_tokenizer_over_bytes_passes_every_byte(void **state)
{
    (void)state;
    desk d;
    char json[BP_BYTE_TOKENIZER_TEXT];
    unsigned char bytes[256];
    size_t length;
    desk_init(&d);
    assert_int_equal(bp_byte_tokenizer_text(json, &length), BP_OK);
    memory_store_put(&d.memory, "tokenizer.json", json, length);
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_BYTES);
    assert_int_equal(bp_tokenizer_tokens(&d.tokenizer), 256);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, -1);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "\xc4\xa0", 2), ' ');
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "ab", 2), -1);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
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
    desk_free(&d);
}

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
    desk d;
    desk_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(&d, "tokenizer.json", bpe(LEVEL, cases[i].more, cases[i].merges));
        refused(&d, cases[i].wanted);
    }
    put(&d, "tokenizer.json", bpe(LEVEL, ",\"ab\":256,\"\xe4\xb8\x80\":260", "[\"a\",\"b\"]"));
    assert_int_equal(desk_open(&d), BP_OK); /* 257 .. 259 have no token */
    char text[BP_TOKENIZER_DECODED_MAX];
    size_t length;
    bp_decoder decoder = {.begun = false};
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 258, text, &length), BP_ERR_DATA);
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 261, text, &length), BP_ERR_DATA);
    assert_int_equal(bp_decoder_next(&decoder, &d.tokenizer, 260, text, &length), BP_OK);
    assert_int_equal(length, 3); /* a text that is made of no byte characters stays as it is */
    desk_free(&d);
}

static void settings_that_are_not_implemented_are_named(void **state)
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
        {LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"zz\",\"single_word\":true}],",
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
    desk d;
    desk_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(&d, "tokenizer.json", bpe(cases[i][0], "", ""));
        refused(&d, cases[i][1]);
    }
    desk_free(&d);
}

static void deep_and_long_documents_are_refused(void **state)
{
    (void)state;
    desk d;
    char settings[8192] = "\"normalizer\":";
    desk_init(&d);
    memset(settings + strlen(settings), '[', 100);
    put(&d, "tokenizer.json", bpe(settings, "", ""));
    refused(&d, "");
    /* more nodes than a tree has */
    static char long_text[60000];
    size_t at = (size_t)snprintf(long_text, sizeof long_text, "\"decoder\":[1");
    while (at < 3000) {
        at += (size_t)snprintf(long_text + at, sizeof long_text - at, ",1");
    }
    snprintf(long_text + at, sizeof long_text - at, "],");
    put(&d, "tokenizer.json", bpe(long_text, "", ""));
    refused(&d, "too many parts");
    /* more text than a tree has, in pieces and in one string */
    at = (size_t)snprintf(long_text, sizeof long_text, "\"decoder\":[\"x\"");
    while (at < 30000) {
        at += (size_t)snprintf(long_text + at, sizeof long_text - at, ",\"%0200d\"", 0);
    }
    snprintf(long_text + at, sizeof long_text - at, "],");
    put(&d, "tokenizer.json", bpe(long_text, "", ""));
    refused(&d, "too long");
    snprintf(long_text, sizeof long_text, "\"decoder\":\"%030000d\",", 0);
    put(&d, "tokenizer.json", bpe(long_text, "", ""));
    refused(&d, "too long");
    snprintf(long_text, sizeof long_text, ",\"%09000d\":300", 0);
    put(&d, "tokenizer.json", bpe(LEVEL, long_text, ""));
    refused(&d, "too long");
    desk_free(&d);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    const char *json = bpe(LEVEL, ",\"ab\":256", "\"a b\"");
    size_t length = strlen(json);
    for (size_t cut = 0; cut < length; cut += 1 + cut / 64) {
        memory_store_put(&d.memory, "tokenizer.json", json, cut);
        refused(&d, "tokenizer.json");
    }
    desk_free(&d);
}

static void other_files_are_checked_too(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    assert_int_equal(bp_tokenizer_measure(&d.memory.store, "", scratch, &d.need, &d.error), BP_OK);
    assert_int_equal(d.need.files, BP_TOKENIZER_NONE);
    put(&d, "tokenizer.model", "x");
    refused(&d, "SentencePiece");
    put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##b\n");
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->cls, 1);
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->mask, -1);
    assert_true(bp_tokenizer_is_special(&d.tokenizer, 2));
    assert_false(bp_tokenizer_is_special(&d.tokenizer, 3));
    uint64_t digest = bp_tokenizer_digest(&d.tokenizer);
    put(&d, "vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n##b");
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "##b", 3), 4);
    assert_true(digest != bp_tokenizer_digest(&d.tokenizer));
    put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\na\n");
    refused(&d, "the same text");
    put(&d, "vocab.txt", "[UNK]\n[SEP]\n");
    refused(&d, "[CLS] and [SEP]");
    put(&d, "vocab.txt", "[CLS]\n[SEP]\n");
    refused(&d, "unknown words");
    put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n\xc3\n");
    refused(&d, "not UTF-8");
    put(&d, "vocab.txt", "");
    refused(&d, "empty");
    put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
    put(&d, "tokenizer_config.json", "{\"tokenizer_class\": \"RobertaTokenizer\"}");
    refused(&d, "RobertaTokenizer");
    put(&d, "tokenizer_config.json", "{\"do_lower_case\": 1}");
    refused(&d, "do_lower_case");
    put(&d, "tokenizer_config.json", "{\"unk_token\": 1}");
    refused(&d, "unk_token");
    put(&d, "tokenizer_config.json", "[]");
    refused(&d, "one JSON object");
    put(&d, "tokenizer_config.json",
        "{\"pad_token\": {\"content\": \"[CLS]\"}, \"sep_token\": null, \"other\": [{}]}");
    refused(&d, "[CLS] and [SEP]"); /* null: none */
    put(&d, "vocab.json", "{\"a\": 0}");
    desk_free(&d);
    desk_init(&d);
    put(&d, "vocab.json", "{\"a\": 0}");
    refused(&d, "merges.txt is missing");
    put(&d, "merges.txt", "#version: 0.2\n");
    refused(&d, "no token for a byte");
    desk_free(&d);
}

static void a_vocabulary_that_changes_is_noticed(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    put(&d, "tokenizer.json", bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    assert_int_equal(desk_open(&d), BP_OK);
    put(&d, "tokenizer.json", bpe(LEVEL, ",\"ab\":256,\"bc\":257", "\"a b\""));
    assert_int_equal(
        bp_tokenizer_open(&d.tokenizer, &d.memory.store, "", &d.need, d.tables, scratch, &d.error),
        BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "changed"));
    desk_free(&d);
}

static void every_failing_read_is_reported(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_EXISTS};
    desk d;
    faulty_store faulty;
    desk_init(&d);
    put(&d, "tokenizer.json", bpe(LEVEL, ",\"ab\":256", "\"a b\""));
    put(&d, "tokenizer_config.json", "{\"eos_token\": \"ab\"}");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t failures = 0;
        for (uint32_t call = 1; call < 40; call++) {
            faulty_store_init(&faulty, &d.memory.store);
            faulty_store_arm(&faulty, kinds[i], call, false);
            bp_status status = open_with(&d, &faulty.store);
            failures += status == BP_ERR_STORE;
            assert_true(status == BP_ERR_STORE || status == BP_OK);
            assert_int_equal(d.memory.open_files, 0);
        }
        assert_true(failures >= 6 && failures < 39);
    }
    assert_int_equal(bp_tokenizer_special_of(&d.tokenizer)->eos, 256);
    desk_free(&d);
}

/* The ids of a text fed in pieces, as a number. */
static uint64_t fed(desk *d, const char *text, size_t length, size_t piece)
{
    uint64_t sum = 0;
    size_t used;
    size_t written;
    bool more = true;
    bp_encoder_begin(&d->encoder, BP_ENCODE_PLAIN);
    d->count = 0;
    for (size_t at = 0; at < length || more;) {
        if (at < length) {
            size_t left = length - at < piece ? length - at : piece;
            bp_encoder_feed(&d->encoder, text + at, left, d->ids, 100, &used, &written);
            at += used;
        } else {
            more = bp_encoder_end(&d->encoder, d->ids, 100, &written);
        }
        d->count += written;
        for (size_t i = 0; i < written; i++) {
            sum = (sum ^ d->ids[i]) * 0x9e3779b97f4a7c15u + 1;
        }
    }
    return sum;
}

static void words_that_are_too_long_are_cut_the_same_way_always(void **state)
{
    (void)state;
    enum { LENGTH = 40000 };
    static char text[LENGTH];
    desk d;
    desk_init(&d);
    for (int form = 0; form < 3; form++) {
        put(&d, "tokenizer.json",
            bpe(form == 0 ? LEVEL : WHOLE, ",\"aa\":256,\"aaaa\":257,\"a\xc4\xa0\":258",
                "\"a a\",\"aa aa\",\"a \xc4\xa0\""));
        assert_int_equal(desk_open(&d), BP_OK);
        desk_encoder(&d, 512 + 3);
        for (size_t i = 0; i < LENGTH; i++) {
            text[i] = form < 2 ? 'a' : (i * 7919) % 1000 < 3 ? ' ' : "aa\xc3\xa9"[i % 4];
        }
        uint64_t whole = fed(&d, text, LENGTH, LENGTH);
        size_t count = d.count;
        uint64_t cut = d.encoder.cut;
        assert_true(form == 2 || cut == (LENGTH - 1) / 515);
        for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
            d.encoder.cut = 0;
            assert_int_equal(fed(&d, text, LENGTH, piece), whole);
            assert_int_equal(d.count, count);
            assert_int_equal(d.encoder.cut, cut);
        }
        desk_encoder(&d, LENGTH);
        (void)fed(&d, text, LENGTH, 1000);
        assert_int_equal(d.encoder.cut, 0);
        assert_true(form == 2 || d.count == LENGTH / 4);
    }
    desk_free(&d);
}

static void a_word_of_a_million_bytes_takes_no_longer_than_many(void **state)
{
    (void)state;
    enum { LENGTH = 1000000 };
    desk d;
    char *text = malloc(LENGTH);
    desk_init(&d);
    put(&d, "tokenizer.json",
        bpe(LEVEL, ",\"aa\":256,\"aaaa\":257,\"aaaaaaaa\":258", "\"a a\",\"aa aa\",\"aaaa aaaa\""));
    assert_int_equal(desk_open(&d), BP_OK);
    desk_encoder(&d, LENGTH);
    memset(text, 'a', LENGTH);
    (void)fed(&d, text, LENGTH, 4096);
    assert_int_equal(d.count, LENGTH / 8);
    assert_int_equal(d.encoder.cut, 0);
    free(text);
    desk_free(&d);
}

static void wordpiece_needs_no_room_for_words_it_cannot_know(void **state)
{
    (void)state;
    char text[3000];
    desk d;
    desk_init(&d);
    put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##a\n.\n");
    assert_int_equal(desk_open(&d), BP_OK);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    memset(text, 'a', sizeof text);
    text[0] = text[100] = text[101] = text[1500] = text[2999] = '.';
    (void)fed(&d, text, sizeof text, 1);
    assert_int_equal(d.count, 106); /* . 99 pieces . . [UNK] . [UNK] . */
    assert_int_equal(d.encoder.cut, 0);
    desk_free(&d);
}

static void flags_say_what_special_tokens_are(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    put(&d, "tokenizer.json",
        bpe(LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},"
                  "{\"id\":301,\"content\":\"<t>\"}],\"post_processor\":{\"type\":"
                  "\"BertProcessing\",\"cls\":[\"<s>\",300],\"sep\":[\"<t>\",301]},",
            "", ""));
    assert_int_equal(desk_open(&d), BP_OK);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    encode(&d, "a<s><t>", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[1], 300);
    encode(&d, "a<s><t>", BP_ENCODE_LITERAL);
    assert_int_equal(d.count, 5);
    assert_int_equal(d.ids[1], '<');
    assert_int_equal(d.ids[4], 301);
    encode(&d, "a", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[0], 300);
    assert_int_equal(d.ids[2], 301);
    encode(&d, "", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 2);
    encode(&d, "", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 0);
    size_t count;
    assert_int_equal(bp_encoder_pair(&d.encoder, "a", 1, "b", 1, BP_ENCODE_TEMPLATE, d.ids, NULL, 2,
                                     &count, NULL),
                     BP_ERR_USAGE);
    assert_int_equal(bp_encoder_pair(&d.encoder, "a", 1, "b", 1, BP_ENCODE_TEMPLATE, d.ids, NULL, 3,
                                     &count, NULL),
                     BP_OK);
    assert_int_equal(count, 3);
    desk_free(&d);
}

/* Llama 1's tokens with normalized true: looked for behind the normalizer, where each has a U+2581
 * before it that was a space, or came before the text. */
static void tokens_of_normalised_text_need_a_space_before_them(void **state)
{
    (void)state;
    static char json[JSON_MAX];
    static const char settings[] =
        "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true,\"normalized\":true}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
        "\"\xe2\x96\x81\"}]},";
    static const uint32_t wanted[] = {300, 'a', '<', 's', '>', 300, 300, 'b'};
    desk d;
    desk_init(&d);
    size_t at = (size_t)snprintf(json, sizeof json,
                                 "{%s\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                                 "\"vocab\":{\"a\":97,\"b\":98,\"<\":60,\">\":62,\"s\":115",
                                 settings);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, ",\"<0x%02X>\":%u", byte, 400 + byte);
    }
    snprintf(json + at, sizeof json - at, "},\"merges\":[]}}");
    put(&d, "tokenizer.json", json);
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_CHAR_BPE);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    for (size_t piece = 1; piece < 20; piece += 6) {
        static const char text[] = "<s>a<s> <s>\xe2\x96\x81<s>b";
        (void)fed(&d, text, sizeof text - 1, piece);
        encode(&d, text, BP_ENCODE_PLAIN);
        assert_int_equal(d.count, 8);
        assert_memory_equal(d.ids, wanted, sizeof wanted);
    }
    desk_free(&d);
}

static void bytes_without_a_token_are_left_out(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    put(&d, "tokenizer.json",
        "{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
        "\"merges\":[\"a b\"]}}");
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_missing_bytes(&d.tokenizer), 254);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    encode(&d, "xaxbx x", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.ids[0], 2);
    put(&d, "tokenizer.json",
        "{" LEVEL "\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0},"
        "\"merges\":[]}}");
    refused(&d, "no token for a byte");
    desk_free(&d);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    desk d;
    desk_init(&d);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MIN - 1) == BP_SIZE_INVALID);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MAX + 1) == BP_SIZE_INVALID);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MAX) < (uint64_t)400 << 20);
    assert_int_equal(bp_encoder_init(&d.encoder, &d.tokenizer, 1, NULL), BP_ERR_USAGE);
    desk_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_over_bytes_passes_every_byte),
        cmocka_unit_test(bad_vocabularies_and_merges_are_refused),
        cmocka_unit_test(settings_that_are_not_implemented_are_named),
        cmocka_unit_test(deep_and_long_documents_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(other_files_are_checked_too),
        cmocka_unit_test(a_vocabulary_that_changes_is_noticed),
        cmocka_unit_test(every_failing_read_is_reported),
        cmocka_unit_test(words_that_are_too_long_are_cut_the_same_way_always),
        cmocka_unit_test(a_word_of_a_million_bytes_takes_no_longer_than_many),
        cmocka_unit_test(wordpiece_needs_no_room_for_words_it_cannot_know),
        cmocka_unit_test(flags_say_what_special_tokens_are),
        cmocka_unit_test(tokens_of_normalised_text_need_a_space_before_them),
        cmocka_unit_test(bytes_without_a_token_are_left_out),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
