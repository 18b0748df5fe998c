/* SPDX-License-Identifier: MIT */
/* Time against bytes in borrowed memory: points are plans, the largest micro-batch fits and no
 * larger one does, and everything is given back, also where memory is refused on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/search/frontier.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/lender.h"
#include "tests/fixtures/plans/plan_made.h"

enum { WIDTH = 16, BATCH = 12 };

static bp_fit_request request_of(uint32_t batch)
{
    bp_fit_request request = {.spec = model_fixture_spec(), .rates = BP_RATES_DEFAULT};
    request.spec.batch = batch;
    return request;
}

static uint64_t planned_bytes(const bp_spec *spec, bp_policy_kind kind)
{
    bp_plan plan = {.made = false};
    bp_spec other = *spec;
    other.policy = (bp_policy){.kind = kind};
    free(plan_make(&plan, &other));
    return plan.report.arena_bytes;
}

static bool fits_in_some_way(bp_fit_request request, uint32_t batch)
{
    bp_choice choice;
    bp_error error = {.code = BP_OK};
    request.spec.batch = batch;
    request.free_policy = true;
    assert_int_equal(bp_choice_run(&choice, &request, NULL, &lender_counted, &error), BP_OK);
    bp_choice_end(&choice, &lender_counted);
    return choice.fits;
}

/* verifies compile-4.ecdd */
static void points_are_plans(void **state)
{
    (void)state;
    bp_frontier f;
    bp_error error = {.code = BP_OK};
    bp_fit_request request = request_of(BATCH);
    request.budget = 1; /* is not looked at */
    assert_int_equal(bp_frontier_find(&f, &request, &lender_counted, &error), BP_OK);
    assert_int_equal(lender_counts.lent, 0);
    assert_true(f.count > 1 && f.count <= BP_FRONTIER_POINTS);
    for (uint32_t i = 1; i < f.count; i++) {
        assert_true(f.point[i - 1].arena_bytes < f.point[i].arena_bytes);
        assert_true(f.point[i - 1].seconds > f.point[i].seconds);
    }
    const bp_fit_point *last = &f.point[f.count - 1];
    assert_int_equal(last->kind, BP_POLICY_NONE);
    assert_true(last->arena_bytes == planned_bytes(&request.spec, BP_POLICY_NONE));
    assert_true(f.point[0].arena_bytes <= planned_bytes(&request.spec, BP_POLICY_FULL));
    for (uint32_t i = 0; i < BP_FRONTIER_GAINS; i++) {
        assert_true(f.gain[i].after > 0.0 && f.gain[i].after <= f.gain[i].before);
        assert_true(f.gain[i].budget < last->arena_bytes);
    }
}

/* verifies compile-4.ecdd */
static void no_larger_batch_fits(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_fit_request request = request_of(1);
    const uint32_t widths[] = {WIDTH, 1, 0};
    request.free_policy = true;
    request.spec.batch = BATCH;
    request.budget = planned_bytes(&request.spec, BP_POLICY_FULL);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        uint32_t batch = 0;
        assert_int_equal(
            bp_frontier_largest_batch(&request, widths[i], &lender_counted, &batch, &error), BP_OK);
        assert_int_equal(lender_counts.lent, 0);
        assert_true(batch >= BATCH && fits_in_some_way(request, batch));
        assert_false(fits_in_some_way(request, batch + 1));
    }
    uint32_t batch = 1;
    request.budget = 1;
    assert_int_equal(bp_frontier_largest_batch(&request, WIDTH, &lender_counted, &batch, &error),
                     BP_OK);
    assert_int_equal(batch, 0);
    request.spec.sequence = 0;
    assert_int_equal(bp_frontier_largest_batch(&request, WIDTH, &lender_counted, &batch, &error),
                     BP_ERR_USAGE);
    assert_int_equal(lender_counts.lent, 0);
}

/* verifies compile-4.ecdd */
static void memory_that_is_refused_leaves_nothing_borrowed(void **state)
{
    (void)state;
    bp_frontier f;
    uint32_t batch;
    bp_fit_request request = request_of(BATCH);
    request.budget = 1 << 20;
    for (uint32_t piece = 1; piece <= 2; piece++) {
        bp_error error = {.code = BP_OK};
        lender_counts = (lender_count){.refused = piece};
        assert_int_equal(bp_frontier_find(&f, &request, &lender_counted, &error), BP_ERR_FIT);
        assert_int_equal(lender_counts.lent, 0);
        lender_counts = (lender_count){.refused = piece};
        assert_int_equal(
            bp_frontier_largest_batch(&request, WIDTH, &lender_counted, &batch, &error),
            BP_ERR_FIT);
        assert_int_equal(lender_counts.lent, 0);
    }
    lender_counts = (lender_count){.refused = 0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_plans),
        cmocka_unit_test(no_larger_batch_fits),
        cmocka_unit_test(memory_that_is_refused_leaves_nothing_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
