/* SPDX-License-Identifier: MIT */
/* FLAC files: the samples of the same sounds in WAV (tools/golden/speech/flac.py), and files that
 * are cut, changed, or whose heads are wrong. Each file is unpacked by the libFLAC of this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/share.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/audio/speech.h"

#include "tools/bedplate/sources/flac_library.c"

enum { MOST = 65536, SAMPLES = 65536 };

static const char *const names[] = {"mono16", "stereo16", "mono24",  "stereo24", "eight",
                                    "six16",  "wide32",   "noise16", "silence16"};

enum { NAMES = sizeof names / sizeof names[0] };

static flac_library library;
static memory_store store;
static unsigned char bytes[MOST];
static float found[SAMPLES], right[SAMPLES];

/* A file of the golden folder. */
static size_t whole(const char *name, const char *kind)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/speech/flac/%s.%s", name, kind);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    assert_true(count > 0 && count < sizeof bytes);
    fclose(file);
    return count;
}

/* Whether this machine has the library; without it nothing can be compared. */
static void needs_library(void)
{
    bp_error error = {.code = BP_OK};
    if (library.handle == NULL && flac_load(&library.table, "a.flac", &error) != BP_OK) {
        print_message("skipped: %s\n", error.text);
        skip();
    }
}

static int begin(void **state)
{
    (void)state;
    flac_library_begin(&library);
    memory_store_init(&store);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(store.open_files, 0);
    memory_store_free(&store);
    flac_library_end(&library);
    return 0;
}

/* Reads `count` bytes as a FLAC file. */
static bp_status reads(size_t count, bp_flac *flac, bp_error *error)
{
    bool is = false;
    *error = (bp_error){.code = BP_OK};
    memory_store_put(&store, "a.flac", bytes, count);
    BP_TRY(bp_flac_open(flac, &store.store, "a.flac", &is, error));
    if (!is) {
        return BP_ERR_USAGE;
    }
    bp_status status =
        flac->frames > 0 ? BP_OK : bp_flac_count(flac, &library.table, SAMPLES, error);
    if (status == BP_OK && flac->frames <= SAMPLES) {
        status = bp_flac_read(flac, &library.table, found, error);
    }
    bp_flac_close(flac);
    return status;
}

/* verifies formats-75.ee3f */
static void flac_has_the_samples_of_wav(void **state)
{
    (void)state;
    needs_library();
    for (size_t n = 0; n < NAMES; n++) {
        static unsigned char room[BP_WAV_ROOM];
        bp_error error = {.code = BP_OK};
        bp_wav wav;
        bp_flac flac;
        memory_store_put(&store, "a.wav", bytes, whole(names[n], "wav"));
        assert_int_equal(bp_wav_open(&wav, &store.store, "a.wav", &error), BP_OK);
        assert_true(wav.frames > 0 && wav.frames <= SAMPLES);
        assert_int_equal(bp_wav_read(&wav, 0, wav.frames, room, right, &error), BP_OK);
        bp_wav_close(&wav);
        assert_int_equal(reads(whole(names[n], "flac"), &flac, &error), BP_OK);
        assert_int_equal(flac.frames, wav.frames);
        assert_int_equal(flac.rate, wav.rate);
        assert_int_equal(flac.channels, wav.channels);
        assert_int_equal(flac.bits, wav.bits);
        assert_memory_equal(found, right, (size_t)wav.frames * sizeof *right);
    }
}

/* Bits of STREAMINFO, counted from its first byte. */
static void head_set(uint32_t first, uint32_t count, uint64_t value)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = first + i;
        const unsigned char mask = (unsigned char)(0x80u >> at % 8);
        const bool one = (value >> (count - 1 - i) & 1) != 0;
        bytes[8 + at / 8] =
            (unsigned char)(one ? bytes[8 + at / 8] | mask : bytes[8 + at / 8] & ~mask);
    }
}

/* verifies formats-75.ee3f */
static void flac_of_unknown_length_is_counted(void **state)
{
    (void)state;
    needs_library();
    bp_error error;
    bp_flac flac;
    const size_t count = whole("mono16", "flac");
    head_set(108, 36, 0);
    assert_int_equal(reads(count, &flac, &error), BP_OK);
    assert_int_equal(flac.frames, 2500);
    /* and no further than to more than the most that is asked for */
    bool is = false;
    assert_int_equal(bp_flac_open(&flac, &store.store, "a.flac", &is, &error), BP_OK);
    assert_int_equal(bp_flac_count(&flac, &library.table, 1000, &error), BP_OK);
    assert_int_equal(flac.frames, 1001);
    bp_flac_close(&flac);
}

static void refused(size_t count, const char *text, int64_t number)
{
    bp_error error;
    bp_flac flac;
    assert_int_equal(reads(count, &flac, &error), BP_ERR_DATA);
    assert_string_equal(error.name, "a.flac");
    assert_non_null(strstr(error.text, text));
    assert_int_equal(error.found, number);
}

/* The byte at which a block of mono16 begins: each begins with these four. */
static size_t block_at(uint32_t index)
{
    const size_t count = whole("mono16", "flac");
    for (size_t at = 42; at + 4 < count; at++) {
        if (bytes[at] == 0xff && bytes[at + 1] == 0xf8 && bytes[at + 4] == index) {
            return at;
        }
    }
    fail_msg("no such block");
    return 0;
}

/* verifies formats-76.dd33 */
static void heads_that_are_wrong_are_refused(void **state)
{
    (void)state;
    needs_library();
    const size_t third = block_at(3), first = block_at(0);
    const size_t count = whole("mono16", "flac");
    refused(20, "ends inside its head", 20);
    head_set(108, 36, (uint64_t)1 << 14); /* more than is there */
    refused(count, "ends before the samples", 2500);
    whole("mono16", "flac");
    head_set(108, 36, 2000);
    refused(count, "more samples than its head announces", (int64_t)third);
    whole("mono16", "flac");
    head_set(80, 20, 44100);
    refused(count, "another rate", (int64_t)first);
    whole("mono16", "flac");
    head_set(100, 3, 1);
    refused(count, "another rate, or other channels", (int64_t)first);
    whole("mono16", "flac");
    head_set(80, 20, 0);
    refused(count, "no rate", 0);
    whole("mono16", "flac");
    head_set(103, 5, 2);
    refused(count, "too few bits", 3);
    whole("mono16", "flac");
    bytes[4] = 1; /* the first block is padding */
    refused(count, "does not begin with", 0);
    whole("mono16", "flac");
    refused(first - 10, "ends inside a block before its samples", 42);
    refused(44, "ends before its samples", 0);
}

/* verifies formats-76.dd33 */
static void blocks_that_are_damaged_are_refused_with_their_byte(void **state)
{
    (void)state;
    needs_library();
    const size_t third = block_at(3), second = block_at(2);
    const size_t count = whole("mono16", "flac");
    bytes[(second + third) / 2] ^= 4;
    refused(count, "damaged in the block that begins at byte", (int64_t)second);
    whole("mono16", "flac");
    refused((second + third) / 2, "ends before the samples", 1152);
    whole("mono16", "flac");
    bytes[8 + 18] ^= 1;
    refused(count, "another MD5", (int64_t)count);
}

/* splitmix64 */
static uint64_t draw_bits(uint64_t index)
{
    uint64_t x = (index + 33) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Damage of any kind is refused, unless the samples are what they were. */
/* verifies formats-76.dd33 */
static void random_damage_is_refused(void **state)
{
    (void)state;
    needs_library();
    const uint32_t trials = share_of(40000, 2000, 500);
    uint64_t drawn = 0, refusals = 0;
    for (uint32_t trial = 0; trial < trials; trial++) {
        bp_error error;
        bp_flac flac;
        size_t count = whole(names[trial % NAMES], "flac");
        assert_int_equal(reads(count, &flac, &error), BP_OK);
        const uint64_t frames = flac.frames;
        memcpy(right, found, (size_t)frames * sizeof *right);
        const uint64_t draw = draw_bits(drawn++);
        const uint32_t changes = (uint32_t)(draw % 4);
        for (uint32_t i = 0; i < changes; i++) {
            const uint64_t where_to = draw_bits(drawn++);
            bytes[4 + where_to % (count - 4)] = (unsigned char)(where_to >> 40);
        }
        if (changes == 0 || draw >> 60 == 0) {
            count = 4 + (size_t)(draw >> 8) % (count - 4);
        }
        const bp_status status = reads(count, &flac, &error);
        refusals += status != BP_OK ? 1 : 0;
        assert_true(status == BP_OK || status == BP_ERR_DATA);
        if (status != BP_OK) {
            assert_string_equal(error.name, "a.flac");
        } else if (flac.frames == frames && flac.bits > 0 && flac.frames <= SAMPLES) {
            assert_memory_equal(found, right, (size_t)frames * sizeof *right);
        }
    }
    assert_true(refusals > trials / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flac_has_the_samples_of_wav, begin, end),
        cmocka_unit_test_setup_teardown(flac_of_unknown_length_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(heads_that_are_wrong_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(blocks_that_are_damaged_are_refused_with_their_byte, begin,
                                        end),
        cmocka_unit_test_setup_teardown(random_damage_is_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
