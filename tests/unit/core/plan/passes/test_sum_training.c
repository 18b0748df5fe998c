/* SPDX-License-Identifier: MIT */
/* Training from gradients added up in 8 bits: bits that depend on nothing but the spec, gradients
 * within the codes' width of the ordinary ones, their bytes, and what they go with. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/codec.h"
#include "layers/families/rnn.h"
#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 211
#define STEPS  20

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec spec_of(uint32_t micros)
{
    bp_spec spec = model_fixture_spec();
    spec.accumulation = micros;
    spec.gradient_int8 = true;
    spec.optimizer_options.max_grad_norm = 0.5;
    return spec;
}

static uint64_t digest_of(const bp_spec *spec, double *loss)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    *loss = 0.0;
    for (uint32_t step = 0; step < STEPS; step++) {
        bp_outcome outcome = model_fixture_step(&r);
        assert_false(outcome.nonfinite);
        *loss += outcome.loss / STEPS;
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* Any policy, number of threads and form of kernels; freed bytes are poisoned once. */
/* verifies compile-11.8eee */
static void test_bits_are_the_specs_alone(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (uint32_t micros = 1; micros <= 3; micros += 2) {
        bp_spec spec = spec_of(micros);
        double loss, first;
        SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.1);
        const uint64_t digest = digest_of(&spec, &first);
        for (size_t p = 0; p < 4; p++) {
            spec.policy = policies[p];
            spec.poison = p == 1;
            spec.device_options.threads = 1 + (uint32_t)p;
            spec.device_options.variant = p == 2 ? NULL : "portable";
            assert_true(digest_of(&spec, &loss) == digest && loss == first);
        }
        spec.seed++;
        assert_true(digest_of(&spec, &loss) != digest);
    }
}

/* Near to what full gradients in bf16 and fp32 lead to, in every type and master. */
/* verifies compile-23.7a93 */
static void test_losses_are_near_those_of_full_gradients(void **state)
{
    (void)state;
    static const struct {
        bp_dtype working, gradient;
        bp_master master;
        bp_scaling_kind scaling;
    } types[] = {{BP_F32, BP_F32, BP_MASTER_WEIGHT, BP_SCALING_OFF},
                 {BP_BF16, BP_BF16, BP_MASTER_SPLIT, BP_SCALING_OFF},
                 {BP_BF16, BP_BF16, BP_MASTER_SPLIT8, BP_SCALING_OFF},
                 {BP_BF16, BP_BF16, BP_MASTER_STOCHASTIC, BP_SCALING_OFF},
                 {BP_F16, BP_F32, BP_MASTER_FP32, BP_SCALING_DYNAMIC}};
    for (uint32_t i = 0; i < 5; i++) {
        bp_spec spec = spec_of(1 + i % 2 * 2), full;
        spec.working = types[i].working;
        spec.gradient = types[i].gradient;
        spec.master = types[i].master;
        spec.scaling = (bp_scaling){.kind = types[i].scaling,
                                    .initial = 1024.0,
                                    .growth = 2.0,
                                    .backoff = 0.5,
                                    .interval = 2000,
                                    .hysteresis = 1};
        full = spec;
        full.gradient_int8 = false;
        double narrow, wide;
        assert_true(digest_of(&spec, &narrow) != digest_of(&full, &wide));
        assert_true(fabs(narrow - wide) <= 0.01 * wide);
    }
}

/* What one step of SGD at a rate of 1 without clipping took from a weight: its gradient. */
static float *gradient_of(model_fixture *r, const float *before, uint32_t parameter)
{
    const bp_parameter *p = &r->plan.builder.parameters[parameter];
    float *after = model_fixture_read(r, p->weight);
    for (uint64_t e = 0; e < p->count; e++) {
        after[e] = before[e] - after[e];
    }
    return after;
}

/* Every element within `widths` times the widest interval of its group's codes. */
static void check_gradient(const float *got, const float *right, uint64_t count, double widths)
{
    for (uint64_t first = 0; first < count; first += 32) {
        double largest = 0.0;
        uint64_t end = first + 32 < count ? first + 32 : count;
        for (uint64_t e = first; e < end; e++) {
            largest = fmax(largest, fabs((double)right[e]));
        }
        for (uint64_t e = first; e < end; e++) {
            assert_true(fabs((double)got[e] - (double)right[e]) <= widths * largest / 60.0 + 4e-7);
        }
    }
}

static void compare_gradients(const bp_spec *spec, double widths)
{
    bp_spec full = *spec;
    model_fixture a, b;
    full.gradient_int8 = false;
    model_fixture_open(&a, spec, tokens, TOKENS);
    model_fixture_open(&b, &full, tokens, TOKENS);
    const uint32_t count = a.plan.builder.parameter_count;
    float **before = calloc(count, sizeof *before);
    for (uint32_t i = 0; i < count; i++) {
        before[i] = model_fixture_read(&a, a.plan.builder.parameters[i].weight);
    }
    bp_outcome x = model_fixture_step(&a), y = model_fixture_step(&b);
    assert_true(x.loss == y.loss && fabs(x.norm - y.norm) <= 0.01 * y.norm);
    for (uint32_t i = 0; i < count; i++) {
        float *got = gradient_of(&a, before[i], i), *right = gradient_of(&b, before[i], i);
        check_gradient(got, right, a.plan.builder.parameters[i].count, widths);
        free(right);
        free(got);
        free(before[i]);
    }
    free(before);
    model_fixture_close(&b);
    model_fixture_close(&a);
}

/* One micro-batch and several; a table of several slices, and one of the update's slices. */
/* verifies compile-11.8eee */
static void test_gradients_are_those_within_a_code(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        bp_spec spec = spec_of(i % 2 == 0 ? 1 : 3);
        spec.optimizer = &bp_optimizer_sgd;
        spec.optimizer_options = (bp_optimizer_options){.learning_rate = 1.0};
        spec.rate_options.learning_rate = 1.0;
        if (i >= 2) {
            spec.config.vocabulary = i == 2 ? 5000 : 70000;
            SET_FAMILY(&spec.config, bp_transformer, untied, i == 3);
            spec.device_options.variant = NULL;
        }
        compare_gradients(&spec, i % 2 == 0 ? 1.0 : 4.0);
    }
}

/* A byte and a sixteenth per parameter, and one stage's, or one slice of the update's. */
/* verifies compile-23.7a93 */
static void test_bytes(void **state)
{
    (void)state;
    for (uint32_t micros = 1; micros <= 3; micros += 2) {
        bp_spec spec = spec_of(micros);
        SET_FAMILY(&spec.config, bp_transformer, layers, 12);
        SET_FAMILY(&spec.config, bp_transformer, width, 64);
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        uint64_t sums = 0;
        const bp_builder *builder = &r.plan.builder;
        for (uint32_t i = 0; i < builder->parameter_count; i++) {
            const bp_buffer *sum = &r.plan.graph.buffers[builder->parameters[i].sum];
            assert_int_equal(sum->bytes,
                             bp_codec_bytes(builder->parameters[i].count, BP_CODEC_COMPANDED8));
            assert_int_equal(sum->scope, micros > 1 ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM);
            sums += bp_size_align(sum->bytes, BP_ARENA_ALIGNMENT);
        }
        const uint64_t most = r.plan.report.class_most[BP_CLASS_GRADIENTS];
        const uint64_t slice = UINT64_C(65536) * 4 + 24 * BP_ARENA_ALIGNMENT;
        assert_true(most >= sums && most <= sums + slice);
        model_fixture_close(&r);
    }
}

/* Trust ratios need whole tensors; frozen ones have no sums; adapters and chunks of time. */
/* verifies compile-11.8eee */
static void test_what_it_goes_with(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    const bp_parameter_rule frozen[] = {{.glob = "transformer.w*", .kind = BP_RULE_FREEZE}};
    for (uint32_t i = 0; i < 4; i++) {
        bp_spec spec = spec_of(1 + i % 2), full;
        spec.optimizer = i == 0 ? &bp_optimizer_lamb_8bit : spec.optimizer;
        spec.rules = frozen;
        spec.rule_count = i == 1 ? 1 : 0;
        if (i == 2) {
            spec.lora = (bp_lora){.rank = 4, .alpha = 8.0, .targets = all, .target_count = 1};
        } else if (i == 3) {
            spec.model = &bp_model_rnn;
            spec.config =
                config_with(spec.config, OWN(bp_rnn_config, .width = 16, .layers = 1, .chunks = 3,
                                             .initializer_range = 0.1, .cell = BP_CELL_LSTM));
        }
        full = spec;
        full.gradient_int8 = false;
        double narrow, wide, again;
        const uint64_t digest = digest_of(&spec, &narrow);
        assert_true(digest != digest_of(&full, &wide));
        assert_true(fabs(narrow - wide) <= 0.01 * wide);
        spec.policy.kind = BP_POLICY_FULL;
        assert_true(digest_of(&spec, &again) == digest && again == narrow);
    }
}

/* An overflow in one micro-batch of three skips the step, and the next one starts anew. */
/* verifies run-5.fe52 */
static void test_overflow_skips_the_step(void **state)
{
    (void)state;
    bp_spec spec = spec_of(3);
    spec.working = BP_F16;
    spec.master = BP_MASTER_FP32;
    spec.scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                .initial = 9e29,
                                .growth = 2.0,
                                .backoff = 1e-6,
                                .interval = 2000,
                                .hysteresis = 1};
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const uint32_t weight = r.plan.builder.parameters[0].weight;
    void *before = model_fixture_read(&r, weight);
    bp_outcome outcome = model_fixture_step(&r);
    void *after = model_fixture_read(&r, weight);
    assert_true(outcome.skipped);
    assert_memory_equal(before, after, r.plan.graph.buffers[weight].bytes);
    free(after);
    free(before);
    for (uint32_t i = 0; i < 8 && outcome.skipped; i++) {
        outcome = model_fixture_step(&r);
    }
    assert_false(outcome.skipped);
    model_fixture_close(&r);
}

/* verifies compile-1.aa19 */
static void test_released_gradients_are_refused(void **state)
{
    (void)state;
    bp_spec spec = spec_of(2);
    bp_error error = {0};
    spec.gradient_release = BP_RELEASE_EXACT;
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "gradient-dtype");
    spec.gradient_release = BP_RELEASE_NONE;
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_the_specs_alone),
        cmocka_unit_test(test_losses_are_near_those_of_full_gradients),
        cmocka_unit_test(test_gradients_are_those_within_a_code),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_what_it_goes_with),
        cmocka_unit_test(test_overflow_skips_the_step),
        cmocka_unit_test(test_released_gradients_are_refused),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
