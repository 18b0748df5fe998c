/* SPDX-License-Identifier: MIT */
/* What the fit takes where nothing decides: of plans as good as each other the first, of which none
 * is the runner-up of another; and memory in proportion to the longest plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/search/fit.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

/* Where none fits, bytes alone count. */
static bool as_good(const bp_fit_try *a, const bp_fit_try *b)
{
    return a->arena_bytes == b->arena_bytes && (a->seconds == b->seconds || (!a->fits && !b->fits));
}

static bool same_policy(const bp_policy *a, const bp_policy *b)
{
    return a->kind == b->kind && a->every == b->every && a->recompute == b->recompute;
}

static void of_equals_the_first(void **state)
{
    (void)state;
    uint32_t equals = 0;
    for (uint64_t part = 5; part < 10; part++) {
        bp_fit_request request = {
            .spec = model_fixture_spec(), .free_policy = true, .rates = BP_RATES_DEFAULT};
        request.spec.device_options.variant = NULL; /* of all forms */
        bp_fit fit;
        bp_error error = {0};
        const uint64_t bytes = fit_bytes(&request);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        request.budget = fit.best.arena_bytes * part / 10;
        const bp_status status = bp_fit_run(&request, memory, bytes, &fit, &error);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
        uint32_t first = 0;
        while (first < fit.tried_count && !as_good(&fit.tried[first], &fit.best)) {
            first++;
        }
        assert_true(first < fit.tried_count);
        assert_true(same_policy(&fit.tried[first].policy, &fit.best.policy));
        for (uint32_t i = first + 1; i < fit.tried_count; i++) {
            equals += as_good(&fit.tried[i], &fit.best) ? 1 : 0;
        }
        assert_true(fit.runner_up.batch == 0 || !as_good(&fit.runner_up, &fit.best));
        free(memory);
    }
    assert_true(equals > 0);
}

/* The memory that is counted for all candidates is not twice the longest plan's. */
static void memory_is_that_of_the_longest_plan(void **state)
{
    (void)state;
    for (uint32_t layers = 1; layers < 8; layers += 3) {
        bp_fit_request request = {
            .spec = model_fixture_spec(), .free_policy = true, .rates = BP_RATES_DEFAULT};
        SET_FAMILY(&request.spec.config, bp_transformer, layers, layers);
        bp_spec longest = request.spec;
        longest.policy = (bp_policy){.kind = BP_POLICY_MEMORY_POOR};
        const uint64_t plan = plan_bytes(&longest), fit = fit_bytes(&request);
        assert_true(fit >= plan && fit < plan / 4 * 7);
    }
}

/* Two micro-batches of half the size have programs for the first and for later ones, with half of
 * the chunks of the loss in each: more ops than one micro-batch or eight have. */
static void memory_is_enough_for_every_micro_batch(void **state)
{
    (void)state;
    for (uint32_t batch = 2; batch <= 9; batch++) {
        for (uint32_t poor = 0; poor < 2; poor++) {
            bp_fit_request request = {
                .spec = model_fixture_spec(), .free_batch = true, .rates = BP_RATES_DEFAULT};
            request.spec.policy.kind = poor ? BP_POLICY_MEMORY_POOR : BP_POLICY_FULL;
            request.spec.accumulation = 1;
            request.spec.batch = batch;
            request.spec.loss_rows = 1;
            const uint64_t fit = fit_bytes(&request);
            for (uint32_t divisor = 1; divisor <= batch; divisor++) {
                bp_spec spec = request.spec;
                spec.batch = batch / divisor;
                spec.accumulation = divisor;
                assert_true(batch % divisor != 0 || plan_bytes(&spec) <= fit);
            }
        }
    }
}

/* Of a micro-batch for which there is a smaller one, one plan is looked at where what lives all the
 * time is too much by itself, and those of the fewest slots where it is not. Then comes the smaller
 * one, and nothing in between that nobody planned. */
static void what_was_planned_is_printed(void **state)
{
    (void)state;
    static const bp_policy_kind kinds[] = {BP_POLICY_NONE, BP_POLICY_FULL, BP_POLICY_MEMORY_POOR};
    bp_fit_request request = {.spec = model_fixture_spec(),
                              .free_policy = true,
                              .free_batch = true,
                              .rates = BP_RATES_DEFAULT};
    bp_fit fit;
    bp_error error = {0};
    const uint64_t bytes = fit_bytes(&request);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    for (uint32_t large = 1; large <= 3; large += 2) {
        request.budget = large == 1 ? 1 : fit.fixed_bytes + 2048;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
        assert_true(fit.tried_count > large);
        for (uint32_t i = 0; i < large; i++) {
            assert_int_equal(fit.tried[i].batch, request.spec.batch);
            assert_int_equal(fit.tried[i].policy.kind, kinds[i]);
        }
        assert_int_equal(fit.tried[large].batch, 1);
        assert_int_equal(fit.tried[large].policy.kind, BP_POLICY_NONE);
    }
    free(memory);
}

/* No plan that fits a budget undercuts its bound: what the fit tried, and every set of stages whose
 * inputs are kept. The choice is near it. */
static void no_plan_undercuts_the_bound(void **state)
{
    (void)state;
    bp_fit_request request = {
        .spec = model_fixture_spec(), .free_policy = true, .rates = BP_RATES_DEFAULT};
    SET_FAMILY(&request.spec.config, bp_transformer, layers, 4);
    const uint32_t stages = request.spec.model->stages(&request.spec.config);
    bp_fit fit, one;
    bp_error error = {0};
    const uint64_t bytes = fit_bytes(&request);
    void *memory = malloc((size_t)bytes), *other = malloc((size_t)bytes);
    assert_true(memory != NULL && other != NULL);
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    assert_true(fit.bound_seconds == 0.0); /* everything is kept */
    const uint64_t all = fit.best.arena_bytes;
    uint32_t bounds = 0, fitting = 0;
    request.budget = 1;
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
    assert_true(fit.bound_seconds == 0.0);
    const uint64_t least = fit.least.arena_bytes;
    error = (bp_error){0};
    for (uint64_t part = 0; part < 10; part++) {
        request.budget = least + (all - least) * part / 10;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        if (fit.bound_seconds == 0.0) {
            continue;
        }
        assert_true(fit.best.seconds >= fit.bound_seconds);
        assert_true(fit.best.seconds <= 1.07 * fit.bound_seconds); /* of so few bytes */
        bounds++;
        for (uint32_t set = 0; set < UINT32_C(1) << (stages - 1); set++) {
            uint32_t list[32], count = 0;
            for (uint32_t i = 1; i < stages; i++) {
                list[count] = i;
                count += set >> (i - 1) & 1;
            }
            bp_fit_request single = {.spec = request.spec, .rates = BP_RATES_DEFAULT};
            single.spec.policy =
                (bp_policy){.kind = BP_POLICY_LIST, .list = list, .list_count = count};
            assert_int_equal(bp_fit_run(&single, other, bytes, &one, &error), BP_OK);
            assert_true(one.bound_seconds == 0.0); /* of a policy that was given there is none */
            if (one.best.arena_bytes <= request.budget) {
                assert_true(one.best.seconds >= fit.bound_seconds);
                fitting++;
            }
        }
    }
    print_message("%u %u\n", bounds, fitting);
    assert_true(bounds > 5 && fitting > 50);
    free(other);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_equals_the_first),
        cmocka_unit_test(what_was_planned_is_printed),
        cmocka_unit_test(no_plan_undercuts_the_bound),
        cmocka_unit_test(memory_is_that_of_the_longest_plan),
        cmocka_unit_test(memory_is_enough_for_every_micro_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
