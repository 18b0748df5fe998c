/* SPDX-License-Identifier: MIT */
/* Checkpoints: what is saved comes back, the newest valid one is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/safetensors.h"
#include "core/base/digest.h"
#include "tests/fixtures/checkpoint_fixture.h"

static int set_up(void **state)
{
    *state = checkpoint_fixture_new();
    return 0;
}

static int tear_down(void **state)
{
    return checkpoint_fixture_free(*state) ? 0 : 1;
}

static void clear_error(checkpoint_fixture *d)
{
    d->error = (bp_error){.code = BP_OK};
}

/* The newest checkpoint's step, 0 when there is none. */
static uint64_t find_step(checkpoint_fixture *d, bp_checkpoint_damaged damaged, void *user)
{
    bp_checkpoint_found found;
    bool any;
    clear_error(d);
    assert_int_equal(bp_checkpoint_find(&d->location, damaged, user, &found, &any), BP_OK);
    return any ? found.step : 0;
}

/* verifies run-23.6445 */
static void what_is_saved_comes_back(void **state)
{
    checkpoint_fixture *d = *state;
    checkpoint_fixture_step(d, 7);
    uint64_t memory_digest;
    uint64_t saved_digest;
    assert_int_equal(bp_checkpoint_digest(&d->location, &d->checkpoint, &memory_digest), BP_OK);
    assert_int_equal(bp_checkpoint_save(&d->location, &d->checkpoint, &saved_digest), BP_OK);
    assert_true(saved_digest == memory_digest);
    bp_checkpoint_found found;
    assert_int_equal(bp_checkpoint_verify(&d->location, "run/checkpoint-7", &found), BP_OK);
    assert_int_equal(found.step, 7);
    assert_true(found.digest == memory_digest);
    assert_string_equal(found.path, "run/checkpoint-7");
    checkpoint_fixture_step(d, 8);
    assert_false(checkpoint_fixture_is(d, 7));
    uint64_t loaded_digest;
    assert_int_equal(
        bp_checkpoint_load(&d->location, "run/checkpoint-7", &d->checkpoint, &loaded_digest),
        BP_OK);
    assert_true(checkpoint_fixture_is(d, 7));
    assert_true(loaded_digest == memory_digest);
    checkpoint_fixture_step(d, 8);
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-7", &d->checkpoint, NULL),
                     BP_OK);
    assert_true(checkpoint_fixture_is(d, 7));
}

/* verifies run-23.6445 */
static void other_programs_can_read_the_files(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 3), BP_OK);
    bp_safetensors file;
    unsigned char scratch[8192];
    assert_int_equal(bp_safetensors_open(&file, &d->memory.store,
                                         "run/checkpoint-3/model.safetensors", scratch,
                                         sizeof scratch, NULL),
                     BP_OK);
    assert_int_equal(file.entry_count, 3);
    assert_non_null(bp_safetensors_find(&file, "a.weight"));
    assert_non_null(bp_safetensors_find(&file, "b.bias"));
    assert_non_null(bp_safetensors_find(&file, "z.weight"));
    assert_string_equal(bp_safetensors_metadata(&file, "format"), "pt");
    assert_string_equal(bp_safetensors_metadata(&file, "step"), "3");
    assert_string_equal(bp_safetensors_metadata(&file, "key.optim"), "adamw");
    assert_int_equal(bp_safetensors_close(&file), BP_OK);
    size_t size;
    const unsigned char *config =
        memory_store_bytes(&d->memory, "run/checkpoint-3/config.json", &size);
    assert_int_equal(size, 22);
    assert_memory_equal(config, "{\"model_type\":\"gpt2\"}\n", 22);
}

/* verifies run-14.2657 */
static void sizes_are_exact(void **state)
{
    checkpoint_fixture *d = *state;
    checkpoint_fixture_step(d, 12345);
    uint64_t bytes;
    assert_int_equal(bp_checkpoint_bytes(&d->location, &d->checkpoint, &bytes), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 12345), BP_OK);
    static const char *const names[] = {"model.safetensors", "state.safetensors", "config.json",
                                        "empty.txt"};
    uint64_t found = 0;
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, "run/checkpoint-12345/%s", names[i]);
        assert_non_null(memory_store_bytes(&d->memory, path, &size));
        found += size;
    }
    assert_int_equal(found, bytes);
}

/* verifies run-14.2657 */
static void space_is_checked_beforehand(void **state)
{
    checkpoint_fixture *d = *state;
    uint64_t bytes;
    assert_int_equal(bp_checkpoint_bytes(&d->location, &d->checkpoint, &bytes), BP_OK);
    uint64_t needed = bytes + 65536 + 4 * 4096;
    d->memory.free_bytes = needed;
    assert_int_equal(bp_checkpoint_check_space(&d->location, &d->checkpoint), BP_OK);
    d->memory.free_bytes = needed - 1;
    assert_int_equal(bp_checkpoint_check_space(&d->location, &d->checkpoint), BP_ERR_STORE);
    assert_int_equal(d->error.found, needed - 1);
    assert_int_equal(d->error.wanted, needed);
    clear_error(d);
    faulty_store_arm(&d->faulty, FAULT_FREE_BYTES, 1, false);
    assert_int_equal(bp_checkpoint_check_space(&d->location, &d->checkpoint), BP_ERR_STORE);
    assert_string_equal(d->error.name, "run (free space)");
    d->checkpoint.blob_count = BP_CHECKPOINT_BLOBS + 1;
    assert_int_equal(bp_checkpoint_check_space(&d->location, &d->checkpoint), BP_ERR_USAGE);
}

static size_t tables_of(checkpoint_fixture *d, const char *path)
{
    bp_safetensors file;
    assert_true(bp_safetensors_open(&file, d->location.store, path, d->location.scratch,
                                    d->location.scratch_bytes, &d->error) == BP_OK &&
                bp_safetensors_close(&file) == BP_OK);
    return file.scratch_used;
}

/* verifies formats-26.24e5 */
static void less_scratch_is_an_answer_with_a_number(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 1), BP_OK);
    bp_checkpoint_found found;
    bool any;
    /* The tables of both files are there at one time, and one work area. */
    const size_t both = tables_of(d, "run/checkpoint-1/model.safetensors") +
                        tables_of(d, "run/checkpoint-1/state.safetensors") + BP_SAFETENSORS_WORK;
    for (size_t bytes = 0; bytes < d->location.scratch_bytes; bytes += 97) {
        bp_checkpoint_location location = d->location;
        location.scratch_bytes = bytes;
        clear_error(d);
        bp_status status = bp_checkpoint_verify(&location, "run/checkpoint-1", &found);
        assert_true(status != BP_OK || bytes >= both);
        if (status != BP_OK) {
            assert_int_equal(status, BP_ERR_FIT);
            assert_true(d->error.wanted > d->error.found);
            clear_error(d);
            assert_int_equal(bp_checkpoint_find(&location, NULL, NULL, &found, &any), BP_ERR_FIT);
            assert_int_equal(d->error.code, BP_ERR_FIT);
            location.error = NULL;
            assert_int_equal(bp_checkpoint_find(&location, NULL, NULL, &found, &any), BP_ERR_FIT);
        }
    }
    bp_checkpoint_location location = d->location;
    location.scratch_bytes = 100;
    uint64_t bytes;
    clear_error(d);
    assert_int_equal(bp_checkpoint_bytes(&location, &d->checkpoint, &bytes), BP_ERR_FIT);
    assert_int_equal(d->error.found, 100);
    bp_pairs keys;
    assert_int_equal(bp_checkpoint_read_keys(&location, "run/checkpoint-1", &keys), BP_ERR_FIT);
    assert_int_equal(bp_checkpoint_load(&location, "run/checkpoint-1", &d->checkpoint, NULL),
                     BP_ERR_FIT);
}

static void any_place_for_scratch_will_do(void **state)
{
    checkpoint_fixture *d = *state;
    unsigned char *memory = malloc(d->location.scratch_bytes + 8);
    void *own = d->location.scratch;
    for (size_t skew = 0; skew < 8; skew++) {
        d->location.scratch = memory + skew;
        assert_int_equal(checkpoint_fixture_save(d, skew), BP_OK);
        char path[64];
        snprintf(path, sizeof path, "run/checkpoint-%zu", skew);
        bp_checkpoint_found found;
        assert_int_equal(bp_checkpoint_verify(&d->location, path, &found), BP_OK);
    }
    d->location.scratch = own;
    free(memory);
}

static void note_difference(void *user, const char *key, const char *a, const char *b)
{
    char *to = user;
    sprintf(to + strlen(to), "%s:%s>%s ", key, a != NULL ? a : "-", b != NULL ? b : "-");
}

/* verifies run-23.6445 */
static void keys_are_read_before_anything_is_loaded(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 1), BP_OK);
    bp_pairs keys;
    assert_int_equal(bp_checkpoint_read_keys(&d->location, "run/checkpoint-1", &keys), BP_OK);
    assert_int_equal(keys.count, FIXTURE_KEYS);
    assert_string_equal(keys.list[0].key, "data"); /* sorted */
    assert_string_equal(bp_pairs_find(keys, "seed"), "1");
    assert_null(bp_pairs_find(keys, "step"));
    bp_pairs now = {d->keys, FIXTURE_KEYS};
    assert_int_equal(bp_pairs_compare(keys, now, NULL, NULL), 0);
    d->keys[0].value = "2";
    d->keys[1].key = "opt";
    char text[256] = "";
    assert_int_equal(bp_pairs_compare(keys, now, note_difference, text), 3);
    assert_string_equal(text, "optim:adamw>- seed:1>2 opt:->adamw ");
    assert_int_equal(bp_pairs_compare(keys, now, NULL, NULL), 3);
}

static void count_damaged(void *user, const char *path, const bp_error *reason)
{
    char *to = user;
    assert_int_not_equal(reason->code, BP_OK);
    sprintf(to + strlen(to), "%s ", path);
}

static void flip(checkpoint_fixture *d, const char *path, size_t at)
{
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    assert_non_null(bytes);
    bytes[at < size ? at : size - 1] ^= 4;
}

/* verifies run-13.a606 */
static void the_newest_valid_one_is_taken(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(find_step(d, NULL, NULL), 0); /* no directory */
    assert_int_equal(d->memory.store.make_directory(&d->memory.store, "run"), BP_OK);
    assert_int_equal(find_step(d, NULL, NULL), 0);
    static const uint64_t steps[] = {9, 100, 20};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(checkpoint_fixture_save(d, steps[i]), BP_OK);
    }
    char text[256] = "";
    assert_int_equal(find_step(d, count_damaged, text), 100);
    assert_string_equal(text, "");
    flip(d, "run/checkpoint-100/state.safetensors", SIZE_MAX);
    assert_int_equal(find_step(d, count_damaged, text), 20);
    assert_string_equal(text, "run/checkpoint-100 ");
    assert_int_equal(d->error.code, BP_OK); /* the caller's record stays clean */
    assert_int_equal(
        d->memory.store.remove(&d->memory.store, "run/checkpoint-20/model.safetensors"), BP_OK);
    assert_int_equal(find_step(d, NULL, NULL), 9);
    flip(d, "run/checkpoint-9/config.json", 3);
    text[0] = '\0';
    assert_int_equal(find_step(d, count_damaged, text), 0);
    assert_string_equal(text, "run/checkpoint-100 run/checkpoint-20 run/checkpoint-9 ");
}

/* A medium that says of one thing that is there that it is not, once: in the n-th look-up, or by a
 * listing that ends at once. */
static struct {
    bp_status (*exists)(bp_store *store, const char *path, bool *there);
    bp_status (*list)(bp_store *store, const char *path,
                      bp_status (*each)(void *user, const char *name), void *user);
    unsigned lookups, listings; /* so many are left until the one that lies */
} liar;

static bp_status exists_once_not(bp_store *store, const char *path, bool *there)
{
    const bp_status status = liar.exists(store, path, there);
    *there = --liar.lookups == 0 ? false : *there;
    return status;
}

static bp_status list_once_nothing(bp_store *store, const char *path,
                                   bp_status (*each)(void *user, const char *name), void *user)
{
    return --liar.listings == 0 ? BP_OK : liar.list(store, path, each, user);
}

/* verifies run-13.a606 */
static void a_look_up_that_lies_leads_to_no_older_step(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 9), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 20), BP_OK);
    bp_store *store = &d->memory.store;
    liar.exists = store->exists;
    liar.list = store->list;
    store->exists = exists_once_not;
    store->list = list_once_nothing;
    unsigned failed = 0, right = 0;
    for (unsigned n = 1; n <= 10; n++) {
        bp_checkpoint_found found = {.step = 0};
        bool any = false;
        d->error = (bp_error){.code = BP_OK};
        liar.lookups = n <= 6 ? n : 0;
        liar.listings = n > 6 ? n - 6 : 0;
        const bp_status status = bp_checkpoint_find(&d->location, NULL, NULL, &found, &any);
        right += status == BP_OK && any && found.step == 20;
        failed += status == BP_ERR_STORE;
    }
    store->exists = liar.exists;
    store->list = liar.list;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(right + failed, 10);
    assert_true(failed >= 3 && right >= 4); /* the directory, two files; listings */
}

/* verifies run-13.a606 */
static void other_names_are_left_alone(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
    static const char *const names[] = {"run/checkpoint-",
                                        "run/checkpoint-06",
                                        "run/checkpoint-7x",
                                        "run/checkpoint--8",
                                        "run/checkpoint-18446744073709551615",
                                        "run/checkpoint-99999999999999999999",
                                        "run/xcheckpoint-9",
                                        "run/old-checkpoint-",
                                        "run/tmp-checkpoint-9x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(d->memory.store.make_directory(&d->memory.store, names[i]), BP_OK);
    }
    char text[256] = "";
    assert_int_equal(find_step(d, count_damaged, text), 5);
    assert_string_equal(text, "");
    assert_int_equal(bp_checkpoint_prune(&d->location, 5, 1), BP_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool there;
        assert_int_equal(d->memory.store.exists(&d->memory.store, names[i], &there), BP_OK);
        assert_true(there);
    }
}

/* Ways to make the fixture's checkpoint break the rules. */
static void spoil_tensors(checkpoint_fixture *d, int way)
{
    switch (way) {
    case 0:
        d->tensors[1].name = "a.weight";
        break;
    case 1:
        d->tensors[1].name = "a";
        break;
    case 2:
        d->tensors[0].rank = 5;
        break;
    case 3:
        d->tensors[0].bytes--;
        break;
    case 4:
        d->tensors[5].name = "";
        break;
    default: /* too long for a file: found by the layout */
        d->tensors[5].name =
            "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
            "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
            "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
            "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
        break;
    }
}

/* Saving ends with this status, and when it is not BP_OK nothing was written. */
static void saving_gives(checkpoint_fixture *d, bp_status wanted)
{
    assert_int_equal(checkpoint_fixture_save(d, 1), wanted);
    bool there;
    assert_int_equal(d->memory.store.exists(&d->memory.store, "run", &there), BP_OK);
    assert_int_equal(there, wanted == BP_OK);
}

/* verifies run-23.6445 */
static void wrong_tensors_are_refused(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        spoil_tensors(d, way);
        saving_gives(d, BP_ERR_USAGE);
        assert_true(checkpoint_fixture_free(d));
    }
}

/* verifies run-23.6445 */
static void wrong_keys_are_refused(void **state)
{
    checkpoint_fixture *d = *state;
    d->keys[1].key = "seed"; /* twice */
    saving_gives(d, BP_ERR_USAGE);
    char key[202];
    memset(key, 'k', sizeof key);
    key[201] = '\0';
    d->keys[1].key = key;
    saving_gives(d, BP_ERR_USAGE);
    key[200] = '\0';
    saving_gives(d, BP_OK);
}

/* verifies run-23.6445 */
static void wrong_further_files_are_refused(void **state)
{
    checkpoint_fixture *d = *state;
    char long_name[65];
    memset(long_name, 'n', sizeof long_name);
    long_name[64] = '\0';
    const char *const wrong[] = {"",        "a/b",
                                 "..",      ".hidden",
                                 "a b",     "a:b",
                                 "[",       "model.safetensors",
                                 long_name, "state.safetensors",
                                 "\xc3\xa9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        d->blobs[0].name = wrong[i];
        saving_gives(d, BP_ERR_USAGE);
    }
    size_t count = d->checkpoint.blob_count;
    d->checkpoint.blob_count = BP_CHECKPOINT_BLOBS + 1;
    saving_gives(d, BP_ERR_USAGE);
    d->checkpoint.blob_count = count;
    long_name[63] = '\0';
    d->blobs[0].name = long_name;
    saving_gives(d, BP_OK);
    d->blobs[0].name = "aZ09-_.json";
    saving_gives(d, BP_OK);
}

static bool there(checkpoint_fixture *d, const char *path)
{
    bool found;
    assert_int_equal(d->memory.store.exists(&d->memory.store, path, &found), BP_OK);
    return found;
}

/* verifies run-11.2ead */
static void the_same_step_is_replaced(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 4), BP_OK);
    uint64_t digest;
    checkpoint_fixture_step(d, 5);
    d->checkpoint.step = 4;
    assert_int_equal(bp_checkpoint_save(&d->location, &d->checkpoint, &digest), BP_OK);
    bp_checkpoint_found found;
    bool any;
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_OK);
    assert_true(any);
    assert_true(found.digest == digest);
    assert_false(there(d, "run/old-checkpoint-4"));
    assert_false(there(d, "run/tmp-checkpoint-4"));
    /* With an old one left from a power cut, too. */
    bp_store *store = &d->memory.store;
    assert_int_equal(store->make_directory(store, "run/old-checkpoint-4"), BP_OK);
    memory_store_put(&d->memory, "run/old-checkpoint-4/rest", "x", 1);
    assert_int_equal(checkpoint_fixture_save(d, 4), BP_OK);
    assert_false(there(d, "run/old-checkpoint-4"));
}

/* verifies run-11.2ead */
static void a_replaced_one_is_found_until_its_replacement_is_there(void **state)
{
    checkpoint_fixture *d = *state;
    bp_store *store = &d->memory.store;
    assert_int_equal(checkpoint_fixture_save(d, 3), BP_OK);
    assert_int_equal(checkpoint_fixture_save(d, 4), BP_OK);
    assert_int_equal(store->rename(store, "run/checkpoint-4", "run/old-checkpoint-4"), BP_OK);
    assert_int_equal(find_step(d, NULL, NULL), 4);
    checkpoint_fixture_step(d, 4);
    assert_int_equal(bp_checkpoint_save(&d->location, &d->checkpoint, NULL), BP_OK);
    assert_int_equal(find_step(d, NULL, NULL), 4);
    assert_false(there(d, "run/old-checkpoint-4"));
    /* The same once more, now put right by pruning. */
    assert_int_equal(store->rename(store, "run/checkpoint-4", "run/old-checkpoint-4"), BP_OK);
    assert_int_equal(bp_checkpoint_prune(&d->location, 4, 0), BP_OK);
    assert_true(there(d, "run/checkpoint-4"));
    assert_false(there(d, "run/old-checkpoint-4"));
    /* Both there, the new one damaged: the old one is taken. */
    assert_int_equal(store->rename(store, "run/checkpoint-4", "run/old-checkpoint-4"), BP_OK);
    assert_int_equal(store->make_directory(store, "run/checkpoint-4"), BP_OK);
    char text[256] = "";
    bp_checkpoint_found found;
    bool any;
    assert_int_equal(bp_checkpoint_find(&d->location, count_damaged, text, &found, &any), BP_OK);
    assert_string_equal(text, "run/checkpoint-4 ");
    assert_string_equal(found.path, "run/old-checkpoint-4");
    assert_int_equal(bp_checkpoint_prune(&d->location, 4, 0), BP_OK);
    assert_false(there(d, "run/old-checkpoint-4"));
}

/* verifies run-13.a606 */
static void pruning_keeps_the_newest(void **state)
{
    checkpoint_fixture *d = *state;
    bp_store *store = &d->memory.store;
    for (uint64_t step = 8; step <= 12; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
    }
    assert_int_equal(store->make_directory(store, "run/tmp-checkpoint-13"), BP_OK);
    memory_store_put(&d->memory, "run/tmp-checkpoint-13/model.safetensors", "x", 1);
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 0), BP_OK);
    assert_true(there(d, "run/checkpoint-8"));
    assert_false(there(d, "run/tmp-checkpoint-13"));
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 3), BP_OK);
    assert_false(there(d, "run/checkpoint-9"));
    assert_true(there(d, "run/checkpoint-10"));
    /* After a resume from 10: 11 and 12 are not counted and not touched. */
    assert_int_equal(bp_checkpoint_prune(&d->location, 10, 1), BP_OK);
    assert_true(there(d, "run/checkpoint-10"));
    assert_true(there(d, "run/checkpoint-11"));
    assert_true(there(d, "run/checkpoint-12"));
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 1), BP_OK);
    assert_false(there(d, "run/checkpoint-11"));
    assert_int_equal(find_step(d, NULL, NULL), 12);
}

/* verifies run-13.a606 */
static void pruning_spares_one(void **state)
{
    checkpoint_fixture *d = *state;
    for (uint64_t step = 8; step <= 12; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
    }
    d->location.spare = 9;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 2), BP_OK);
    assert_false(there(d, "run/checkpoint-8"));
    assert_true(there(d, "run/checkpoint-9"));
    assert_false(there(d, "run/checkpoint-10"));
    assert_true(there(d, "run/checkpoint-11"));
    /* The newest counts although it is the one. */
    d->location.spare = 12;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 1), BP_OK);
    assert_false(there(d, "run/checkpoint-9"));
    assert_false(there(d, "run/checkpoint-11"));
    assert_int_equal(find_step(d, NULL, NULL), 12);
}

/* verifies run-13.a606 */
static void pruning_spares_the_verified_one(void **state)
{
    checkpoint_fixture *d = *state;
    for (uint64_t step = 8; step <= 12; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
    }
    d->location.spare = 9;
    d->location.verified = 10;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 1), BP_OK);
    assert_false(there(d, "run/checkpoint-8"));
    assert_true(there(d, "run/checkpoint-9"));
    assert_true(there(d, "run/checkpoint-10"));
    assert_false(there(d, "run/checkpoint-11"));
    assert_int_equal(find_step(d, NULL, NULL), 12);
}

/* Where a run may go back to, step 0 included, which is nothing special otherwise. */
/* verifies run-13.a606 */
static void pruning_spares_the_one_to_go_back_to(void **state)
{
    checkpoint_fixture *d = *state;
    uint64_t back = 0;
    assert_int_equal(checkpoint_fixture_save(d, 0), BP_OK);
    for (uint64_t step = 8; step <= 12; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
    }
    d->location.back = &back;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 3), BP_OK);
    assert_true(there(d, "run/checkpoint-0"));
    assert_false(there(d, "run/checkpoint-9"));
    back = 10;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 1), BP_OK);
    assert_false(there(d, "run/checkpoint-0"));
    assert_true(there(d, "run/checkpoint-10"));
    assert_false(there(d, "run/checkpoint-11"));
    d->location.back = NULL;
    assert_int_equal(bp_checkpoint_prune(&d->location, 12, 1), BP_OK);
    assert_false(there(d, "run/checkpoint-10"));
    assert_int_equal(find_step(d, NULL, NULL), 12);
}

/* verifies run-7.0da2 */
static void failing_copies_are_passed_on(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 1), BP_OK);
    d->copies_left = 3;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_ERR_DEVICE);
    d->copies_left = 3;
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-1", &d->checkpoint, NULL),
                     BP_ERR_DEVICE);
    uint64_t digest;
    d->copies_left = 3;
    assert_int_equal(bp_checkpoint_digest(&d->location, &d->checkpoint, &digest), BP_ERR_DEVICE);
    assert_int_equal(find_step(d, NULL, NULL), 1);
}

/* verifies run-23.6445 */
static void an_empty_state_is_a_state(void **state)
{
    checkpoint_fixture *d = *state;
    d->checkpoint.tensor_count = 0;
    d->checkpoint.keys.count = 0;
    d->checkpoint.blob_count = 0;
    assert_int_equal(checkpoint_fixture_save(d, 0), BP_OK);
    bp_checkpoint_found found;
    bool any;
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_OK);
    assert_true(any);
    assert_int_equal(found.step, 0);
    assert_true(found.digest == bp_digest_of("", 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_saved_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_programs_can_read_the_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(space_is_checked_beforehand, set_up, tear_down),
        cmocka_unit_test_setup_teardown(less_scratch_is_an_answer_with_a_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_place_for_scratch_will_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_read_before_anything_is_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_valid_one_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_up_that_lies_leads_to_no_older_step, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(other_names_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_tensors_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_keys_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_further_files_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_step_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_replaced_one_is_found_until_its_replacement_is_there,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(pruning_keeps_the_newest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pruning_spares_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pruning_spares_the_verified_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pruning_spares_the_one_to_go_back_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_copies_are_passed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_state_is_a_state, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
