/* SPDX-License-Identifier: MIT */
/* The fit: inside every budget, never slower than a named policy that fits, and equal to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/fit.h"
#include "core/plan/search/measure.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 600

static int32_t tokens[TOKENS];

static bp_fit_request request_for(uint32_t accumulation)
{
    bp_fit_request request = {
        .spec = model_fixture_spec(), .free_policy = true, .rates = BP_RATES_DEFAULT};
    request.spec.device_options.variant = NULL; /* workspaces of all forms: choices save them */
    SET_FAMILY(&request.spec.config, bp_transformer, layers, 6);
    request.spec.accumulation = accumulation;
    request.spec.loss_rows = 8;
    return request;
}

static void *memory_for(const bp_fit_request *request, uint64_t *bytes)
{
    *bytes = fit_bytes(request);
    assert_true(*bytes != BP_SIZE_INVALID);
    void *memory = malloc((size_t)*bytes);
    assert_non_null(memory);
    return memory;
}

static uint64_t arena_of(const bp_fit_request *request, bp_policy policy)
{
    bp_spec spec = request->spec;
    static bp_plan plan;
    spec.policy = policy;
    uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    free(memory);
    return plan.report.arena_bytes;
}

/* verifies compile-4.ecdd */
static void test_twenty_budgets(void **state)
{
    (void)state;
    for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
        bp_fit_request request = request_for(accumulation);
        uint64_t bytes = 0;
        void *memory = memory_for(&request, &bytes);
        uint64_t most = arena_of(&request, (bp_policy){.kind = BP_POLICY_NONE});
        uint64_t least = arena_of(&request, (bp_policy){.kind = BP_POLICY_MEMORY_POOR});
        uint64_t full = arena_of(&request, (bp_policy){.kind = BP_POLICY_FULL});
        uint32_t automatic = 0;
        double before = 1e30;
        least = full < least ? full : least;
        for (uint64_t i = 0; i <= 20; i++) {
            bp_fit fit;
            bp_error error = {0};
            request.budget = least + (most - least) * i / 20;
            assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
            assert_true(fit.best.fits && fit.best.arena_bytes <= request.budget);
            assert_true(arena_of(&request, fit.spec.policy) == fit.best.arena_bytes);
            for (uint32_t t = 0; t < fit.tried_count; t++) {
                bool slower = !fit.tried[t].fits || fit.tried[t].seconds >= fit.best.seconds;
                assert_true(slower);
            }
            assert_true(fit.best.seconds <= before);
            before = fit.best.seconds;
            automatic += fit.best.policy.kind == BP_POLICY_ACTIONS ? 1 : 0;
        }
        assert_true(automatic > 8);
        bp_fit fit;
        bp_error error = {0};
        request.budget = least - 256;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
        assert_true(fit.least.arena_bytes == least);
        free(memory);
    }
}

static uint64_t digest_of(const bp_spec *spec)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (int i = 0; i < 3; i++) {
        model_fixture_step(&r);
    }
    uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies compile-4.ecdd */
static void test_the_choice_keeps_the_bits(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    SET_FAMILY(&request.spec.config, bp_transformer, residual_dropout, 0.1);
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    uint64_t most = arena_of(&request, (bp_policy){.kind = BP_POLICY_NONE});
    uint64_t least = arena_of(&request, (bp_policy){.kind = BP_POLICY_FULL});
    uint64_t wanted = digest_of(&request.spec);
    for (uint64_t i = 1; i < 6; i++) {
        bp_fit fit;
        bp_error error = {0};
        request.budget = least + (most - least) * i / 6;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        fit.spec.poison = true;
        assert_true(digest_of(&fit.spec) == wanted);
    }
    free(memory);
}

/* verifies compile-4.ecdd */
static void test_batch_and_chunk_are_chosen_too(void **state)
{
    (void)state;
    bp_fit_request request = request_for(2);
    request.spec.batch = 6;
    request.free_batch = true;
    request.free_chunk = true;
    request.spec.config.vocabulary = 4000;
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit fit;
    bp_error error = {0};
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    assert_int_equal(fit.best.batch, 6); /* without a budget nothing has to change */
    assert_int_equal(fit.best.policy.kind, BP_POLICY_NONE);
    uint64_t whole = fit.best.arena_bytes;
    request.budget = 1;
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
    uint64_t least = fit.least.arena_bytes;
    assert_true(least < whole);
    for (uint64_t i = 0; i < 8; i++) {
        error = (bp_error){0};
        request.budget = least + (whole - least) * i / 8;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        assert_true(fit.best.arena_bytes <= request.budget);
        assert_int_equal(fit.best.batch * fit.best.accumulation, 12);
        assert_true(fit.runner_up.batch == 0 || fit.runner_up.seconds >= fit.best.seconds);
    }
    free(memory);
}

/* With many words the loss decides: chunks of it are shortened until it fits, and not beyond. */
/* verifies compile-4.ecdd */
static void test_chunks_are_shortened(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    request.spec.config.vocabulary = 4000;
    request.spec.batch = 40;
    request.free_chunk = true;
    for (int round = 0; round < 2; round++) {
        request.free_policy = round == 1;
        request.budget = 0;
        uint64_t bytes = 0;
        void *memory = memory_for(&request, &bytes);
        bp_fit fit;
        bp_error error = {0};
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        assert_int_equal(fit.best.loss_rows, 400);
        uint64_t whole = fit.best.arena_bytes;
        request.budget = whole - 1;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        /* Recomputing so small a model is cheaper than reading the words again for each chunk. */
        assert_int_equal(fit.best.loss_rows, request.free_policy ? 400 : 100);
        request.budget = 1;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
        assert_true(fit.least.loss_rows == 64 && fit.least.arena_bytes < whole);
        free(memory);
    }
}

/* A chunk of the sequence is chosen where a budget needs one: none without a budget, one that fits
 * below, with the same bits; none for a model that has no chunks. */
/* verifies compile-4.ecdd */
static void test_chunks_of_a_sequence(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    bp_fit fit;
    bp_error error = {0};
    request.spec.batch = 40;
    request.free_sequence_chunk = true;
    assert_int_equal(bp_fit_sequence_chunk(&request.spec, 1), 128);
    assert_int_equal(bp_fit_sequence_chunk(&request.spec, 2), 64);
    assert_int_equal(bp_fit_sequence_chunk(&request.spec, 3), 0);
    bp_spec many = request.spec; /* a 64th of which has 1,024 tokens or not */
    many.batch = (uint32_t)(65536 / many.sequence) + 1;
    assert_int_equal(bp_fit_sequence_chunk(&many, 3), 1088);
    assert_int_equal(bp_fit_sequence_chunk(&many, 4), 0);
    many.batch = (uint32_t)(61440 / many.sequence);
    assert_int_equal(bp_fit_sequence_chunk(&many, 2), 3840);
    assert_int_equal(bp_fit_sequence_chunk(&many, 3), 0);
    const uint64_t wanted = digest_of(&request.spec);
    for (int round = 0; round < 2; round++) {
        request.free_policy = round == 1;
        request.budget = 0;
        uint64_t bytes = 0;
        void *memory = memory_for(&request, &bytes);
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        assert_int_equal(fit.best.sequence_chunk, 0);
        request.budget = round == 0
                             ? fit.best.arena_bytes - 1
                             : arena_of(&request, (bp_policy){.kind = BP_POLICY_MEMORY_POOR}) - 256;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        assert_true(fit.spec.sequence_chunk > 0 && fit.best.arena_bytes <= request.budget);
        assert_true(digest_of(&fit.spec) == wanted);
        request.free_sequence_chunk = false;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
        request.free_sequence_chunk = true;
        error = (bp_error){0};
        free(memory);
    }
    request.spec.batch = 6;
    assert_int_equal(bp_fit_sequence_chunk(&request.spec, 1), 0);
}

/* The first answer fits wherever the best one does, and is not faster. */
/* verifies compile-4.ecdd */
static void test_the_first_answer(void **state)
{
    (void)state;
    for (uint32_t tenth = 0; tenth <= 10; tenth++) {
        bp_fit_request request = request_for(1);
        request.spec.batch = 4;
        request.free_policy = true;
        uint64_t least = arena_of(&request, (bp_policy){.kind = BP_POLICY_MEMORY_POOR}) / 2;
        uint64_t most = arena_of(&request, (bp_policy){.kind = BP_POLICY_NONE});
        request.budget = least + (most - least) / 10 * tenth;
        request.free_batch = true;
        request.free_chunk = true;
        uint64_t bytes;
        void *memory = memory_for(&request, &bytes);
        bp_error error = {0};
        bp_fit best;
        bp_fit first;
        bp_status status = bp_fit_run(&request, memory, bytes, &best, &error);
        request.first = true;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &first, &error), status);
        assert_int_equal(first.best.fits, status == BP_OK);
        assert_true(first.fixed_bytes <= first.best.arena_bytes);
        if (status == BP_OK) {
            assert_true(first.best.arena_bytes <= request.budget);
            assert_true(first.best.seconds >= best.best.seconds * (1.0 - 1e-12));
            assert_true(first.tried_count <= best.tried_count);
            for (uint32_t t = 0; t + 1 < first.tried_count; t++) {
                assert_false(first.tried[t].fits); /* what fits is the last that was planned */
            }
        }
        free(memory);
    }
}

/* verifies error-2.e818 */
static void test_a_plan_that_fails_says_why(void **state)
{
    (void)state;
    static const uint32_t missing[] = {99};
    bp_fit_request request = request_for(1);
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit fit;
    bp_error error = {0};
    request.free_policy = false;
    request.spec.policy = (bp_policy){.kind = BP_POLICY_LIST, .list = missing, .list_count = 1};
    assert_int_not_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    assert_int_equal(fit.best.batch, 0);
    assert_non_null(error.text);
    free(memory);
}

/* verifies compile-5.3a79 */
static void test_explicit_choices_stay(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    request.free_policy = false;
    request.spec.policy = (bp_policy){.kind = BP_POLICY_EVERY, .every = 3};
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit fit;
    bp_error error = {0};
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    assert_int_equal(fit.spec.policy.kind, BP_POLICY_EVERY);
    assert_int_equal(fit.tried_count, 1);
    request.budget = fit.best.arena_bytes - 1;
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
    assert_int_equal(fit.best.policy.every, 3);
    free(memory);
}

/* verifies compile-4.ecdd */
static void test_curve_falls(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit_point points[24];
    uint32_t count = 24;
    bp_error error = {0};
    assert_int_equal(bp_fit_curve(&request, memory, bytes, points, &count, &error), BP_OK);
    assert_true(count > 6 && count <= 24);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(points[i].arena_bytes > points[i - 1].arena_bytes);
        assert_true(points[i].seconds < points[i - 1].seconds);
    }
    assert_int_equal(points[count - 1].kind, BP_POLICY_NONE);
    count = 3;
    assert_int_equal(bp_fit_curve(&request, memory, bytes, points, &count, &error), BP_OK);
    assert_true(count <= 3);
    free(memory);
}

/* verifies compile-4.ecdd */
static void test_largest_batch(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    request.spec.batch = 12;
    request.budget = arena_of(&request, (bp_policy){.kind = BP_POLICY_FULL});
    request.spec.batch = 64;
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit fit;
    bp_error error = {0};
    uint32_t batch = 0;
    assert_int_equal(bp_fit_largest_batch(&request, 64, memory, bytes, &batch, &error), BP_OK);
    assert_true(batch >= 12 && batch < 64);
    request.spec.batch = batch;
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    request.spec.batch = batch + 1;
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
    request.spec.batch = 64;
    request.budget = 1;
    assert_int_equal(bp_fit_largest_batch(&request, 64, memory, bytes, &batch, &error), BP_OK);
    assert_int_equal(batch, 0);
    request.budget = 0;
    assert_int_equal(bp_fit_largest_batch(&request, 64, memory, bytes, &batch, &error), BP_OK);
    assert_int_equal(batch, 64);
    free(memory);
}

/* verifies compile-7.7394 */
static void test_refusals(void **state)
{
    (void)state;
    bp_fit_request request = request_for(1);
    uint64_t bytes = 0;
    void *memory = memory_for(&request, &bytes);
    bp_fit fit;
    bp_fit_point points[8];
    uint32_t count = 8;
    uint32_t batch = 0;
    /* What is counted is enough for every candidate; the tables of the search and half of one plan
     * are not enough for the first. */
    const uint64_t half = plan_bytes(&request.spec) / 2;
    for (uint64_t size = 0; size < half; size += half / 5) {
        bp_error error = {0};
        assert_int_equal(bp_fit_run(&request, memory, size, &fit, &error), BP_ERR_FIT);
        assert_int_equal(bp_fit_curve(&request, memory, size, points, &count, &error), BP_ERR_FIT);
        assert_int_equal(bp_fit_largest_batch(&request, 8, memory, size, &batch, &error),
                         BP_ERR_FIT);
    }
    SET_FAMILY(&request.spec.config, bp_transformer, heads, 7);
    bp_error error = {0};
    assert_true(bp_fit_scratch(&request) == BP_SIZE_INVALID);
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_USAGE);
    assert_int_equal(bp_fit_curve(&request, memory, bytes, points, &count, &error), BP_ERR_USAGE);
    assert_int_equal(bp_fit_largest_batch(&request, 8, memory, bytes, &batch, &error),
                     BP_ERR_USAGE);
    request = request_for(1);
    request.spec.optimizer = NULL;
    assert_true(bp_fit_scratch(&request) == BP_SIZE_INVALID);
    free(memory);
}

int main(void)
{
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 7 + i / 11) % 13;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twenty_budgets),
        cmocka_unit_test(test_the_choice_keeps_the_bits),
        cmocka_unit_test(test_batch_and_chunk_are_chosen_too),
        cmocka_unit_test(test_chunks_are_shortened),
        cmocka_unit_test(test_chunks_of_a_sequence),
        cmocka_unit_test(test_the_first_answer),
        cmocka_unit_test(test_a_plan_that_fails_says_why),
        cmocka_unit_test(test_explicit_choices_stay),
        cmocka_unit_test(test_curve_falls),
        cmocka_unit_test(test_largest_batch),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
