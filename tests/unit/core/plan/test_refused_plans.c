/* SPDX-License-Identifier: MIT */
/* Plans that a model cannot have: what was asked for and is nowhere in it is refused by the name of
 * the option. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/range.h"
#include "core/plan/schedule.h"
#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/families/mlp_model.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/model_fixture.h"

static bp_plan plan;

/* A head and nothing below it. */
static bp_spec chain_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_mlp;
    spec.config = config_with(
        (bp_model_config){.positions = spec.sequence, .task = BP_TASK_CLASSES, .classes = 3},
        OWN(bp_mlp_config, .width = 16, .layers = 0, .initializer_range = 0.1));
    return spec;
}

static bp_status planned(const bp_spec *spec)
{
    bp_error error = {.code = BP_OK};
    if (bp_spec_check(spec, &error) != BP_OK) {
        fail_msg("%s: %s", error.name, error.text);
    }
    const uint64_t scratch = bp_plan_scratch(spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    const bp_status status = bp_plan_count(&plan, spec, memory, scratch);
    free(memory);
    return status;
}

static void refused(const bp_spec *spec, const char *option)
{
    assert_int_equal(planned(spec), BP_ERR_USAGE);
    assert_string_equal(plan.error.name, option);
}

/* verifies compile-1.aa19 */
static void what_is_nowhere_in_a_model(void **state)
{
    (void)state;
    bp_spec spec = chain_spec();
    assert_int_equal(planned(&spec), BP_OK);
    spec.optimizer = NULL;
    spec.evaluate = true;
    spec.quantised = BP_QUANTISED_NF4;
    refused(&spec, "load-in-4bit");
    spec.quantised = BP_QUANTISED_INT8;
    refused(&spec, "load-in-8bit");
    spec = model_fixture_spec();
    spec.working = spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT8;
    assert_int_equal(planned(&spec), BP_OK);
    spec.weights = BP_WEIGHT_FP8;
    assert_int_equal(planned(&spec), BP_OK);
    static const bp_parameter_rule dense[] = {{.glob = "*.c_*", .kind = BP_RULE_FREEZE}};
    spec.rules = dense;
    spec.rule_count = 1;
    refused(&spec, "weight-dtype");
    spec.optimizer = NULL; /* weights that nothing updates are as they were read */
    spec.evaluate = true;
    assert_int_equal(planned(&spec), BP_OK);
    spec = model_fixture_spec();
    spec.products = BP_PRODUCT_FP8;
    refused(&spec, "product-dtype");
    spec.products_from = 16; /* the model's width */
    assert_int_equal(planned(&spec), BP_OK);
    spec.products_from++;
    refused(&spec, "product-dtype");
    spec.products_from--;
    spec.working = BP_BF16;
    spec.master = BP_MASTER_SPLIT;
    static const char *const targets[] = {"all-linear"};
    spec.lora = (bp_lora){.rank = 2, .alpha = 2.0, .targets = targets, .target_count = 1};
    assert_int_equal(planned(&spec), BP_OK); /* products with the frozen weights */
    spec.quantised = BP_QUANTISED_NF4;
    refused(&spec, "product-dtype");
    /* of two reasons the first one is told */
    static const char *const table[] = {"wte"};
    spec = model_fixture_spec();
    spec.products = BP_PRODUCT_FP8;
    spec.lora = (bp_lora){.rank = 2, .alpha = 2.0, .targets = table, .target_count = 1};
    refused(&spec, "product-dtype");
    SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
    refused(&spec, "transformer.wte.weight");
    spec = model_fixture_spec();
    spec.products = BP_PRODUCT_FP8; /* which evaluations have none of */
    spec.optimizer = NULL;
    spec.evaluate = true;
    assert_int_equal(planned(&spec), BP_OK);
    spec = chain_spec();
    spec.tape = BP_TAPE_FP8;
    refused(&spec, "tape-dtype");
    static const bp_parameter_rule all[] = {{.glob = "*", .kind = BP_RULE_FREEZE}};
    spec = chain_spec();
    spec.rules = all;
    spec.rule_count = 1;
    refused(&spec, "freeze");
}

/* Packed weights: of a device that has no products with them, and of rows that are no blocks. */
/* verifies compile-1.aa19 */
static void packed_weights_that_are_not_read(void **state)
{
    (void)state;
    static const bp_stored_weight small[] = {
        {"transformer.h.0.attn.c_attn.weight", BP_QUANTISED_BLOCKS + 8}};
    static const bp_stored_weight large[] = {
        {"transformer.h.0.mlp.c_proj.weight", BP_QUANTISED_BLOCKS + 12}};
    bp_device other = bp_device_host;
    bp_spec spec = model_fixture_spec();
    spec.optimizer = NULL;
    spec.evaluate = true;
    SET_FAMILY(&spec.config, bp_transformer, width, 32);
    spec.stored = small;
    spec.stored_count = 1;
    assert_int_equal(planned(&spec), BP_OK);
    other.blocks = false;
    spec.device = &other;
    assert_int_equal(planned(&spec), BP_ERR_DEVICE);
    assert_string_equal(plan.error.name, "host: transformer.h.0.attn.c_attn.weight");
    assert_string_equal(plan.error.word, "Q8_0");
    spec.device = &bp_device_host;
    spec.stored = large;
    assert_int_equal(planned(&spec), BP_ERR_DATA);
    assert_string_equal(plan.error.name, "transformer.h.0.mlp.c_proj.weight");
}

/* verifies compile-2.20c3 */
static void policies_of_no_stages(void **state)
{
    (void)state;
    static const bp_action forward = {.kind = BP_ACTION_FORWARD};
    const bp_policy given = {.kind = BP_POLICY_ACTIONS, .actions = &forward, .action_count = 1};
    const bp_policy every = {.kind = BP_POLICY_EVERY, .every = 2},
                    never = {.kind = BP_POLICY_EVERY};
    bp_action actions[64];
    uint32_t count = 0;
    assert_int_equal(bp_schedule_count(&given, 0), 0);
    assert_int_equal(bp_schedule_count(&given, 3), 4);
    assert_int_equal(bp_schedule_count(&never, 4), 0);
    assert_true(bp_schedule_count(&every, 4) > 0);
    assert_int_equal(bp_schedule_generate(&never, 4, 0, NULL, actions, 64, &count), BP_ERR_USAGE);
    assert_int_equal(bp_schedule_generate(&every, 4, 4, NULL, actions, 64, &count), BP_ERR_USAGE);
    assert_int_equal(bp_schedule_generate(&every, 4, 0, NULL, actions, 64, &count), BP_OK);
}

/* verifies compile-1.aa19 */
static void numbers_outside_their_range(void **state)
{
    (void)state;
    static const struct {
        double value;
        bp_status status;
    } rows[] = {{0.0, BP_OK},
                {0.999, BP_OK},
                {1.0, BP_ERR_USAGE},
                {-1e-9, BP_ERR_USAGE},
                {(double)NAN, BP_ERR_USAGE},
                {(double)INFINITY, BP_ERR_USAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_real_range range = {.name = "dropout", .value = rows[i].value, .below = 1.0};
        bp_error error = {.code = BP_OK};
        assert_int_equal(bp_real_ranges_check(&range, 1, "test", &error), rows[i].status);
        assert_true(rows[i].status == BP_OK || strcmp(error.name, "dropout") == 0);
        assert_true(rows[i].status == BP_OK ||
                    strcmp(error.right, "a number from 0 to below 1") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_nowhere_in_a_model),
        cmocka_unit_test(packed_weights_that_are_not_read),
        cmocka_unit_test(policies_of_no_stages),
        cmocka_unit_test(numbers_outside_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
