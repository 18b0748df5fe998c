/* SPDX-License-Identifier: MIT */
/* Where text is cut into words, of every split rule. Expected cuts of the patterns are those of
 * Python's `regex` (2025) with the patterns of the tokenizer files; the others' are said by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/formats/text/token_split.h"

#define META "\xe2\x96\x81"

typedef struct cut_text {
    bp_split_rule rule;
    const char *words; /* with ^ between */
} cut_text;

static const cut_text patterns[] = {
    {BP_SPLIT_GPT2,
     "it^'s^ '^tis^ I^'m^ I^'d^ they^'ve^ we^'re^ he^'ll^ x^'^lx^ x^'^rx^ x^'^vx^ x^'^q^ '^S"},
    {BP_SPLIT_GPT2, "don^'t^ x^'t^s"},
    {BP_SPLIT_GPT2, "a^'"},
    {BP_SPLIT_GPT2, "a^'^l"},
    {BP_SPLIT_GPT2, "a^ ^ b^ \n\n^ c^ 12^ +-^  "},
    {BP_SPLIT_GPT2, "\xe4\xb8\xad^12\xd9\xa3^!^\xe3\x80\x80^x"},
    {BP_SPLIT_DIGITS, "a^1^2^ ^3^ b^4^  ^5"},
    {BP_SPLIT_DIGITS, " ^7^x"},
    {BP_SPLIT_DIGITS, "a^  ^7"},
    {BP_SPLIT_DIGITS, "+^1"},
    {BP_SPLIT_DIGITS, " "},
    {BP_SPLIT_LLAMA3, "IT^'S^ I^'M^ I^'D^ THEY^'VE^ we^'re^ he^'LL^ x^'\xc5\xbf^ x^'\xc5\x81^ "
                      "x^'\xc3\x85^ x^'Lx^ '^R"},
    {BP_SPLIT_LLAMA3, "123^456^7^ x^!y^ !!\n\n^z^ \n^ \t^ k"},
    {BP_SPLIT_LLAMA3, "a^/b^//\n^!/\n^q"},
    {BP_SPLIT_LLAMA3, "(a^)(\n^b^\r\n\r^c^  "},
    {BP_SPLIT_LLAMA3, " ^1^\xe4\xb8\xad^ ^2"},
    {BP_SPLIT_QWEN2, "1^2^3^ a^1^2^\n\n^4"},
    {BP_SPLIT_TEKKEN, "hello^World^ HELLOWorld^ ABC^ a^1^B^2^\n^C"},
    {BP_SPLIT_TEKKEN, "\xe4\xb8\xad"
                      "A\xe4\xb8\xad"
                      "Bc^ A\xe4\xb8\xad^B^ !^HELLO^ !^x^ !^1^ \xcc\x81^HELLO^ A"},
    {BP_SPLIT_TEKKEN, "x^'s^ X^'S^ !/\n/^ \n^A"},
    {BP_SPLIT_TEKKEN, "a^//^b^/"},
    {BP_SPLIT_TEKKEN, "\xc7\x85"
                      "a^ A^!b"},
    {BP_SPLIT_GPT4O, "x's^ X'S^ He'LL^ o^'clock^ a^'r^ A^'l^ ^123^4"},
    {BP_SPLIT_GPT4O, "hello^World's^ A'S^b"},
    {BP_SPLIT_GPT4O, "\xe4\xb8\xad^A's^\n\r^B^'"},
    {BP_SPLIT_GPT4O, "!A\xcc\x81"
                     "b^ !\xcc\x81"},
};

static const cut_text marks[] = {
    {BP_SPLIT_META, "a^" META "b^" META "^" META "c"},
    {BP_SPLIT_META, "\xe4\xb8\xad\xe2\x82\x81\xe2\x96\x82"},
    {BP_SPLIT_META, META "^" META},
    {BP_SPLIT_SPACES, "a^" META "b^" META META "c^" META},
    {BP_SPLIT_SPACES, META META "a"},
    {BP_SPLIT_BERT, "ab^ ^c^,^.^  ^d"},
    {BP_SPLIT_BERT, "\xe3\x80\x80 ^x\xc3\xa9^\xe3\x80\x82^ "},
};

/* The whole text at once. */
static size_t cut_at_once(const bp_tokenizer *t, const char *text, size_t length, size_t *ends)
{
    size_t count = 0;
    for (size_t begin = 0; begin < length; begin = ends[count++]) {
        bp_split split = {0};
        size_t end = 0;
        assert_true(bp_split_next(t, &split, (const unsigned char *)text + begin, length - begin,
                                  true, &end));
        assert_in_range(end, 1, length - begin);
        ends[count] = begin + end;
    }
    return count;
}

/* A character more with each call: an end that is told before the text's is that of the whole. */
static size_t cut_bit_by_bit(const bp_tokenizer *t, const char *text, size_t length, size_t *ends)
{
    size_t count = 0;
    for (size_t begin = 0; begin < length; begin = ends[count++]) {
        bp_split split = {0};
        size_t end = 0, given = 1;
        bool known = false;
        while (!known) {
            while (begin + given < length && (text[begin + given] & 0xc0) == 0x80) {
                given++;
            }
            assert_in_range(given, 1, length - begin);
            const bool final = begin + given == length;
            known =
                bp_split_next(t, &split, (const unsigned char *)text + begin, given, false, &end) ||
                (final &&
                 bp_split_next(t, &split, (const unsigned char *)text + begin, given, true, &end));
            given++;
        }
        ends[count] = begin + end;
    }
    return count;
}

static void is_cut(const bp_tokenizer *t, const char *words)
{
    char text[256];
    size_t length = 0, wanted = 0, right[128], ends[256];
    for (const char *at = words; *at != '\0'; at++) {
        if (*at == '^') {
            right[wanted++] = length;
        } else {
            text[length++] = *at;
        }
    }
    right[wanted++] = length;
    for (int bits = 0; bits < 2; bits++) {
        const size_t count = (bits == 0 ? cut_at_once : cut_bit_by_bit)(t, text, length, ends);
        for (size_t i = 0; i < count && i < wanted; i++) {
            if (ends[i] != right[i]) {
                fail_msg("%s, %s: word %zu ends at %zu and not at %zu", words,
                         bits == 0 ? "at once" : "bit by bit", i, ends[i], right[i]);
            }
        }
        assert_int_equal(count, wanted);
    }
}

static void rows_are_cut(const cut_text *rows, size_t count)
{
    static bp_tokenizer t;
    for (size_t i = 0; i < count; i++) {
        memset(&t, 0, sizeof t);
        t.rules.split = rows[i].rule;
        is_cut(&t, rows[i].words);
    }
}

/* verifies formats-3.2920 */
static void patterns_cut_as_regex_does(void **state)
{
    (void)state;
    rows_are_cut(patterns, sizeof patterns / sizeof patterns[0]);
}

/* verifies formats-3.2920 */
static void marks_and_spaces_cut(void **state)
{
    (void)state;
    rows_are_cut(marks, sizeof marks / sizeof marks[0]);
}

/* One word, cut only where no merge reaches across; of characters the first and last byte count,
 * and U+2581 is a byte of its own. */
/* verifies formats-3.2920 */
static void a_whole_is_cut_where_nothing_joins(void **state)
{
    (void)state;
    static uint64_t bridges[256 * 256 / 64];
    static bp_tokenizer t;
    static const struct {
        unsigned left, right;
    } joined[] = {{'a', 'b'}, {'b', 0xe4}, {0xad, 'c'}, {0xff, 'a'}, {0xe4, 0xb8}, {0x82, 0xff}};
    memset(bridges, 0, sizeof bridges);
    for (size_t i = 0; i < sizeof joined / sizeof joined[0]; i++) {
        const unsigned bit = joined[i].left * 256 + joined[i].right;
        bridges[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    t = (bp_tokenizer){.rules = {.kind = BP_TOKENIZER_CHAR_BPE}, .bridges = bridges};
    is_cut(&t, "a"); /* without merges a word is as long as what is given */
    t.merge_count = 1;
    is_cut(&t, "ab\xe4\xb8\xad"
               "c^a^" META "ab^b^\xe2\x96\x82" META "a^\xc3\xa9^ab");
    t.rules.kind = BP_TOKENIZER_BYTE_BPE;
    is_cut(&t, "ab\xe4\xb8^\xad"
               "c^a^\xe2^\x96^\x81^ab");
    t.rules.native = true;
    is_cut(&t, "ab\xe4\xb8\xad"
               "c a b");
    t.rules = (bp_token_rules){.kind = BP_TOKENIZER_UNIGRAM};
    is_cut(&t, "c b a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns_cut_as_regex_does),
                                       cmocka_unit_test(marks_and_spaces_cut),
                                       cmocka_unit_test(a_whole_is_cut_where_nothing_joins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
