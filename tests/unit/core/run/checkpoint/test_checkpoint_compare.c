/* SPDX-License-Identifier: MIT */
/* The first tensor by name of which two checkpoints tell otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/checkpoint_fixture.h"

enum { NONE = 256, A = 3, B = 61, COUNTER = 82, MOMENT = 95, Z = 151 }; /* bytes of tensors */

/* The tensor that is named when a checkpoint is held against one with this made otherwise. */
static void named(size_t first, size_t second, uint32_t tensors, const char *renamed,
                  const char *wanted, const char *back)
{
    checkpoint_fixture *d = checkpoint_fixture_new();
    char name[BP_CHECKPOINT_TENSOR];
    checkpoint_fixture_step(d, 1);
    assert_int_equal(bp_checkpoint_save(&d->location, &d->checkpoint, NULL), BP_OK);
    d->checkpoint.step = 2;
    d->checkpoint.tensor_count = tensors;
    if (renamed != NULL) {
        d->tensors[1].name = renamed;
    }
    if (first != NONE) {
        d->state[first]++;
    }
    if (second != NONE) {
        d->state[second]++;
    }
    assert_int_equal(bp_checkpoint_save(&d->location, &d->checkpoint, NULL), BP_OK);
    const char *const one = "run/checkpoint-1", *const other = "run/checkpoint-2";
    bp_checkpoint_location location = d->location;
    unsigned char more[1 << 16];
    location.scratch = more;
    location.scratch_bytes = sizeof more;
    assert_int_equal(bp_checkpoint_compare(&location, one, other, name), BP_OK);
    assert_string_equal(name, wanted);
    assert_int_equal(bp_checkpoint_compare(&location, other, one, name), BP_OK);
    assert_string_equal(name, back);
    assert_int_equal(bp_checkpoint_compare(&location, one, "run/checkpoint-3", name), BP_ERR_DATA);
    assert_true(checkpoint_fixture_free(d));
}

/* verifies run-23.6445 */
static void test_the_first_is_named(void **state)
{
    (void)state;
    char long_name[BP_CHECKPOINT_TENSOR - 1]; /* its digest has a longer key */
    memset(long_name, '!', sizeof long_name); /* before the dot of b.bias */
    long_name[0] = 'b';
    long_name[sizeof long_name - 1] = '\0';
    named(NONE, NONE, FIXTURE_TENSORS, NULL, "", "");
    named(A, NONE, FIXTURE_TENSORS, NULL, "a.weight", "a.weight");
    named(B, Z, FIXTURE_TENSORS, NULL, "b.bias", "b.bias");
    named(COUNTER, NONE, FIXTURE_TENSORS, NULL, "counter", "counter");
    named(COUNTER, MOMENT, FIXTURE_TENSORS, NULL, "counter", "counter");
    named(COUNTER, Z, FIXTURE_TENSORS, NULL, "counter", "counter");
    named(COUNTER, A, FIXTURE_TENSORS, NULL, "a.weight", "a.weight");
    named(NONE, NONE, FIXTURE_TENSORS - 1, NULL, "z.weight", "z.weight");
    named(NONE, NONE, FIXTURE_TENSORS, "b.other", "b.bias", "b.bias");
    named(NONE, NONE, FIXTURE_TENSORS, "b.aside", "b.aside", "b.aside");
    named(NONE, NONE, FIXTURE_TENSORS, long_name, "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
