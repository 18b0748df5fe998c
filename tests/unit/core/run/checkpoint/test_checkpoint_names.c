/* SPDX-License-Identifier: MIT */
/* Names of checkpoints and of what is in them: which are looked at, which are let be, which are
 * none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/run/checkpoint/checkpoint.h"
#include "core/run/checkpoint/checkpoint_private.h"
#include "tests/fixtures/checkpoint_fixture.h"

static bool is_there(checkpoint_fixture *d, const char *path)
{
    bool there = false;
    assert_int_equal(d->memory.store.exists(&d->memory.store, path, &there), BP_OK);
    return there;
}

static void rename_to(checkpoint_fixture *d, const char *from, const char *to)
{
    assert_int_equal(d->memory.store.rename(&d->memory.store, from, to), BP_OK);
}

static void damage(checkpoint_fixture *d, const char *path)
{
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    assert_non_null(bytes);
    bytes[size - 1] ^= 4;
}

/* Names of further files: letters, digits and "._-", and no file of the checkpoint's own. */
/* verifies run-23.6445 */
static void names_of_further_files(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        const char name[] = {'a', (char)c, 'b', '\0'};
        const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        assert_true(bp_checkpoint_blob_name(name) == good);
    }
    assert_false(bp_checkpoint_blob_name(""));
    assert_false(bp_checkpoint_blob_name(".hidden"));
    assert_false(bp_checkpoint_blob_name("model.safetensors"));
    assert_false(bp_checkpoint_blob_name("state.safetensors"));
}

/* Of two checkpoints of a step the one that was replaced is the older one; behind both, damaged,
 * comes the step before. */
/* verifies run-12.25e7 */
static void damaged_ones_are_gone_past(void **state)
{
    (void)state;
    checkpoint_fixture *d = checkpoint_fixture_new();
    assert_int_equal(checkpoint_fixture_save(d, 3), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
    rename_to(d, "run/checkpoint-5", "run/old-checkpoint-5");
    assert_int_equal(checkpoint_fixture_newest(d), 5); /* of the replaced one */
    assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
    if (!is_there(d, "run/old-checkpoint-5")) {
        rename_to(d, "run/checkpoint-5", "run/old-checkpoint-5");
        assert_int_equal(checkpoint_fixture_save(d, 6), BP_OK);
        rename_to(d, "run/checkpoint-6", "run/checkpoint-7");
    }
    damage(d, "run/old-checkpoint-5/state.safetensors");
    damage(d, "run/checkpoint-7/state.safetensors");
    bp_checkpoint_found found;
    bool any = false;
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_OK);
    assert_true(any && found.step == 3);
    assert_true(checkpoint_fixture_free(d));
}

/* What is wrong with the call is its error, unless one is there already or there is no place. */
/* verifies formats-26.24e5 */
static void a_call_without_memory_says_so(void **state)
{
    (void)state;
    checkpoint_fixture *d = checkpoint_fixture_new();
    assert_int_equal(checkpoint_fixture_save(d, 3), BP_OK);
    const size_t scratch = d->location.scratch_bytes;
    bp_checkpoint_found found;
    bool any = true;
    d->location.scratch_bytes = 8;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_FIT);
    assert_int_equal(d->error.code, BP_ERR_FIT);
    d->error = (bp_error){.code = BP_ERR_DEVICE, .text = "before"};
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_FIT);
    assert_string_equal(d->error.text, "before");
    d->location.error = NULL;
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_ERR_FIT);
    assert_false(any);
    d->location.error = &d->error;
    d->location.scratch_bytes = scratch;
    assert_true(checkpoint_fixture_free(d));
}

/* Steps later than one go, and nothing else does, whatever it is called. */
/* verifies run-13.a606 */
static void later_steps_are_removed(void **state)
{
    (void)state;
    static const uint64_t steps[] = {3, 5, 7, 12};
    checkpoint_fixture *d = checkpoint_fixture_new();
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(checkpoint_fixture_save(d, steps[i]), BP_OK);
    }
    memory_store_put(&d->memory, "run/notes.txt", "x", 1);
    memory_store_put(&d->memory, "run/checkpoint-9x", "x", 1);
    assert_int_equal(bp_checkpoint_prune_later(&d->location, 5), BP_OK);
    assert_true(is_there(d, "run/checkpoint-3") && is_there(d, "run/checkpoint-5"));
    assert_false(is_there(d, "run/checkpoint-7") || is_there(d, "run/checkpoint-12"));
    assert_true(is_there(d, "run/notes.txt") && is_there(d, "run/checkpoint-9x"));
    assert_int_equal(checkpoint_fixture_newest(d), 5);
    assert_true(checkpoint_fixture_free(d));
}

static void output_directories_anywhere(void **state)
{
    (void)state;
    checkpoint_fixture *d = checkpoint_fixture_new();
    bp_store *store = &d->memory.store;
    assert_int_equal(store->make_directory(store, "deep"), BP_OK);
    assert_int_equal(store->sync_directory(store, "."), BP_OK);
    static const char *const places[] = {"deep/run", "/run2", "run3"};
    for (size_t i = 0; i < 3; i++) {
        d->location.directory = places[i];
        assert_int_equal(checkpoint_fixture_save(d, 1), BP_OK);
        memory_store_power_cut(&d->memory, 0); /* the directory's own name is durable as well */
        assert_int_equal(checkpoint_fixture_newest(d), 1);
    }
    d->error = (bp_error){.code = BP_OK};
    d->location.directory = "no/such/run";
    assert_int_equal(checkpoint_fixture_save(d, 1), BP_ERR_STORE);
    assert_string_equal(d->error.name, "no/such/run (make directory)");
    char path[BP_STORE_PATH_MAX];
    memset(path, 'p', sizeof path);
    path[BP_STORE_PATH_MAX - 14] = '\0';
    d->location.directory = path;
    assert_int_equal(checkpoint_fixture_save(d, 1), BP_ERR_USAGE);
    bp_checkpoint_found found;
    assert_int_equal(bp_checkpoint_verify(&d->location, path, &found), BP_ERR_USAGE);
    assert_true(checkpoint_fixture_free(d));
}

/* What JSON would not give back as it was makes no checkpoint: it would be damaged when it is read.
 */
/* verifies run-23.6445 */
static void keys_that_are_not_utf8(void **state)
{
    static const char *const wrong[] = {"t\xff", "t\xe4\xb8", "\xc0\xaf", "\xed\xa0\x80"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        const char **to = i % 2 == 0 ? &d->keys[1].value : &d->keys[1].key;
        *to = wrong[i / 2];
        assert_int_equal(checkpoint_fixture_save(d, 1), BP_ERR_USAGE);
        assert_false(is_there(d, "run"));
        d->error = (bp_error){.code = BP_OK};
        *to = "\xe4\xb8\xad\xc3\xa4";
        assert_int_equal(checkpoint_fixture_save(d, 1), BP_OK);
        bp_checkpoint_found found;
        assert_int_equal(bp_checkpoint_verify(&d->location, "run/checkpoint-1", &found), BP_OK);
        assert_true(checkpoint_fixture_free(d));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_further_files),
        cmocka_unit_test(damaged_ones_are_gone_past),
        cmocka_unit_test(a_call_without_memory_says_so),
        cmocka_unit_test(later_steps_are_removed),
        cmocka_unit_test(output_directories_anywhere),
        cmocka_unit_test(keys_that_are_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
