/* SPDX-License-Identifier: MIT */
/* Two versions in a tier, over a medium whose power fails at any of its calls: of what was not
 * synced any sectors may be there, and others not. The version that was published last is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/ir/tier_versions.h"

#define PAGES   24
#define BYTES   (PAGES * BP_VERSIONS_PAGE - 1000)
#define SECTOR  512
#define RANGES  3
#define ROOM    (2 * PAGES * BP_VERSIONS_PAGE + 4 * BP_VERSIONS_PAGE)
#define SECTORS (ROOM / SECTOR)
#define STEPS   6
#define PLAN    0x1234

/* What is there for sure, and what is read. */
static uint8_t disk[ROOM], cache[ROOM], model[STEPS + 1][BYTES], got[BYTES];
static bool dirty[SECTORS];
static uint64_t calls, cut_at, random_state;
static uint8_t memory[4 * BP_VERSIONS_PAGE];
static bp_tier_versions versions;
static bp_error error;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

static bp_status power(void)
{
    return ++calls > cut_at ? BP_ERR_STORE : BP_OK;
}

static bp_status medium_read(void *context, bp_tier_way way, uint64_t offset, void *to,
                             uint64_t bytes, bp_error *e)
{
    (void)context, (void)way, (void)e;
    assert_true(offset + bytes <= ROOM);
    memcpy(to, cache + offset, bytes);
    return calls > cut_at ? BP_ERR_STORE : BP_OK;
}

/* A call that the power ends has done a part of its work. */
static bp_status medium_write(void *context, bp_tier_way way, uint64_t offset, const void *from,
                              uint64_t bytes, bp_error *e)
{
    (void)context, (void)way, (void)e;
    assert_true(offset + bytes <= ROOM);
    const bool before = calls >= cut_at + 1;
    const bp_status status = power();
    if (!before) {
        memcpy(cache + offset, from, bytes);
        for (uint64_t i = offset / SECTOR; i <= (offset + bytes - 1) / SECTOR; i++) {
            dirty[i] = true;
        }
    }
    return status;
}

static bp_status medium_resolve(void *context, bp_error *e)
{
    (void)context, (void)e;
    return calls > cut_at ? BP_ERR_STORE : BP_OK;
}

static bp_status medium_sync(void *context, bp_error *e)
{
    (void)context, (void)e;
    const bp_status status = power();
    if (status == BP_OK) {
        memcpy(disk, cache, ROOM);
        memset(dirty, 0, sizeof dirty);
    }
    return status;
}

static const bp_tier medium = {.name = "medium",
                               .read = medium_read,
                               .write = medium_write,
                               .resolve = medium_resolve,
                               .sync = medium_sync};

/* The power is back. */
static void power_returns(void)
{
    for (uint64_t i = 0; i < SECTORS; i++) {
        if (dirty[i] && draw(2) == 0) {
            memcpy(disk + i * SECTOR, cache + i * SECTOR, SECTOR);
        }
    }
    memcpy(cache, disk, ROOM);
    memset(dirty, 0, sizeof dirty);
    calls = 0;
    cut_at = UINT64_MAX - 1;
}

static void open_versions(void)
{
    static bp_tier_range ranges[RANGES];
    const bp_tier_range all[RANGES] = {{0, 5 * BP_VERSIONS_PAGE, 0},
                                       {7 * BP_VERSIONS_PAGE, BP_VERSIONS_PAGE, 0},
                                       {12 * BP_VERSIONS_PAGE, (PAGES - 12) * BP_VERSIONS_PAGE, 0}};
    memcpy(ranges, all, sizeof all);
    assert_true(bp_tier_versions_bytes(BYTES, ranges, RANGES) <= ROOM);
    assert_true(bp_tier_versions_memory(ranges, RANGES) <= sizeof memory);
    error = (bp_error){.code = BP_OK};
    bp_tier_versions_open(&versions, &medium, NULL, BYTES, PLAN, ranges, RANGES, memory);
}

static bool is_kept(uint64_t offset)
{
    const uint64_t page = offset / BP_VERSIONS_PAGE;
    return page < 5 || page == 7 || page >= 12;
}

/* Writes of all kinds, which the model of this step has too. What is not kept is the same in all
 * steps. */
static bp_status write_some(uint64_t step)
{
    const bp_tier *t = &bp_tier_versions_table;
    memcpy(model[step], model[step - (step > 0)], BYTES);
    for (uint32_t i = 0; i < 8; i++) {
        static uint8_t bytes[4 * BP_VERSIONS_PAGE];
        const bool hand = draw(2) == 0;
        uint64_t first = draw(BYTES), count = 1 + draw(sizeof bytes - 1);
        if (!hand) {
            first = first / BP_VERSIONS_PAGE * BP_VERSIONS_PAGE;
        }
        count = count < BYTES - first ? count : BYTES - first;
        for (uint64_t k = 0; k < count; k++) {
            const bool fixed = !is_kept(first + k);
            bytes[k] = fixed ? model[0][first + k] : (uint8_t)draw(256);
            model[step][first + k] = bytes[k];
        }
        BP_TRY(
            t->write(&versions, hand ? BP_TIER_HAND : BP_TIER_WRITE, first, bytes, count, &error));
        BP_TRY(t->read(&versions, BP_TIER_READ, 0, got, BYTES, &error));
        assert_memory_equal(got, model[step], BYTES);
    }
    return BP_OK;
}

/* The first contents, with what is not kept; synced, as a checkpoint of step 0 is. */
static bp_status write_first(void)
{
    for (uint64_t i = 0; i < BYTES; i++) {
        model[0][i] = (uint8_t)draw(256);
    }
    BP_TRY(bp_tier_versions_begin(&versions, &error));
    return bp_tier_versions_table.write(&versions, BP_TIER_HAND, 0, model[0], BYTES, &error);
}

/* Steps until the power fails. Returns the one that was published last, UINT64_MAX for none. */
static uint64_t train(uint64_t from, uint64_t published)
{
    for (uint64_t step = from; step <= STEPS; step++) {
        if ((step == 0 ? write_first() : write_some(step)) != BP_OK ||
            bp_tier_versions_commit(&versions, step, &error) != BP_OK) {
            return published;
        }
        if (draw(4) > 0) { /* else the checkpoint beside it could not be saved */
            published = step;
            bp_tier_versions_confirm(&versions);
        }
    }
    return published;
}

static void is_whole(uint64_t step)
{
    open_versions();
    assert_int_equal(bp_tier_versions_take(&versions, step, &error), BP_OK);
    assert_int_equal(bp_tier_versions_table.read(&versions, BP_TIER_READ, 0, got, BYTES, &error),
                     BP_OK);
    assert_memory_equal(got, model[step], BYTES);
}

/* Twice: what goes on from a version may lose its power as well. */
/* verifies run-26.fc76 */
static void power_fails_anywhere(void **state)
{
    (void)state;
    uint32_t cuts = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (uint64_t cut = 1;; cut += 1 + seed / 2) {
            memset(disk, 0, ROOM);
            memset(cache, 0, ROOM);
            memset(dirty, 0, sizeof dirty);
            random_state = seed;
            calls = 0;
            cut_at = cut;
            open_versions();
            uint64_t published = train(0, UINT64_MAX);
            const bool whole = calls <= cut_at;
            power_returns();
            if (published != UINT64_MAX) {
                is_whole(published);
                cut_at = 1 + draw(40);
                calls = 0;
                published = train(published + 1, published);
                power_returns();
                is_whole(published);
                cuts++;
            }
            if (whole) {
                break;
            }
        }
    }
    assert_true(cuts > 150);
}

/* Garbage that is written before a version is gone back to does it no harm, and another plan, or a
 * step that is not there, is refused with the step that is. */
/* verifies run-26.fc76 */
static void versions_are_distinguished(void **state)
{
    (void)state;
    static uint8_t garbage[BYTES];
    random_state = 7;
    memset(disk, 0xff, ROOM);
    memset(dirty, 0, sizeof dirty);
    power_returns();
    open_versions();
    assert_int_equal(bp_tier_versions_take(&versions, 0, &error), BP_ERR_STORE);
    assert_int_equal(error.found, -1);
    open_versions();
    assert_int_not_equal(train(0, UINT64_MAX), UINT64_MAX);
    const uint64_t last = STEPS;
    assert_int_equal(bp_tier_versions_commit(&versions, last, &error), BP_OK);
    bp_tier_versions_confirm(&versions);
    is_whole(last);
    assert_int_equal(bp_tier_versions_table.write(&versions, BP_TIER_HAND, 0, garbage,
                                                  5 * BP_VERSIONS_PAGE, &error),
                     BP_OK);
    assert_int_equal(bp_tier_versions_back(&versions, &error), BP_OK);
    assert_int_equal(bp_tier_versions_table.read(&versions, BP_TIER_READ, 0, got, BYTES, &error),
                     BP_OK);
    assert_memory_equal(got, model[last], BYTES);
    open_versions();
    assert_int_equal(bp_tier_versions_take(&versions, 1234, &error), BP_ERR_STORE);
    assert_int_equal(error.found, last);
    assert_int_equal(error.wanted, 1234);
    open_versions();
    versions.plan++;
    assert_int_equal(bp_tier_versions_take(&versions, last, &error), BP_ERR_STORE);
    open_versions();
    versions.bytes += BP_VERSIONS_PAGE; /* the records lie where they lay, for fewer pages */
    versions.pages--;
    assert_int_equal(bp_tier_versions_take(&versions, last, &error), BP_ERR_STORE);
    is_whole(last);
    open_versions();
    assert_int_equal(bp_tier_versions_begin(&versions, &error), BP_OK);
    open_versions();
    assert_int_equal(bp_tier_versions_take(&versions, last, &error), BP_ERR_STORE);
}

/* What lies behind the last range that is kept has one copy: it is what was written last. */
/* verifies run-26.fc76 */
static void bytes_behind_the_last_range_have_one_copy(void **state)
{
    (void)state;
    random_state = 11;
    power_returns();
    open_versions();
    versions.count = 2; /* pages 0 to 4, and 7 */
    versions.pages = 6;
    assert_int_equal(write_first(), BP_OK);
    assert_int_equal(bp_tier_versions_commit(&versions, 0, &error), BP_OK);
    bp_tier_versions_confirm(&versions);
    memcpy(model[1], model[0], BYTES);
    model[1][0] ^= 1;
    model[1][20 * BP_VERSIONS_PAGE + 3] ^= 1;
    assert_int_equal(
        bp_tier_versions_table.write(&versions, BP_TIER_HAND, 0, model[1], BYTES, &error), BP_OK);
    assert_int_equal(bp_tier_versions_table.read(&versions, BP_TIER_READ, 0, got, BYTES, &error),
                     BP_OK);
    assert_memory_equal(got, model[1], BYTES);
    assert_int_equal(bp_tier_versions_back(&versions, &error), BP_OK);
    assert_int_equal(bp_tier_versions_table.read(&versions, BP_TIER_READ, 0, got, BYTES, &error),
                     BP_OK);
    model[0][20 * BP_VERSIONS_PAGE + 3] ^= 1;
    assert_memory_equal(got, model[0], BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_fails_anywhere),
        cmocka_unit_test(versions_are_distinguished),
        cmocka_unit_test(bytes_behind_the_last_range_have_one_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
