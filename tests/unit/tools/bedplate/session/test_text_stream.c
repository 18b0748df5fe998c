/* SPDX-License-Identifier: MIT */
/* Generated text: cut between characters, well-formed, and ending in front of stop strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/clock.c"
#include "tools/bedplate/app/output.c"
#include "tools/bedplate/models/text_out.c"
/* what it lets out is text */
#include "tools/bedplate/session/text_stream.c"

static const run_tokenizer over_bytes = {.kind = TOKENIZER_BYTES};

static path_list *list_of(const char *const *words, uint32_t count)
{
    static path_list list;
    list.count = count;
    for (uint32_t i = 0; i < count; i++) {
        list.item[i] = words[i];
    }
    return &list;
}

/* Gives the bytes of `text` as ids and notes the pieces, separated by |; a ! where it stopped. */
static void pieces_are(const char *text, const char *const *words, uint32_t count,
                       const char *right)
{
    static text_stream r;
    bp_error error = {.code = BP_OK};
    char got[512];
    size_t used = 0, length;
    assert_int_equal(text_stream_check(list_of(words, count), &error), BP_OK);
    assert_int_equal(text_stream_begin(&r, &over_bytes, list_of(words, count), &error), BP_OK);
    for (; *text != '\0' && !r.stopped; text++) {
        const char *bytes = text_stream_next(&r, (unsigned char)*text, &length);
        memcpy(got + used, bytes, length);
        used += length;
        got[used++] = '|';
    }
    const bool early = r.stopped;
    const char *bytes = text_stream_end(&r, &length);
    memcpy(got + used, bytes, length);
    used += length;
    if (early || r.stopped) {
        got[used++] = '!';
    }
    got[used] = '\0';
    text_stream_close(&r);
    assert_string_equal(got, right);
}

/* verifies face-18.cca4 */
static void text_ends_in_front_of_a_stop_string(void **state)
{
    (void)state;
    const char *const end[] = {"END"};
    pieces_are("abENDc", end, 1, "a|b||||!");
    pieces_are("abENc", end, 1, "a|b|||ENc|");
    pieces_are("EEND", end, 1, "|E|||!");
    pieces_are("abEN", end, 1, "a|b|||EN");
    const char *const two[] = {"xyz", "y"};
    pieces_are("axyz", two, 2, "a||x|!");
    const char *const twice[] = {"aab"};
    pieces_are("aaab!", twice, 1, "||a||!");
    pieces_are("ab", NULL, 0, "a|b|");
}

/* verifies face-18.cca4 */
static void text_is_well_formed(void **state)
{
    (void)state;
    const char *const stop[] = {"\xe4\xb8\xad"};
    pieces_are("a\xe4\xb8\xadz", stop, 1, "a||||!");
    pieces_are("\xe4\xb8\xaez", stop, 1, "||\xe4\xb8\xae|z|");
}

/* verifies face-18.cca4 */
static void what_is_no_character_is_replaced(void **state)
{
    (void)state;
    pieces_are("a\xffz", NULL, 0, "a||\xef\xbf\xbdz|");
    pieces_are("a\xe4\xb8", NULL, 0, "a|||\xef\xbf\xbd");
    pieces_are("\xc3\xa9", NULL, 0, "|\xc3\xa9|");
}

/* verifies face-2.6b05 */
static void wrong_stop_strings_are_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"", "\xe4\xb8", "a\xff", "\xed\xa0\x80",
                                 "0123456789abcde\xc3\x28 and more of it"};
    const char *const right[] = {"0123456789abcde\xc3\xa9 and more of it", "\xef\xbf\xbd"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bp_error error = {.code = BP_OK};
        assert_int_equal(text_stream_check(list_of(&wrong[i], 1), &error), BP_ERR_USAGE);
        assert_string_equal(error.name, "--stop");
    }
    assert_int_equal(text_stream_check(list_of(right, 2), NULL), BP_OK);
}

/* Where the stop string begins that is whole first: the plain way. */
static size_t first_stop(const char *text, const path_list *stops)
{
    const size_t length = strlen(text);
    for (size_t end = 1; end <= length; end++) {
        for (size_t at = 0; at < end; at++) {
            for (uint32_t i = 0; i < stops->count; i++) {
                if (strlen(stops->item[i]) == end - at &&
                    memcmp(text + at, stops->item[i], end - at) == 0) {
                    return at;
                }
            }
        }
    }
    return length;
}

/* All texts of eight letters out of two, with every pair of stop strings of up to three letters. */
/* verifies face-18.cca4 */
static void nothing_of_a_stop_string_is_ever_handed_out(void **state)
{
    (void)state;
    static const char *const words[] = {"a", "b", "ab", "ba", "aab", "aba", "bba", "abab"};
    static text_stream r;
    for (unsigned pair = 0; pair < 64; pair++) {
        const char *const chosen[] = {words[pair % 8], words[pair / 8]};
        const path_list *stops = list_of(chosen, 2);
        for (unsigned number = 0; number < 256; number++) {
            char text[9] = {0}, got[9] = {0};
            size_t used = 0, count;
            for (unsigned i = 0; i < 8; i++) {
                text[i] = number >> i & 1 ? 'b' : 'a';
            }
            const size_t right = first_stop(text, stops);
            assert_int_equal(text_stream_begin(&r, &over_bytes, stops, NULL), BP_OK);
            for (unsigned i = 0; i < 8 && !r.stopped; i++) {
                const char *bytes = text_stream_next(&r, text[i], &count);
                memcpy(got + used, bytes, count);
                used += count;
                assert_true(used <= right);
            }
            const bool stopped = r.stopped;
            const char *bytes = text_stream_end(&r, &count);
            memcpy(got + used, bytes, count);
            used += count;
            assert_int_equal(used, right);
            assert_memory_equal(got, text, used);
            assert_int_equal(stopped, right < 8);
            text_stream_close(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_ends_in_front_of_a_stop_string),
        cmocka_unit_test(text_is_well_formed),
        cmocka_unit_test(what_is_no_character_is_replaced),
        cmocka_unit_test(wrong_stop_strings_are_refused),
        cmocka_unit_test(nothing_of_a_stop_string_is_ever_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
