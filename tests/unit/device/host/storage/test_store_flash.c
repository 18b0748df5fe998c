/* SPDX-License-Identifier: MIT */
/* The store over flash: what it refuses, what a cut of power leaves of one file, wear. The faults
 * of saving are in tests/fault/test_store_faults.c, over this store too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/base/storage.h"
#include "core/base/digest.h"
#include "tests/fixtures/flash_chip.h"

enum { FILES = 6, SMALL = 8, LONG = 2 * CHIP_BLOCK + 100, MOST = 1000 };

static flash_chip chip;
static bp_store_flash flash;
static uint64_t memory[512];
static unsigned char content[LONG];
static unsigned char read_back[LONG];

static bp_status mount(void)
{
    return bp_store_flash_init(&flash, &chip.flash, FILES, memory, sizeof memory);
}

static int begin(void **state)
{
    (void)state;
    flash_chip_init(&chip, SMALL);
    return mount() == BP_OK ? 0 : 1;
}

static const unsigned char *version(uint64_t number)
{
    for (size_t i = 0; i < LONG; i++) {
        content[i] = (unsigned char)(number * 41 + i * 7 + (i >> 8));
    }
    return content;
}

static bp_status write_version(uint64_t number)
{
    return bp_storage_write_file(&flash.store, "file", version(number), LONG, NULL);
}

/* Which version the file has, whole; 0: there is no file. */
static uint64_t version_there(uint64_t most)
{
    size_t length;
    bool there;
    assert_int_equal(flash.store.exists(&flash.store, "file", &there), BP_OK);
    if (!there) {
        return 0;
    }
    assert_int_equal(bp_storage_read_file(&flash.store, "file", read_back, LONG, &length, NULL),
                     BP_OK);
    assert_int_equal(length, LONG);
    for (uint64_t number = 1; number <= most; number++) {
        if (memcmp(read_back, version(number), LONG) == 0) {
            return number;
        }
    }
    fail_msg("the file has no version whole");
    return 0;
}

/* A file of three of the chip's eight blocks is replaced in place: the old one's are free, and must
 * stay as they are until the new one is named. */
/* verifies device-21.354b */
static void replaced_or_not_after_a_cut(void **state)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        bool done = false;
        for (size_t cut = 0; !done; cut++) {
            assert_true(cut < MOST);
            begin(state);
            assert_int_equal(write_version(1), BP_OK);
            assert_int_equal(write_version(2), BP_OK);
            chip.seed = seed * 100 + cut;
            chip.changes_until = chip.changes_made + cut;
            /* The second takes what the first set free. */
            const bool third = write_version(3) == BP_OK;
            done = third && write_version(4) == BP_OK;
            flash_chip_on(&chip);
            assert_int_equal(mount(), BP_OK);
            const uint64_t there = version_there(4);
            assert_true(there == 4 || (there == 3 && !done) || (there == 2 && !third));
            assert_int_equal(write_version(1), BP_OK);
            assert_int_equal(mount(), BP_OK);
            assert_int_equal(version_there(4), 1);
        }
    }
}

/* The blocks of a file that stayed for long were erased least: they are the first to be taken once
 * they are free, and not before. */
/* verifies device-21.354b */
static void what_lay_long_is_not_erased_early(void **state)
{
    bool done = false;
    (void)state;
    for (size_t cut = 0; !done; cut++) {
        assert_true(cut < MOST);
        flash_chip_init(&chip, SMALL + 1);
        assert_int_equal(mount(), BP_OK);
        assert_int_equal(write_version(1), BP_OK);
        for (uint64_t i = 0; i < 40; i++) {
            assert_int_equal(bp_storage_write_file(&flash.store, "other", "x", 1, NULL), BP_OK);
        }
        chip.changes_until = chip.changes_made + cut;
        const bool second = write_version(2) == BP_OK;
        done = second && write_version(3) == BP_OK;
        flash_chip_on(&chip);
        assert_int_equal(mount(), BP_OK);
        const uint64_t there = version_there(3);
        assert_true(there == 3 || (there == 2 && !done) || (there == 1 && !second));
    }
}

/* A unit that is not programmed or a block that is not erased, once: that block is taken no more.
 */
/* verifies device-21.354b */
static void a_block_that_fails(void **state)
{
    bool done = false;
    (void)state;
    for (size_t n = 1; !done; n++) {
        assert_true(n < MOST);
        flash_chip_init(&chip, SMALL + 2);
        assert_int_equal(mount(), BP_OK);
        assert_int_equal(write_version(1), BP_OK);
        chip.fails_at = chip.changes_made + n;
        done = write_version(2) == BP_OK;
        chip.fails_at = 0;
        assert_true(bp_store_flash_wear(&flash).failed <= !done);
        assert_true(done || flash.store.reason != NULL);
        assert_int_equal(mount(), BP_OK);
        /* A flash may say that it failed and have done it. */
        assert_true(version_there(2) >= (done ? 2 : 1));
        assert_int_equal(write_version(3), BP_OK);
        assert_int_equal(mount(), BP_OK);
        assert_int_equal(version_there(3), 3);
    }
}

/* Within one time of power the block stays out. */
/* verifies device-21.354b */
static void a_failed_block_stays_out(void **state)
{
    (void)state;
    flash_chip_init(&chip, SMALL + 1);
    assert_int_equal(mount(), BP_OK);
    assert_int_equal(write_version(1), BP_OK);
    chip.fails_at = chip.changes_made + 1;
    assert_int_equal(write_version(2), BP_ERR_STORE);
    assert_int_equal(bp_store_flash_wear(&flash).failed, 1);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(write_version(3), BP_OK);
    }
    assert_int_equal(mount(), BP_OK);
    assert_int_equal(bp_store_flash_wear(&flash).failed, 1);
    assert_int_equal(version_there(3), 3);
}

/* verifies device-21.354b */
static void wear_is_spread_and_counted(void **state)
{
    begin(state);
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(write_version(i % 4 + 1), BP_OK);
        if (i % 10 == 0) {
            assert_int_equal(mount(), BP_OK);
        }
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < SMALL; i++) {
        total += chip.erasures[i];
        assert_int_equal(chip.erasures[i], flash.blocks[i].erasures);
    }
    const bp_flash_wear wear = bp_store_flash_wear(&flash);
    assert_int_equal(wear.total, total);
    assert_true(wear.most - wear.least <= 3);
    assert_true(wear.least > 70);
}

/* verifies device-32.2920 */
static void what_a_flash_cannot_do(void **state)
{
    begin(state);
    bp_store *store = &flash.store;
    bp_file file, other;
    uint64_t free_bytes;
    assert_int_equal(store->free_bytes(store, "", &free_bytes), BP_OK);
    assert_int_equal(free_bytes, (SMALL - 1) * CHIP_BLOCK);
    assert_int_equal(store->open_write(store, "no/file", &file), BP_ERR_STORE);
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(store->open_write(store, "d", &file), BP_ERR_STORE);
    assert_int_equal(store->open_write(store, "d/f", &file), BP_OK);
    assert_int_equal(store->open_write(store, "d/g", &other), BP_ERR_STORE);
    assert_int_equal(store->open_read(store, "d/f", &other), BP_ERR_STORE);
    assert_int_equal(store->remove(store, "d/f"), BP_ERR_STORE);
    assert_int_equal(store->write_at(store, file, 0, version(1), CHIP_UNIT), BP_OK);
    assert_int_equal(store->write_at(store, file, 0, version(1), CHIP_UNIT), BP_ERR_STORE);
    assert_int_equal(store->write_at(store, file, 10, version(1), 4), BP_ERR_STORE);
    assert_int_equal(store->write_at(store, file, CHIP_UNIT, version(1), 4), BP_OK);
    assert_int_equal(store->write_at(store, file, CHIP_UNIT + 9, version(1), 4), BP_ERR_STORE);
    assert_int_equal(store->write_at(store, file, UINT64_MAX - 2, version(1), 4), BP_ERR_STORE);
    assert_int_equal(store->write_at(store, file, SMALL * CHIP_BLOCK, version(1), 4), BP_ERR_STORE);
    assert_int_equal(store->read_at(store, file, 0, read_back, 1), BP_ERR_STORE);
    assert_int_equal(store->close(store, file), BP_OK);
    assert_int_equal(store->write_at(store, file, 5000, version(1), 4), BP_ERR_STORE);
    assert_int_equal(store->remove_directory(store, "d"), BP_ERR_STORE);
    assert_int_equal(store->rename(store, "d", "d/e"), BP_ERR_STORE);
    assert_int_equal(store->rename(store, "none", "d/e"), BP_ERR_STORE);
    char name[80];
    memset(name, 'n', sizeof name);
    name[79] = '\0';
    assert_int_equal(store->make_directory(store, name), BP_ERR_STORE);
    name[62] = '\0'; /* with "/f" behind it one too long */
    assert_int_equal(store->rename(store, "d", name), BP_ERR_STORE);
    name[61] = '\0';
    assert_int_equal(store->rename(store, "d", name), BP_OK);
    assert_int_equal(store->rename(store, name, "d"), BP_OK);
    assert_int_equal(store->make_directory(store, "d/f"), BP_ERR_STORE);
    assert_int_equal(store->make_directory(store, "e"), BP_OK);
    assert_int_equal(store->rename(store, "d/f", "e"), BP_ERR_STORE);
    assert_int_equal(store->rename(store, "e", "d"), BP_ERR_STORE);
    assert_int_equal(store->rename(store, "d", "e"), BP_OK);
    assert_int_equal(store->sync_directory(store, "d"), BP_ERR_STORE);
    assert_int_equal(store->open_read(store, "e/f", &file), BP_OK);
    assert_int_equal(store->read_at(store, file, 0, read_back, CHIP_UNIT + 4), BP_OK);
    assert_memory_equal(read_back, version(1), CHIP_UNIT);
    assert_int_equal(store->read_at(store, file, 0, read_back, CHIP_UNIT + 5), BP_ERR_STORE);
    chip.reads_until = 0;
    assert_int_equal(store->read_at(store, file, 0, read_back, 1), BP_ERR_STORE);
}

/* verifies device-32.2920 */
static void full_of_bytes_or_files(void **state)
{
    begin(state);
    bp_store *store = &flash.store;
    char name[2] = "a";
    for (; name[0] < 'a' + FILES; name[0]++) {
        assert_int_equal(bp_storage_write_file(store, name, "x", 1, NULL), BP_OK);
    }
    assert_int_equal(bp_storage_write_file(store, name, "x", 1, NULL), BP_ERR_STORE);
    assert_string_equal(store->reason, "the flash has all the files that there is memory for");
    assert_int_equal(store->remove(store, "a"), BP_OK);
    /* Eight blocks: five files, the table and its next, and the one of `a` until then. */
    assert_int_equal(bp_storage_write_file(store, "a", version(1), LONG, NULL), BP_ERR_STORE);
    assert_string_equal(store->reason, "the flash is full");
    assert_int_equal(store->sync_directory(store, "."), BP_OK);
    assert_int_equal(mount(), BP_OK);
    bp_file file;
    assert_int_equal(store->open_read(store, "b", &file), BP_OK);
    assert_int_equal(store->read_at(store, file, 0, read_back, 1), BP_OK);
    assert_int_equal(read_back[0], 'x');
}

/* verifies device-32.2920 */
static void forms_that_are_refused(void **state)
{
    begin(state);
    assert_int_equal(write_version(1), BP_OK);
    bp_flash form = chip.flash;
    form.unit_bytes = 4;
    assert_int_equal(bp_store_flash_init(&flash, &form, FILES, memory, sizeof memory),
                     BP_ERR_USAGE);
    form = chip.flash;
    form.block_bytes = 512;
    assert_int_equal(bp_store_flash_init(&flash, &form, FILES, memory, sizeof memory),
                     BP_ERR_USAGE);
    assert_int_equal(bp_store_flash_init(&flash, &chip.flash, 0, memory, sizeof memory),
                     BP_ERR_USAGE);
    assert_int_equal(bp_store_flash_init(&flash, &chip.flash, FILES, (char *)memory + 4, 4000),
                     BP_ERR_USAGE);
    const size_t bytes = (size_t)bp_store_flash_bytes(&chip.flash, FILES);
    assert_int_equal(bp_store_flash_init(&flash, &chip.flash, FILES, memory, bytes - 1),
                     BP_ERR_FIT);
    assert_int_equal(bp_store_flash_init(&flash, &chip.flash, FILES, memory, bytes), BP_OK);
    form = chip.flash;
    form.unit_bytes = 2 * CHIP_UNIT;
    assert_int_equal(bp_store_flash_init(&flash, &form, FILES, memory, sizeof memory),
                     BP_ERR_USAGE);
    assert_string_equal(flash.store.reason, "the flash was written with other blocks or units");
    flash_chip_init(&chip, SMALL);
    assert_int_equal(mount(), BP_OK);
    assert_int_equal(flash.store.make_directory(&flash.store, "a"), BP_OK);
    assert_int_equal(write_version(1), BP_OK);
    assert_int_equal(bp_store_flash_init(&flash, &chip.flash, 1, memory, sizeof memory),
                     BP_ERR_DATA);
    bp_status status = BP_ERR_STORE;
    for (size_t reads = 0; status != BP_OK; reads++) {
        assert_true(reads < MOST);
        chip.reads_until = reads;
        status = mount();
        assert_true(status == (reads < SMALL ? BP_ERR_STORE : status));
        assert_true(status == BP_OK || status == BP_ERR_STORE);
    }
}

/* Names, folders and files that are not there, or not of that kind. */
/* verifies device-32.2920 */
static void what_is_not_there(void **state)
{
    begin(state);
    bp_store *store = &flash.store;
    bp_file file;
    bool there;
    assert_int_equal(store->open_read(store, "none", &file), BP_ERR_STORE);
    assert_int_equal(store->remove(store, "none"), BP_ERR_STORE);
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(store->open_read(store, "d", &file), BP_ERR_STORE);
    assert_int_equal(store->remove(store, "d"), BP_ERR_STORE);
    assert_int_equal(store->exists(store, "", &there), BP_OK);
    assert_true(there);
    assert_int_equal(store->exists(store, "none", &there), BP_OK);
    assert_false(there);
    assert_int_equal(store->exists(store, "d", &there), BP_OK);
    assert_true(there);
    assert_int_equal(store->open_write(store, "d/f", &file), BP_OK);
    assert_int_equal(store->rename(store, "d/f", "g"), BP_ERR_STORE); /* it is being written */
    assert_int_equal(store->close(store, file), BP_OK);
    assert_int_equal(store->rename(store, "d/f", "d/f"), BP_OK);
    assert_int_equal(store->exists(store, "d/f", &there), BP_OK);
    assert_true(there);
}

static bp_status note_name(void *user, const char *name)
{
    strcat(strcat(user, name), ",");
    return strcmp(name, "stop") == 0 ? BP_ERR_INTERNAL : BP_OK;
}

/* A folder's own names, and not those of folders in it. */
/* verifies device-32.2920 */
static void folders_are_listed(void **state)
{
    begin(state);
    bp_store *store = &flash.store;
    char names[64] = "";
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    assert_int_equal(bp_storage_write_file(store, "d/f", "x", 1, NULL), BP_OK);
    assert_int_equal(bp_storage_write_file(store, "e", "x", 1, NULL), BP_OK);
    assert_int_equal(store->list(store, "", note_name, names), BP_OK);
    assert_string_equal(names, "d,e,");
    names[0] = '\0';
    assert_int_equal(store->list(store, "d", note_name, names), BP_OK);
    assert_string_equal(names, "f,");
    assert_int_equal(store->list(store, "none", note_name, names), BP_ERR_STORE);
    assert_int_equal(bp_storage_write_file(store, "stop", "x", 1, NULL), BP_OK);
    assert_int_equal(store->list(store, "", note_name, names), BP_ERR_INTERNAL);
}

/* Bytes in any order within few pieces; what lies between them is not there. */
/* verifies device-32.2920 */
static void pieces_of_a_file(void **state)
{
    begin(state);
    bp_store *store = &flash.store;
    bp_file file;
    const unsigned char *bytes = version(3);
    assert_int_equal(store->open_write(store, "a", &file), BP_OK);
    assert_int_equal(store->write_at(store, file, 4 * CHIP_UNIT, bytes + 4 * CHIP_UNIT, CHIP_UNIT),
                     BP_OK);
    assert_int_equal(store->write_at(store, file, 100, bytes + 100, CHIP_UNIT - 100), BP_OK);
    assert_int_equal(store->write_at(store, file, 0, bytes, 100), BP_OK); /* before it */
    assert_int_equal(store->write_at(store, file, 2 * CHIP_BLOCK, bytes + 2 * CHIP_BLOCK, 10),
                     BP_OK);
    assert_int_equal(store->close(store, file), BP_OK);
    assert_int_equal(store->open_read(store, "a", &file), BP_OK);
    assert_int_equal(store->read_at(store, file, 0, read_back, CHIP_UNIT), BP_OK);
    assert_memory_equal(read_back, bytes, CHIP_UNIT);
    assert_int_equal(store->read_at(store, file, 2 * CHIP_BLOCK, read_back, 10), BP_OK);
    assert_memory_equal(read_back, bytes + 2 * CHIP_BLOCK, 10);
    assert_int_equal(store->read_at(store, file, CHIP_BLOCK, read_back, 1), BP_ERR_STORE);
    /* Two units wait for their rest, and the first is not programmed. */
    assert_int_equal(store->open_write(store, "b", &file), BP_OK);
    assert_int_equal(store->write_at(store, file, 0, bytes, 4), BP_OK);
    assert_int_equal(store->write_at(store, file, 2 * CHIP_UNIT, bytes, 4), BP_OK);
    chip.fails_at = chip.changes_made + 1;
    assert_int_equal(store->close(store, file), BP_ERR_STORE);
}

static bp_status read_erased(void *context, uint32_t block, uint32_t offset, void *to, size_t bytes)
{
    (void)context;
    (void)block;
    (void)offset;
    memset(to, 0xff, bytes);
    return BP_OK;
}

/* Flashes of other forms, and one beyond what 32 bits count. */
/* verifies device-32.2920 */
static void forms_at_their_bounds(void **state)
{
    (void)state;
    static uint64_t room[(BP_FLASH_MEMORY(1, 5000, 256) + 7) / 8];
    static const struct {
        uint32_t block, count, unit, files;
    } wrong[] = {{CHIP_BLOCK, SMALL, 300, FILES},
                 {CHIP_BLOCK, 1, CHIP_UNIT, FILES},
                 {1 << 20, BP_FLASH_BLOCKS + 1, CHIP_UNIT, 1},
                 {1 << 20, SMALL, CHIP_UNIT, BP_FLASH_FILES + 1}};
    bp_flash form = {.read = read_erased};
    bp_file file;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        form.block_bytes = wrong[i].block;
        form.block_count = wrong[i].count;
        form.unit_bytes = wrong[i].unit;
        assert_int_equal(bp_store_flash_init(&flash, &form, wrong[i].files, room, sizeof room),
                         BP_ERR_USAGE);
        assert_non_null(strstr(flash.store.reason, "blocks hold no table"));
    }
    form = (bp_flash){
        .read = read_erased, .block_bytes = 1 << 20, .block_count = 5000, .unit_bytes = 256};
    assert_int_equal(bp_store_flash_init(&flash, &form, 1, room, sizeof room), BP_OK);
    assert_int_equal(flash.store.open_write(&flash.store, "a", &file), BP_OK);
    assert_int_equal(flash.store.write_at(&flash.store, file, UINT64_C(1) << 32, "x", 1),
                     BP_ERR_STORE);
    assert_non_null(strstr(flash.store.reason, "not written there"));
    /* A flash that was written in another form is no empty one. */
    begin(state);
    assert_int_equal(write_version(1), BP_OK);
    for (int i = 0; i < 2; i++) {
        form = chip.flash;
        form.block_bytes = i == 0 ? 2 * CHIP_BLOCK : CHIP_BLOCK;
        form.block_count = i == 0 ? SMALL : SMALL - 1;
        assert_int_equal(bp_store_flash_init(&flash, &form, FILES, memory, sizeof memory),
                         BP_ERR_USAGE);
        assert_string_equal(flash.store.reason, "the flash was written with other blocks or units");
    }
}

static void put_digest(unsigned char *to, const void *bytes, size_t count)
{
    const uint64_t digest = bp_digest_of(bytes, count, 0);
    for (size_t i = 0; i < 8; i++) {
        to[i] = (unsigned char)(digest >> 8 * i);
    }
}

/* A table whose digests are right and whose numbers are not: it names what there is no memory for,
 * or ends behind its block. */
/* verifies device-32.2920 */
static void tables_that_lie(void **state)
{
    enum { HEAD = 44, LENGTH = 16 };
    static const struct {
        size_t at;
        unsigned char byte;
        bp_status status;
    } lies[] = {{HEAD, FILES, BP_ERR_DATA},
                {HEAD + 1, 3, BP_ERR_DATA},
                {HEAD + 2, BP_FLASH_PATH_MAX, BP_ERR_DATA},
                {HEAD + 1, 2, BP_OK},
                {LENGTH + 1, 16, BP_OK}, /* 4096 bytes and more: no table */
                {LENGTH + 3, 1, BP_OK}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        begin(state);
        assert_int_equal(flash.store.make_directory(&flash.store, "d"), BP_OK);
        assert_int_equal(flash.store.sync_directory(&flash.store, "."), BP_OK);
        unsigned char *table = chip.bytes[flash.table];
        const size_t bytes = table[LENGTH] + 256u * table[LENGTH + 1];
        table[lies[i].at] = lies[i].byte;
        put_digest(table + HEAD - 8, table, HEAD - 8);
        put_digest(table + bytes - 8, table, bytes - 8);
        assert_int_equal(mount(), lies[i].status);
        bool there;
        assert_true(lies[i].status != BP_OK ||
                    flash.store.exists(&flash.store, "d", &there) == BP_OK);
        assert_true(lies[i].status != BP_OK || there == (lies[i].at > HEAD));
    }
}

/* Any one bit of any table turned: the newest table that is whole counts, or none. */
/* verifies device-21.354b */
static void a_damaged_table(void **state)
{
    begin(state);
    assert_int_equal(write_version(1), BP_OK);
    assert_int_equal(mount(), BP_OK);
    assert_int_equal(write_version(2), BP_OK);
    const uint32_t table = flash.table;
    for (size_t bit = 0; bit < (size_t)flash.table_at * 8; bit += 5) {
        chip.bytes[table][bit / 8] ^= (unsigned char)(1 << bit % 8);
        const bp_status status = mount();
        assert_true(status == BP_OK);
        const uint32_t entry = flash.entries[0].kind;
        assert_true(entry <= 2);
        chip.bytes[table][bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(mount(), BP_OK);
    assert_int_equal(version_there(2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_or_not_after_a_cut),
        cmocka_unit_test(what_lay_long_is_not_erased_early),
        cmocka_unit_test(a_block_that_fails),
        cmocka_unit_test(a_failed_block_stays_out),
        cmocka_unit_test(wear_is_spread_and_counted),
        cmocka_unit_test(what_a_flash_cannot_do),
        cmocka_unit_test(full_of_bytes_or_files),
        cmocka_unit_test(forms_that_are_refused),
        cmocka_unit_test(tables_that_lie),
        cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(folders_are_listed),
        cmocka_unit_test(pieces_of_a_file),
        cmocka_unit_test(forms_at_their_bounds),
        cmocka_unit_test(a_damaged_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
