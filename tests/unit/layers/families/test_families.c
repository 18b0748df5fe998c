/* SPDX-License-Identifier: MIT */
/* Llama and BERT as whole models: equal bits under every checkpoint policy, tape variant, gradient
 * release and number of micro-batches; gradients with dropout against finite differences; padding
 * that nobody sees. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/bert.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS  131
#define SAMPLES 13

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

/* Samples of 1 to 10 tokens, three classes. */
static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index * 10, .count = 1 + index * 7 % 10, .label = index % 3};
    return BP_OK;
}

static bp_spec spec_of(bp_task task, bool bert)
{
    bp_spec spec = model_fixture_spec();
    bp_model_config *config = &spec.config;
    spec.model = bert ? &bp_model_bert : &bp_model_llama;
    SET_FAMILY(config, bp_transformer, inner, 20);
    SET_FAMILY(config, bp_transformer, heads, 4);
    if (bert) {
        SET_FAMILY(config, bp_bert_config, types, 2);
    } else {
        SET_FAMILY(config, bp_llama_config, kv_heads, 2);
        SET_FAMILY(config, bp_llama_config, rope_theta, 100.0);
        SET_FAMILY(config, bp_llama_config, rope_scaling,
                   (bp_rope_scaling){.factor = 4.0, .low = 1.0, .high = 4.0, .original = 8});
        SET_FAMILY(config, bp_llama_config, qkv_bias, true);
    }
    config->task = task;
    config->classes = task < BP_TASK_CLASSES ? 0 : 3;
    return spec;
}

static bp_spec dropped(bp_spec spec)
{
    SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
    SET_FAMILY(&spec.config, bp_transformer, attention_dropout, 0.15);
    if (spec.model == &bp_model_bert) {
        SET_FAMILY(&spec.config, bp_bert_config, classifier_dropout, 0.3);
    }
    return spec;
}

static void open_model(model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(r, spec, tokens, TOKENS);
    if (spec->config.task == BP_TASK_CAUSAL_LM) {
        return;
    }
    r->source.examples = SAMPLES;
    r->source.example = example;
    r->feed.classes = spec->config.classes;
    r->feed.kind = spec->config.task == BP_TASK_MASKED_LM ? BP_LABELS_MASKED : BP_LABELS_CLASS;
    r->feed.masking = (bp_masking){0.4, 36, {-1, -1, -1, -1}};
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    open_model(&r, spec);
    for (uint32_t i = 0; i < steps; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(isfinite(outcome.loss));
        assert_false(outcome.nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

static const struct {
    bp_task task;
    bool bert;
} kinds[] = {{BP_TASK_CAUSAL_LM, false},
             {BP_TASK_CLASSES, false},
             {BP_TASK_MASKED_LM, true},
             {BP_TASK_CLASSES, true}};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* verifies run-1.e4fa */
static void test_policies(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_EVERY, .every = 2},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 1},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 2},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 4},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 7}};
    for (size_t k = 0; k < KINDS; k++) {
        for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
            bp_spec spec = dropped(spec_of(kinds[k].task, kinds[k].bert));
            spec.accumulation = accumulation;
            const uint64_t wanted = digest_after(&spec, 4);
            spec.poison = true;
            for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
                spec.policy = policies[p];
                assert_true(digest_after(&spec, 4) == wanted);
            }
            spec.gradient_release = BP_RELEASE_EXACT;
            /* A vocabulary with a bias is not sliced: over several micro-batches its gradient is
             * the same sum in another order. */
            if (kinds[k].task != BP_TASK_MASKED_LM || accumulation == 1) {
                assert_true(digest_after(&spec, 4) == wanted);
                spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
                assert_true(digest_after(&spec, 4) == wanted);
            }
        }
    }
}

/* Clipping forms the norm in a backward of its own under gradient release, from sums in another
 * order. */
/* verifies compile-8.b061 */
static void test_release_with_clipping(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = dropped(spec_of(kinds[k].task, kinds[k].bert));
        model_fixture plain, released;
        spec.optimizer_options.max_grad_norm = 0.5;
        open_model(&plain, &spec);
        spec.gradient_release = BP_RELEASE_EXACT;
        open_model(&released, &spec);
        for (uint32_t i = 0; i < 4; i++) {
            const bp_outcome x = model_fixture_step(&plain), y = model_fixture_step(&released);
            assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
            assert_true(fabs(x.norm - y.norm) <= 1e-4 * x.norm);
        }
        model_fixture_close(&plain);
        model_fixture_close(&released);
    }
}

/* The loss of the first group, at rate 0. */
static double loss_of(model_fixture *r)
{
    r->runtime.steps = 0;
    return model_fixture_step(r).loss;
}

/* Along each parameter's gradient the loss changes as the gradient's norm says, dropout on. */
/* verifies layers-4.97f8 */
static void test_differences(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = dropped(spec_of(kinds[k].task, kinds[k].bert));
        spec.optimizer_options.learning_rate = 0.0;
        spec.optimizer_options.weight_decay = 0.0;
        SET_FAMILY(&spec.config, bp_transformer, initializer_range, 0.3);
        model_fixture r;
        open_model(&r, &spec);
        (void)loss_of(&r);
        const bp_builder *builder = &r.plan.builder;
        for (uint32_t p = 0; p < builder->parameter_count; p++) {
            const bp_parameter *parameter = &builder->parameters[p];
            (void)loss_of(&r);
            float *gradient = model_fixture_read(&r, parameter->gradient);
            float *weight = model_fixture_read(&r, parameter->weight),
                  *moved = model_fixture_read(&r, parameter->weight);
            double square = 0.0, difference = 0.0;
            for (uint64_t i = 0; i < parameter->count; i++) {
                square += (double)gradient[i] * (double)gradient[i];
            }
            const double norm = sqrt(square), step = 4e-3;
            for (int side = -1; side <= 1 && norm > 1e-4; side += 2) {
                for (uint64_t i = 0; i < parameter->count; i++) {
                    moved[i] =
                        (float)((double)weight[i] + side * step * (double)gradient[i] / norm);
                }
                model_fixture_write(&r, parameter->weight, moved);
                difference += side * loss_of(&r) / (2.0 * step);
            }
            model_fixture_write(&r, parameter->weight, weight);
            if (norm > 1e-4 && fabs(difference - norm) > 0.02 * norm + 1e-4) {
                fail_msg("%s: differences say %g, the gradient %g",
                         bp_graph_name(&r.plan.graph, parameter->weight), difference, norm);
            }
            free(gradient);
            free(weight);
            free(moved);
        }
        model_fixture_close(&r);
    }
}

/* What lies behind a sample's end changes nothing. */
/* verifies layers-9.e558 */
static void test_padding_is_not_seen(void **state)
{
    (void)state;
    for (size_t k = 1; k < KINDS; k++) {
        bp_spec spec = spec_of(kinds[k].task, kinds[k].bert);
        model_fixture r;
        double losses[2];
        for (int32_t padding = 0; padding < 2; padding++) {
            open_model(&r, &spec);
            r.feed.padding = padding * 11;
            losses[padding] = model_fixture_step(&r).loss;
            model_fixture_close(&r);
        }
        assert_true(losses[0] == losses[1]);
    }
}

/* Evaluation without dropout sees the loss that the first step sees. */
static void test_evaluation(void **state)
{
    (void)state;
    for (size_t k = 0; k <= KINDS; k++) {
        const bool gpt2 = k == KINDS;
        bp_spec spec = gpt2 ? model_fixture_spec() : spec_of(kinds[k].task, kinds[k].bert);
        if (gpt2) {
            spec.config.task = BP_TASK_CLASSES;
            spec.config.classes = 3;
        }
        spec.evaluate = true;
        model_fixture r;
        double loss = 0.0;
        uint64_t targets = 0;
        open_model(&r, &spec);
        assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 1, &loss, &targets), BP_OK);
        assert_true(isfinite(loss) && loss > 0.0 && targets > 0);
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(fabs(outcome.loss - loss) <= 1e-6 * loss);
        model_fixture_close(&r);
    }
}

/* verifies layers-15.2c18 */
static void test_refusals(void **state)
{
    (void)state;
    bp_error error;
    bp_spec spec = spec_of(BP_TASK_CAUSAL_LM, false);
    SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 3);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "num_key_value_heads");
    spec = spec_of(BP_TASK_MASKED_LM, false);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "task");
    spec = spec_of(BP_TASK_CAUSAL_LM, true);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "task");
    spec = spec_of(BP_TASK_CAUSAL_LM, false);
    SET_FAMILY(&spec.config, bp_llama_config, head_width, 5);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "head_dim");
    spec = spec_of(BP_TASK_CLASSES, false);
    spec.config.classes = 0;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "num-labels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),    cmocka_unit_test(test_release_with_clipping),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_padding_is_not_seen),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_evaluation),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
