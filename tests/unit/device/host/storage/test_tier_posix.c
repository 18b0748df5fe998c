/* SPDX-License-Identifier: MIT */
/* The offload tier as a file: bytes in any pieces by any way, what is refused, and what is found
 * out when the file is taken away. */
#define _DEFAULT_SOURCE /* mkdtemp, truncate */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/ir/tier.h"
#include "device/host/storage/tier_posix.h"

#define BYTES ((uint64_t)5 << 20)

static char folder[] = "build/tier.XXXXXX";
static char path[64];
static unsigned char *room, *model, *copy;
static bp_tier_posix tier;
static bp_error error;

static int take(unsigned char **memory, uint64_t bytes)
{
    void *address = NULL;
    const int refused = posix_memalign(&address, 4096, bytes);
    *memory = address;
    return refused;
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || snprintf(path, sizeof path, "%s/below", folder) < 0) {
        return -1;
    }
    return take(&room, bp_tier_posix_memory(BYTES)) + take(&model, BYTES) + take(&copy, BYTES);
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    free(room);
    free(model);
    free(copy);
    return rmdir(folder);
}

static void open_tier(void)
{
    error = (bp_error){.code = BP_OK};
    bp_status status = bp_tier_posix_open(&tier, path, BYTES, false, room, &error);
    if (status == BP_ERR_USAGE) { /* the build folder is in memory */
        status = bp_tier_posix_open(&tier, path, BYTES, true, room, &error);
    }
    if (status != BP_OK) {
        print_error("%s: %s\n", error.name, error.text);
    }
    assert_int_equal(status, BP_OK);
}

/* Every piece that is written, in any way and at any place of memory, is there when it is read. */
/* verifies run-24.0483 */
static void pieces_come_back(void **state)
{
    (void)state;
    const bp_tier *t = &bp_tier_posix_table;
    const uint64_t offsets[] = {0, 4096, 1, 4095, 131071, 131072, 1048575, 2097152, 3 << 20};
    const uint64_t sizes[] = {1, 3, 4096, 4097, 131072, 140001, 1048576, 1500000};
    open_tier();
    for (uint64_t i = 0; i < BYTES; i++) {
        model[i] = (unsigned char)(i * 7 + i / 251);
    }
    assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error), BP_OK);
    for (uint32_t i = 0; i < 9 * 8 * 4; i++) {
        const uint64_t offset = offsets[i % 9], bytes = sizes[i / 9 % 8];
        const uint64_t skew = i % 2 == 0 ? 0 : 8;
        const bool hand = i / 72 % 2 == 0;
        const bp_tier_way in = hand ? BP_TIER_HAND : BP_TIER_WRITE;
        const bp_tier_way out = i / 144 == 0 ? BP_TIER_HAND : BP_TIER_READ;
        for (uint64_t k = 0; k < bytes; k++) {
            copy[skew + k] = model[offset + k] = (unsigned char)(i + k * 3);
        }
        assert_int_equal(t->write(&tier, in, offset, copy + skew, bytes, &error), BP_OK);
        assert_int_equal(t->resolve(&tier, &error), BP_OK);
        const uint64_t first = offset > 100 ? offset - 100 : 0;
        memset(copy, 0, bytes + 300);
        assert_int_equal(t->read(&tier, out, first, copy + skew, bytes + 200, &error), BP_OK);
        assert_memory_equal(copy + skew, model + first, bytes + 200);
    }
    assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_OK);
    assert_memory_equal(copy, model, BYTES);
    bp_tier_posix_close(&tier);
    open_tier(); /* and is there the next time */
    assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_OK);
    assert_memory_equal(copy, model, BYTES);
    bp_tier_posix_close(&tier);
}

/* The disk's bytes are taken when the file is opened. */
static void bytes_are_taken(void **state)
{
    (void)state;
    struct stat about;
    (void)unlink(path);
    open_tier();
    assert_int_equal(stat(path, &about), 0);
    assert_true((uint64_t)about.st_size >= BYTES);
    assert_true((uint64_t)about.st_blocks * 512 >= BYTES);
    bp_tier_posix_close(&tier);
}

static void refused(const char *where, bool buffered, bp_status status, const char *text)
{
    static bp_tier_posix other;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_tier_posix_open(&other, where, BYTES, buffered, room, &error), status);
    assert_non_null(strstr(error.text, text));
    assert_false(other.open);
}

/* verifies run-24.0483 */
static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    char none[96];
    struct stat about;
    (void)snprintf(none, sizeof none, "%s/none/below", folder);
    refused(none, false, BP_ERR_STORE, "no such directory");
    refused(folder, false, BP_ERR_STORE, "is a directory");
    refused("/dev/null", true, BP_ERR_STORE, "not a regular file");
    open_tier();
    refused(path, false, BP_ERR_STORE, "another run");
    bp_tier_posix_close(&tier);
    if (stat("/dev/shm", &about) == 0 && access("/dev/shm", W_OK) == 0) {
        const char *memory = "/dev/shm/bedplate-test-tier";
        refused(memory, false, BP_ERR_USAGE, "--offload-buffered");
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_tier_posix_open(&tier, memory, BYTES, true, room, &error), BP_OK);
        bp_tier_posix_close(&tier);
        (void)unlink(memory);
    }
}

/* Larger than any disk: refused before the first step. */
static void too_large_is_refused(void **state)
{
    (void)state;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_tier_posix_open(&tier, path, (uint64_t)1 << 60, false, room, &error),
                     BP_ERR_STORE);
    assert_true(strstr(error.text, "no space") != NULL || strstr(error.text, "too large") != NULL);
    bp_tier_posix_close(&tier);
}

/* verifies run-24.0483 */
static void a_file_that_goes_is_missed(void **state)
{
    (void)state;
    const bp_tier *t = &bp_tier_posix_table;
    for (int cut = 0; cut < 2; cut++) {
        (void)unlink(path);
        open_tier();
        assert_int_equal(cut == 0 ? unlink(path) : truncate(path, 4096), 0);
        assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, 4096, &error), BP_ERR_STORE);
        assert_non_null(strstr(error.text, "removed or cut off"));
        error = (bp_error){.code = BP_OK};
        assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, copy, 4096, &error), BP_ERR_STORE);
        bp_tier_posix_close(&tier);
    }
}

/* What changes `bytes` bytes of the file, as a bad drive does: past the tier, from `offset` on. */
static void overwrite(uint64_t offset, uint64_t bytes)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_not_equal(fputc(model[offset + i] ^ 1, file), EOF);
    }
    assert_int_equal(fclose(file), 0);
}

/* Reading a page that was changed behind the tier's back, be it by one bit, fails by any way (a
 * digest has 32 bits: one change of 2^32 would pass), those beside it are read, and what is written
 * over it is whole again. */
/* verifies run-41.18ee */
static void changed_pages_are_found(void **state)
{
    (void)state;
    const bp_tier *t = &bp_tier_posix_table;
    static const struct {
        uint64_t offset, bytes;
        const char *found;
    } rows[] = {{0, 1, "other bytes from 0 on"},
                {8191, 1, "other bytes from 4096 on"},
                {3 << 20, 80000, "other bytes from 3145728 on"},
                {BYTES - 1, 1, "other bytes from 5238784 on"}};
    static const bp_tier_way ways[] = {BP_TIER_READ, BP_TIER_HAND};
    (void)unlink(path);
    open_tier();
    for (uint64_t i = 0; i < BYTES; i++) {
        model[i] = (unsigned char)(i * 7 + i / 251);
    }
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const uint64_t first = rows[i / 2].offset / 4096 * 4096;
        assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, BYTES, &error), BP_OK);
        assert_int_equal(t->resolve(&tier, &error), BP_OK);
        overwrite(rows[i / 2].offset, rows[i / 2].bytes);
        assert_int_equal(
            t->read(&tier, ways[i % 2], rows[i / 2].offset, copy, rows[i / 2].bytes, &error),
            BP_ERR_STORE);
        assert_non_null(strstr(error.text, "has changed since it was written"));
        assert_string_equal(error.word, rows[i / 2].found);
        assert_string_equal(error.name, path);
        error = (bp_error){.code = BP_OK};
        assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, first, &error), BP_OK);
        assert_memory_equal(copy, model, first);
    }
    bp_tier_posix_close(&tier);
    open_tier(); /* what is there already is known from its first reading on */
    assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_OK);
    overwrite(12345, 1);
    assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, BYTES, &error), BP_ERR_STORE);
    assert_string_equal(error.word, "other bytes from 12288 on");
    bp_tier_posix_close(&tier);
}

/* Two pages that changed places have the bytes of pages, and are not those. */
/* verifies run-41.18ee */
static void exchanged_pages_are_found(void **state)
{
    (void)state;
    const bp_tier *t = &bp_tier_posix_table;
    (void)unlink(path);
    open_tier();
    for (uint64_t i = 0; i < 8192; i++) {
        model[i] = (unsigned char)(i / 4096);
    }
    assert_int_equal(t->write(&tier, BP_TIER_WRITE, 0, model, 8192, &error), BP_OK);
    overwrite(0, 8192); /* zeros and ones */
    assert_int_equal(t->read(&tier, BP_TIER_READ, 0, copy, 4096, &error), BP_ERR_STORE);
    bp_tier_posix_close(&tier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_back),           cmocka_unit_test(bytes_are_taken),
        cmocka_unit_test(what_cannot_be_is_refused),  cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(a_file_that_goes_is_missed), cmocka_unit_test(changed_pages_are_found),
        cmocka_unit_test(exchanged_pages_are_found)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
