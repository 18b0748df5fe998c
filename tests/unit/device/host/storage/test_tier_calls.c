/* SPDX-License-Identifier: MIT */
/* The offload tier when the system refuses: this program has calls of its own in the system's
 * place, of which one fails, is interrupted, or does less than it was asked. */
/* A program of its own (tests/suite.sh). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/ir/tier.h"
#include "device/host/storage/tier_posix.h"

#define BYTES ((uint64_t)3 << 20)
#define PAGE  4096

typedef enum call { NO_CALL, OPEN, FSTAT, FSTATFS, FLOCK, ALLOCATE, PREAD, PWRITE, SYNC } call;

/* The n-th call of a kind from now on does not do what it is asked. */
static struct {
    call kind;
    int at;
    int code;  /* errno; 0: it does less */
    long done; /* bytes that it does then; of FSTATFS the kind of file system */
} fault;

static bool strikes(call kind)
{
    if (fault.kind != kind || --fault.at != 0) {
        return false;
    }
    errno = fault.code;
    return true;
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    return strikes(OPEN) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fstat(int file, struct stat *about)
{
    return strikes(FSTAT) ? -1 : (int)syscall(SYS_newfstatat, file, "", about, AT_EMPTY_PATH);
}

int fstatfs(int file, struct statfs *about)
{
    const bool wrong = strikes(FSTATFS);
    if (wrong && fault.code != 0) {
        return -1;
    }
    const int result = (int)syscall(SYS_fstatfs, file, about);
    about->f_type = wrong ? fault.done : 0;
    return result;
}

int flock(int file, int operation)
{
    return strikes(FLOCK) ? -1 : (int)syscall(SYS_flock, file, operation);
}

int posix_fallocate(int file, off_t offset, off_t length)
{
    struct stat about;
    if (strikes(ALLOCATE)) {
        return fault.code;
    }
    /* A file that is longer stays as long. */
    const bool grows = syscall(SYS_newfstatat, file, "", &about, AT_EMPTY_PATH) == 0 &&
                       about.st_size < offset + length;
    return !grows || ftruncate(file, offset + length) == 0 ? 0 : errno;
}

ssize_t pread(int file, void *to, size_t bytes, off_t offset)
{
    const bool wrong = strikes(PREAD);
    return wrong && fault.code != 0
               ? -1
               : syscall(SYS_pread64, file, to, wrong ? (size_t)fault.done : bytes, offset);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t offset)
{
    const bool wrong = strikes(PWRITE);
    return wrong && fault.code != 0
               ? -1
               : syscall(SYS_pwrite64, file, from, wrong ? (size_t)fault.done : bytes, offset);
}

int fdatasync(int file)
{
    return strikes(SYNC) ? -1 : (int)syscall(SYS_fdatasync, file);
}

static char folder[] = "build/tier.XXXXXX";
static char path[64];
static unsigned char *room, *model, *copy;
static bp_tier_posix tier;
static bp_error error;

static int setup(void **state)
{
    (void)state;
    void *memory = NULL;
    if (mkdtemp(folder) == NULL || snprintf(path, sizeof path, "%s/below", folder) < 0 ||
        posix_memalign(&memory, PAGE, bp_tier_posix_memory(BYTES) + 2 * BYTES) != 0) {
        return -1;
    }
    room = memory;
    model = room + bp_tier_posix_memory(BYTES);
    copy = model + BYTES;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    free(room);
    return rmdir(folder);
}

static bp_status open_with(call kind, int at, int code, long done, bool buffered, uint64_t bytes)
{
    error = (bp_error){.code = BP_OK};
    fault.kind = kind;
    fault.at = at;
    fault.code = code;
    fault.done = done;
    const bp_status status = bp_tier_posix_open(&tier, path, bytes, buffered, room, &error);
    fault.kind = NO_CALL;
    return status;
}

static bp_status open_whole(void)
{
    return open_with(NO_CALL, 0, 0, 0, true, BYTES);
}

/* verifies run-24.0483 */
static void what_the_system_refuses_is_said(void **state)
{
    (void)state;
    static const struct {
        call kind;
        int code;
        long done;
        bool buffered;
        bp_status status;
        const char *says;
    } rows[] = {
        {OPEN, EINVAL, 0, false, BP_ERR_USAGE, "past the page cache (O_DIRECT)"},
        {OPEN, EACCES, 0, true, BP_ERR_STORE, "may not be written"},
        {OPEN, EROFS, 0, true, BP_ERR_STORE, "may not be written"},
        {OPEN, EPERM, 0, true, BP_ERR_STORE, "may not be written"},
        {OPEN, ENOTDIR, 0, true, BP_ERR_STORE, "no such directory"},
        {OPEN, EMFILE, 0, true, BP_ERR_STORE, "too many open files"},
        {OPEN, ENFILE, 0, true, BP_ERR_STORE, "too many open files"},
        {OPEN, ENAMETOOLONG, 0, true, BP_ERR_STORE, "path too long"},
        {OPEN, ELOOP, 0, true, BP_ERR_STORE, "too many symbolic links"},
        {OPEN, EEXIST, 0, true, BP_ERR_STORE, "a link is there that leads to no file"},
        {OPEN, ENOMEM, 0, true, BP_ERR_STORE, "has no memory"},
        {OPEN, EXDEV, 0, true, BP_ERR_STORE, "the operating system reported an error"},
        {FSTAT, ENODEV, 0, true, BP_ERR_STORE, "the device is gone"},
        {FLOCK, EWOULDBLOCK, 0, true, BP_ERR_STORE, "another run has this offload file"},
        {ALLOCATE, ENOSPC, 0, true, BP_ERR_STORE, "no space is left"},
        {ALLOCATE, EDQUOT, 0, true, BP_ERR_STORE, "no space is left"},
        {ALLOCATE, EFBIG, 0, true, BP_ERR_STORE, "too large here"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_status status =
            open_with(rows[i].kind, 1, rows[i].code, rows[i].done, rows[i].buffered, BYTES);
        if (status != rows[i].status || strstr(error.text, rows[i].says) == NULL) {
            fail_msg("%zu: %d %s", i, status, error.text);
        }
        assert_false(tier.open);
    }
    assert_int_equal(open_with(NO_CALL, 0, 0, 0, true, UINT64_MAX), BP_ERR_STORE);
    assert_non_null(strstr(error.text, "too large here"));
    assert_int_equal(open_with(ALLOCATE, 1, EINTR, 0, true, BYTES), BP_OK); /* asked again */
    bp_tier_posix_close(&tier);
}

/* Files of a file system that is memory are none below it, unless that is asked for. */
/* verifies run-24.0483 */
static void file_systems_of_memory_are_refused(void **state)
{
    (void)state;
    static const long kinds[] = {0x01021994, 0x858458f6};
    bp_status status = open_with(NO_CALL, 0, 0, 0, false, BYTES);
    if (status != BP_OK) { /* no O_DIRECT here */
        skip();
    }
    bp_tier_posix_close(&tier);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_with(FSTATFS, 1, 0, kinds[i], false, BYTES), BP_ERR_USAGE);
        assert_non_null(strstr(error.text, "--offload-buffered"));
        assert_int_equal(open_with(FSTATFS, 1, 0, kinds[i], true, BYTES), BP_OK);
        bp_tier_posix_close(&tier);
    }
    assert_int_equal(open_with(FSTATFS, 1, EIO, 0, false, BYTES), BP_ERR_STORE);
    assert_non_null(strstr(error.text, "input/output error"));
}

typedef struct transfer {
    call kind;
    int at, code;
    long done;
    const char *says; /* NULL: nothing is lost */
} transfer;

static void is_reported(const transfer *t, bp_status status)
{
    fault.kind = NO_CALL;
    if (status != (t->says == NULL ? BP_OK : BP_ERR_STORE) ||
        (t->says != NULL && strstr(error.text, t->says) == NULL)) {
        fail_msg("%d, %d, %ld: %d %s", t->kind, t->code, t->done, status, error.text);
    }
}

static void strike(const transfer *t)
{
    fault.kind = t->kind;
    fault.at = t->at;
    fault.code = t->code;
    fault.done = t->done;
    error = (bp_error){.code = BP_OK};
}

/* verifies run-24.0483 */
static void transfers_go_on_or_are_reported(void **state)
{
    (void)state;
    static const char cut[] = "was cut off", full[] = "no space is left";
    static const transfer reads[] = {{PREAD, 1, EINTR, 0, NULL},
                                     {PREAD, 2, EINTR, 0, NULL},
                                     {PREAD, 1, 0, PAGE, NULL},
                                     {PREAD, 1, EIO, 0, "input/output error"},
                                     {PREAD, 2, 0, 0, cut},
                                     {PREAD, 1, 0, 100, cut},
                                     {FSTAT, 1, EIO, 0, "input/output error"}};
    static const transfer writes[] = {{PWRITE, 1, EINTR, 0, NULL},
                                      {PWRITE, 1, 0, PAGE, NULL},
                                      {PWRITE, 2, ENOSPC, 0, full},
                                      {PWRITE, 1, EDQUOT, 0, full},
                                      {PWRITE, 1, 0, 0, full},
                                      {PWRITE, 1, 0, 100, full},
                                      {FSTAT, 1, EIO, 0, "input/output error"}};
    const bp_tier *t = &bp_tier_posix_table;
    assert_int_equal(open_whole(), BP_OK);
    for (uint64_t i = 0; i < BYTES; i++) {
        model[i] = (unsigned char)(i * 7 + i / 251);
    }
    assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error), BP_OK);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        memset(copy, 0, BYTES);
        strike(&reads[i]);
        is_reported(&reads[i], t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error));
        assert_true(reads[i].says != NULL || memcmp(copy, model, BYTES) == 0);
    }
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        model[5] = (unsigned char)i;
        model[PAGE + 5] = (unsigned char)i;
        strike(&writes[i]);
        is_reported(&writes[i], t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error));
        assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_OK);
        assert_true(writes[i].says != NULL || memcmp(copy, model, BYTES) == 0);
        assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error), BP_OK);
    }
    bp_tier_posix_close(&tier);
}

/* Addresses that are no whole pages go through a room, and parts of pages are read first. */
/* verifies run-24.0483 */
static void parts_of_pages_keep_the_rest(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, bytes, skew;
    } parts[] = {{0, PAGE, 0},  {0, PAGE, 8},         {0, 100, 0},      {100, PAGE, 0},
                 {PAGE, 10, 8}, {100, PAGE - 100, 0}, {PAGE - 1, 2, 0}, {0, 3 * PAGE + 1, 8}};
    const bp_tier *t = &bp_tier_posix_table;
    assert_int_equal(open_whole(), BP_OK);
    for (uint64_t i = 0; i < BYTES; i++) {
        model[i] = (unsigned char)(i * 5 + i / 253);
    }
    assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error), BP_OK);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        unsigned char *from = copy + parts[i].skew;
        for (uint64_t k = 0; k < parts[i].bytes; k++) {
            from[k] = model[parts[i].offset + k] = (unsigned char)(i + k * 11);
        }
        assert_int_equal(
            t->write(&tier, BP_TIER_WRITE, parts[i].offset, from, parts[i].bytes, &error), BP_OK);
        memset(copy, 0, BYTES);
        assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_OK);
        assert_memory_equal(copy, model, BYTES);
    }
    /* The page before, or after, that cannot be read. */
    for (int at = 1; at <= 2; at++) {
        const transfer fails = {PREAD, at, EIO, 0, "input/output error"};
        strike(&fails);
        is_reported(&fails, t->write(&tier, BP_TIER_WRITE, 100, model, 2 * PAGE, &error));
    }
    bp_tier_posix_close(&tier);
}

/* The caller's hands have windows, which are written when they are resolved or given up. */
/* verifies run-24.0483 */
static void windows_that_fail_are_reported(void **state)
{
    (void)state;
    const bp_tier *t = &bp_tier_posix_table;
    const transfer fill = {PREAD, 1, EIO, 0, "input/output error"};
    const transfer flush = {PWRITE, 1, EIO, 0, "input/output error"};
    const transfer sync = {SYNC, 1, EIO, 0, "input/output error"};
    const transfer look = {FSTAT, 1, EIO, 0, "input/output error"};
    assert_int_equal(open_whole(), BP_OK);
    strike(&fill);
    is_reported(&fill, t->read(&tier, BP_TIER_HAND, 10, copy, 10, &error));
    assert_int_equal(t->write(&tier, BP_TIER_HAND, 10, model, 10, &error), BP_OK);
    strike(&flush);
    is_reported(&flush, t->resolve(&tier, &error));
    strike(&flush);
    is_reported(&flush, t->sync(&tier, &error));
    strike(&look);
    is_reported(&look, t->sync(&tier, &error));
    strike(&sync);
    is_reported(&sync, t->sync(&tier, &error));
    assert_int_equal(t->sync(&tier, &error), BP_OK);
    assert_int_equal(t->read(&tier, BP_TIER_READ, 10, copy, 10, &error), BP_OK);
    assert_memory_equal(copy, model, 10);
    /* The least lately used window gives way, and cannot. */
    for (uint64_t i = 0; i < BP_TIER_WINDOWS; i++) {
        assert_int_equal(t->write(&tier, BP_TIER_HAND, i * BP_TIER_WINDOW, model, 1, &error),
                         BP_OK);
    }
    strike(&flush);
    is_reported(&flush,
                t->read(&tier, BP_TIER_HAND, BP_TIER_WINDOWS * BP_TIER_WINDOW, copy, 1, &error));
    bp_tier_posix_close(&tier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_system_refuses_is_said),
        cmocka_unit_test(file_systems_of_memory_are_refused),
        cmocka_unit_test(transfers_go_on_or_are_reported),
        cmocka_unit_test(parts_of_pages_keep_the_rest),
        cmocka_unit_test(windows_that_fail_are_reported),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
