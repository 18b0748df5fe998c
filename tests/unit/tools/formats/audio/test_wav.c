/* SPDX-License-Identifier: MIT */
/* WAV files of every form that is read, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/audio/wav.h"

enum { MOST = 4096 };

/* A file as it is made. */
typedef struct made {
    unsigned char bytes[MOST];
    size_t used;
} made;

static void put(made *m, const void *from, size_t count)
{
    assert_true(count <= sizeof m->bytes - m->used);
    memcpy(m->bytes + m->used, from, count);
    m->used += count;
}

static void number(made *m, uint64_t value, size_t count)
{
    unsigned char byte;
    for (size_t i = 0; i < count; i++) {
        byte = (unsigned char)(value >> (8 * i));
        put(m, &byte, 1);
    }
}

/* The head of a file, up to its samples' bytes. */
static void head(made *m, uint32_t tag, uint32_t channels, uint32_t rate, uint32_t bits,
                 uint32_t data)
{
    const bool extensible = tag > 0xffff;
    m->used = 0;
    put(m, "RIFF", 4);
    number(m, 36 + data, 4);
    put(m, "WAVEJUNK", 8); /* a chunk of odd size that nobody reads */
    number(m, 3, 4);
    put(m, "abc", 4);
    put(m, "fmt ", 4);
    number(m, extensible ? 40 : 16, 4);
    number(m, extensible ? 0xfffe : tag, 2);
    number(m, channels, 2);
    number(m, rate, 4);
    number(m, rate * channels * bits / 8, 4);
    number(m, channels * bits / 8, 2);
    number(m, bits, 2);
    if (extensible) {
        number(m, 22, 2);
        number(m, bits, 2);
        number(m, 0, 4);
        number(m, tag >> 16, 2);
        put(m, "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);
    }
    put(m, "data", 4);
    number(m, data, 4);
}

static bp_status opened(memory_store *store, const made *m, bp_wav *wav, bp_error *error)
{
    memory_store_init(store);
    memory_store_put(store, "a.wav", (const char *)m->bytes, m->used);
    *error = (bp_error){.code = BP_OK};
    return bp_wav_open(wav, &store->store, "a.wav", error);
}

/* Reads two channels of three frames; `value`s are numbers of `bits`, or bits of floats. */
static void reads(uint32_t tag, uint32_t bits, const uint32_t value[6], const double right[3])
{
    static made m;
    memory_store store;
    bp_wav wav;
    bp_error error;
    unsigned char room[BP_WAV_ROOM];
    float got[3];
    head(&m, tag, 2, 22050, bits, 6 * bits / 8);
    for (uint32_t i = 0; i < 6; i++) {
        number(&m, value[i], bits / 8);
    }
    assert_int_equal(opened(&store, &m, &wav, &error), BP_OK);
    assert_int_equal(wav.frames, 3);
    assert_int_equal(wav.rate, 22050);
    assert_int_equal(wav.channels, 2);
    assert_int_equal(bp_wav_read(&wav, 0, 3, room, got, &error), BP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(fabs((double)got[i] - right[i]) < 1e-7);
    }
    assert_int_equal(bp_wav_read(&wav, 2, 1, room, got, &error), BP_OK);
    assert_true(fabs((double)got[0] - right[2]) < 1e-7);
    bp_wav_close(&wav);
    assert_int_equal(store.open_files, 0);
    memory_store_free(&store);
}

/* verifies formats-75.ee3f */
static void test_forms(void **state)
{
    (void)state;
    const double right[3] = {0.5, -0.25, -1.0};
    reads(1, 8, (const uint32_t[]){192, 192, 64, 128, 0, 0}, right);
    reads(1, 16, (const uint32_t[]){0x4000, 0x4000, 0xc000, 0, 0x8000, 0x8000}, right);
    reads(1, 24, (const uint32_t[]){0x400000, 0x400000, 0xc00000, 0, 0x800000, 0x800000}, right);
    reads(1, 32, (const uint32_t[]){0x40000000, 0x40000000, 0xc0000000, 0, 0x80000000, 0x80000000},
          right);
    reads(3, 32, (const uint32_t[]){0x3f000000, 0x3f000000, 0xbf000000, 0, 0xbf800000, 0xbf800000},
          right);
    reads(1u << 16 | 0xfffe, 16, (const uint32_t[]){0x4000, 0x4000, 0xc000, 0, 0x8000, 0x8000},
          right);
    reads(3u << 16 | 0xfffe, 32,
          (const uint32_t[]){0x3f000000, 0x3f000000, 0xbf000000, 0, 0xbf800000, 0xbf800000}, right);
}

/* More samples than go through the room at once. */
/* verifies formats-75.ee3f */
static void test_long(void **state)
{
    static unsigned char bytes[60 + 40000];
    static float got[20000];
    static made m;
    memory_store store;
    bp_wav wav;
    bp_error error = {.code = BP_OK};
    unsigned char room[BP_WAV_ROOM];
    (void)state;
    head(&m, 1, 1, 16000, 16, UINT32_MAX); /* a writer that did not know the length */
    memcpy(bytes, m.bytes, m.used);
    for (uint32_t i = 0; i < 20000; i++) {
        bytes[m.used + 2 * i] = (unsigned char)i;
        bytes[m.used + 2 * i + 1] = (unsigned char)(i >> 8 & 0x7f);
    }
    memory_store_init(&store);
    memory_store_put(&store, "a.wav", (const char *)bytes, m.used + 40000);
    assert_int_equal(bp_wav_open(&wav, &store.store, "a.wav", &error), BP_OK);
    assert_int_equal(wav.frames, 20000);
    assert_int_equal(bp_wav_read(&wav, 0, 20000, room, got, &error), BP_OK);
    for (uint32_t i = 0; i < 20000; i++) {
        assert_true((double)got[i] * 32768.0 - (double)(i & 0x7fff) < 1e-9);
    }
    bp_wav_close(&wav);
    memory_store_free(&store);
}

static void refused(const made *m, const char *text)
{
    memory_store store;
    bp_wav wav;
    bp_error error;
    assert_int_equal(opened(&store, m, &wav, &error), BP_ERR_DATA);
    assert_string_equal(error.name, "a.wav");
    if (strstr(error.text, text) == NULL) {
        fail_msg("\"%s\" for \"%s\"", error.text, text);
    }
    assert_int_equal(store.open_files, 0);
    memory_store_free(&store);
}

/* verifies formats-76.dd33 */
static void test_refused(void **state)
{
    static made m;
    (void)state;
    static const char *const others[][2] = {{"fLaC12345678", "FLAC"},
                                            {"OggS12345678", "Ogg"},
                                            {"ID3\x04"
                                             "12345678",
                                             "MP3"},
                                            {"RF6412345678", "RF64"},
                                            {"RIFX12345678", "RIFX"},
                                            {"hello, world", "neither a WAV nor a FLAC file"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        m.used = 0;
        put(&m, others[i][0], 12);
        refused(&m, others[i][1]);
    }
    m.used = 0;
    refused(&m, "neither a WAV nor a FLAC file");
    head(&m, 1, 1, 16000, 16, 0);
    refused(&m, "no sample");
    head(&m, 1, 1, 16000, 16, 8);
    refused(&m, "ends before the samples");
    head(&m, 1, 0, 16000, 16, 0);
    refused(&m, "channels");
    head(&m, 1, BP_WAV_CHANNELS_MOST + 1, 16000, 16, 0);
    refused(&m, "channels");
    head(&m, 1, 1, 0, 16, 0);
    refused(&m, "rate");
    head(&m, 6, 1, 8000, 8, 0);
    refused(&m, "format tag");
    head(&m, 3, 1, 8000, 64, 0);
    refused(&m, "format tag");
    head(&m, 1, 1, 8000, 12, 0);
    refused(&m, "format tag");
    /* every shorter file */
    head(&m, 1, 1, 16000, 16, 2);
    number(&m, 0, 2);
    const size_t whole = m.used;
    for (m.used = 0; m.used < whole; m.used++) {
        memory_store store;
        bp_wav wav;
        bp_error error;
        assert_int_equal(opened(&store, &m, &wav, &error), BP_ERR_DATA);
        assert_int_equal(store.open_files, 0);
        memory_store_free(&store);
    }
}

/* verifies formats-76.dd33 */
static void test_not_finite(void **state)
{
    static const uint32_t bits[] = {0x7fc00000, 0x7f800000, 0xff800000};
    static made m;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        memory_store store;
        bp_wav wav;
        bp_error error;
        unsigned char room[BP_WAV_ROOM];
        float got[2];
        head(&m, 3, 1, 16000, 32, 8);
        number(&m, 0, 4);
        number(&m, bits[i], 4);
        assert_int_equal(opened(&store, &m, &wav, &error), BP_OK);
        assert_int_equal(bp_wav_read(&wav, 0, 2, room, got, &error), BP_ERR_DATA);
        assert_int_equal(error.found, 1);
        assert_string_equal(error.name, "a.wav");
        bp_wav_close(&wav);
        memory_store_free(&store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
