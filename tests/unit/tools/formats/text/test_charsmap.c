/* SPDX-License-Identifier: MIT */
/* Maps of characters that lie, and base64 that goes on behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tools/formats/text/token_charsmap.h"

/* One character, "a", that becomes the text at `offset`: the root, and in its place 2 ^ 'a' the
 * unit of "a", behind which the value stands. */
enum { UNITS = 256, TEXT = 12 };

static size_t make_map(unsigned char *to, uint32_t offset, const char *text, size_t length)
{
    uint32_t units[1 + UNITS] = {4 * UNITS};
    units[1] = 2u << 10;                             /* the root's children begin at 2 */
    units[1 + (2 ^ 'a')] = 4u << 10 | 1u << 8 | 'a'; /* it has a value, at its place ^ 4 */
    units[1 + (2 ^ 'a' ^ 4)] = 1u << 31 | offset;
    memcpy(to, units, sizeof units);
    memcpy(to + sizeof units, text, length);
    return sizeof units + length;
}

/* verifies formats-4.b9c7 */
static void maps_are_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        bool good;
    } rows[] = {{"b\0", 2, true},         {"b", 1, false},       {"\xc3\xa9\0", 3, true},
                {"\xc3", 1, false},       {"b\0\xc3", 3, false}, {"\xc3\0", 2, false},
                {"b\0\xe4\xb8", 4, false}};
    unsigned char bytes[4 * (1 + UNITS) + TEXT];
    bp_charsmap map;
    bp_error error;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t size = make_map(bytes, 0, rows[i].text, rows[i].length);
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_charsmap_open(&map, bytes, size, "test", &error),
                         rows[i].good ? BP_OK : BP_ERR_DATA);
    }
    for (uint32_t units = 0; units < 4 * UNITS + 16; units++) {
        const size_t size = make_map(bytes, 0, "b\0", 2);
        memcpy(bytes, &units, sizeof units);
        if (units % 4 == 0 && units > 0 && units < 4 * UNITS) {
            continue; /* what is behind it is no text, mostly */
        }
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_charsmap_open(&map, bytes, size, "test", &error),
                         units == 4 * UNITS ? BP_OK : BP_ERR_DATA);
    }
}

/* A value that leads to the middle of a character, or behind the texts, is none. */
/* verifies formats-29.15c2 */
static void values_lead_to_texts(void **state)
{
    (void)state;
    static const char texts[] = "b\0\xc3\xa9";
    static const char *const right[] = {"b", "", "\xc3\xa9", NULL, "", NULL, NULL};
    unsigned char bytes[4 * (1 + UNITS) + TEXT];
    for (uint32_t offset = 0; offset < sizeof right / sizeof right[0]; offset++) {
        bp_charsmap map;
        size_t used = 0, length = 0;
        const size_t size = make_map(bytes, offset, texts, sizeof texts);
        assert_int_equal(bp_charsmap_open(&map, bytes, size, "test", NULL), BP_OK);
        const char *found =
            bp_charsmap_find(&map, (const unsigned char *)"ax", 2, true, &used, &length);
        assert_int_equal(found != NULL, right[offset] != NULL);
        if (found != NULL) {
            assert_int_equal(used, 1);
            assert_int_equal(length, strlen(right[offset]));
            assert_memory_equal(found, right[offset], length);
        }
    }
}

/* verifies formats-4.b9c7 */
static void nothing_follows_the_end_of_base64(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool wrong;
    } rows[] = {{"YWJj", false}, {"YQ==", false}, {"YQ==YQ", true}, {"Y?", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char to[16];
        bp_base64 state64 = {.count = 0};
        (void)bp_base64_decode(&state64, rows[i].text, strlen(rows[i].text), to);
        assert_int_equal(state64.wrong, rows[i].wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_whole),
        cmocka_unit_test(values_lead_to_texts),
        cmocka_unit_test(nothing_follows_the_end_of_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
