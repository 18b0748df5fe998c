/* SPDX-License-Identifier: MIT */
/* A byte budget asked for by an integrator: what fits is planned in as many bytes; what does not is
 * answered with the least bytes and what would help; a budget of nothing, and one that no memory
 * has, are refused. Everything that was borrowed is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/search/budget.h"
#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/lender.h"
#include "tests/fixtures/plans/plan_made.h"

static bp_budget_request budget_request(uint64_t arena)
{
    bp_budget_request request = {
        .spec = model_fixture_spec(), .arena = arena, .memory = lender_counted};
    request.spec.device_options.variant = NULL; /* workspaces of all forms: choices save them */
    request.spec.batch = 8;
    return request;
}

static uint64_t planned_bytes(const bp_spec *spec)
{
    bp_plan plan = {.made = false};
    free(plan_make(&plan, spec));
    return plan.report.arena_bytes;
}

/* verifies compile-40.6d5c */
static void a_budget_that_fits_is_the_plan_s(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(0);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    const uint64_t all = planned_bytes(&request.spec);
    request.free_policy = true;
    request.free_batch = true;
    for (uint32_t part = 16; part > 10; part--) {
        request.arena = all * part / 16;
        assert_int_equal(bp_budget_find(&request, &budget, &error), BP_OK);
        assert_true(budget.arena_bytes <= request.arena);
        assert_true(planned_bytes(&budget.spec) == budget.arena_bytes);
        assert_true(budget.spec.batch * budget.spec.accumulation == 8);
        assert_int_equal(budget.proposal_count, 0);
        bp_budget_end(&budget, &request.memory);
        assert_int_equal(lender_counts.lent, 0);
    }
    assert_true(lender_counts.most > 0 && lender_counts.most <= BP_BUDGET_PIECES);
}

/* verifies compile-40.6d5c */
static void one_that_is_too_small_says_what_helps(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(0);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    const uint64_t all = planned_bytes(&request.spec);
    request.arena = all - 1;
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_true(budget.arena_bytes == all && (uint64_t)error.wanted == all);
    assert_true(budget.proposal_count > 0 && budget.proposal_count <= BP_BUDGET_PROPOSALS);
    for (uint32_t i = 0; i < budget.proposal_count; i++) {
        const bp_budget_proposal *p = &budget.proposal[i];
        bp_budget_request again = request;
        bp_budget found;
        again.free_policy = p->policy;
        again.free_batch = p->batch;
        again.free_chunk = p->chunk;
        again.free_sequence_chunk = p->sequence_chunk;
        error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_budget_find(&again, &found, &error), BP_OK);
        assert_true(found.arena_bytes == p->arena_bytes && p->arena_bytes <= request.arena);
        bp_budget_end(&found, &request.memory);
    }
    bp_budget_end(&budget, &request.memory);
    request.arena = 1;
    request.free_policy = true;
    request.free_batch = true;
    request.free_chunk = true;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_int_equal(budget.proposal_count, 0);
    assert_true(budget.arena_bytes > 1 && budget.arena_bytes < all);
    bp_budget_end(&budget, &request.memory);
    assert_int_equal(lender_counts.lent, 0);
}

/* Where nothing else helps, chunks of the sequence are proposed. */
/* verifies compile-40.6d5c */
static void chunks_of_the_sequence_come_last(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(1);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    request.spec.batch = 1;
    request.spec.config.positions = request.spec.sequence = 1000;
    SET_FAMILY(&request.spec.config, bp_transformer, width, 64);
    SET_FAMILY(&request.spec.config, bp_transformer, heads, 16);
    request.free_policy = request.free_chunk = request.free_batch = true;
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_int_equal(budget.proposal_count, 0);
    request.arena = budget.arena_bytes / 16 * 15;
    bp_budget_end(&budget, &request.memory);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_int_equal(budget.proposal_count, 1);
    assert_true(budget.proposal[0].sequence_chunk && !budget.proposal[0].policy);
    assert_true(budget.proposal[0].arena_bytes <= request.arena);
    bp_budget_end(&budget, &request.memory);
    request.free_sequence_chunk = true;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_OK);
    assert_true(budget.spec.sequence_chunk > 0 && budget.arena_bytes <= request.arena);
    assert_true(planned_bytes(&budget.spec) == budget.arena_bytes);
    bp_budget_end(&budget, &request.memory);
    assert_int_equal(lender_counts.lent, 0);
}

/* verifies compile-40.6d5c */
static void where_no_choice_helps_another_spec_may(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(0);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    bp_spec other[3];
    request.free_policy = request.free_batch = request.free_chunk = true;
    request.arena = 1;
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    request.arena = budget.arena_bytes - 1;
    bp_budget_end(&budget, &request.memory);
    other[0] = other[1] = other[2] = request.spec;
    other[1].batch = 0;
    other[2].optimizer = &bp_optimizer_sgd;
    request.other = other;
    request.other_count = 3;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_int_equal(budget.proposal_count, 1);
    assert_int_equal(budget.proposal[0].other, 3);
    bp_budget_end(&budget, &request.memory);
    request.spec = other[2];
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_OK);
    assert_true(budget.arena_bytes <= request.arena);
    bp_budget_end(&budget, &request.memory);
    assert_int_equal(lender_counts.lent, 0);
}

/* verifies compile-40.6d5c */
static void what_may_be_offloaded_is_as_far_as_it_has_to(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(0);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    SET_FAMILY(&request.spec.config, bp_transformer, width, 256);
    const uint64_t all = planned_bytes(&request.spec);
    request.arena = all - (all >> 4);
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    bp_budget_end(&budget, &request.memory);
    request.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .ahead = 1};
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_OK);
    assert_true(budget.arena_bytes <= request.arena);
    assert_true(budget.spec.offload.states > 0);
    assert_true(budget.spec.offload.part_count > 0);
    assert_true(planned_bytes(&budget.spec) <= request.arena);
    bp_budget_end(&budget, &request.memory);
    request.arena = 1 << 16;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_FIT);
    assert_true(budget.arena_bytes < all);
    bp_budget_end(&budget, &request.memory);
    assert_int_equal(lender_counts.lent, 0);
    assert_true(lender_counts.most <= BP_BUDGET_PIECES);
}

/* verifies compile-40.6d5c */
static void what_is_no_budget_is_refused(void **state)
{
    (void)state;
    bp_budget_request request = budget_request(0);
    bp_error error = {.code = BP_OK};
    bp_budget budget;
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_USAGE);
    request.arena = UINT64_MAX;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_OVERFLOW);
    request.arena = 1 << 20;
    request.spec.batch = 0;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_budget_find(&request, &budget, &error), BP_ERR_USAGE);
    assert_true(budget.arena_bytes == 0 && lender_counts.lent == 0);
    request.spec.batch = 8;
    request.free_policy = true;
    request.arena = planned_bytes(&request.spec) * 3 / 4;
    for (lender_counts.refused = 1; lender_counts.refused < 100; lender_counts.refused++) {
        error = (bp_error){.code = BP_OK};
        lender_counts.asked = 0;
        const bp_status status = bp_budget_find(&request, &budget, &error);
        bp_budget_end(&budget, &request.memory);
        assert_int_equal(lender_counts.lent, 0);
        if (lender_counts.asked < lender_counts.refused) {
            break;
        }
        assert_int_equal(status, BP_ERR_FIT);
        assert_true(budget.arena_bytes == 0);
    }
    assert_true(lender_counts.refused > 1 && lender_counts.refused < 100);
    lender_counts.refused = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_that_fits_is_the_plan_s),
        cmocka_unit_test(one_that_is_too_small_says_what_helps),
        cmocka_unit_test(chunks_of_the_sequence_come_last),
        cmocka_unit_test(where_no_choice_helps_another_spec_may),
        cmocka_unit_test(what_may_be_offloaded_is_as_far_as_it_has_to),
        cmocka_unit_test(what_is_no_budget_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
