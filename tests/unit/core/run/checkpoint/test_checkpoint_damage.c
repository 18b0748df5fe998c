/* SPDX-License-Identifier: MIT */
/* Damaged and foreign checkpoints: every change is found and named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void flip(checkpoint_fixture *d, const char *path, size_t at)
{
    size_t size;
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    assert_non_null(bytes);
    bytes[at < size ? at : size - 1] ^= 4;
}

/* Every bit pattern of 4 in every byte of every file: a change is always found. */
/* verifies run-12.25e7 */
static void every_changed_byte_is_found(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    static const char *const names[] = {"model.safetensors", "state.safetensors", "config.json"};
    for (size_t n = 0; n < 3; n++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, "run/checkpoint-2/%s", names[n]);
        unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
        for (size_t i = 0; i < 8 * size; i++) {
            bytes[i / 8] ^= (unsigned char)(1u << i % 8);
            bp_checkpoint_found found;
            clear_error(d);
            bp_status status = bp_checkpoint_verify(&d->location, "run/checkpoint-2", &found);
            if (status == BP_OK) {
                fail_msg("bit %zu of byte %zu of %s", i % 8, i / 8, path);
            }
            assert_true(status == BP_ERR_DATA || status == BP_ERR_FIT || status == BP_ERR_STORE);
            bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        }
    }
}

/* verifies run-12.25e7 */
static void every_cut_file_is_found(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    static const char *const names[] = {"model.safetensors", "state.safetensors", "config.json"};
    for (size_t n = 0; n < 3; n++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, "run/checkpoint-2/%s", names[n]);
        const unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
        unsigned char *copy = malloc(size);
        memcpy(copy, bytes, size);
        for (size_t cut = 0; cut < size; cut += 7) {
            memory_store_put(&d->memory, path, copy, cut);
            bp_checkpoint_found found;
            clear_error(d);
            assert_int_equal(bp_checkpoint_verify(&d->location, "run/checkpoint-2", &found),
                             BP_ERR_DATA);
            assert_non_null(strstr(d->error.name, names[n]));
        }
        memory_store_put(&d->memory, path, copy, size);
        free(copy);
    }
}

/* Replaces text of the same length in a file of checkpoint-2. */
static void edit(checkpoint_fixture *d, const char *file, const char *from, const char *to)
{
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "run/checkpoint-2/%s", file);
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    size_t length = strlen(from);
    assert_int_equal(length, strlen(to));
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(bytes + i, from, length) == 0) {
            memcpy(bytes + i, to, length);
            return;
        }
    }
    fail_msg("%s has no %s", file, from);
}

/* What somebody who knows the form could write: the metadata digest is set right after an edit. */
static void edit_knowingly(checkpoint_fixture *d, const char *file, const char *from,
                           const char *to, uint64_t change)
{
    edit(d, file, from, to);
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "run/checkpoint-2/%s", file);
    unsigned char *bytes = memory_store_bytes(&d->memory, path, &size);
    static const char key[] = "\"metadata_digest\":\"";
    for (size_t i = 0; i + sizeof key + 16 <= size; i++) {
        if (memcmp(bytes + i, key, sizeof key - 1) == 0) {
            char text[BP_DIGEST_TEXT] = "";
            uint64_t sum;
            memcpy(text, bytes + i + sizeof key - 1, 16);
            assert_true(bp_digest_parse(text, &sum));
            bp_digest_text(sum + change, text);
            memcpy(bytes + i + sizeof key - 1, text, 16);
            return;
        }
    }
    fail_msg("%s has no metadata digest", file);
}

static uint64_t part(const char *key, const char *value)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, key, strlen(key) + 1);
    bp_digest_add(&digest, value, strlen(value));
    return bp_digest_end(&digest);
}

static void refused(checkpoint_fixture *d, const char *text)
{
    bp_checkpoint_found found;
    clear_error(d);
    assert_int_equal(bp_checkpoint_verify(&d->location, "run/checkpoint-2", &found), BP_ERR_DATA);
    if (strstr(d->error.text, text) == NULL) {
        fail_msg("%s: %s; not: %s", d->error.name, d->error.text, text);
    }
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
}

/* verifies run-12.25e7 */
static void damage_is_named(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    edit(d, "model.safetensors", "adamw", "adamv");
    refused(d, "metadata digest");
    edit(d, "state.safetensors", "adamw", "adamv");
    bp_pairs keys;
    assert_int_equal(bp_checkpoint_read_keys(&d->location, "run/checkpoint-2", &keys), BP_ERR_DATA);
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    refused(d, "metadata digest");
    edit(d, "model.safetensors", "metadata_digest", "metadata_dogest");
    refused(d, "metadata digest");
    edit(d, "state.safetensors", "state_digest", "state_dogest");
    refused(d, "metadata digest");
    uint64_t change = part("step", "3") - part("step", "2");
    edit_knowingly(d, "model.safetensors", "\"step\":\"2\"", "\"step\":\"3\"", change);
    refused(d, "different steps");
    change = part("step", "x") - part("step", "2");
    edit_knowingly(d, "model.safetensors", "\"step\":\"2\"", "\"step\":\"x\"", change);
    refused(d, "has no step");
    change = part("stop", "2") - part("step", "2");
    edit_knowingly(d, "state.safetensors", "\"step\":\"2\"", "\"stop\":\"2\"", change);
    refused(d, "has no step");
    edit(d, "model.safetensors", "\"xxh64.b.bias\"", "\"xxh64.b.biax\"");
    refused(d, "has no digest");
    edit(d, "model.safetensors", "\"shape\":[3,5]", "\"shape\":[5,3]");
    refused(d, "state digest");
    edit(d, "state.safetensors", "\"counter\":{", "\"a\\u0062\":{");
    refused(d, "has no digest");
}

/* verifies run-12.25e7 */
static void further_files_are_checked(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    flip(d, "run/checkpoint-2/config.json", 0);
    refused(d, "the file does not have the digest");
    char text[BP_DIGEST_TEXT];
    bp_digest_text(bp_digest_of("{\"model_type\":\"gpt2\"}\n", 22, 0), text);
    uint64_t change = part("file.a/nfig.json", text) - part("file.config.json", text);
    edit_knowingly(d, "state.safetensors", "file.config.json", "file.a/nfig.json", change);
    refused(d, "not allowed");
    char wrong[BP_DIGEST_TEXT];
    memcpy(wrong, text, sizeof wrong);
    wrong[3] = 'x';
    change = part("file.config.json", wrong) - part("file.config.json", text);
    edit_knowingly(d, "state.safetensors", text, wrong, change);
    refused(d, "not allowed");
    assert_int_equal(d->memory.store.remove(&d->memory.store, "run/checkpoint-2/config.json"),
                     BP_OK);
    refused(d, "a file of the checkpoint is missing");
}

/* verifies run-23.6445 */
static void the_same_tensor_in_both_files_is_refused(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    edit(d, "state.safetensors", "\"nothing\":{", "\"b.bias\" :{");
    refused(d, "in both files");
}

/* verifies run-23.6445 */
static void a_checkpoint_of_another_model_is_not_loaded(void **state)
{
    checkpoint_fixture *d = *state;
    assert_int_equal(checkpoint_fixture_save(d, 2), BP_OK);
    checkpoint_fixture_step(d, 9);
    bp_state_tensor own[FIXTURE_TENSORS];
    memcpy(own, d->tensors, sizeof own);
    d->tensors[1].name = "b.bia";
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    assert_string_equal(d->error.name, "run/checkpoint-2/model.safetensors: b.bia");
    memcpy(d->tensors, own, sizeof own);
    d->tensors[1].dtype = BP_F16;
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    memcpy(d->tensors, own, sizeof own);
    d->tensors[1].rank = 2;
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    memcpy(d->tensors, own, sizeof own);
    d->tensors[3].shape[0] = 5;
    d->tensors[3].shape[1] = 3;
    clear_error(d);
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    assert_string_equal(d->error.name, "run/checkpoint-2/state.safetensors: moment.a.weight");
    memcpy(d->tensors, own, sizeof own);
    d->tensors[0].weight = false;
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    memcpy(d->tensors, own, sizeof own);
    d->checkpoint.tensor_count--;
    clear_error(d);
    assert_int_equal(bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL),
                     BP_ERR_DATA);
    assert_int_equal(d->error.found, FIXTURE_TENSORS);
    assert_true(checkpoint_fixture_is(d, 9)); /* nothing was touched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_changed_byte_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_cut_file_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(further_files_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_tensor_in_both_files_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_model_is_not_loaded, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
