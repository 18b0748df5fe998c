/* SPDX-License-Identifier: MIT */
/* Plans of what families and options have beyond the usual: wherever the row lies that has no room,
 * the plan ends with BP_ERR_FIT, and with whole tables it is verified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "layers/families/llama.h"
#include "layers/families/mlp_model.h"
#include "optim/rules.h"
#include "tests/fixtures/plans/plan_case.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/short_tables.h"
#include "tests/fixtures/share.h"

/* verifies compile-6.ea09 */
static void every_row_may_be_missing(void **state)
{
    (void)state;
    const uint32_t tries = share_of(12, 4, 4);
    uint32_t plans = 0;
    for (uint32_t i = 0; i < plan_case_count(); i++) {
        char name[PLAN_CASE_NAME];
        bp_spec spec;
        const bool good = plan_case(i, &spec, name);
        plans += good && short_tables_refused(&spec, name, i, tries);
    }
    assert_true(plans >= 450);
}

static void narrow(bp_spec *spec)
{
    plan_dense(spec);
    SET_FAMILY(&spec->config, bp_mlp_config, width, 1);
}

static void score(bp_spec *spec)
{
    plan_llama(spec);
    plan_classes(spec);
}

static void adapted(bp_spec *spec)
{
    plan_llama(spec);
    plan_adapters(spec);
}

static void large_llama(bp_spec *spec)
{
    plan_llama(spec);
    plan_large(spec);
}

/* Of two ranks this one; of small tensors one has all. */
static void shared_out(bp_spec *spec, uint32_t rank)
{
    plan_llama(spec);
    spec->ranks = spec->virtual_ranks = spec->accumulation = 2;
    spec->rank = rank;
    spec->sharing = BP_SHARING_OPTIMIZER;
    spec->optimizer_options.max_grad_norm = 1.0;
}

static void first_of_two(bp_spec *spec)
{
    shared_out(spec, 0);
}

static void second_of_two(bp_spec *spec)
{
    shared_out(spec, 1);
}

/* Bits of states for some tensors: of a rule without states there is nothing to store in fewer. */
static void bits_of_states(bp_spec *spec, uint32_t bits)
{
    static bp_parameter_rule rule;
    plan_llama(spec);
    rule = (bp_parameter_rule){
        .glob = "*mlp*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = bits};
    spec->rules = &rule;
    spec->rule_count = 1;
}

/* Of products whose operands are in 8 bits, which so small a model has when told. */
static void narrow_products(bp_spec *spec)
{
    plan_llama(spec);
    spec->products = BP_PRODUCT_FP8;
    spec->products_from = 1;
}

static void narrow_tape(bp_spec *spec)
{
    plan_llama(spec);
    spec->tape = BP_TAPE_FP8;
}

static void adapters_of_none(bp_spec *spec)
{
    adapted(spec);
    spec->lora.rank = 0;
    spec->lora.bias = BP_LORA_BIAS_ALL;
}

static void frozen_in_part(bp_spec *spec)
{
    static const bp_parameter_rule rule = {.glob = "*attn*", .kind = BP_RULE_FREEZE};
    plan_llama(spec);
    spec->rules = &rule;
    spec->rule_count = 1;
}

static void eight_bits(bp_spec *spec)
{
    bits_of_states(spec, 8);
}

static void all_bits(bp_spec *spec)
{
    bits_of_states(spec, 32);
}

/* Rules that look at matrices of hidden layers, at whole tensors, or have no states. */
/* verifies compile-6.ea09 */
static void every_row_of_a_rule_may_be_missing(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_schedule_free_adamw,
                                                &bp_optimizer_muon,
                                                &bp_optimizer_apollo,
                                                &bp_optimizer_lamb,
                                                &bp_optimizer_sgd,
                                                &bp_optimizer_adam_mini,
                                                &bp_optimizer_apollo_mini};
    static void (*const made[])(bp_spec * spec) = {
        plan_llama,     narrow,          score,      adapted,  large_llama,
        first_of_two,   second_of_two,   eight_bits, all_bits, adapters_of_none,
        frozen_in_part, narrow_products, narrow_tape};
    uint32_t plans = 0, refused = 0;
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        for (uint32_t k = 0; k < sizeof made / sizeof made[0]; k++) {
            bp_spec spec = model_fixture_spec();
            made[k](&spec);
            spec.optimizer = rules[i];
            spec.evaluate = true;
            const double clip = spec.optimizer_options.max_grad_norm;
            spec.optimizer_options = *rules[i]->defaults;
            spec.optimizer_options.max_grad_norm = clip;
            spec.optimizer_options.rank = k == 4 ? 64.0 : spec.optimizer_options.rank;
            if (bp_spec_check(&spec, NULL) == BP_OK) {
                const bool does = short_tables_refused(&spec, rules[i]->name, i + k, 4);
                plans += does ? 1 : 0;
                refused += does ? 0 : 1;
                assert_true(does || (rules[i] == &bp_optimizer_sgd && made[k] == eight_bits));
            }
        }
    }
    assert_int_equal(refused, 1);
    assert_true(plans >= 40);
}

/* States below the arena, of tensors of more elements than are updated at once. */
/* verifies compile-6.ea09 */
static void every_row_of_large_tensors_may_be_missing(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 1024);
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL};
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    assert_true(short_tables_refused(&spec, "large tensors", 0, 100));
    spec.offload.gradients = BP_OFFLOAD_ALL;
    spec.accumulation = 2;
    assert_true(short_tables_refused(&spec, "their gradients", 0, 100));
}

/* Codes are read, not trained, whatever a rule says. */
/* verifies compile-21.c84d */
static void codes_are_not_trained(void **state)
{
    (void)state;
    static const bp_parameter_rule rule = {.glob = "*attn*", .kind = BP_RULE_TRAIN};
    bp_spec spec = model_fixture_spec();
    plan_llama(&spec);
    plan_adapters(&spec);
    spec.quantised = BP_QUANTISED_NF4;
    assert_true(short_tables_refused(&spec, "codes", 0, 2));
    spec.rules = &rule;
    spec.rule_count = 1;
    assert_false(short_tables_refused(&spec, "codes that are trained", 0, 2));
    spec.optimizer = NULL;
    spec.evaluate = true;
    assert_true(short_tables_refused(&spec, "codes that are read", 0, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_may_be_missing),
        cmocka_unit_test(every_row_of_a_rule_may_be_missing),
        cmocka_unit_test(every_row_of_large_tensors_may_be_missing),
        cmocka_unit_test(codes_are_not_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
