/* SPDX-License-Identifier: MIT */
/* Encoders with little room for text: the ids are those of an encoder that has much, however the
 * text is fed, and whatever a tokenizer does to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/golden_words.h"

enum { LENGTH = 30000, IDS = 65536 };

static const char *const names[] = {"bert_cased", "bert_uncased",  "gemma",         "gpt2_small",
                                    "llama2",     "llama3",        "metaspace",     "qwen2",
                                    "spm_bpe",    "spm_bpe_map",   "spm_bytes",     "spm_unigram",
                                    "unigram",    "unigram_bytes", "unigram_strip", "xlmr_own"};

static char text[LENGTH];

/* Words of all kinds again and again; with `spaces` there are 9000 of these in the middle. */
static void fill(bool spaces)
{
    static const char words[] =
        "The Quick na\xc3\xafve e\xcc\x81t\xc3\xa9 \xe4\xb8\x96\xe7\x95\x8c "
        "o\xcc\xb2\xcc\x81k, don't 12345!  \xef\xac\x81x\n\xed\x95\x9c ";
    for (size_t i = 0; i < LENGTH; i++) {
        text[i] = words[i % (sizeof words - 1)];
    }
    if (spaces) {
        memset(text + 4 * (sizeof words - 1), ' ', 9000);
    }
}

/* The ids of the text fed in pieces; how many there are. */
static size_t fed_of(bp_encoder *e, size_t length, size_t piece, uint32_t *ids)
{
    size_t count = 0, at = 0;
    bool more = true;
    bp_encoder_begin(e, BP_ENCODE_TEMPLATE);
    while (more) {
        const size_t left = length - at < piece ? length - at : piece;
        size_t used = 0, written = 0;
        if (at < length) {
            bp_encoder_feed(e, text + at, left, ids + count, IDS - count, &used, &written);
        } else {
            more = bp_encoder_end(e, ids + count, IDS - count, &written);
        }
        at += used;
        count += written;
        assert_true(count < IDS);
    }
    return count;
}

static size_t fed(bp_encoder *e, size_t piece, uint32_t *ids)
{
    return fed_of(e, LENGTH, piece, ids);
}

/* verifies formats-29.15c2 */
static void little_room_gives_the_same_ids(void **state)
{
    (void)state;
    static uint32_t ids[2][IDS];
    for (size_t i = 0; i < 2 * (sizeof names / sizeof names[0]); i++) {
        char path[128];
        golden_words w;
        bp_encoder little;
        void *room = malloc((size_t)bp_encoder_bytes(BP_ENCODER_WORD_MIN));
        assert_non_null(room);
        snprintf(path, sizeof path, "tests/golden/tokenizers/%s", names[i / 2]);
        golden_words_open(&w, path);
        assert_int_equal(bp_encoder_init(&little, &w.tokenizer, BP_ENCODER_WORD_MIN, room), BP_OK);
        fill(i % 2 == 1);
        const size_t count = fed(&w.encoder, LENGTH, ids[0]);
        const size_t first = fed(&little, LENGTH, ids[1]);
        if (little.cut == 0) {
            assert_int_equal(first, count);
            assert_memory_equal(ids[0], ids[1], count * sizeof ids[0][0]);
        }
        assert_int_equal(fed(&little, 7, ids[0]), first);
        assert_memory_equal(ids[0], ids[1], first * sizeof ids[0][0]);
        free(room);
        golden_words_close(&w);
    }
}

/* A word about as long as the room: what stands behind it is what stands behind a shorter one, and
 * its end may be where normalisation gives out what it held back. */
/* verifies formats-29.15c2 */
static void words_end_where_the_room_does(void **state)
{
    (void)state;
    static uint32_t ids[2][IDS];
    static const char *const kinds[] = {"bert_uncased", "qwen2", "unigram_nfc"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char path[128];
        golden_words w;
        bp_encoder little;
        void *room = malloc((size_t)bp_encoder_bytes(BP_ENCODER_WORD_MIN));
        assert_non_null(room);
        snprintf(path, sizeof path, "tests/golden/tokenizers/%s", kinds[i]);
        golden_words_open(&w, path);
        assert_int_equal(bp_encoder_init(&little, &w.tokenizer, BP_ENCODER_WORD_MIN, room), BP_OK);
        for (size_t length = BP_ENCODER_WORD_MIN - 4; length < BP_ENCODER_WORD_MIN + 4; length++) {
            for (size_t behind = 0; behind < 3; behind++) {
                static const char *const ends[] = {"", ".", ".a"};
                memset(text, 'a', length);
                memcpy(text + length, ends[behind], behind);
                const size_t count = fed_of(&w.encoder, length + behind, LENGTH, ids[0]);
                const uint64_t cut = little.cut;
                const size_t first = fed_of(&little, length + behind, LENGTH, ids[1]);
                if (i == 0) { /* a word too long to be known is one token, whatever of it is seen */
                    assert_int_equal(little.cut, 0);
                    assert_int_equal(count, 3 + behind);
                }
                if (i == 1 && behind == 0) {
                    assert_int_equal(little.cut - cut, length > BP_ENCODER_WORD_MIN ? 1 : 0);
                }
                if (i == 0 || length + behind <= BP_ENCODER_WORD_MIN) {
                    assert_int_equal(first, count);
                    assert_memory_equal(ids[0], ids[1], count * sizeof ids[0][0]);
                }
                assert_int_equal(fed_of(&little, length + behind, 7, ids[0]), first);
                assert_memory_equal(ids[0], ids[1], first * sizeof ids[0][0]);
            }
        }
        free(room);
        golden_words_close(&w);
    }
}

/* Where each id comes from is known of words alone, and of texts of so many bytes. */
static void places_are_those_of_words(void **state)
{
    (void)state;
    static uint32_t ids[IDS], starts[IDS], ends[IDS];
    static const struct {
        const char *name;
        uint32_t word_bytes;
        size_t length;
        bp_status status;
    } cases[] = {
        {"bert_uncased", BP_ENCODER_WORD_MIN, LENGTH, BP_OK},
        {"bert_uncased", BP_ENCODER_WORD_BYTES + 1, LENGTH, BP_ERR_USAGE},
        {"bert_uncased", BP_ENCODER_WORD_MIN, (size_t)UINT32_MAX + 1, BP_ERR_USAGE},
        {"llama2", BP_ENCODER_WORD_MIN, LENGTH, BP_ERR_USAGE},
    };
    fill(false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128];
        golden_words w;
        bp_encoder encoder;
        size_t count = 0;
        void *room = malloc((size_t)bp_encoder_bytes(cases[i].word_bytes));
        void *memory = malloc((size_t)bp_encoder_offsets_bytes());
        assert_non_null(room);
        assert_non_null(memory);
        snprintf(path, sizeof path, "tests/golden/tokenizers/%s", cases[i].name);
        golden_words_open(&w, path);
        assert_int_equal(bp_encoder_init(&encoder, &w.tokenizer, cases[i].word_bytes, room), BP_OK);
        const bp_encoder_trace trace = {
            .ids = ids, .starts = starts, .ends = ends, .room = IDS, .memory = memory};
        assert_int_equal(bp_encoder_offsets(&encoder, text, cases[i].length, &trace, &count),
                         cases[i].status);
        for (size_t k = 0; k < count; k++) {
            assert_true(starts[k] < ends[k] && ends[k] <= LENGTH);
            assert_true(k == 0 || starts[k] >= starts[k - 1]);
        }
        assert_int_equal(count > 0, cases[i].status == BP_OK);
        free(memory);
        free(room);
        golden_words_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(little_room_gives_the_same_ids),
                                       cmocka_unit_test(words_end_where_the_room_does),
                                       cmocka_unit_test(places_are_those_of_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
