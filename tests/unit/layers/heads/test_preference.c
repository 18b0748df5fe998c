/* SPDX-License-Identifier: MIT */
/* What losses over pairs and packed rows go together with; their values are compared in
 * tests/golden/test_preference_golden.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/llama.h"
#include "tests/fixtures/model_fixture.h"

static bp_spec pairs(void)
{
    const bp_llama_config own = {.stack = {.width = 16,
                                           .layers = 1,
                                           .heads = 2,
                                           .inner = 24,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.1},
                                 .kv_heads = 1,
                                 .rope_theta = 10000.0};
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_llama;
    spec.config = (bp_model_config){.vocabulary = 37, .positions = 32};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.preference = (bp_preference){.kind = BP_PREFERENCE_SIGMOID, .beta = 0.1};
    return spec;
}

static void refused(const bp_spec *spec, const char *option)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, option);
}

/* verifies compile-1.aa19 */
static void what_does_not_go_with_pairs(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = pairs();
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    spec.batch = 3;
    refused(&spec, "per-device-train-batch-size");
    spec = pairs();
    spec.eval_batch = 5;
    refused(&spec, "per-device-train-batch-size");
    spec = pairs();
    spec.smoothing = 0.1;
    refused(&spec, "label-smoothing-factor");
    spec = pairs();
    spec.preference.beta = 0.0;
    refused(&spec, "beta");
    spec = pairs();
    spec.preference.smoothing = 0.5;
    refused(&spec, "beta");
    spec = pairs();
    spec.preference.gamma = -1.0;
    refused(&spec, "simpo-gamma");
    spec = pairs();
    spec.preference.undesirable = -1.0;
    refused(&spec, "simpo-gamma");
    spec = pairs();
    spec.generate_context = 8;
    refused(&spec, "task");
}

/* verifies compile-1.aa19 */
static void what_is_packed(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = pairs();
    spec.preference.kind = BP_PREFERENCE_NONE;
    spec.packed = true;
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    spec.generate_context = 8;
    refused(&spec, "packing");
    spec = model_fixture_spec(); /* gpt2, whose places are an input where rows are packed */
    spec.packed = true;
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_with_pairs),
        cmocka_unit_test(what_is_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
