/* SPDX-License-Identifier: MIT */
/* Checkpoints through the POSIX store, on a real file system. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"
#include "tests/fixtures/checkpoint_fixture.h"

/* verifies run-10.e313 */
static void a_run_saves_finds_prunes_and_resumes(void **state)
{
    (void)state;
    char root[] = "/tmp/bedplate-checkpoint-XXXXXX";
    assert_non_null(mkdtemp(root));
    bp_store_posix posix;
    assert_int_equal(bp_store_posix_init(&posix, root), BP_OK);
    checkpoint_fixture *d = checkpoint_fixture_new();
    d->location.store = &posix.store;
    bp_checkpoint_found found;
    bool any;
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_OK);
    assert_false(any);
    for (uint64_t step = 8; step <= 11; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
        assert_int_equal(bp_checkpoint_prune(&d->location, step, 2), BP_OK);
    }
    assert_int_equal(checkpoint_fixture_save(d, 11), BP_OK); /* once more */
    assert_int_equal(bp_checkpoint_check_space(&d->location, &d->checkpoint), BP_OK);
    assert_int_equal(bp_checkpoint_find(&d->location, NULL, NULL, &found, &any), BP_OK);
    assert_true(any);
    assert_int_equal(found.step, 11);
    checkpoint_fixture_step(d, 1);
    assert_int_equal(bp_checkpoint_load(&d->location, found.path, &d->checkpoint, NULL), BP_OK);
    assert_true(checkpoint_fixture_is(d, 11));
    bool there;
    assert_int_equal(posix.store.exists(&posix.store, "run/checkpoint-9", &there), BP_OK);
    assert_false(there);
    static const char *const rest[] = {"run/checkpoint-10", "run/checkpoint-11", "run", ""};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(bp_storage_remove_directory(&posix.store, rest[i], NULL), BP_OK);
    }
    assert_true(checkpoint_fixture_free(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_saves_finds_prunes_and_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
