/* SPDX-License-Identifier: MIT */
/* Chains of dense layers as whole models: equal bits under every checkpoint policy and gradient
 * release, gradients with dropout against finite differences, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/mlp_model.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

#define INPUTS 5
#define ROWS   13

static float numbers[ROWS * INPUTS];

static int make_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS * INPUTS; i++) {
        numbers[i] = (float)(i * i % 17) / 8.0f - 1.0f;
    }
    return 0;
}

static bp_status read_numbers(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, numbers + first, n * sizeof *to);
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index * INPUTS, .count = INPUTS, .label = index % 3};
    return BP_OK;
}

static bp_spec spec_of(uint32_t layers)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_mlp;
    spec.config =
        config_with((bp_model_config){.positions = INPUTS, .task = BP_TASK_CLASSES, .classes = 3},
                    OWN(bp_mlp_config, .width = 6, .layers = layers,
                        .activation = BP_ACTIVATION_TANH, .dropout = 0.2));
    SET_FAMILY(&spec.config, bp_mlp_config, hidden_sizes[1], 9);
    spec.sequence = INPUTS;
    spec.batch = 4;
    return spec;
}

static void open_model(model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(r, spec, NULL, 1000);
    r->source.count = ROWS * INPUTS;
    r->source.read = read_numbers;
    r->source.examples = ROWS;
    r->source.example = example;
    r->feed.classes = 3;
    r->feed.kind = BP_LABELS_CLASS;
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    open_model(&r, spec);
    for (uint32_t i = 0; i < steps; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(isfinite(outcome.loss));
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies run-1.e4fa */
static void test_policies(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_EVERY, .every = 2},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 7}};
    for (uint32_t layers = 0; layers <= 5; layers += 5) {
        for (uint32_t accumulation = 1; accumulation <= 2; accumulation++) {
            bp_spec spec = spec_of(layers);
            spec.accumulation = accumulation;
            const uint64_t wanted = digest_after(&spec, 5);
            spec.poison = true;
            for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
                spec.policy = policies[p];
                assert_true(digest_after(&spec, 5) == wanted);
            }
            spec.gradient_release = true;
            assert_true(digest_after(&spec, 5) == wanted);
        }
    }
}

/* Four rows at once or two by two: the same masks, the same sums up to their rounding. */
/* verifies run-4.8194 */
static void test_accumulation(void **state)
{
    (void)state;
    bp_spec spec = spec_of(2);
    model_fixture whole, halves;
    open_model(&whole, &spec);
    spec.batch = 2;
    spec.accumulation = 2;
    open_model(&halves, &spec);
    for (uint32_t i = 0; i < 4; i++) {
        const double a = model_fixture_step(&whole).loss, b = model_fixture_step(&halves).loss;
        assert_true(fabs(a - b) <= 1e-6 * a);
    }
    model_fixture_close(&whole);
    model_fixture_close(&halves);
}

/* Evaluation without dropout sees the loss that the first step sees. */
static void test_evaluation(void **state)
{
    (void)state;
    bp_spec spec = spec_of(3);
    model_fixture r;
    double loss = 0.0;
    uint64_t targets = 0;
    SET_FAMILY(&spec.config, bp_mlp_config, dropout, 0.0);
    SET_FAMILY(&spec.config, bp_mlp_config, initializer_range, 0.5);
    spec.evaluate = true;
    open_model(&r, &spec);
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 1, &loss, &targets), BP_OK);
    assert_int_equal(targets, spec.batch);
    assert_true(fabs(model_fixture_step(&r).loss - loss) <= 1e-6 * loss);
    model_fixture_close(&r);
}

/* ReLU has a kink where biases are 0: it is compared with PyTorch (tests/golden). */
/* verifies layers-4.97f8 */
static void test_differences(void **state)
{
    (void)state;
    for (int kind = 0; kind < BP_ACTIVATION_RELU; kind++) {
        bp_spec spec = spec_of(2);
        model_fixture r;
        SET_FAMILY(&spec.config, bp_mlp_config, activation, (bp_activation)kind);
        spec.optimizer_options.learning_rate = 0.0;
        spec.optimizer_options.weight_decay = 0.0;
        open_model(&r, &spec);
        for (uint32_t p = 0; p < r.plan.builder.parameter_count; p++) {
            double difference, norm;
            model_fixture_differ(&r, &r.plan.builder.parameters[p], 4e-3, &difference, &norm);
            if (fabs(difference - norm) > 0.02 * norm + 1e-4) {
                fail_msg("activation %d, parameter %u: differences say %g, the gradient %g", kind,
                         p, difference, norm);
            }
        }
        model_fixture_close(&r);
    }
}

static void refused(const bp_spec *spec, const char *name)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, name);
}

/* verifies layers-15.2c18 */
static void test_refusals(void **state)
{
    (void)state;
    bp_spec spec = spec_of(2);
    spec.config.task = BP_TASK_CAUSAL_LM;
    spec.config.classes = 0;
    refused(&spec, "task");
    spec = spec_of(2);
    spec.generate_context = 2;
    refused(&spec, "task");
    spec = spec_of(2);
    spec.sequence = INPUTS - 1;
    refused(&spec, "max-seq-length");
    spec = spec_of(2);
    spec.config.vocabulary = 7;
    refused(&spec, "vocab_size");
    spec = spec_of(2);
    spec.working = BP_BF16;
    spec.master = BP_MASTER_FP32;
    refused(&spec, "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),    cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_evaluation),
    };
    return cmocka_run_group_tests(tests, make_numbers, NULL);
}
