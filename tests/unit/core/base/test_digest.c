/* SPDX-License-Identifier: MIT */
/* Digests: published values, pieces, text, and the state digest's sensitivity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/base/digest.h"

/* verifies number-7.d44f */
static void gives_the_published_values(void **state)
{
    (void)state;
    /* The empty input's value is in xxHash's specification; the other is `xxhsum -H64` of "abc". */
    assert_true(bp_digest_of("", 0, 0) == 0xef46db3751d8e999u);
    assert_true(bp_digest_of("abc", 3, 0) == 0x44bc2cf5ad770999u);
    assert_true(bp_digest_of("abc", 3, 1) != 0x44bc2cf5ad770999u);
}

/* verifies number-7.d44f */
static void pieces_make_no_difference(void **state)
{
    (void)state;
    unsigned char bytes[257];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7);
    }
    uint64_t whole = bp_digest_of(bytes, sizeof bytes, 0);
    for (size_t piece = 1; piece <= sizeof bytes; piece++) {
        bp_digest digest;
        bp_digest_begin(&digest, 0);
        bp_digest_add(&digest, NULL, 0);
        for (size_t at = 0; at < sizeof bytes; at += piece) {
            size_t left = sizeof bytes - at;
            bp_digest_add(&digest, bytes + at, left < piece ? left : piece);
        }
        assert_true(bp_digest_end(&digest) == whole);
    }
}

/* verifies number-18.d59d */
static void text_goes_both_ways(void **state)
{
    (void)state;
    char text[BP_DIGEST_TEXT];
    bp_digest_text(0x0123456789abcdefu, text);
    assert_string_equal(text, "0123456789abcdef");
    uint64_t value;
    assert_true(bp_digest_parse(text, &value));
    assert_true(value == 0x0123456789abcdefu);
    assert_false(bp_digest_parse(NULL, &value));
    assert_false(bp_digest_parse("", &value));
    assert_false(bp_digest_parse("0123456789abcde", &value));
    assert_false(bp_digest_parse("0123456789abcdef0", &value));
    assert_false(bp_digest_parse("0123456789abcdeg", &value));
    assert_false(bp_digest_parse("0123456789ABCDEF", &value));
    assert_false(bp_digest_parse("012345678 abcdef", &value));
}

typedef struct row {
    const char *name;
    bp_dtype dtype;
    uint64_t shape[2];
    uint32_t rank;
    uint64_t bytes;
} row;

static uint64_t digest_rows(const row *rows, size_t count)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    for (size_t i = 0; i < count; i++) {
        bp_digest_add_tensor(&digest, rows[i].name, rows[i].dtype, rows[i].shape, rows[i].rank,
                             rows[i].bytes);
    }
    return bp_digest_end(&digest);
}

/* verifies number-12.5283 */
static void every_part_of_a_tensor_counts(void **state)
{
    (void)state;
    const row base[2] = {{"a", BP_F32, {2, 3}, 2, 5}, {"b", BP_F32, {1, 1}, 1, 6}};
    uint64_t wanted = digest_rows(base, 2);
    assert_true(digest_rows(base, 2) == wanted);
    for (int change = 0; change < 6; change++) {
        row rows[2];
        memcpy(rows, base, sizeof rows);
        switch (change) {
        case 0:
            rows[0].name = "c";
            break;
        case 1:
            rows[0].dtype = BP_I32;
            break;
        case 2:
            rows[0].shape[1] = 4;
            break;
        case 3:
            rows[0].rank = 1;
            break;
        case 4:
            rows[1].bytes = 7;
            break;
        default:
            rows[0] = base[1];
            rows[1] = base[0];
            break;
        }
        assert_true(digest_rows(rows, 2) != wanted);
    }
    assert_true(digest_rows(base, 1) != wanted);
}

/* The form is written down in the header and must not drift: checkpoints outlive programs. */
/* verifies number-12.5283 */
static void the_form_is_the_documented_one(void **state)
{
    (void)state;
    static const unsigned char bytes[] = "\1\0\0\0\0\0\0\0"
                                         "a"
                                         "\3\0\0\0\0\0\0\0"
                                         "F32"
                                         "\2\0\0\0\0\0\0\0"
                                         "\2\0\0\0\0\0\0\0"
                                         "\0\1\0\0\0\0\0\0"
                                         "\5\0\0\0\0\0\0\x80";
    row one = {"a", BP_F32, {2, 256}, 2, 0x8000000000000005u};
    assert_true(digest_rows(&one, 1) == bp_digest_of(bytes, sizeof bytes - 1, 0));
}

/* A sum over words in pieces of any order is that of the whole, and each changed word changes it.
 */
/* verifies number-12.5283 */
static void sums_over_words_are_formed_in_any_order(void **state)
{
    (void)state;
    unsigned char bytes[403];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 37 + 5);
    }
    const uint64_t whole = bp_word_sum(bytes, sizeof bytes, 9);
    uint64_t parts = bp_word_sum(bytes + 200, sizeof bytes - 200, 9 + 50);
    parts += bp_word_sum(bytes, 120, 9) + bp_word_sum(bytes + 120, 80, 9 + 30);
    assert_true(parts == whole);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        const uint64_t byte = (uint64_t)bytes[i] << (8 * (i % 4));
        sum += byte * ((i / 4 + 9 + 1) * BP_WORD_STEP | 1);
    }
    assert_true(sum == whole);
    assert_true(bp_word_sum(bytes, sizeof bytes, 8) != whole);
    assert_true(bp_word_sum(NULL, 0, 3) == 0);
    assert_true(bp_word_sum("\1\0\0\0", 4, 1) == (UINT64_C(2) * 0x9e3779b97f4a7c15u | 1));
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(bp_word_sum(bytes, sizeof bytes, 9) != whole);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_published_values),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(text_goes_both_ways),
        cmocka_unit_test(every_part_of_a_tensor_counts),
        cmocka_unit_test(sums_over_words_are_formed_in_any_order),
        cmocka_unit_test(the_form_is_the_documented_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
