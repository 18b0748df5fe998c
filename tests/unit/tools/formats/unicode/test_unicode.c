/* SPDX-License-Identifier: MIT */
/* Every character against what the tokenizers library makes of it
 * (tools/golden/formats/unicode.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "tools/formats/unicode/unicode.h"

enum { CHARACTERS = 0x110000 };

static bool is_surrogate(uint32_t c)
{
    return c >= 0xd800 && c < 0xe000;
}

static unsigned flags_of(uint32_t c)
{
    static const unsigned of_class[] = {
        [BP_CHAR_OTHER] = 0, [BP_CHAR_LETTER] = 16, [BP_CHAR_NUMBER] = 32, [BP_CHAR_SPACE] = 2};
    bool removed = c == 0 || c == BP_CHAR_REPLACEMENT || bp_char_is_control(c);
    return (removed ? 1u : 0u) | (bp_char_is_punctuation(c) ? 4u : 0u) |
           (bp_char_is_ideograph(c) ? 8u : 0u) | of_class[bp_char_class_of(c)];
}

/* verifies formats-3.2920 */
static void classes_are_those_of_the_tokenizers_library(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/tokenizers/characters.txt", "r");
    unsigned flags = 0, wrong = 0, next, next_flags;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%x %x", &next, &next_flags), 2);
    assert_int_equal(next, 0);
    for (uint32_t c = 0; c < CHARACTERS; c++) {
        if (c == next) {
            flags = next_flags;
            next = fscanf(file, "%x %x", &next, &next_flags) == 2 ? next : CHARACTERS;
        }
        if (!is_surrogate(c) && flags_of(c) != flags && wrong++ < 20) {
            printf("U+%04X: %u, not %u\n", c, flags_of(c), flags);
        }
    }
    fclose(file);
    assert_int_equal(wrong, 0);
}

/* The characters behind which the library finds no added token that is a single word: how many, and
 * FNV-1a over their numbers as uint32 little-endian (tokenizers 0.23). */
/* verifies formats-3.2920 */
static void characters_of_words_are_those_of_the_tokenizers_library(void **state)
{
    (void)state;
    uint32_t digest = 0x811c9dc5u, count = 0;
    for (uint32_t c = 0; c < CHARACTERS; c++) {
        if (!is_surrogate(c) && bp_char_is_word(c)) {
            count++;
            for (int k = 0; k < 32; k += 8) {
                digest = (digest ^ (c >> k & 0xff)) * 0x01000193u;
            }
        }
    }
    assert_int_equal(count, 144667);
    assert_int_equal(digest, 0x6ed71286);
}

/* FNV-1a over the UTF-8 of what becomes of a character, and a zero byte. */
static uint32_t fold(uint32_t digest, uint32_t c, bool accents, bool lower)
{
    uint32_t parts[BP_CHAR_PARTS] = {c};
    unsigned char text[8 * BP_CHAR_PARTS + 1];
    size_t length = 0;
    size_t count = accents ? bp_char_decompose_bert(c, parts) : 1;
    for (size_t i = 0; i < count; i++) {
        if (accents && bp_char_is_mark(parts[i])) {
            continue;
        }
        bool two = lower && parts[i] == 0x130; /* as put_folded has it */
        length += bp_utf8_put(two     ? 'i'
                              : lower ? bp_char_lower(parts[i])
                                      : parts[i],
                              text + length);
        length += two ? bp_utf8_put(0x307, text + length) : 0;
    }
    text[length++] = 0;
    for (size_t i = 0; i < length; i++) {
        digest = (digest ^ text[i]) * 0x01000193u;
    }
    return digest;
}

/* verifies formats-3.2920 */
static void accents_and_lower_case_are_those_of_the_tokenizers_library(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/tokenizers/characters.bin", "rb");
    unsigned wrong = 0;
    assert_non_null(file);
    for (uint32_t first = 0; first < CHARACTERS; first += 256) {
        unsigned char bytes[4];
        uint32_t digest = 0x811c9dc5u;
        assert_int_equal(fread(bytes, 1, 4, file), 4);
        for (uint32_t c = first; c < first + 256 && !is_surrogate(c); c++) {
            digest = fold(digest, c, true, false);
            digest = fold(digest, c, false, true);
            digest = fold(digest, c, true, true);
        }
        uint32_t wanted = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                          (uint32_t)bytes[3] << 24;
        if (digest != wanted && wrong++ < 20) {
            printf("U+%04X to U+%04X\n", first, first + 255);
        }
    }
    fclose(file);
    assert_int_equal(wrong, 0);
}

/* What is no character decomposes to itself. */
static void numbers_beyond_the_last_character_stay(void **state)
{
    (void)state;
    uint32_t parts[BP_CHAR_PARTS];
    assert_int_equal(bp_char_decompose(0x10ffff, parts), 1);
    assert_int_equal(parts[0], 0x10ffff);
    assert_int_equal(bp_char_decompose(0x110000, parts), 1);
    assert_int_equal(parts[0], 0x110000);
    assert_int_equal(bp_char_decompose(0xe9, parts), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_beyond_the_last_character_stay),
        cmocka_unit_test(classes_are_those_of_the_tokenizers_library),
        cmocka_unit_test(accents_and_lower_case_are_those_of_the_tokenizers_library),
        cmocka_unit_test(characters_of_words_are_those_of_the_tokenizers_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
