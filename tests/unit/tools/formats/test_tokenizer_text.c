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

#include "tests/support/tokenizer_desk.h"

/* The ids of a text fed in pieces, as a number. */
static uint64_t fed(tokenizer_desk *d, const char *text, size_t length, size_t piece)
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
    tokenizer_desk d;
    desk_init(&d);
    for (int form = 0; form < 3; form++) {
        desk_put(&d, "tokenizer.json",
                 desk_bpe(form == 0 ? LEVEL : WHOLE, ",\"aa\":256,\"aaaa\":257,\"a\xc4\xa0\":258",
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
    tokenizer_desk d;
    char *text = malloc(LENGTH);
    desk_init(&d);
    desk_put(&d, "tokenizer.json",
             desk_bpe(LEVEL, ",\"aa\":256,\"aaaa\":257,\"aaaaaaaa\":258",
                      "\"a a\",\"aa aa\",\"aaaa aaaa\""));
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
    tokenizer_desk d;
    desk_init(&d);
    desk_put(&d, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##a\n.\n");
    assert_int_equal(desk_open(&d), BP_OK);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    memset(text, 'a', sizeof text);
    text[0] = text[100] = text[101] = text[1500] = text[2999] = '.';
    (void)fed(&d, text, sizeof text, 1);
    assert_int_equal(d.count, 106); /* . 99 pieces . . [UNK] . [UNK] . */
    assert_int_equal(d.encoder.cut, 0);
    desk_free(&d);
}

/* verifies formats-29.15c2 */
static void flags_say_what_special_tokens_are(void **state)
{
    (void)state;
    tokenizer_desk d;
    desk_init(&d);
    desk_put(&d, "tokenizer.json",
             desk_bpe(LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},"
                            "{\"id\":301,\"content\":\"<t>\"}],\"post_processor\":{\"type\":"
                            "\"BertProcessing\",\"cls\":[\"<s>\",300],\"sep\":[\"<t>\",301]},",
                      "", ""));
    assert_int_equal(desk_open(&d), BP_OK);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    desk_encode(&d, "a<s><t>", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[1], 300);
    desk_encode(&d, "a<s><t>", BP_ENCODE_LITERAL);
    assert_int_equal(d.count, 5);
    assert_int_equal(d.ids[1], '<');
    assert_int_equal(d.ids[4], 301);
    desk_encode(&d, "a", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 3);
    assert_int_equal(d.ids[0], 300);
    assert_int_equal(d.ids[2], 301);
    desk_encode(&d, "", BP_ENCODE_TEMPLATE);
    assert_int_equal(d.count, 2);
    desk_encode(&d, "", BP_ENCODE_PLAIN);
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
    tokenizer_desk d;
    desk_init(&d);
    size_t at = (size_t)snprintf(json, sizeof json,
                                 "{%s\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                                 "\"vocab\":{\"a\":97,\"b\":98,\"<\":60,\">\":62,\"s\":115",
                                 settings);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, ",\"<0x%02X>\":%u", byte, 400 + byte);
    }
    snprintf(json + at, sizeof json - at, "},\"merges\":[]}}");
    desk_put(&d, "tokenizer.json", json);
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_kind_of(&d.tokenizer), BP_TOKENIZER_CHAR_BPE);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    for (size_t piece = 1; piece < 20; piece += 6) {
        static const char text[] = "<s>a<s> <s>\xe2\x96\x81<s>b";
        (void)fed(&d, text, sizeof text - 1, piece);
        desk_encode(&d, text, BP_ENCODE_PLAIN);
        assert_int_equal(d.count, 8);
        assert_memory_equal(d.ids, wanted, sizeof wanted);
    }
    desk_free(&d);
}

static void bytes_without_a_token_are_left_out(void **state)
{
    (void)state;
    tokenizer_desk d;
    desk_init(&d);
    desk_put(&d, "tokenizer.json",
             "{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
             "\"merges\":[\"a b\"]}}");
    assert_int_equal(desk_open(&d), BP_OK);
    assert_int_equal(bp_tokenizer_missing_bytes(&d.tokenizer), 254);
    desk_encoder(&d, BP_ENCODER_WORD_MIN);
    desk_encode(&d, "xaxbx x", BP_ENCODE_PLAIN);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.ids[0], 2);
    desk_put(&d, "tokenizer.json",
             "{" LEVEL "\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0},"
             "\"merges\":[]}}");
    desk_refused(&d, "no token for a byte");
    desk_free(&d);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    tokenizer_desk d;
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
