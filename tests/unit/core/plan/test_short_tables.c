/* SPDX-License-Identifier: MIT */
/* Tables that are shorter than what a plan needs: for every family and every option, wherever the
 * row lies that has no room, the plan ends with BP_ERR_FIT, and with whole tables the same memory
 * serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "core/run/runtime.h"
#include "layers/families/llama.h"
#include "layers/families/gpt2.h"
#include "optim/rule.h"
#include "optim/rules.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/short_tables.h"
#include "tests/fixtures/plans/spec_case.h"

static uint32_t tries(void)
{
    return getenv("BP_TEST_SHORT") != NULL ? 12 : 24;
}

/* verifies compile-6.ea09 */
static void every_row_may_be_missing(void **state)
{
    (void)state;
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (!spec_case(i, &spec, name)) {
            continue;
        }
        spec.policy = (bp_policy){.kind = i % 2 == 0 ? BP_POLICY_NONE : BP_POLICY_FULL};
        cases += short_tables_refused(&spec, name, i, tries());
    }
    assert_true(cases >= 130);
}

/* Every update rule, with states of their own width where a rule of the spec says so. */
/* verifies compile-21.c84d */
static void every_row_of_an_update_may_be_missing(void **state)
{
    (void)state;
    static const bp_parameter_rule narrow[] = {
        {.glob = "*mlp*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8}};
    uint32_t plans = 0;
    const bp_optimizer *optimizer;
    uint32_t i = 0;
    for (; (optimizer = bp_rule_optimizer(i)) != NULL; i++) {
        for (uint32_t bits = 0; bits < 2; bits++) {
            bp_spec spec = model_fixture_spec();
            bp_error error = {.code = BP_OK};
            spec.optimizer = optimizer;
            spec.optimizer_options = *optimizer->defaults;
            spec.optimizer_options.max_grad_norm = bits == 0 ? 1.0 : 0.0;
            spec.optimizer_options.momentum = 0.9;
            spec.rules = narrow;
            spec.rule_count = bits;
            const bool good = bp_spec_check(&spec, &error) == BP_OK;
            plans += good && short_tables_refused(&spec, optimizer->name, i, tries() / 2);
        }
    }
    assert_true(plans >= i + 8);
}

/* A model whose tensors are worth a call of storage, and divide among two ranks or do not. */
static bp_spec large_spec(uint32_t number)
{
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 80;
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    SET_FAMILY(&spec.config, bp_transformer, heads, 4);
    if (number % 2 != 0) {
        spec.model = &bp_model_llama;
        SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 2);
        SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
        SET_FAMILY(&spec.config, bp_transformer, untied, true);
    }
    return spec;
}

/* Forms of sharing, lanes, gathers ahead, released and folded gradients, on each of two ranks. */
/* verifies compile-21.c84d */
static void every_row_of_shares_may_be_missing(void **state)
{
    (void)state;
    uint32_t plans = 0;
    for (uint32_t i = 0; i < 96; i++) {
        bp_spec spec = large_spec(i);
        bp_error error = {.code = BP_OK};
        spec.ranks = i % 3 == 2 ? 1 : 2;
        spec.rank = i / 2 % spec.ranks;
        spec.virtual_ranks = 2 + 2 * (i / 4 % 2);
        spec.accumulation = spec.virtual_ranks * (1 + i / 8 % 2);
        spec.sharing = (bp_sharing)(i / 16 % 4);
        spec.gather_ahead = i % 5 == 0 ? 3 : 0;
        spec.gradient_release = i % 7 == 0 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        spec.optimizer_options.max_grad_norm = i % 4 == 0 ? 1.0 : 0.0;
        spec.evaluate = i % 3 == 0;
        const bool good = bp_spec_check(&spec, &error) == BP_OK;
        plans += good && short_tables_refused(&spec, "shares", i, tries() / 3);
    }
    assert_true(plans >= 40);
}

/* Weights and states that are offloaded, few or all of them, brought at once or ahead. */
/* verifies compile-21.c84d */
static void every_row_of_what_is_offloaded_may_be_missing(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    uint32_t plans = 0;
    for (uint32_t i = 0; i < 64; i++) {
        bp_spec spec = large_spec(i);
        bp_error error = {.code = BP_OK};
        spec.offload = (bp_offload){.bases = i % 3 == 0 ? 0 : BP_OFFLOAD_ALL / (1 + i % 2),
                                    .states = i / 4 % 2 == 0 ? 0 : BP_OFFLOAD_ALL / (1 + i / 8 % 2),
                                    .weights = i % 6 < 3 ? 0 : BP_OFFLOAD_ALL / (1 + i % 2),
                                    .gradients = i / 4 % 2 == 0 ? 0 : BP_OFFLOAD_ALL / (1 + i % 3),
                                    .checkpoints = i % 3,
                                    .ahead = i % 4 == 0 ? 0 : i % 4 * 5};
        if (i / 16 % 2 == 0) {
            spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
            spec.quantised = i / 32 == 0 ? BP_QUANTISED_NONE : BP_QUANTISED_NF4;
        }
        spec.optimizer = i % 11 == 10 ? NULL : spec.optimizer;
        spec.evaluate = true;
        spec.accumulation = 1 + i / 8 % 2;
        spec.gradient_release = i % 5 == 0 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        spec.gradient_int8 = i % 7 == 1 && spec.gradient_release == BP_RELEASE_NONE;
        spec.policy = (bp_policy){.kind = i % 2 == 0 ? BP_POLICY_NONE : BP_POLICY_FULL};
        const bool good = bp_spec_check(&spec, &error) == BP_OK;
        plans += good && short_tables_refused(&spec, "offload", i, tries() / 3);
    }
    assert_true(plans >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_may_be_missing),
        cmocka_unit_test(every_row_of_an_update_may_be_missing),
        cmocka_unit_test(every_row_of_shares_may_be_missing),
        cmocka_unit_test(every_row_of_what_is_offloaded_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
