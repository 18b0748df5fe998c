/* SPDX-License-Identifier: MIT */
/* The fit under every way of training: with accumulation, released gradients, frozen stages, narrow
 * and wide boundaries, the choice is inside the budget and nothing that fits is faster. */
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

#define TOKENS  600
#define BUDGETS 7

static int32_t tokens[TOKENS];

#define FREEZE(g)                                                                                  \
    {                                                                                              \
        .glob = (g), .kind = BP_RULE_FREEZE                                                        \
    }

static const bp_parameter_rule lower[] = {FREEZE("transformer.w?e.weight"),
                                          FREEZE("transformer.h.0.*"), FREEZE("*.h.1.*")};

static const struct way {
    uint32_t accumulation;
    bp_release release;
    uint32_t rules;
    bool numbers; /* dense layers of uneven width, not a GPT */
    bool int8;    /* gradients added up in 8 bits */
} ways[] = {
    {1, BP_RELEASE_NONE, 0, false, false},  {3, BP_RELEASE_NONE, 0, false, false},
    {1, BP_RELEASE_EXACT, 0, false, false}, {3, BP_RELEASE_EXACT, 0, false, false},
    {1, BP_RELEASE_NONE, 3, false, false},  {3, BP_RELEASE_NONE, 3, false, false},
    {3, BP_RELEASE_EXACT, 3, false, false}, {1, BP_RELEASE_NONE, 0, true, false},
    {3, BP_RELEASE_NONE, 0, true, false},   {3, BP_RELEASE_EXACT, 0, true, false},
    {1, BP_RELEASE_NONE, 0, false, true},   {3, BP_RELEASE_NONE, 3, false, true},
};
#define WAYS (sizeof ways / sizeof ways[0])

static bp_spec spec_of(const struct way *way)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, layers, 7);
    spec.accumulation = way->accumulation;
    spec.gradient_release = way->release;
    spec.gradient_int8 = way->int8;
    spec.rules = lower;
    spec.rule_count = way->rules;
    spec.loss_rows = 8;
    spec.plan_nodes = 20000;
    if (way->numbers) {
        spec.model = &bp_model_mlp;
        spec.config =
            config_with((bp_model_config){.positions = 64, .task = BP_TASK_CLASSES, .classes = 3},
                        OWN(bp_mlp_config, .width = 24, .layers = 14,
                            .activation = BP_ACTIVATION_TANH, .hidden_sizes = {16, 40, 24, 8}));
        spec.sequence = 64;
        spec.batch = 96;
    }
    return spec;
}

/* Plans one policy as it is. */
static bp_fit_try plan_of(const bp_spec *spec, bp_policy policy)
{
    bp_fit_request request = {.spec = *spec, .rates = BP_RATES_DEFAULT};
    bp_fit fit;
    bp_error error = {0};
    request.spec.policy = policy;
    uint64_t bytes = fit_bytes(&request);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
    free(memory);
    return fit.best;
}

static const uint32_t list[] = {2, 3, 5};
static const bp_policy policies[] = {
    {.kind = BP_POLICY_NONE},
    {.kind = BP_POLICY_FULL},
    {.kind = BP_POLICY_MEMORY_POOR},
    {.kind = BP_POLICY_SQRT},
    {.kind = BP_POLICY_EVERY, .every = 2},
    {.kind = BP_POLICY_EVERY, .every = 3},
    {.kind = BP_POLICY_LIST, .list = list, .list_count = 3},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 1},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 2},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 3},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 4},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 5},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 6},
    {.kind = BP_POLICY_SELECTIVE, .recompute = 7},
};
#define POLICIES (sizeof policies / sizeof policies[0])

/* One budget: what the fit chooses is exact, inside, and not slower than any policy inside. */
static bool check_budget(const bp_fit_request *request, void *memory, uint64_t bytes,
                         const bp_fit_try *plans)
{
    bp_fit fit;
    bp_error error = {0};
    assert_int_equal(bp_fit_run(request, memory, bytes, &fit, &error), BP_OK);
    assert_true(fit.best.fits && fit.best.arena_bytes <= request->budget);
    bp_fit_try again = plan_of(&request->spec, fit.spec.policy);
    assert_true(again.arena_bytes == fit.best.arena_bytes && again.seconds == fit.best.seconds);
    for (size_t p = 0; p < POLICIES; p++) {
        bool slower = plans[p].seconds >= fit.best.seconds;
        assert_true(plans[p].arena_bytes > request->budget || slower);
    }
    return fit.best.policy.kind == BP_POLICY_ACTIONS;
}

/* verifies compile-3.6b2f */
static void test_nothing_that_fits_is_faster(void **state)
{
    (void)state;
    uint32_t automatic = 0;
    for (size_t w = 0; w < WAYS; w++) {
        const bp_spec spec = spec_of(&ways[w]);
        bp_fit_request request = {.spec = spec, .free_policy = true, .rates = BP_RATES_DEFAULT};
        bp_fit_try plans[POLICIES];
        uint64_t least = UINT64_MAX;
        for (size_t p = 0; p < POLICIES; p++) {
            plans[p] = plan_of(&spec, policies[p]);
            least = plans[p].arena_bytes < least ? plans[p].arena_bytes : least;
        }
        uint64_t bytes = fit_bytes(&request);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        for (uint64_t i = 0; i < BUDGETS; i++) {
            request.budget = least + (plans[0].arena_bytes - least) * i / BUDGETS;
            automatic += check_budget(&request, memory, bytes, plans) ? 1 : 0;
        }
        bp_fit fit;
        bp_error error = {0};
        request.budget = least * 9 / 10;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_ERR_FIT);
        assert_true(fit.least.arena_bytes <= least);
        free(memory);
    }
    /* most of the choices are schedules that have no name */
    assert_true(automatic > WAYS * BUDGETS / 2);
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

/* Schedules of the dynamic programme begin above what is frozen, and train to the same bits. */
/* verifies compile-4.ecdd */
static void test_above_frozen_stages_the_bits_stay(void **state)
{
    (void)state;
    for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
        const struct way way = {accumulation, BP_RELEASE_NONE, 3, false, false};
        bp_fit_request request = {
            .spec = spec_of(&way), .free_policy = true, .rates = BP_RATES_DEFAULT};
        const uint64_t wanted = digest_of(&request.spec);
        uint64_t most = plan_of(&request.spec, policies[0]).arena_bytes;
        uint64_t least = plan_of(&request.spec, policies[1]).arena_bytes;
        uint64_t bytes = fit_bytes(&request);
        void *memory = malloc((size_t)bytes);
        bp_fit fit;
        bp_error error = {0};
        request.budget = least + (most - least) * 3 / 4;
        assert_int_equal(bp_fit_run(&request, memory, bytes, &fit, &error), BP_OK);
        assert_int_equal(fit.spec.policy.kind, BP_POLICY_ACTIONS);
        fit.spec.poison = true;
        assert_true(digest_of(&fit.spec) == wanted);
        free(memory);
    }
}

int main(void)
{
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 7 + i / 11) % 13;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_that_fits_is_faster),
        cmocka_unit_test(test_above_frozen_stages_the_bits_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
