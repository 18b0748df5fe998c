/* SPDX-License-Identifier: MIT */
/* Failing storage and power cuts: an earlier checkpoint stays valid, whatever happens to a save. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "tests/fixtures/checkpoint_fixture.h"

static const char *const kind_names[FAULT_KINDS] = {"(open)",
                                                    "(create)",
                                                    "(size)",
                                                    "(read)",
                                                    "(write)",
                                                    "(sync)",
                                                    "(close)",
                                                    "(rename)",
                                                    "(remove)",
                                                    "(make directory)",
                                                    "(remove directory)",
                                                    "(sync directory)",
                                                    "(list)",
                                                    "(free space)",
                                                    "(look up)"};

/* The medium of the tests below: a disk, then a flash. */
typedef checkpoint_fixture *(*fixture_maker)(void);

static checkpoint_fixture *fixture_new(void **state)
{
    return (*(const fixture_maker *)*state)();
}

/* What a run does after a step: the checkpoint, then removing what is too many. */
static bp_status save_and_prune(checkpoint_fixture *d, uint64_t step)
{
    BP_TRY(checkpoint_fixture_save(d, step));
    return bp_checkpoint_prune(&d->location, step, 1);
}

static void every_failing_call_of_a_save(void **state, bool for_ever)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        for (size_t n = 1;; n++) {
            checkpoint_fixture *d = fixture_new(state);
            assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
            faulty_store_arm(&d->faulty, (fault_kind)kind, n, for_ever);
            bp_status status = save_and_prune(d, 6);
            bool hit = d->faulty.failures > 0;
            bool once = d->faulty.failures == 1;
            char name[BP_ERROR_NAME_MAX];
            memcpy(name, d->error.name, sizeof name);
            faulty_store_arm(&d->faulty, FAULT_KINDS, 0, false);
            if (!hit) {
                assert_int_equal(status, BP_OK);
                assert_int_equal(checkpoint_fixture_newest(d), 6);
                assert_true(checkpoint_fixture_free(d));
                break;
            }
            assert_int_equal(status, BP_ERR_STORE);
            if (strstr(name, kind_names[kind]) == NULL) {
                fail_msg("%s is not named in %s", kind_names[kind], name);
            }
            assert_string_equal(d->error.text, "made to fail");
            /* Nothing is tried again, except that a file may still be closed. */
            assert_true(once || kind == FAULT_CLOSE);
            uint64_t step = checkpoint_fixture_newest(d);
            assert_true(step == 5 || step == 6);
            /* And the next save is not hindered by what was left behind. */
            assert_int_equal(save_and_prune(d, 7), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 7);
            assert_true(checkpoint_fixture_free(d));
        }
    }
}

/* verifies run-11.2ead */
static void a_call_that_fails_once(void **state)
{
    every_failing_call_of_a_save(state, false);
}

/* verifies run-11.2ead */
static void a_call_that_fails_for_ever(void **state)
{
    every_failing_call_of_a_save(state, true);
}

/* Saving the same step again, first with the n-th call of any kind failing. */
/* verifies run-11.2ead */
static void a_failing_call_while_a_step_is_replaced(void **state)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        for (size_t n = 1;; n++) {
            checkpoint_fixture *d = fixture_new(state);
            assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
            faulty_store_arm(&d->faulty, (fault_kind)kind, n, false);
            bp_status status = checkpoint_fixture_save(d, 5);
            bool hit = d->faulty.failures > 0;
            faulty_store_arm(&d->faulty, FAULT_KINDS, 0, false);
            assert_int_equal(status, hit ? BP_ERR_STORE : BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 5);
            assert_int_equal(bp_checkpoint_prune(&d->location, 5, 1), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 5);
            assert_true(checkpoint_fixture_free(d));
            if (!hit) {
                break;
            }
        }
    }
}

/* Reading: a failing call is a storage error. */
/* verifies file-10.b344 */
static void a_failing_call_while_reading(void **state)
{
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_CLOSE};
    for (size_t k = 0; k < 4; k++) {
        for (size_t n = 1;; n++) {
            checkpoint_fixture *d = fixture_new(state);
            assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
            bp_checkpoint_found found;
            faulty_store_arm(&d->faulty, kinds[k], n, false);
            bp_status verified = bp_checkpoint_verify(&d->location, "run/checkpoint-5", &found);
            bool hit = d->faulty.failures > 0;
            /* Closing a further file that was only read changes nothing. */
            assert_true(verified == (hit ? BP_ERR_STORE : BP_OK) || kinds[k] == FAULT_CLOSE);
            d->error = (bp_error){.code = BP_OK};
            faulty_store_arm(&d->faulty, kinds[k], n, false);
            bp_status loaded =
                bp_checkpoint_load(&d->location, "run/checkpoint-5", &d->checkpoint, NULL);
            assert_int_equal(loaded, d->faulty.failures > 0 ? BP_ERR_STORE : BP_OK);
            faulty_store_arm(&d->faulty, kinds[k], n, false);
            bp_pairs keys;
            bp_status read = bp_checkpoint_read_keys(&d->location, "run/checkpoint-5", &keys);
            assert_int_equal(read, d->faulty.failures > 0 ? BP_ERR_STORE : BP_OK);
            assert_true(checkpoint_fixture_free(d));
            if (!hit) {
                assert_true(n > 1); /* each kind is called */
                break;
            }
        }
    }
}

/* verifies file-10.b344 */
static void a_failing_call_while_looking(void **state)
{
    checkpoint_fixture *d = fixture_new(state);
    assert_int_equal(checkpoint_fixture_save(d, 4), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
    bp_checkpoint_found found;
    bool any;
    faulty_store_arm(&d->faulty, FAULT_EXISTS, 1, false);
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_STORE);
    faulty_store_arm(&d->faulty, FAULT_LIST, 1, false);
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_STORE);
    faulty_store_arm(&d->faulty, FAULT_READ_AT, 3, false);
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_STORE);
    assert_true(checkpoint_fixture_free(d));
}

/* A resume as a program makes it: the newest checkpoint is looked for, its keys are read, it is
 * loaded. BP_OK with *step = 0: there is none. */
static bp_status resume(checkpoint_fixture *d, uint64_t *step)
{
    bp_checkpoint_found found;
    bp_pairs keys;
    bool any = false;
    *step = 0;
    d->error = (bp_error){.code = BP_OK};
    BP_TRY(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any));
    if (any) {
        BP_TRY(bp_checkpoint_read_keys(&d->location, found.path, &keys));
        BP_TRY(bp_checkpoint_load(&d->location, found.path, &d->checkpoint, NULL));
        *step = found.step;
    }
    return BP_OK;
}

/* What a resume meets: all of its checkpoints whole; a damaged one before the newest valid one; one
 * of which a file is missing; one that was replaced. */
typedef enum resumed_from {
    FROM_WHOLE,
    FROM_DAMAGED,
    FROM_MISSING,
    FROM_REPLACED,
    FROMS
} resumed_from;

static checkpoint_fixture *fixture_resuming(void **state, resumed_from from)
{
    checkpoint_fixture *d = fixture_new(state);
    bp_store *store = d->inner;
    assert_int_equal(checkpoint_fixture_save(d, 3), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 4), BP_OK);
    if (from == FROM_REPLACED) {
        assert_int_equal(store->rename(store, "run/checkpoint-4", "run/old-checkpoint-4"), BP_OK);
    } else if (from != FROM_WHOLE) {
        assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
        assert_int_equal(store->remove(store, "run/checkpoint-5/model.safetensors"), BP_OK);
    }
    if (from == FROM_DAMAGED) {
        bp_file file;
        assert_int_equal(store->open_write(store, "run/checkpoint-5/model.safetensors", &file),
                         BP_OK);
        assert_int_equal(store->write_at(store, file, 0, "damaged in whole", 16), BP_OK);
        assert_int_equal(store->sync(store, file), BP_OK);
        assert_int_equal(store->close(store, file), BP_OK);
    }
    return d;
}

/* Of whatever call fails, once or from then on: a resume goes on from the newest valid checkpoint,
 * or it says that the storage failed. It never finds none, nor an older one. */
/* verifies file-10.b344 */
static void every_failing_call_of_a_resume(void **state)
{
    for (int from = 0; from < FROMS; from++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            size_t refused = 0;
            for (size_t n = 1;; n++) {
                checkpoint_fixture *d = fixture_resuming(state, (resumed_from)from);
                uint64_t step;
                faulty_store_arm(&d->faulty, FAULT_ANY, n, for_ever != 0);
                const bp_status status = resume(d, &step);
                const bool hit = d->faulty.failures > 0;
                if (status == BP_OK ? step != 4 : !hit || status != BP_ERR_STORE) {
                    fail_msg("from %d, call %zu: %s, step %llu", from, n, bp_status_text(status),
                             (unsigned long long)step);
                }
                refused += status != BP_OK ? 1 : 0;
                assert_true(checkpoint_fixture_free(d));
                if (!hit) {
                    break;
                }
            }
            assert_true(refused > 40);
        }
    }
}

/* verifies file-10.b344 */
static void every_failing_call_of_pruning(void **state)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        for (size_t n = 1;; n++) {
            checkpoint_fixture *d = fixture_new(state);
            bp_store *store = d->inner;
            for (uint64_t step = 1; step <= 4; step++) {
                assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
            }
            assert_int_equal(store->rename(store, "run/checkpoint-2", "run/old-checkpoint-2"),
                             BP_OK);
            assert_int_equal(store->make_directory(store, "run/old-checkpoint-3"), BP_OK);
            assert_int_equal(store->make_directory(store, "run/tmp-checkpoint-9"), BP_OK);
            assert_int_equal(bp_storage_write_file(store, "run/tmp-checkpoint-9/x", "x", 1, NULL),
                             BP_OK);
            faulty_store_arm(&d->faulty, (fault_kind)kind, n, false);
            bp_status status = bp_checkpoint_prune(&d->location, 4, 2);
            bool hit = d->faulty.failures > 0;
            faulty_store_arm(&d->faulty, FAULT_KINDS, 0, false);
            assert_int_equal(status, hit ? BP_ERR_STORE : BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 4);
            assert_int_equal(bp_checkpoint_prune(&d->location, 4, 2), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 4);
            assert_true(checkpoint_fixture_free(d));
            if (!hit) {
                break;
            }
        }
    }
}

/* A power cut at every changing call of (save, prune), with many ways to lose what was not synced.
 * `first` is the step that is there, `second` the one being saved. */
static void cut_everywhere(void **state, uint64_t first, uint64_t second, uint64_t seeds)
{
    for (uint64_t seed = 0; seed < seeds; seed++) {
        for (size_t cut = 0;; cut++) {
            checkpoint_fixture *d = fixture_new(state);
            assert_int_equal(checkpoint_fixture_save(d, first), BP_OK);
            const uint64_t torn = seed * 1000 + (seed < 2 ? 0 : cut);
            checkpoint_fixture_cut_after(d, cut, torn);
            bp_status status = save_and_prune(d, second);
            bool complete = status == BP_OK;
            checkpoint_fixture_power_back(d, torn);
            uint64_t step = checkpoint_fixture_newest(d);
            if (complete) {
                assert_int_equal(step, second); /* what was reported as saved is there */
            } else {
                assert_true(step == first || step == second);
            }
            /* The run goes on from there. */
            assert_int_equal(save_and_prune(d, second + 1), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), second + 1);
            assert_true(checkpoint_fixture_free(d));
            if (complete) {
                break;
            }
        }
    }
}

/* verifies run-11.2ead */
static void a_power_cut_at_every_call(void **state)
{
    cut_everywhere(state, 5, 6, 12);
}

/* verifies run-11.2ead */
static void a_power_cut_while_a_step_is_replaced(void **state)
{
    cut_everywhere(state, 5, 5, 12);
}

/* The same before there was any checkpoint: nothing is taken for one, or the first one is whole. */
/* verifies run-11.2ead */
static void a_power_cut_during_the_first_save(void **state)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        for (size_t cut = 0;; cut++) {
            checkpoint_fixture *d = fixture_new(state);
            const uint64_t torn = seed * 1000 + (seed < 2 ? 0 : cut);
            checkpoint_fixture_cut_after(d, cut, torn);
            bp_status status = checkpoint_fixture_save(d, 1);
            checkpoint_fixture_power_back(d, torn);
            uint64_t step = checkpoint_fixture_newest(d);
            assert_true(step == 1 || (step == 0 && status != BP_OK));
            assert_int_equal(save_and_prune(d, 2), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 2);
            assert_true(checkpoint_fixture_free(d));
            if (status == BP_OK) {
                break;
            }
        }
    }
}

/* A second cut while the run saves again after the first one. */
/* verifies run-11.2ead */
static void a_power_cut_after_a_power_cut(void **state)
{
    for (size_t cut = 0; cut < 40; cut++) {
        for (size_t again = 0; again < 40; again += 3) {
            checkpoint_fixture *d = fixture_new(state);
            assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
            checkpoint_fixture_cut_after(d, cut, 2 + cut * 41 + again);
            bp_status first = save_and_prune(d, 6);
            checkpoint_fixture_power_back(d, 2 + cut * 41 + again);
            checkpoint_fixture_cut_after(d, again, 3 + cut * 43 + again);
            bp_status second = save_and_prune(d, 6);
            checkpoint_fixture_power_back(d, 3 + cut * 43 + again);
            uint64_t step = checkpoint_fixture_newest(d);
            assert_true(step == 6 || (step == 5 && first != BP_OK && second != BP_OK));
            assert_true(checkpoint_fixture_free(d));
        }
    }
}

/* verifies file-10.b344 */
static void small_files_report_every_failing_call(void **state)
{
    (void)state;
    memory_store memory;
    faulty_store faulty;
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    static const fault_kind writing[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_CLOSE};
    bp_error error;
    for (size_t i = 0; i < 4; i++) {
        error = (bp_error){.code = BP_OK};
        faulty_store_arm(&faulty, writing[i], 1, false);
        assert_int_equal(bp_storage_write_file(&faulty.store, "f", "abc", 3, &error), BP_ERR_STORE);
        assert_non_null(strstr(error.name, kind_names[writing[i]]));
        assert_int_equal(memory.open_files, 0);
    }
    faulty_store_arm(&faulty, FAULT_KINDS, 0, false);
    assert_int_equal(bp_storage_write_file(&faulty.store, "f", "abc", 3, NULL), BP_OK);
    static const fault_kind reading[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                         FAULT_CLOSE};
    char room[8];
    size_t length;
    for (size_t i = 0; i < 4; i++) {
        error = (bp_error){.code = BP_OK};
        faulty_store_arm(&faulty, reading[i], 1, false);
        assert_int_equal(
            bp_storage_read_file(&faulty.store, "f", room, sizeof room, &length, &error),
            BP_ERR_STORE);
        assert_non_null(strstr(error.name, kind_names[reading[i]]));
        assert_int_equal(memory.open_files, 0);
    }
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_storage_read_file(&faulty.store, "f", room, 2, &length, &error),
                     BP_ERR_FIT);
    assert_int_equal(error.found, 2);
    assert_int_equal(error.wanted, 3);
    /* Both a write and the close after it fail: the first is the cause. */
    error = (bp_error){.code = BP_OK};
    faulty_store_arm(&faulty, FAULT_SYNC, 1, false);
    memory.changes_until = memory.changes_made;
    assert_int_equal(bp_storage_write_file(&faulty.store, "f", "abc", 3, &error), BP_ERR_STORE);
    memory.changes_until = (size_t)-1;
    assert_int_equal(bp_storage_read_file(&faulty.store, "f", room, 3, &length, NULL), BP_OK);
    assert_int_equal(length, 3);
    assert_memory_equal(room, "abc", 3);
    memory_store_free(&memory);
}

static bp_status list_long_name(bp_store *store, const char *path,
                                bp_status (*each)(void *user, const char *name), void *user)
{
    (void)store;
    (void)path;
    char name[600];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    return each(user, name);
}

/* verifies error-2.e818 */
static void names_that_do_not_fit_are_reported(void **state)
{
    (void)state;
    memory_store memory;
    memory_store_init(&memory);
    bp_store *store = &memory.store;
    bp_error error = {.code = BP_OK};
    char path[BP_STORE_PATH_MAX];
    char name[BP_STORE_PATH_MAX];
    memset(name, 'n', sizeof name);
    name[BP_STORE_PATH_MAX - 1] = '\0';
    assert_int_equal(bp_storage_join(path, "", name, &error), BP_OK);
    assert_int_equal(bp_storage_join(path, "d", name, &error), BP_ERR_USAGE);
    assert_int_equal(error.found, BP_STORE_PATH_MAX + 1);
    assert_int_equal(bp_storage_join(path, "a", "b", NULL), BP_OK);
    assert_string_equal(path, "a/b");
    /* Of a long path the end is kept, and the call. */
    error = (bp_error){.code = BP_OK};
    memcpy(name + BP_STORE_PATH_MAX - 5, "/end", 5);
    store->reason = NULL;
    assert_int_equal(bp_storage_failed(&error, store, "write", name), BP_ERR_STORE);
    assert_non_null(strstr(error.name, "/end (write)"));
    assert_string_equal(error.text, "the storage call failed");
    /* A directory entry that is longer than any path. */
    assert_int_equal(store->make_directory(store, "d"), BP_OK);
    store->list = list_long_name;
    assert_int_equal(bp_storage_remove_directory(store, "d", NULL), BP_ERR_STORE);
    memory_store_free(&memory);
}

/* verifies file-10.b344 */
static void removing_a_directory_reports_every_failing_call(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_LIST, FAULT_REMOVE, FAULT_REMOVE_DIRECTORY};
    memory_store memory;
    faulty_store faulty;
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    assert_int_equal(memory.store.make_directory(&memory.store, "d"), BP_OK);
    for (size_t i = 0; i < 3; i++) {
        memory_store_put(&memory, "d/f", "x", 1);
        memory_store_put(&memory, "d/g", "x", 1);
        bp_error error = {.code = BP_OK};
        faulty_store_arm(&faulty, kinds[i], 1, false);
        assert_int_equal(bp_storage_remove_directory(&faulty.store, "d", &error), BP_ERR_STORE);
        assert_non_null(strstr(error.name, kind_names[kinds[i]]));
    }
    faulty_store_arm(&faulty, FAULT_KINDS, 0, false);
    assert_int_equal(memory.store.make_directory(&memory.store, "d/inner"), BP_OK);
    assert_int_equal(bp_storage_remove_directory(&faulty.store, "d", NULL), BP_ERR_STORE);
    assert_int_equal(memory.store.remove_directory(&memory.store, "d/inner"), BP_OK);
    char long_name[BP_STORE_PATH_MAX];
    memset(long_name, '/', sizeof long_name);
    long_name[0] = 'd';
    long_name[BP_STORE_PATH_MAX - 2] = '\0';
    memory_store_put(&memory, "d/f", "x", 1);
    assert_int_equal(bp_storage_remove_directory(&faulty.store, long_name, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_storage_remove_directory(&faulty.store, "d", NULL), BP_OK);
    memory_store_free(&memory);
}

#define OVER(test, maker)                                                                          \
    {                                                                                              \
#test " over " #maker, test, NULL, NULL, (void *)(uintptr_t)&maker                         \
    }
#define EVERY_MEDIUM(test) OVER(test, disk), OVER(test, flash)

int main(void)
{
    static const fixture_maker disk = checkpoint_fixture_new, flash = checkpoint_fixture_new_flash,
                               small_flash = checkpoint_fixture_new_small_flash;
    const struct CMUnitTest tests[] = {
        EVERY_MEDIUM(a_call_that_fails_once),
        EVERY_MEDIUM(a_call_that_fails_for_ever),
        EVERY_MEDIUM(a_failing_call_while_a_step_is_replaced),
        EVERY_MEDIUM(a_failing_call_while_reading),
        EVERY_MEDIUM(a_failing_call_while_looking),
        EVERY_MEDIUM(every_failing_call_of_a_resume),
        EVERY_MEDIUM(every_failing_call_of_pruning),
        EVERY_MEDIUM(a_power_cut_at_every_call),
        OVER(a_power_cut_at_every_call, small_flash),
        EVERY_MEDIUM(a_power_cut_while_a_step_is_replaced),
        OVER(a_power_cut_while_a_step_is_replaced, small_flash),
        EVERY_MEDIUM(a_power_cut_during_the_first_save),
        OVER(a_power_cut_during_the_first_save, small_flash),
        EVERY_MEDIUM(a_power_cut_after_a_power_cut),
        OVER(a_power_cut_after_a_power_cut, small_flash),
        cmocka_unit_test(small_files_report_every_failing_call),
        cmocka_unit_test(names_that_do_not_fit_are_reported),
        cmocka_unit_test(removing_a_directory_reports_every_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
