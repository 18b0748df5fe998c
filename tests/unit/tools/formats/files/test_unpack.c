/* SPDX-License-Identifier: MIT */
/* Packed files, made by gzip and zstd (tools/golden/formats/packed.sh): whole, cut anywhere,
 * damaged anywhere, with failing storage, and ones that would become too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/disk_file.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/files/unpack.h"

static const char *const golden[] = {"tests/golden/packed/texts.jsonl.gz",
                                     "tests/golden/packed/texts.jsonl.zst"};

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_error error;
    bp_unpack u;
    char text[20000]; /* what is packed */
    size_t length;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    d->memory.free_bytes = 1 << 30;
    faulty_store_init(&d->faulty, &d->memory.store);
    for (int i = 0; i < 400; i++) {
        d->length += (size_t)snprintf(d->text + d->length, sizeof d->text - d->length,
                                      "{\"text\": \"%d bottles of %s\"}\n", i,
                                      i * i % 7 != 0 ? "ale" : "beer");
    }
}

static void fixture_end(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
}

/* Unpacks `bytes` to "out". */
static bp_status fixture_unpack(fixture *d, const void *bytes, size_t size, uint64_t most)
{
    bp_store *store = &d->faulty.store;
    bp_file file;
    memory_store_put(&d->memory, "in", bytes, size);
    d->error = (bp_error){.code = BP_OK};
    d->u = (bp_unpack){.store = store, .name = "in", .to = "out", .most = most, .error = &d->error};
    if (store->open_read(store, "in", &file) != BP_OK) {
        return BP_ERR_STORE;
    }
    d->u.from = file;
    d->u.kind = bp_content_of(bytes, size < BP_CONTENT_HEAD ? size : BP_CONTENT_HEAD).kind;
    bp_status status = bp_unpack_measure(&d->u);
    if (status == BP_OK) {
        d->u.memory = malloc((size_t)d->u.bytes);
        status = bp_unpack_run(&d->u);
        free(d->u.memory);
    }
    assert_int_equal(d->error.code, status);
    if (store->close(store, file) != BP_OK && status == BP_OK) {
        status = BP_ERR_STORE;
    }
    return status;
}

static bool is_there(fixture *d)
{
    bool there = false;
    assert_int_equal(d->memory.store.exists(&d->memory.store, "out", &there), BP_OK);
    return there;
}

/* Whether "out" holds the texts, or what a flipped byte of no matter leaves. */
static void assert_texts(fixture *d)
{
    static char found[sizeof d->text];
    bp_store *store = &d->memory.store;
    bp_file file;
    uint64_t size;
    assert_int_equal(store->open_read(store, "out", &file), BP_OK);
    assert_int_equal(store->file_size(store, file, &size), BP_OK);
    assert_int_equal(size, d->length);
    assert_int_equal(d->u.written, d->length);
    assert_int_equal(store->read_at(store, file, 0, found, d->length), BP_OK);
    assert_memory_equal(found, d->text, d->length);
    assert_int_equal(store->close(store, file), BP_OK);
    assert_int_equal(store->remove(store, "out"), BP_OK);
}

/* Each golden file, read, on a fixture of its own. */
static void for_each_golden(void (*with)(fixture *d, size_t i, unsigned char *bytes, size_t size))
{
    for (size_t i = 0; i < 2; i++) {
        fixture d;
        size_t size;
        fixture_begin(&d);
        unsigned char *bytes = disk_file_read(golden[i], &size);
        with(&d, i, bytes, size);
        free(bytes);
        fixture_end(&d);
    }
}

static void unpack_whole(fixture *d, size_t i, unsigned char *bytes, size_t size)
{
    (void)i;
    assert_int_equal(fixture_unpack(d, bytes, size, d->length), BP_OK);
    assert_texts(d);
}

/* verifies formats-15.f83f */
static void files_of_several_parts_are_unpacked(void **state)
{
    (void)state;
    for_each_golden(unpack_whole);
}

static void unpack_cut(fixture *d, size_t i, unsigned char *bytes, size_t size)
{
    size_t whole = 0; /* cuts between parts, which leave whole files */
    for (size_t cut = 4; cut < size; cut++) {
        if (fixture_unpack(d, bytes, cut, 1 << 20) == BP_OK) {
            assert_true(d->u.written == 5000);
            assert_int_equal(d->memory.store.remove(&d->memory.store, "out"), BP_OK);
            whole++;
            continue;
        }
        assert_int_equal(d->error.code, BP_ERR_DATA);
        assert_string_equal(d->error.name, "in");
        assert_false(is_there(d));
    }
    assert_int_equal(whole, 1 + i); /* zstd: before and behind what is passed over */
}

/* verifies formats-15.f83f */
static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for_each_golden(unpack_cut);
}

static void unpack_changed(fixture *d, size_t i, unsigned char *bytes, size_t size)
{
    (void)i;
    size_t found = 0;
    for (size_t at = 0; at < size; at++) {
        bytes[at] ^= (unsigned char)(1u << at % 8);
        if (bp_content_of(bytes, size).kind == BP_CONTENT_OTHER) {
            found++;
        } else if (fixture_unpack(d, bytes, size, 1 << 20) == BP_OK) {
            assert_texts(d);
        } else {
            assert_int_equal(d->error.code, BP_ERR_DATA);
            assert_false(is_there(d));
            found++;
        }
        bytes[at] ^= (unsigned char)(1u << at % 8);
    }
    assert_true(found > size - 40); /* times and names, and what is passed over */
}

/* verifies formats-15.f83f */
static void a_changed_byte_is_found_or_of_no_matter(void **state)
{
    (void)state;
    for_each_golden(unpack_changed);
}

static void unpack_followed(fixture *d, size_t i, unsigned char *bytes, size_t size)
{
    unsigned char *more = calloc(1, size + 3000);
    memcpy(more, bytes, size);
    /* gzip's files may be padded with zeros, as on tapes. */
    assert_int_equal(fixture_unpack(d, more, size + 3000, 1 << 20), i == 0 ? BP_OK : BP_ERR_DATA);
    if (i == 0) {
        assert_texts(d);
    }
    memcpy(more + size, "hello", 5);
    assert_int_equal(fixture_unpack(d, more, size + 5, 1 << 20), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "something else follows"));
    assert_false(is_there(d));
    free(more);
}

/* verifies formats-15.f83f */
static void what_follows_the_packed_data_is_refused(void **state)
{
    (void)state;
    for_each_golden(unpack_followed);
}

/* A thousand blocks of four bytes that each stand for 128 KiB. */
/* verifies formats-15.f83f */
static void a_bomb_ends_at_the_limit(void **state)
{
    (void)state;
    static unsigned char bomb[6 + 4000];
    fixture d;
    fixture_begin(&d);
    memcpy(bomb, "\x28\xb5\x2f\xfd\x00\x38", 6); /* a window of 128 KiB */
    for (size_t i = 0; i < 1000; i++) {
        memcpy(bomb + 6 + 4 * i, i == 999 ? "\x03\x00\x10x" : "\x02\x00\x10x", 4);
    }
    assert_int_equal(fixture_unpack(&d, bomb, sizeof bomb, 3000000), BP_ERR_STORE);
    assert_true(d.u.written <= 3000000);
    assert_true(d.u.bytes < 1000000);
    assert_false(is_there(&d));
    assert_int_equal(fixture_unpack(&d, bomb, sizeof bomb, 131072000), BP_OK);
    assert_int_equal(d.u.written, 131072000);
    fixture_end(&d);
}

/* verifies formats-15.f83f */
static void windows_that_are_too_large_are_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    /* Windows of 2^28 and 2^27 bytes, and a block of one byte. */
    assert_int_equal(fixture_unpack(&d, "\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00x", 10, 100),
                     BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "a window"));
    assert_int_equal(fixture_unpack(&d, "\x28\xb5\x2f\xfd\x00\x88\x09\x00\x00x", 10, 100), BP_OK);
    assert_int_equal(d.u.written, 1);
    /* A dictionary, and a block of no known kind. */
    assert_int_equal(fixture_unpack(&d, "\x28\xb5\x2f\xfd\x01\x38\x07\x09\x00\x00x", 11, 100),
                     BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "dictionary"));
    assert_int_equal(fixture_unpack(&d, "\x28\xb5\x2f\xfd\x00\x38\x0f\x00\x00x", 10, 100),
                     BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "damaged"));
    fixture_end(&d);
}

static void unpack_failing(fixture *d, size_t i, unsigned char *bytes, size_t size)
{
    static const fault_kind kinds[] = {FAULT_OPEN_READ,  FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_OPEN_WRITE, FAULT_WRITE_AT,  FAULT_CLOSE};
    (void)i;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t at = 1;
        faulty_store_arm(&d->faulty, kinds[k], at, false);
        while (fixture_unpack(d, bytes, size, 1 << 20) != BP_OK) {
            assert_true(d->error.code == BP_ERR_STORE || kinds[k] == FAULT_CLOSE ||
                        kinds[k] == FAULT_OPEN_READ);
            faulty_store_arm(&d->faulty, kinds[k], ++at, false);
        }
        assert_true(at > 1);
        faulty_store_arm(&d->faulty, kinds[k], 0, false);
        assert_int_equal(fixture_unpack(d, bytes, size, 1 << 20), BP_OK);
        assert_texts(d);
    }
}

/* verifies formats-24.7573 */
static void every_failing_call_is_reported(void **state)
{
    (void)state;
    for_each_golden(unpack_failing);
}

/* What was wrong first is said, also where closing fails after it. */
/* verifies formats-15.f83f */
static void the_first_error_stays(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        unsigned char *bytes = disk_file_read(golden[i], &size);
        faulty_store_arm(&d.faulty, FAULT_CLOSE, 1, false);
        assert_int_equal(fixture_unpack(&d, bytes, size / 2, 1 << 20), BP_ERR_DATA);
        assert_int_equal(d.faulty.failures, 1);
        assert_false(is_there(&d));
        free(bytes);
    }
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_several_parts_are_unpacked),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_changed_byte_is_found_or_of_no_matter),
        cmocka_unit_test(what_follows_the_packed_data_is_refused),
        cmocka_unit_test(a_bomb_ends_at_the_limit),
        cmocka_unit_test(windows_that_are_too_large_are_refused),
        cmocka_unit_test(every_failing_call_is_reported),
        cmocka_unit_test(the_first_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
