/* SPDX-License-Identifier: MIT */
/* What the fit leaves out and what it still finds: first answers with long schedules, the most
 * micro-batches that it tries, chunks of the loss while something is free, gains at budgets, and
 * memory that is counted for each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/fit.h"
#include "layers/families/mlp_model.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

static bp_fit_request request_of(uint32_t layers)
{
    bp_fit_request request = {
        .spec = model_fixture_spec(), .free_policy = true, .rates = BP_RATES_DEFAULT};
    SET_FAMILY(&request.spec.config, bp_transformer, layers, layers);
    return request;
}

/* A fit in memory of its own, as much as was counted. */
static bp_status fit_of(const bp_fit_request *request, bp_fit *fit)
{
    bp_error error = {0};
    const uint64_t bytes = fit_bytes(request);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    const bp_status status = bp_fit_run(request, memory, bytes, fit, &error);
    fit->actions = NULL;
    free(memory);
    return status;
}

static bool tried(const bp_fit *fit, bp_policy_kind kind)
{
    bool found = false;
    for (uint32_t i = 0; i < fit->tried_count; i++) {
        found = found || fit->tried[i].policy.kind == kind;
    }
    return found;
}

/* Where the first answer will do, the schedule that starts from the input each time is left out
 * if it is long; a short one is planned, and so is a long one where the best is looked for. */
/* verifies compile-4.ecdd */
static void the_longest_schedules_are_no_first_answer(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers;
        bool first, batch;
        bool poor;
    } cases[] = {{60, true, false, false}, {60, true, true, false}, {60, false, false, true},
                 {6, true, false, true},   {6, true, true, true},   {6, false, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_fit_request request = request_of(cases[i].layers);
        bp_fit fit;
        assert_int_equal(fit_of(&request, &fit), BP_OK);
        const uint64_t whole = fit.best.arena_bytes, fixed = fit.fixed_bytes;
        request.first = cases[i].first;
        request.free_batch = cases[i].batch;
        request.budget = fixed + 1; /* what lives all the time fits, and nothing beside it */
        assert_int_equal(fit_of(&request, &fit), BP_ERR_FIT);
        assert_true(tried(&fit, BP_POLICY_MEMORY_POOR) == cases[i].poor);
        assert_true(fit.least.arena_bytes < whole && fit.least.arena_bytes > request.budget);
        request.budget = fit.least.arena_bytes;
        assert_int_equal(fit_of(&request, &fit), BP_OK);
        assert_true(fit.best.arena_bytes <= request.budget);
    }
}

static uint32_t plans; /* and counts, of the model below */

static void parameters_counted(bp_builder *builder, const bp_model_config *config)
{
    plans++;
    bp_model_mlp.parameters(builder, config);
}

/* How often the model was asked for its parameters while every micro-batch of a batch was tried. */
static uint32_t plans_of(uint32_t batch, bp_fit *fit)
{
    bp_model counted = bp_model_mlp;
    bp_fit_request request = request_of(1);
    counted.parameters = parameters_counted;
    request.spec.model = &counted;
    request.spec.config =
        config_with((bp_model_config){.positions = 3, .task = BP_TASK_CLASSES, .classes = 2},
                    OWN(bp_mlp_config, .width = 4, .layers = 1));
    request.spec.sequence = 3;
    request.spec.batch = batch;
    request.free_policy = false;
    request.free_batch = true;
    request.budget = 1;
    plans = 0;
    assert_int_equal(fit_of(&request, fit), BP_ERR_FIT);
    return plans;
}

/* Of a batch of 10080, which has 72 divisors, the 64 largest sizes are tried. */
/* verifies compile-4.ecdd */
static void so_many_micro_batches_are_tried(void **state)
{
    (void)state;
    bp_fit fit;
    const uint32_t of48 = plans_of(2520, &fit), of60 = plans_of(5040, &fit);
    assert_int_equal(fit.tried_count, 60);
    const uint32_t each = (of60 - of48) / 12;
    assert_true(each > 0 && of48 + 12 * each == of60);
    assert_int_equal(plans_of(10080, &fit), of60 + 4 * each);
    assert_int_equal(fit.tried_count, 64);
    assert_int_equal(fit.tried[0].batch, 10080);
    assert_int_equal(fit.tried[1].batch, 5040);
}

/* Of every budget, with few words and many: what is found fits, the first answer wherever the best
 * does, and a shorter chunk of the loss than the shortest is never taken. */
/* verifies compile-4.ecdd */
static void chunks_and_policies_together(void **state)
{
    (void)state;
    static const uint32_t words[] = {37, 400, 4000};
    uint32_t whole_chunks = 0, cut = 0;
    for (size_t w = 0; w < 3; w++) {
        bp_fit_request request = request_of(4);
        bp_fit first, best;
        request.spec.config.vocabulary = words[w];
        request.spec.batch = 40;
        request.free_chunk = true;
        assert_int_equal(fit_of(&request, &best), BP_OK);
        const uint64_t most = best.best.arena_bytes;
        request.budget = 1;
        assert_int_equal(fit_of(&request, &best), BP_ERR_FIT);
        const uint64_t least = best.least.arena_bytes;
        for (uint64_t i = 0; i < 8; i++) {
            request.budget = least + (most - least) / 8 * i;
            request.first = false;
            assert_int_equal(fit_of(&request, &best), BP_OK);
            request.first = true;
            assert_int_equal(fit_of(&request, &first), BP_OK);
            assert_true(first.best.arena_bytes <= request.budget);
            assert_true(best.best.arena_bytes <= request.budget);
            assert_true(best.best.seconds <= first.best.seconds);
            assert_true(best.best.loss_rows >= 64 && first.best.loss_rows >= 64);
            whole_chunks += first.best.loss_rows == 400 ? 1 : 0;
            cut += first.best.loss_rows < 400 ? 1 : 0;
        }
    }
    assert_true(whole_chunks > 0 && cut > 0);
}

/* Where the loss has no chunks, shorter ones are no other plans; the shortest is looked at when
 * nothing fits. */
/* verifies compile-4.ecdd */
static void chunks_that_a_loss_has_not(void **state)
{
    (void)state;
    bp_fit_request request = request_of(2);
    bp_fit fit;
    request.spec.config.task = BP_TASK_CLASSES;
    request.spec.config.classes = 3;
    request.spec.batch = 40;
    request.free_chunk = true;
    request.budget = 1;
    assert_int_equal(fit_of(&request, &fit), BP_ERR_FIT);
    assert_false(fit.best.fits);
    request.budget = fit.least.arena_bytes;
    assert_int_equal(fit_of(&request, &fit), BP_OK);
    assert_true(fit.best.fits && fit.best.arena_bytes <= request.budget);
}

/* More variants are never slower, and at no budget slower than a policy with a name that fits it.
 */
/* verifies compile-4.ecdd */
static void gains_are_gains(void **state)
{
    (void)state;
    enum { GAINS = 12 };
    static const uint32_t layers[] = {1, 2, 6};
    for (size_t k = 0; k < 3; k++) {
        bp_fit_request request = request_of(layers[k]);
        bp_fit_gain gains[GAINS];
        bp_error error = {0};
        const uint64_t bytes = fit_bytes(&request);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_fit_gains(&request, memory, bytes, gains, GAINS, &error), BP_OK);
        uint32_t faster = 0;
        for (uint32_t i = 0; i < GAINS; i++) {
            assert_true(gains[i].after > 0.0 && gains[i].after <= gains[i].before);
            assert_true(i == 0 || gains[i].budget > gains[i - 1].budget);
            faster += gains[i].after < gains[i].before ? 1 : 0;
        }
        assert_true(faster > 0 || layers[k] == 1); /* of which a name may be the best there is */
        static const bp_policy named[] = {{.kind = BP_POLICY_NONE},
                                          {.kind = BP_POLICY_FULL},
                                          {.kind = BP_POLICY_SQRT},
                                          {.kind = BP_POLICY_EVERY, .every = 2},
                                          {.kind = BP_POLICY_EVERY, .every = 3},
                                          {.kind = BP_POLICY_SELECTIVE, .recompute = 7},
                                          {.kind = BP_POLICY_SELECTIVE, .recompute = 1},
                                          {.kind = BP_POLICY_SELECTIVE, .recompute = 2},
                                          {.kind = BP_POLICY_SELECTIVE, .recompute = 4}};
        for (size_t p = 0; p < sizeof named / sizeof named[0]; p++) {
            bp_fit_request one = {.spec = request.spec, .rates = request.rates};
            bp_fit fit;
            one.spec.policy = named[p];
            assert_int_equal(bp_fit_run(&one, memory, bytes, &fit, &error), BP_OK);
            for (uint32_t i = 0; i < GAINS; i++) {
                assert_true(fit.best.arena_bytes > gains[i].budget ||
                            gains[i].before <= fit.best.seconds);
            }
        }
        free(memory);
    }
}

/* What was counted serves, whatever is free; and who gives no place for the reason gets none. */
/* verifies compile-4.ecdd */
static void counted_memory_serves_every_request(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        bp_fit_request request = request_of(3);
        bp_fit fit;
        request.free_policy = (i & 1) != 0;
        request.free_batch = (i & 2) != 0;
        request.free_chunk = (i & 4) != 0;
        request.spec.batch = (i & 8) != 0 ? 4 : 1;
        request.spec.loss_rows = (i & 16) != 0 ? 5 : 0;
        request.spec.accumulation = 4;
        request.spec.virtual_ranks = (i & 32) != 0 ? 2 : 1;
        request.spec.gradient_release = (i & 4) != 0 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        request.spec.optimizer_options.max_grad_norm = 1.0;
        assert_int_equal(fit_of(&request, &fit), BP_OK);
        request.budget = fit.best.arena_bytes - 1;
        const bp_status status = fit_of(&request, &fit);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
    }
    bp_fit_request request = request_of(3);
    bp_fit fit;
    const uint64_t bytes = fit_bytes(&request);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, NULL), BP_OK);
    assert_int_equal(bp_fit_run(&request, memory, bytes / 8, &fit, NULL), BP_ERR_FIT);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_schedules_are_no_first_answer),
        cmocka_unit_test(so_many_micro_batches_are_tried),
        cmocka_unit_test(chunks_and_policies_together),
        cmocka_unit_test(chunks_that_a_loss_has_not),
        cmocka_unit_test(gains_are_gains),
        cmocka_unit_test(counted_memory_serves_every_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
