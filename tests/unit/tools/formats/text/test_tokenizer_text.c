/* SPDX-License-Identifier: MIT */
/* Text through tokenizers: what the golden lines do not show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

/* The ids of a text fed in pieces, as a number. */
static uint64_t fed(tokenizer_fixture *d, const char *text, size_t length, size_t piece)
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

/* verifies formats-29.15c2 */
static void words_that_are_too_long_are_cut_the_same_way_always(void **state)
{
    (void)state;
    enum { LENGTH = 40000 };
    static char text[LENGTH];
    tokenizer_fixture d;
    fixture_init(&d);
    for (int form = 0; form < 3; form++) {
        fixture_put(&d, "tokenizer.json",
                    fixture_bpe(form == 0 ? LEVEL : WHOLE,
                                ",\"aa\":256,\"aaaa\":257,\"a\xc4\xa0\":258",
                                "\"a a\",\"aa aa\",\"a \xc4\xa0\""));
        assert_int_equal(fixture_open(&d), BP_OK);
        fixture_encoder(&d, 512 + 3);
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
        fixture_encoder(&d, LENGTH);
        (void)fed(&d, text, LENGTH, 1000);
        assert_int_equal(d.encoder.cut, 0);
        assert_true(form == 2 || d.count == LENGTH / 4);
    }
    fixture_free(&d);
}

static void a_word_of_a_million_bytes_takes_no_longer_than_many(void **state)
{
    (void)state;
    enum { LENGTH = 1000000 };
    tokenizer_fixture d;
    char *text = malloc(LENGTH);
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json",
                fixture_bpe(LEVEL, ",\"aa\":256,\"aaaa\":257,\"aaaaaaaa\":258",
                            "\"a a\",\"aa aa\",\"aaaa aaaa\""));
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_encoder(&d, LENGTH);
    memset(text, 'a', LENGTH);
    (void)fed(&d, text, LENGTH, 4096);
    assert_int_equal(d.count, LENGTH / 8);
    assert_int_equal(d.encoder.cut, 0);
    free(text);
    fixture_free(&d);
}

static void wordpiece_needs_no_room_for_words_it_cannot_know(void **state)
{
    (void)state;
    char text[3000];
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##a\n.\n");
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN);
    memset(text, 'a', sizeof text);
    text[0] = text[100] = text[101] = text[1500] = text[2999] = '.';
    (void)fed(&d, text, sizeof text, 1);
    assert_int_equal(d.count, 106); /* . 99 pieces . . [UNK] . [UNK] . */
    assert_int_equal(d.encoder.cut, 0);
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void flags_say_what_special_tokens_are(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json",
                fixture_bpe(LEVEL
                            "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},"
                            "{\"id\":301,\"content\":\"<t>\"}],\"post_processor\":{\"type\":"
                            "\"BertProcessing\",\"cls\":[\"<s>\",300],\"sep\":[\"<t>\",301]},",
                            "", ""));
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN);
    fixture_encode(&d, "a<s><t>", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[1], 300);
    fixture_encode(&d, "a<s><t>", BP_ENCODE_LITERAL);
    assert_int_equal(d.count, 5);
    assert_int_equal(d.ids[1], '<');
    assert_int_equal(d.ids[4], 301);
    fixture_encode(&d, "a", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[0], 300);
    assert_int_equal(d.ids[2], 301);
    fixture_encode(&d, "", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 2);
    fixture_encode(&d, "", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 0);
    size_t count;
    assert_int_equal(bp_encoder_pair(&d.encoder, "a", 1, "b", 1, BP_ENCODE_TEMPLATE, d.ids, NULL, 2,
                                     &count, NULL),
                     BP_ERR_USAGE);
    assert_int_equal(bp_encoder_pair(&d.encoder, "a", 1, "b", 1, BP_ENCODE_TEMPLATE, d.ids, NULL, 3,
                                     &count, NULL),
                     BP_OK);
    assert_int_equal(count, 3);
    fixture_free(&d);
}

/* Llama 1's tokens with normalized true: looked for behind the normalizer, where each has a U+2581
 * before it that was a space, or came before the text. */
/* verifies formats-29.15c2 */
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
    tokenizer_fixture d;
    fixture_init(&d);
    size_t at = (size_t)snprintf(json, sizeof json,
                                 "{%s\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                                 "\"vocab\":{\"a\":97,\"b\":98,\"<\":60,\">\":62,\"s\":115",
                                 settings);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, ",\"<0x%02X>\":%u", byte, 400 + byte);
    }
    snprintf(json + at, sizeof json - at, "},\"merges\":[]}}");
    fixture_put(&d, "tokenizer.json", json);
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_CHAR_BPE);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN);
    for (size_t piece = 1; piece < 20; piece += 6) {
        static const char text[] = "<s>a<s> <s>\xe2\x96\x81<s>b";
        (void)fed(&d, text, sizeof text - 1, piece);
        fixture_encode(&d, text, BP_ENCODE_PLAIN);
        assert_int_equal(d.count, 8);
        assert_memory_equal(d.ids, wanted, sizeof wanted);
    }
    fixture_free(&d);
}

static void bytes_without_a_token_are_left_out(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json",
                "{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
                "\"merges\":[\"a b\"]}}");
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_missing_bytes(&d.tokenizer), 254);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN);
    fixture_encode(&d, "xaxbx x", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.ids[0], 2);
    fixture_put(&d, "tokenizer.json",
                "{" LEVEL "\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0},"
                "\"merges\":[]}}");
    fixture_refused(&d, "no token for a byte");
    /* Those of characters fall back to bytes, and have to have them all. */
    fixture_put(&d, "tokenizer.json",
                "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"},"
                "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},"
                "\"merges\":[]}}");
    fixture_refused(&d, "no token for a byte");
    fixture_free(&d);
}

/* Where ids are bytes, a text may be cut inside a character. */
/* verifies formats-29.15c2 */
static void bytes_are_cut_anywhere(void **state)
{
    (void)state;
    enum { LENGTH = 40000 };
    static char text[LENGTH];
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(WHOLE, "", ""));
    assert_int_equal(fixture_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_BYTES);
    uint64_t wanted = 0;
    for (size_t i = 0; i < LENGTH; i++) {
        text[i] = i < 12000 ? "\xe4\xb8\x96"[i % 3] : '\x96'; /* the rest is no text */
    }
    for (size_t i = 0; i < LENGTH; i++) {
        wanted = (wanted ^ (unsigned char)text[i]) * 0x9e3779b97f4a7c15u + 1;
    }
    for (uint32_t word = 512; word < 516; word++) {
        fixture_encoder(&d, word);
        assert_true(fed(&d, text, LENGTH, LENGTH) == wanted);
        assert_true(fed(&d, text, LENGTH, 1000) == wanted);
        assert_int_equal(d.count, LENGTH);
    }
    fixture_free(&d);
}

/* More marks on a letter than are composed at a time. */
/* verifies formats-29.15c2 */
static void marks_without_an_end_are_composed_in_pieces(void **state)
{
    (void)state;
    static const char unigram[] =
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
        "\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"\xcc\x96\",-1]]}}";
    enum { MARKS = 300 };
    char text[2 * MARKS + 2] = "a";
    for (size_t i = 0; i < MARKS; i++) {
        memcpy(text + 1 + 2 * i, "\xcc\x96", 3);
    }
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json",
                fixture_bpe(WHOLE "\"normalizer\":{\"type\":\"NFC\"},", "", ""));
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN * 2);
    fixture_encode(&d, text, BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 2 * MARKS + 1);
    for (size_t i = 0; i < d.count; i++) {
        assert_int_equal(d.ids[i], (unsigned char)text[i]);
    }
    fixture_put(&d, "tokenizer.json", unigram);
    assert_int_equal(fixture_open(&d), BP_OK);
    fixture_encoder(&d, BP_ENCODER_WORD_MIN * 2);
    fixture_encode(&d, text, BP_ENCODE_PLAIN);
    assert_int_equal(d.count, MARKS + 1);
    for (size_t i = 0; i < d.count; i++) {
        assert_int_equal(d.ids[i], i == 0 ? 1 : 2);
    }
    fixture_free(&d);
}

/* Unigram of "a", " " and U+2581, with a normalizer and a pre_tokenizer. */
static void open_unigram(tokenizer_fixture *d, const char *settings)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{%s\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
             "[\"a\",-1],[\" \",-1],[\"\xe2\x96\x81\",-1]]}}",
             settings);
    fixture_put(d, "tokenizer.json", json);
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s: %s", settings, d->error.name, d->error.text);
    }
    fixture_encoder(d, BP_ENCODER_WORD_MIN);
}

#define SPACED(scheme)                                                                             \
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","                  \
    "\"prepend_scheme\":\"" scheme "\"},"

/* verifies formats-29.15c2 */
static void unigram_marks_spaces_where_asked(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *text;
        size_t count;
        uint32_t ids[4];
    } cases[] = {
        {"", "a a", 3, {1, 2, 1}}, /* a space is one */
        {SPACED("never"), "a a", 3, {1, 3, 1}},
        {SPACED("first"), "a a", 4, {3, 1, 3, 1}},
        {SPACED("always"), "a a", 4, {3, 1, 3, 1}},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_unigram(&d, cases[i].settings);
        fixture_encode(&d, cases[i].text, BP_ENCODE_PLAIN);
        assert_int_equal(d.count, cases[i].count);
        assert_memory_equal(d.ids, cases[i].ids, cases[i].count * sizeof d.ids[0]);
    }
    fixture_free(&d);
}

/* White space at the end is stripped, unless there is more of it than room: then it is text. */
/* verifies formats-29.15c2 */
static void white_space_is_waited_for_while_there_is_room(void **state)
{
    (void)state;
    static char text[9002];
    tokenizer_fixture d;
    fixture_init(&d);
    open_unigram(&d, "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":false,"
                     "\"strip_right\":true}," SPACED("never"));
    memset(text, ' ', 9001);
    text[0] = 'a';
    (void)fed(&d, text, 500, 500);
    assert_int_equal(d.count, 1);
    (void)fed(&d, text, 9001, 9001);
    assert_true(d.count > 1);
    assert_true(d.count < 9001); /* the end of it is stripped yet */
    fixture_free(&d);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MIN - 1) == BP_SIZE_INVALID);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MAX + 1) == BP_SIZE_INVALID);
    assert_true(bp_encoder_bytes(BP_ENCODER_WORD_MAX) < (uint64_t)400 << 20);
    assert_int_equal(bp_encoder_init(&d.encoder, &d.tokenizer, 1, NULL), BP_ERR_USAGE);
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_are_too_long_are_cut_the_same_way_always),
        cmocka_unit_test(a_word_of_a_million_bytes_takes_no_longer_than_many),
        cmocka_unit_test(wordpiece_needs_no_room_for_words_it_cannot_know),
        cmocka_unit_test(flags_say_what_special_tokens_are),
        cmocka_unit_test(tokens_of_normalised_text_need_a_space_before_them),
        cmocka_unit_test(bytes_without_a_token_are_left_out),
        cmocka_unit_test(bytes_are_cut_anywhere),
        cmocka_unit_test(marks_without_an_end_are_composed_in_pieces),
        cmocka_unit_test(unigram_marks_spaces_where_asked),
        cmocka_unit_test(white_space_is_waited_for_while_there_is_room),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
