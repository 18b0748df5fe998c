/* SPDX-License-Identifier: MIT */
/* Which specs may have length buckets, and what these are. That they give the bits
 * of the padded run is tests/unit/core/run/test_length_bucket.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/buckets.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/spec_case.h"

static bp_spec spec_of(uint32_t first, uint32_t second)
{
    bp_spec spec = model_fixture_spec();
    spec.lengths[0] = first;
    spec.lengths[1] = second;
    spec.length_count = 2;
    spec.loss_rows = spec.batch * spec.sequence;
    return spec;
}

/* verifies compile-1.aa19 */
static void test_lengths_rise_and_stay_below_the_sequence(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = spec_of(1, 9);
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    spec = spec_of(4, 4);
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "length-buckets");
    spec = spec_of(4, 10);
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
    spec = spec_of(0, 3);
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
    spec = spec_of(1, 9);
    spec.length_count = BP_LENGTH_BUCKETS_MAX + 1;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
}

/* verifies compile-13.5a54 */
static void test_chunks_of_the_loss(void **state)
{
    (void)state;
    bp_spec spec = spec_of(3, 5);
    assert_int_equal(bp_length_buckets_spec(&spec, 3).loss_rows, 6);
    spec.loss_rows = 10; /* one sample each */
    assert_int_equal(bp_length_buckets_spec(&spec, 3).loss_rows, 3);
    spec.loss_rows = 7; /* three chunks */
    assert_int_equal(bp_length_buckets_spec(&spec, 5).loss_rows, 4);
    assert_int_equal(bp_length_buckets_spec(&spec, 5).sequence, 5);
    assert_int_equal(bp_length_buckets_spec(&spec, 5).length_count, 0);
}

/* Each reason apart. */
/* verifies compile-1.aa19 */
static void test_what_is_refused(void **state)
{
    (void)state;
    bp_spec spec = spec_of(3, 5);
    assert_null(bp_length_buckets_refused(&spec));
    bp_device grouped = *spec.device;
    grouped.sums_by_row = false;
    spec.device = &grouped;
    assert_non_null(strstr(bp_length_buckets_refused(&spec), "device"));
    spec = spec_of(3, 5);
    spec.products = BP_PRODUCT_FP8;
    assert_non_null(strstr(bp_length_buckets_refused(&spec), "products in fp8"));
    spec.optimizer = NULL; /* what evaluates has none */
    assert_null(bp_length_buckets_refused(&spec));
    spec = spec_of(3, 5);
    spec.gradient = BP_BF16;
    spec.working = BP_BF16;
    assert_null(bp_length_buckets_refused(&spec));
    spec.loss_rows = 7;
    assert_non_null(strstr(bp_length_buckets_refused(&spec), "loss-chunk-rows"));
    spec.loss_rows = spec.sequence; /* a chunk for each sample */
    assert_null(bp_length_buckets_refused(&spec));
    spec.loss_rows = 7;
    spec.config.task = BP_TASK_CLASSES;
    assert_null(bp_length_buckets_refused(&spec));
    spec.config.task = BP_TASK_ANSWERS;
    assert_non_null(strstr(bp_length_buckets_refused(&spec), "answers"));
    char name[SPEC_CASE_NAME];
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        if (spec_case(i, &spec, name) && strstr(name, "rnn plain") != NULL) {
            assert_non_null(strstr(bp_length_buckets_refused(&spec), "pieces of time"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_rise_and_stay_below_the_sequence),
        cmocka_unit_test(test_chunks_of_the_loss),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
