/* SPDX-License-Identifier: MIT */
/* The POSIX store on a real file system; failures come from this file's own system calls, which
 * stand in front of libc's. */
/* A program of its own (tests/suite.sh). */
#define _DEFAULT_SOURCE /* syscall, mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"

/* What the next calls do: interrupts come first, then failures, and pieces are cut short. */
static int interrupts;
static int failure; /* an errno, or 0 */
static size_t longest;
static bool nothing_more;

static void calls_behave(void)
{
    interrupts = 0;
    failure = 0;
    longest = (size_t)-1;
    nothing_more = false;
}

static bool call_fails(void)
{
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return true;
    }
    if (failure != 0) {
        errno = failure;
        return true;
    }
    return false;
}

ssize_t pread(int descriptor, void *to, size_t bytes, off_t offset)
{
    if (call_fails()) {
        return -1;
    }
    bytes = bytes < longest ? bytes : longest;
    return nothing_more ? 0 : syscall(SYS_pread64, descriptor, to, bytes, offset);
}

ssize_t pwrite(int descriptor, const void *from, size_t bytes, off_t offset)
{
    if (call_fails()) {
        return -1;
    }
    bytes = bytes < longest ? bytes : longest;
    return nothing_more ? 0 : syscall(SYS_pwrite64, descriptor, from, bytes, offset);
}

int fsync(int descriptor)
{
    return call_fails() ? -1 : (int)syscall(SYS_fsync, descriptor);
}

static bool stat_fails;

int fstat(int descriptor, struct stat *information)
{
    if (stat_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fstat, descriptor, information);
}

static int open_interrupts;

int open(const char *path, int flags, ...)
{
    if (open_interrupts > 0) {
        open_interrupts--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
}

static bool reading_names_fails;

struct dirent *readdir(DIR *directory)
{
    static struct dirent entries[3];
    static int next;
    (void)directory;
    if (reading_names_fails) {
        errno = EIO;
        return NULL;
    }
    if (next == 3) {
        next = 0;
        return NULL;
    }
    static const char *const names[] = {".", "name", ".."};
    strcpy(entries[next].d_name, names[next]);
    return &entries[next++];
}

typedef struct fixture {
    char root[64];
    bp_store_posix posix;
    bp_store *store;
} fixture;

static int set_up(void **state)
{
    calls_behave();
    fixture *d = calloc(1, sizeof *d);
    strcpy(d->root, "/tmp/bedplate-store-XXXXXX");
    if (mkdtemp(d->root) == NULL || bp_store_posix_init(&d->posix, d->root) != BP_OK) {
        return 1;
    }
    d->store = &d->posix.store;
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    fixture *d = *state;
    int left = rmdir(d->root);
    free(d);
    return left; /* every test removes what it made */
}

static void put(fixture *d, const char *path, const char *text)
{
    bp_file file;
    assert_int_equal(d->store->open_write(d->store, path, &file), BP_OK);
    assert_int_not_equal(file.handle, 0);
    assert_int_equal(d->store->write_at(d->store, file, 0, text, strlen(text)), BP_OK);
    assert_int_equal(d->store->sync(d->store, file), BP_OK);
    assert_int_equal(d->store->close(d->store, file), BP_OK);
}

static void check(fixture *d, const char *path, const char *text)
{
    bp_file file;
    uint64_t bytes;
    char found[64] = "";
    assert_int_equal(d->store->open_read(d->store, path, &file), BP_OK);
    assert_int_equal(d->store->file_size(d->store, file, &bytes), BP_OK);
    assert_int_equal(bytes, strlen(text));
    assert_int_equal(d->store->read_at(d->store, file, 0, found, strlen(text)), BP_OK);
    assert_string_equal(found, text);
    assert_int_equal(d->store->close(d->store, file), BP_OK);
}

static void drop(fixture *d, const char *path)
{
    assert_int_equal(d->store->remove(d->store, path), BP_OK);
}

static void fails_with(fixture *d, bp_status status, int code, const char *reason)
{
    assert_int_equal(status, BP_ERR_STORE);
    assert_int_equal(d->store->code, code);
    assert_string_equal(d->store->reason, reason);
}

/* verifies device-9.7d36 */
static void files_hold_what_was_written(void **state)
{
    fixture *d = *state;
    put(d, "f", "hello");
    check(d, "f", "hello");
    put(d, "f", "abc"); /* shorter: the rest is gone */
    check(d, "f", "abc");
    bp_file file;
    assert_int_equal(d->store->open_write(d->store, "f", &file), BP_OK);
    assert_int_equal(d->store->write_at(d->store, file, 3, "d", 1), BP_OK);
    assert_int_equal(d->store->write_at(d->store, file, 0, "abc", 3), BP_OK);
    assert_int_equal(d->store->write_at(d->store, file, 0, NULL, 0), BP_OK);
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    check(d, "f", "abcd");
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void missing_files_have_a_reason(void **state)
{
    fixture *d = *state;
    bp_file file;
    const char *missing = "no such file or directory";
    fails_with(d, d->store->open_read(d->store, "no", &file), ENOENT, missing);
    fails_with(d, d->store->open_write(d->store, "no/f", &file), ENOENT, missing);
    fails_with(d, d->store->remove(d->store, "no"), ENOENT, missing);
    fails_with(d, d->store->rename(d->store, "no", "yes"), ENOENT, missing);
    fails_with(d, d->store->remove_directory(d->store, "no"), ENOENT, missing);
    fails_with(d, d->store->sync_directory(d->store, "no"), ENOENT, missing);
    fails_with(d, d->store->list(d->store, "no", NULL, NULL), ENOENT, missing);
    fails_with(d, d->store->make_directory(d->store, "no/no"), ENOENT, missing);
    uint64_t bytes;
    fails_with(d, d->store->free_bytes(d->store, "no", &bytes), ENOENT, missing);
}

/* verifies device-9.7d36 */
static void reading_past_the_end_fails(void **state)
{
    fixture *d = *state;
    put(d, "f", "hello");
    bp_file file;
    char room[8];
    assert_int_equal(d->store->open_read(d->store, "f", &file), BP_OK);
    fails_with(d, d->store->read_at(d->store, file, 3, room, 3), 0, "the file ends too early");
    fails_with(d, d->store->read_at(d->store, file, 100, room, 1), 0, "the file ends too early");
    assert_int_equal(d->store->read_at(d->store, file, 3, room, 2), BP_OK);
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void interrupted_and_short_calls_go_on(void **state)
{
    fixture *d = *state;
    longest = 2;
    interrupts = 3;
    bp_file file;
    assert_int_equal(d->store->open_write(d->store, "f", &file), BP_OK);
    assert_int_equal(d->store->write_at(d->store, file, 0, "hello", 5), BP_OK);
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    char room[6] = "";
    interrupts = 3;
    assert_int_equal(d->store->open_read(d->store, "f", &file), BP_OK);
    assert_int_equal(d->store->read_at(d->store, file, 0, room, 5), BP_OK);
    assert_string_equal(room, "hello");
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    calls_behave();
    open_interrupts = 2;
    check(d, "f", "hello");
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void failing_calls_are_reported_and_not_repeated(void **state)
{
    fixture *d = *state;
    put(d, "f", "hello");
    bp_file file;
    char room[5];
    assert_int_equal(d->store->open_read(d->store, "f", &file), BP_OK);
    failure = EIO;
    fails_with(d, d->store->read_at(d->store, file, 0, room, 5), EIO, "input/output error");
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    assert_int_equal(d->store->open_write(d->store, "f", &file), BP_OK);
    failure = ENOSPC;
    fails_with(d, d->store->write_at(d->store, file, 0, "x", 1), ENOSPC,
               "no space left on the device");
    failure = EIO;
    fails_with(d, d->store->sync(d->store, file), EIO, "input/output error");
    failure = 0;
    nothing_more = true;
    fails_with(d, d->store->write_at(d->store, file, 0, "x", 1), 0, "the file takes no more bytes");
    calls_behave();
    stat_fails = true;
    uint64_t bytes;
    fails_with(d, d->store->file_size(d->store, file, &bytes), EIO, "input/output error");
    stat_fails = false;
    assert_int_equal(d->store->close(d->store, file), BP_OK);
    fails_with(d, d->store->close(d->store, file), EBADF, "bad file handle");
    stat_fails = true;
    fails_with(d, d->store->open_read(d->store, "f", &file), EIO, "input/output error");
    stat_fails = false;
    failure = EIO;
    fails_with(d, d->store->sync_directory(d->store, ""), EIO, "input/output error");
    failure = 12345;
    fails_with(d, d->store->sync_directory(d->store, ""), 12345,
               "the operating system reported an error");
    failure = EINVAL; /* a file system without that operation */
    assert_int_equal(d->store->sync_directory(d->store, ""), BP_OK);
    calls_behave();
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void only_regular_files_are_opened(void **state)
{
    fixture *d = *state;
    char path[128];
    bp_file file;
    snprintf(path, sizeof path, "%s/pipe", d->root);
    assert_int_equal(mkfifo(path, 0600), 0);
    fails_with(d, d->store->open_read(d->store, "pipe", &file), 0, "not a regular file");
    drop(d, "pipe");
    fails_with(d, d->store->open_read(d->store, "", &file), 0, "not a regular file");
    fails_with(d, d->store->open_read(d->store, "/dev/null", &file), 0, "not a regular file");
}

static bp_status count_names(void *user, const char *name)
{
    int *count = user;
    assert_string_equal(name, "name");
    (*count)++;
    return *count == 2 ? BP_ERR_STOPPED : BP_OK;
}

/* verifies device-9.7d36 */
static void directories_are_made_listed_and_removed(void **state)
{
    fixture *d = *state;
    bp_store *store = d->store;
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(store->sync_directory(store, "d"), BP_OK);
    int count = 0;
    assert_int_equal(store->list(store, "d", count_names, &count), BP_OK);
    assert_int_equal(count, 1);
    assert_int_equal(store->list(store, "d", count_names, &count), BP_ERR_STOPPED);
    assert_int_equal(store->list(store, "d", count_names, &count), BP_OK); /* from .. on */
    reading_names_fails = true;
    fails_with(d, store->list(store, "d", count_names, &count), EIO, "input/output error");
    reading_names_fails = false;
    put(d, "d/f", "x");
    fails_with(d, store->remove_directory(store, "d"), ENOTEMPTY, "directory not empty");
    fails_with(d, store->remove_directory(store, "d/f"), ENOTDIR,
               "a part of the path is not a directory");
    fails_with(d, store->make_directory(store, "d/f"), ENOTDIR,
               "a part of the path is not a directory");
    assert_int_equal(store->rename(store, "d", "e"), BP_OK);
    check(d, "e/f", "x");
    drop(d, "e/f");
    assert_int_equal(store->remove_directory(store, "e"), BP_OK);
    char path[128];
    snprintf(path, sizeof path, "%s/link", d->root);
    assert_int_equal(symlink("nowhere", path), 0);
    fails_with(d, store->make_directory(store, "link"), ENOENT, "no such file or directory");
    bool there;
    assert_int_equal(store->exists(store, "link", &there), BP_OK);
    assert_true(there);
    drop(d, "link");
    /* What somebody linked is not ours to empty. */
    assert_int_equal(store->make_directory(store, "e"), BP_OK);
    put(d, "e/f", "kept");
    assert_int_equal(symlink("e", path), 0);
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_storage_remove_directory(store, "link", &error), BP_OK);
    assert_int_equal(store->exists(store, "link", &there), BP_OK);
    assert_false(there);
    check(d, "e/f", "kept");
    drop(d, "e/f");
    assert_int_equal(store->remove_link(store, "e", &there), BP_OK);
    assert_false(there); /* a directory is none */
    assert_int_equal(store->remove_directory(store, "e"), BP_OK);
}

/* As ranks write one file: nothing is lost of what is there, and nothing is made. */
/* verifies device-9.7d36 */
static void files_are_opened_to_change_them(void **state)
{
    fixture *d = *state;
    bp_store *store = d->store;
    bp_file file, beside;
    put(d, "f", "abcdef");
    assert_int_equal(store->open_update(store, "f", &file), BP_OK);
    assert_int_equal(store->open_update(store, "f", &beside), BP_OK);
    assert_int_equal(store->write_at(store, file, 2, "XY", 2), BP_OK);
    assert_int_equal(store->write_at(store, beside, 5, "Z", 1), BP_OK);
    assert_int_equal(store->close(store, file), BP_OK);
    assert_int_equal(store->close(store, beside), BP_OK);
    check(d, "f", "abXYeZ");
    fails_with(d, store->open_update(store, "g", &file), ENOENT, "no such file or directory");
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void existence_and_space_are_reported(void **state)
{
    fixture *d = *state;
    bp_store *store = d->store;
    bool there;
    put(d, "f", "x");
    assert_int_equal(store->exists(store, "f", &there), BP_OK);
    assert_true(there);
    assert_int_equal(store->exists(store, "g", &there), BP_OK);
    assert_false(there);
    assert_int_equal(store->exists(store, "f/g", &there), BP_OK);
    assert_false(there);
    char name[300];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    fails_with(d, store->exists(store, name, &there), ENAMETOOLONG, "path too long");
    uint64_t bytes;
    assert_int_equal(store->free_bytes(store, "", &bytes), BP_OK);
    assert_true(bytes > 0 && bytes != BP_SIZE_INVALID);
    drop(d, "f");
}

/* verifies device-9.7d36 */
static void paths_that_are_too_long_are_refused(void **state)
{
    fixture *d = *state;
    bp_store *store = d->store;
    char path[BP_STORE_PATH_MAX + 1];
    memset(path, 'p', sizeof path);
    path[BP_STORE_PATH_MAX] = '\0';
    const char *text = "path too long";
    bp_file file;
    bool there;
    uint64_t bytes;
    fails_with(d, store->open_read(store, path, &file), ENAMETOOLONG, text);
    fails_with(d, store->rename(store, path, "x"), ENAMETOOLONG, text);
    fails_with(d, store->rename(store, "x", path), ENAMETOOLONG, text);
    fails_with(d, store->remove(store, path), ENAMETOOLONG, text);
    fails_with(d, store->make_directory(store, path), ENAMETOOLONG, text);
    fails_with(d, store->remove_directory(store, path), ENAMETOOLONG, text);
    fails_with(d, store->sync_directory(store, path), ENAMETOOLONG, text);
    fails_with(d, store->list(store, path, NULL, NULL), ENAMETOOLONG, text);
    fails_with(d, store->free_bytes(store, path, &bytes), ENAMETOOLONG, text);
    fails_with(d, store->exists(store, path, &there), ENAMETOOLONG, text);
    bp_store_posix other;
    assert_int_equal(bp_store_posix_init(&other, path), BP_ERR_USAGE);
}

/* verifies device-9.7d36 */
static void the_root_may_be_the_working_directory(void **state)
{
    fixture *d = *state;
    bp_store_posix other;
    bool there;
    assert_int_equal(bp_store_posix_init(&other, ""), BP_OK);
    assert_int_equal(other.store.exists(&other.store, "", &there), BP_OK);
    assert_true(there);
    assert_int_equal(other.store.exists(&other.store, d->root, &there), BP_OK); /* absolute */
    assert_true(there);
    put(d, "f", "x");
    assert_int_equal(chdir(d->root), 0);
    assert_int_equal(other.store.remove(&other.store, "f"), BP_OK);
    assert_int_equal(chdir("/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_hold_what_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_files_have_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_past_the_end_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupted_and_short_calls_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_calls_are_reported_and_not_repeated, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_regular_files_are_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(directories_are_made_listed_and_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_are_opened_to_change_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(existence_and_space_are_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_that_are_too_long_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_may_be_the_working_directory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
