/* SPDX-License-Identifier: MIT */
/* Data files as token sources, and parts of sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data.h"
#include "tools/formats/files/split.h"

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_data data;
    bp_data_file files[4];
    uint32_t count;
    bp_error error;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
}

static void fixture_put(fixture *d, const char *path, const void *bytes, size_t size)
{
    memory_store_put(&d->memory, path, bytes, size);
    d->files[d->count++].path = path;
}

static bp_status fixture_open(fixture *d, bp_data_format format)
{
    d->error = (bp_error){.code = BP_OK};
    return bp_data_open(&d->data, &d->faulty.store, d->files, d->count, format, &d->error);
}

static void fixture_end(fixture *d)
{
    bp_data_close(&d->data);
    bp_data_close(&d->data);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
}

/* An llm.c file of `count` tokens of `width` bytes, token i = 7 i + 1. */
static size_t llmc(unsigned char *bytes, uint32_t magic, uint32_t version, uint32_t count,
                   size_t width)
{
    const uint32_t header[3] = {magic, version, count};
    memset(bytes, 0, 1024);
    memcpy(bytes, header, sizeof header);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = 7 * i + 1;
        memcpy(bytes + 1024 + i * width, &token, width);
    }
    return 1024 + count * width;
}

/* verifies formats-23.429b */
static void text_is_read_as_bytes_across_files(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.txt", "\x00hel", 4);
    fixture_put(&d, "empty.txt", "", 0);
    fixture_put(&d, "b.txt", "lo\xff", 3);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_OK);
    assert_int_equal(d.data.format, BP_DATA_TEXT);
    assert_int_equal(d.data.source.count, 7);
    assert_string_equal(d.data.source.name, "a.txt");
    static const int32_t all[7] = {0, 'h', 'e', 'l', 'l', 'o', 255};
    for (uint32_t first = 0; first <= 7; first++) {
        for (uint32_t n = 0; n <= 7 - first; n++) {
            int32_t ids[8] = {-9, -9, -9, -9, -9, -9, -9, -9};
            bp_source *source = &d.data.source;
            assert_int_equal(source->read(source, first, n, ids), BP_OK);
            assert_memory_equal(ids, all + first, n * sizeof *ids);
            assert_int_equal(ids[n], -9);
        }
    }
    int32_t ids[8];
    bp_source *source = &d.data.source;
    assert_int_equal(source->read(source, 5, 3, ids), BP_ERR_INTERNAL);
    assert_int_equal(source->read(source, 8, 0, ids), BP_ERR_INTERNAL);
    fixture_end(&d);
}

/* verifies formats-11.6e9f */
static void llmc_files_of_both_widths(void **state)
{
    (void)state;
    static const struct {
        uint32_t magic;
        uint32_t version;
        size_t width;
    } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
    for (size_t k = 0; k < 2; k++) {
        fixture d;
        unsigned char bytes[4096];
        fixture_begin(&d);
        size_t size = llmc(bytes, kinds[k].magic, kinds[k].version, 100, kinds[k].width);
        fixture_put(&d, "one.bin", bytes, size);
        fixture_put(&d, "two", bytes, size);
        assert_int_equal(fixture_open(&d, k == 0 ? BP_DATA_AUTO : BP_DATA_LLMC), BP_OK);
        assert_int_equal(d.data.format, BP_DATA_LLMC);
        assert_int_equal(d.data.source.count, 200);
        int32_t ids[200];
        bp_source *source = &d.data.source;
        assert_int_equal(source->read(source, 0, 200, ids), BP_OK);
        for (int i = 0; i < 200; i++) {
            assert_int_equal(ids[i], 7 * (i % 100) + 1);
        }
        assert_int_equal(source->read(source, 98, 5, ids), BP_OK);
        assert_int_equal(ids[1], 7 * 99 + 1);
        assert_int_equal(ids[2], 1);
        fixture_end(&d);
    }
}

/* verifies formats-23.429b */
static void nanogpt_files(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 2, 255, 255, 80, 196};
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "train.bin", bytes, sizeof bytes);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_OK);
    assert_int_equal(d.data.format, BP_DATA_NANOGPT);
    int32_t ids[3];
    bp_source *source = &d.data.source;
    assert_int_equal(source->read(source, 0, 3, ids), BP_OK);
    assert_int_equal(ids[0], 513);
    assert_int_equal(ids[1], 65535);
    assert_int_equal(ids[2], 50256);
    /* Asked for, any name and any format is taken. */
    bp_data_close(&d.data);
    assert_int_equal(fixture_open(&d, BP_DATA_TEXT), BP_OK);
    assert_int_equal(d.data.source.count, 6);
    fixture_end(&d);
    fixture_begin(&d);
    fixture_put(&d, "tokens", bytes, sizeof bytes);
    assert_int_equal(fixture_open(&d, BP_DATA_NANOGPT), BP_OK);
    assert_int_equal(d.data.source.count, 3);
    fixture_end(&d);
}

/* Opens one file and expects a refusal that names it, with these numbers. */
static void refused(const char *path, const void *bytes, size_t size, bp_data_format format,
                    int64_t found, int64_t wanted)
{
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, path, bytes, size);
    assert_int_equal(fixture_open(&d, format), BP_ERR_DATA);
    assert_string_equal(d.error.name, path);
    assert_true(d.error.numbers);
    assert_int_equal(d.error.found, found);
    assert_int_equal(d.error.wanted, wanted);
    fixture_end(&d);
}

/* verifies formats-11.6e9f */
static void damaged_token_files_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    size_t size = llmc(bytes, 20240520, 1, 100, 2);
    refused("cut.bin", bytes, size - 1, BP_DATA_AUTO, 1223, 1224);
    refused("long.bin", bytes, size + 2, BP_DATA_AUTO, 1226, 1224);
    refused("head.bin", bytes, 1023, BP_DATA_LLMC, 20240520, 20240520);
    refused("odd.bin", bytes + 1, 33, BP_DATA_AUTO, 33, 32);
    llmc(bytes, 20240520, 2, 100, 2);
    refused("new.bin", bytes, size, BP_DATA_AUTO, 2, 1);
    llmc(bytes, 20240801, 1, 100, 2);
    refused("wide.bin", bytes, size, BP_DATA_AUTO, 1, 7);
    llmc(bytes, 20240520, 1, 100, 2);
    memset(bytes + 8, 255, 4); /* the header's count */
    refused("huge.bin", bytes, size, BP_DATA_AUTO, 1224, 1024 + 2 * (int64_t)UINT32_MAX);
    llmc(bytes, 20240326, 3, 100, 2);
    refused("model.bin", bytes, size, BP_DATA_AUTO, 20240326, 20240520);
    refused("model.bin", bytes, size, BP_DATA_LLMC, 20240326, 20240520);
    refused("text", "short", 5, BP_DATA_LLMC, 0, 20240520);
}

/* verifies formats-55.dd1c */
static void files_of_two_kinds_or_none_are_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_ERR_DATA);
    fixture_put(&d, "a.txt", "text", 4);
    fixture_put(&d, "b.bin", "text", 4);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_ERR_DATA);
    assert_string_equal(d.error.name, "b.bin");
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.txt", "a text long enough", 18);
    fixture_put(&d, "b.txt", "a text long enough", 18);
    for (size_t i = 0; i < 3; i++) {
        faulty_store_arm(&d.faulty, kinds[i], 2, false);
        assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_ERR_STORE);
        assert_int_equal(d.memory.open_files, 0);
    }
    faulty_store_arm(&d.faulty, FAULT_READ_AT, 0, false);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_OK);
    faulty_store_arm(&d.faulty, FAULT_READ_AT, 1, false);
    int32_t ids[4];
    bp_source *source = &d.data.source;
    assert_int_equal(source->read(source, 0, 4, ids), BP_ERR_STORE);
    assert_string_equal(d.error.name, "a.txt (read)");
    fixture_end(&d);
}

static bp_status marks(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = (first + i) % 2 == 0;
    }
    return BP_OK;
}

/* verifies formats-55.dd1c */
static void a_split_is_a_view(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "a.txt", "0123456789", 10);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_OK);
    bp_source *inner = &d.data.source;
    bp_part kept;
    bp_part held;
    int32_t ids[3];
    uint8_t counts[3];
    assert_int_equal(bp_part_tail(&kept, &held, inner, 0.35), BP_OK);
    assert_int_equal(kept.source.count, 7);
    assert_int_equal(held.source.count, 3);
    assert_null(held.source.targets);
    assert_int_equal(held.source.read(&held.source, 0, 3, ids), BP_OK);
    assert_int_equal(ids[0], '7');
    assert_int_equal(ids[2], '9');
    assert_int_equal(kept.source.read(&kept.source, 6, 1, ids), BP_OK);
    assert_int_equal(ids[0], '6');
    inner->targets = marks;
    assert_int_equal(bp_part_init(&held, inner, 7, 3), BP_OK);
    assert_int_equal(held.source.targets(&held.source, 0, 3, counts), BP_OK);
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 1);
    assert_int_equal(bp_part_init(&held, inner, 11, 0), BP_ERR_USAGE);
    assert_int_equal(bp_part_init(&held, inner, 8, 3), BP_ERR_USAGE);
    assert_int_equal(bp_part_tail(&kept, &held, inner, 0.0), BP_ERR_USAGE);
    assert_int_equal(bp_part_tail(&kept, &held, inner, 1.0), BP_ERR_USAGE);
    fixture_end(&d);
}

/* What begins as an llm.c file of another kind is text under another name; and where the first of
 * two files is not there, the second is not looked for. */
/* verifies formats-23.429b */
static void names_and_order_of_files_count(void **state)
{
    (void)state;
    unsigned char bytes[2048];
    for (int text = 0; text < 2; text++) {
        fixture d;
        fixture_begin(&d);
        const size_t size = llmc(bytes, 20240326, 1, 100, 2); /* a model of llm.c */
        fixture_put(&d, text != 0 ? "a.txt" : "a.bin", bytes, size);
        assert_int_equal(fixture_open(&d, BP_DATA_AUTO), text != 0 ? BP_OK : BP_ERR_DATA);
        assert_int_equal(text != 0 ? d.data.source.count : size, size);
        fixture_end(&d);
    }
    fixture d;
    fixture_begin(&d);
    fixture_put(&d, "none.txt", "", 0);
    fixture_put(&d, "b.txt", "text", 4);
    faulty_store_arm(&d.faulty, FAULT_OPEN_READ, 1, true);
    assert_int_equal(fixture_open(&d, BP_DATA_AUTO), BP_ERR_STORE);
    assert_int_equal(d.faulty.calls[FAULT_OPEN_READ], 1);
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read_as_bytes_across_files),
        cmocka_unit_test(llmc_files_of_both_widths),
        cmocka_unit_test(nanogpt_files),
        cmocka_unit_test(damaged_token_files_are_refused),
        cmocka_unit_test(files_of_two_kinds_or_none_are_refused),
        cmocka_unit_test(storage_that_fails_is_said_so),
        cmocka_unit_test(a_split_is_a_view),
        cmocka_unit_test(names_and_order_of_files_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
