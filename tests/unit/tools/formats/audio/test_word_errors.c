/* SPDX-License-Identifier: MIT */
/* Errors of words: pairs with numbers that are counted by hand, and all short texts of two words
 * against a search of every alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/formats/audio/word_errors.h"

static size_t errors(const char *said, const char *heard)
{
    size_t row[64];
    return bp_words_errors(said, strlen(said), heard, strlen(heard), row);
}

/* verifies formats-77.5e5a */
static void test_pairs(void **state)
{
    (void)state;
    assert_int_equal(errors("", ""), 0);
    assert_int_equal(errors("a b c", ""), 3);
    assert_int_equal(errors("", "a b"), 2);
    assert_int_equal(errors("the cat sat", "the  cat\tsat\n"), 0);
    assert_int_equal(errors("the cat sat", "the hat sat"), 1);
    assert_int_equal(errors("the cat sat", "cat sat"), 1);
    assert_int_equal(errors("the cat sat", "the cat sat down"), 1);
    assert_int_equal(errors("the cat sat", "sat the cat"), 2);
    assert_int_equal(errors("the cat", "The cat."), 2);
    assert_int_equal(errors("a", "ab"), 1);
    assert_int_equal(bp_words_count("  a  bc\n d ", 10), 3);
    assert_int_equal(bp_words_count("", 0), 0);
}

/* The least errors of the words from i and j on. */
static size_t search(const char *a, size_t n, const char *b, size_t m)
{
    if (n == 0 || m == 0) {
        return n + m;
    }
    size_t least = search(a + 1, n - 1, b + 1, m - 1) + (*a == *b ? 0 : 1);
    const size_t left = search(a + 1, n - 1, b, m) + 1, more = search(a, n, b + 1, m - 1) + 1;
    least = left < least ? left : least;
    return more < least ? more : least;
}

/* verifies formats-77.5e5a */
static void test_all_short(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 4096; code++) {
        char a[8], b[8], said[16] = "", heard[16] = "";
        const size_t n = code % 8 % 6, m = code / 8 % 8 % 6;
        for (size_t i = 0; i < 6; i++) {
            a[i] = (code * 2654435761u >> (i + 3) & 1) != 0 ? 'x' : 'y';
            b[i] = (code * 2246822519u >> (i + 5) & 1) != 0 ? 'x' : 'y';
        }
        for (size_t i = 0; i < n; i++) {
            said[2 * i] = a[i];
            said[2 * i + 1] = ' ';
        }
        for (size_t i = 0; i < m; i++) {
            heard[2 * i] = b[i];
            heard[2 * i + 1] = ' ';
        }
        assert_int_equal(errors(said, heard), search(a, n, b, m));
    }
}

static void becomes(bp_word_form form, const char *text, const char *right)
{
    char to[256];
    const size_t length = bp_words_normalise(form, text, strlen(text), to);
    to[length] = '\0';
    assert_string_equal(to, right);
}

/* verifies formats-77.5e5a */
static void test_forms(void **state)
{
    (void)state;
    becomes(BP_WORDS_NONE, "The Cat, (quietly) sat.", "The Cat, (quietly) sat.");
    becomes(BP_WORDS_BASIC, "The Cat, sat.", "the cat  sat ");
    becomes(BP_WORDS_BASIC, "a (quietly) b [noise] c <unk> d", "a  b  c  d");
    becomes(BP_WORDS_BASIC, "open ( never", "open   never");
    becomes(BP_WORDS_BASIC, "\xc3\x84RGER \xe2\x80\x9ejetzt\xe2\x80\x9c", "\xc3\xa4rger  jetzt ");
    becomes(BP_WORDS_BASIC, "5 \xe2\x82\xac", "5  ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_all_short),
                                       cmocka_unit_test(test_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
