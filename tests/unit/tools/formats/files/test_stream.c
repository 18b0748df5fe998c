/* SPDX-License-Identifier: MIT */
/* Files written front to back beside their place, and copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/files/stream_file.h"

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_error error;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    memory_store_put(&d->memory, "f", "old", 3);
}

static void holds(fixture *d, const char *name, const char *text)
{
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, name, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
}

/* Writes "new one" in two pieces. */
static bp_status write_it(fixture *d, bp_status last)
{
    bp_stream_file stream;
    d->error = (bp_error){.code = BP_OK};
    BP_TRY(bp_stream_begin(&stream, &d->faulty.store, "f", &d->error));
    bp_status status = bp_stream_add(&stream, "new", 3);
    status = status == BP_OK ? bp_stream_add(&stream, " one", 4) : status;
    return bp_stream_end(&stream, status == BP_OK ? last : status);
}

/* verifies formats-20.fa9a */
static void a_file_is_there_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        fault_kind kind;
        size_t at;
        const char *name;
    } cases[] = {{FAULT_OPEN_WRITE, 1, "f.tmp (create)"}, {FAULT_WRITE_AT, 1, "f.tmp (write)"},
                 {FAULT_WRITE_AT, 2, "f.tmp (write)"},    {FAULT_SYNC, 1, "f.tmp (sync)"},
                 {FAULT_CLOSE, 1, "f.tmp (close)"},       {FAULT_RENAME, 1, ""}};
    size_t size;
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        faulty_store_arm(&d.faulty, cases[i].kind, cases[i].at, false);
        assert_int_equal(write_it(&d, BP_OK), BP_ERR_STORE);
        assert_non_null(strstr(d.error.name, cases[i].name));
        assert_int_equal(d.memory.open_files, 0);
        assert_null(memory_store_bytes(&d.memory, "f.tmp", &size));
        holds(&d, "f", "old");
    }
    /* The first failure is the one that is told, and nothing but a success renames. */
    faulty_store_arm(&d.faulty, FAULT_CLOSE, 1, false);
    assert_int_equal(write_it(&d, BP_ERR_DATA), BP_ERR_DATA);
    holds(&d, "f", "old");
    assert_int_equal(write_it(&d, BP_OK), BP_OK);
    holds(&d, "f", "new one");
    char path[BP_STORE_PATH_MAX];
    bp_stream_file stream;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(bp_stream_begin(&stream, &d.faulty.store, path, &d.error), BP_ERR_USAGE);
    memory_store_free(&d.memory);
}

static void a_file_is_copied_if_it_is_there(void **state)
{
    (void)state;
    uint64_t work[8];
    bool there = true;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(
        bp_copy_file(&d.faulty.store, "none", "g", work, sizeof work, &there, &d.error), BP_OK);
    assert_false(there);
    faulty_store_arm(&d.faulty, FAULT_EXISTS, 1, false);
    assert_int_equal(bp_copy_file(&d.faulty.store, "f", "g", work, sizeof work, &there, &d.error),
                     BP_OK);
    assert_false(there);
    assert_int_equal(bp_copy_file(&d.faulty.store, "f", "g", work, 2, &there, &d.error), BP_OK);
    assert_true(there);
    holds(&d, "g", "old");
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_WRITE_AT,  FAULT_SYNC,      FAULT_RENAME};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        faulty_store_arm(&d.faulty, kinds[i], 1, false);
        assert_int_equal(bp_copy_file(&d.faulty.store, "f", "g", work, 2, &there, &d.error),
                         BP_ERR_STORE);
        assert_int_equal(d.memory.open_files, 0);
        holds(&d, "g", "old");
    }
    memory_store_free(&d.memory);
}

/* Closing fails behind a write that failed: the write is what is said. */
/* verifies formats-20.fa9a */
static void closing_may_fail_as_well(void **state)
{
    (void)state;
    uint64_t work[8];
    bool there;
    fixture d;
    faulty_store both;
    fixture_begin(&d);
    faulty_store_init(&both, &d.faulty.store);
    faulty_store_arm(&d.faulty, FAULT_WRITE_AT, 1, false);
    faulty_store_arm(&both, FAULT_CLOSE, 1, false); /* the copy's, which is closed first */
    assert_int_equal(bp_copy_file(&both.store, "f", "g", work, 2, &there, &d.error), BP_ERR_STORE);
    assert_non_null(strstr(d.error.name, "write"));
    d.error = (bp_error){.code = BP_OK};
    faulty_store_arm(&both, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_copy_file(&both.store, "f", "g", work, 2, &there, &d.error), BP_ERR_STORE);
    assert_non_null(strstr(d.error.name, "close"));
    assert_int_equal(d.memory.open_files, 0);
    memory_store_free(&d.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_there_whole_or_not_at_all),
        cmocka_unit_test(a_file_is_copied_if_it_is_there),
        cmocka_unit_test(closing_may_fail_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
