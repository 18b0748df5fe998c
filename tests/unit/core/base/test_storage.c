/* SPDX-License-Identifier: MIT */
/* Whole small files over a store of which any call may fail: the first failure is told, by call and
 * path, and the file is closed whatever happened. */
#include "core/base/storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/glob.h"

enum { OPEN = 1, SIZE = 2, READ = 4, WRITE = 8, SYNC = 16, CLOSE = 32, LIST = 64, REMOVE = 128 };

/* A store with one file of five bytes and one directory of `entries` files. */
static struct {
    bp_store store;
    unsigned fails; /* calls that do */
    unsigned open;
    unsigned entries;
    bool wordy; /* their names are longer than a path */
} disk;

static bp_status answer(unsigned call)
{
    return (disk.fails & call) != 0 ? BP_ERR_STORE : BP_OK;
}

static bp_status open_any(bp_store *store, const char *path, bp_file *file)
{
    (void)store, (void)path;
    file->handle = 1;
    disk.open += answer(OPEN) == BP_OK;
    return answer(OPEN);
}

static bp_status size_of(bp_store *store, bp_file file, uint64_t *bytes)
{
    (void)store, (void)file;
    *bytes = 5;
    return answer(SIZE);
}

static bp_status read_some(bp_store *store, bp_file file, uint64_t offset, void *to, size_t bytes)
{
    (void)store, (void)file;
    memcpy(to, &"hello"[offset], bytes);
    return answer(READ);
}

static bp_status write_some(bp_store *store, bp_file file, uint64_t offset, const void *from,
                            size_t bytes)
{
    (void)store, (void)file, (void)offset, (void)from, (void)bytes;
    return answer(WRITE);
}

static bp_status sync_it(bp_store *store, bp_file file)
{
    (void)store, (void)file;
    return answer(SYNC);
}

static bp_status close_it(bp_store *store, bp_file file)
{
    (void)store, (void)file;
    disk.open--;
    return answer(CLOSE);
}

static bp_status list_all(bp_store *store, const char *path,
                          bp_status (*each)(void *user, const char *name), void *user)
{
    static char long_name[2 * BP_STORE_PATH_MAX];
    (void)store, (void)path;
    memset(long_name, 'x', sizeof long_name - 1);
    if (answer(LIST) != BP_OK) {
        return BP_ERR_STORE;
    }
    return disk.entries == 0 ? BP_OK : each(user, disk.wordy ? long_name : "file");
}

static bp_status remove_one(bp_store *store, const char *path)
{
    (void)store, (void)path;
    disk.entries -= answer(REMOVE) == BP_OK;
    return answer(REMOVE);
}

static bp_status remove_whole(bp_store *store, const char *path)
{
    (void)store, (void)path;
    return BP_OK;
}

static void disk_make(unsigned fails, unsigned entries, bool wordy)
{
    memset(&disk, 0, sizeof disk);
    disk.store = (bp_store){.open_read = open_any,
                            .open_write = open_any,
                            .file_size = size_of,
                            .read_at = read_some,
                            .write_at = write_some,
                            .sync = sync_it,
                            .close = close_it,
                            .list = list_all,
                            .remove = remove_one,
                            .remove_directory = remove_whole};
    disk.fails = fails;
    disk.entries = entries;
    disk.wordy = wordy;
}

static void metrics(bp_status status, const bp_error *error, const char *call)
{
    if (call == NULL) {
        assert_int_equal(status, BP_OK);
    } else {
        assert_int_not_equal(status, BP_OK);
        if (strstr(error->text, call) == NULL && strstr(error->name, call) == NULL) {
            fail_msg("%s is not told: %s %s", call, error->text, error->name);
        }
    }
    assert_int_equal(disk.open, 0);
}

/* verifies file-7.181b */
static void test_each_failing_call(void **state)
{
    (void)state;
    static const struct {
        unsigned fails;
        const char *reading, *writing;
    } rows[] = {{0, NULL, NULL},          {OPEN, "open", "create"},
                {SIZE, "size", NULL},     {SIZE | CLOSE, "size", "close"},
                {READ, "read", NULL},     {READ | CLOSE, "read", "close"},
                {WRITE, NULL, "write"},   {WRITE | CLOSE, "close", "write"},
                {SYNC, NULL, "sync"},     {SYNC | CLOSE, "close", "sync"},
                {CLOSE, "close", "close"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        char bytes[8];
        size_t length = 0;
        disk_make(rows[i].fails, 0, false);
        metrics(bp_storage_read_file(&disk.store, "f", bytes, sizeof bytes, &length, &error),
                &error, rows[i].reading);
        error = (bp_error){.code = BP_OK};
        metrics(bp_storage_write_file(&disk.store, "f", bytes, 5, &error), &error, rows[i].writing);
    }
    bp_error error = {.code = BP_OK};
    char few[4];
    size_t length = 0;
    disk_make(0, 0, false);
    assert_int_equal(bp_storage_read_file(&disk.store, "f", few, sizeof few, &length, &error),
                     BP_ERR_FIT);
    assert_int_equal(error.wanted, 5);
}

/* verifies file-7.181b */
static void test_directories(void **state)
{
    (void)state;
    static const struct {
        unsigned fails, entries;
        bool wordy;
        const char *call;
    } rows[] = {{0, 0, false, NULL},
                {0, 3, false, NULL},
                {LIST, 3, false, "list"},
                {REMOVE, 3, false, "remove"},
                {0, 1, true, "list"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        disk_make(rows[i].fails, rows[i].entries, rows[i].wordy);
        metrics(bp_storage_remove_directory(&disk.store, "d", &error), &error, rows[i].call);
        assert_true(rows[i].call != NULL || disk.entries == 0);
    }
}

/* Sets of a pattern that are none are themselves. */
/* verifies file-12.2092 */
static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *name;
        bool matches;
    } rows[] = {{"[a-c]x", "bx", true},   {"[a-c]x", "dx", false}, {"[!a-c]", "d", true},
                {"[^a-c]", "b", false},   {"[a-", "[a-", true},    {"[a-", "b", false},
                {"[a-]x", "-x", true},    {"[]a]", "]", true},     {"[]", "[]", true},
                {"a[b-c-]d", "a-d", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (bp_glob_match(rows[i].glob, rows[i].name) != rows[i].matches) {
            fail_msg("%s of %s", rows[i].name, rows[i].glob);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_failing_call),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
