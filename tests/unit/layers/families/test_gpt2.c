/* SPDX-License-Identifier: MIT */
/* GPT-2 as a whole: equal bits under every checkpoint policy and tape variant, accumulation,
 * gradients with dropout against finite differences, generation against evaluation. */
#include "layers/families/gpt2.h"
#include "layers/blocks/gpt2_block.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 131

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec dropped(bp_spec spec)
{
    SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
    SET_FAMILY(&spec.config, bp_transformer, attention_dropout, 0.15);
    return spec;
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(isfinite(outcome.loss));
        assert_false(outcome.nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* Every policy, with and without dropout, one and three micro-batches, poisoned and not. */
/* verifies run-1.e4fa */
static void test_policies(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_EVERY, .every = 1},
                                  {.kind = BP_POLICY_EVERY, .every = 2},
                                  {.kind = BP_POLICY_EVERY, .every = 3}};
    for (int drop = 0; drop < 2; drop++) {
        for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
            bp_spec spec = drop != 0 ? dropped(model_fixture_spec()) : model_fixture_spec();
            spec.accumulation = accumulation;
            const uint64_t wanted = digest_after(&spec, 5);
            spec.poison = true;
            assert_true(digest_after(&spec, 5) == wanted);
            for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
                spec.policy = policies[p];
                assert_true(digest_after(&spec, 5) == wanted);
            }
        }
    }
}

static void test_seed_matters(void **state)
{
    (void)state;
    bp_spec spec = dropped(model_fixture_spec());
    const uint64_t first = digest_after(&spec, 1);
    assert_true(digest_after(&spec, 1) == first);
    spec.seed++;
    assert_true(digest_after(&spec, 1) != first);
    spec = model_fixture_spec();
    const uint64_t plain = digest_after(&spec, 1);
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.3);
    assert_true(digest_after(&spec, 1) != plain);
}

/* GPT-2 with forward and backward held to one tape variant of the blocks: no schedule that the core
 * makes asks for the ones between. */
static uint32_t forced_variant;

static void force_variant(bp_stage_call *call, const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    if (bp_model_gpt2.variants(config, call->stage) > forced_variant) {
        call->variant = forced_variant;
    }
}

static void forced_forward(bp_builder *builder, bp_stage_call *call)
{
    force_variant(call, builder);
    bp_model_gpt2.forward(builder, call);
}

static void forced_backward(bp_builder *builder, bp_stage_call *call)
{
    force_variant(call, builder);
    bp_model_gpt2.backward(builder, call);
}

/* verifies layers-5.febc */
static void test_variants(void **state)
{
    (void)state;
    bp_model model = bp_model_gpt2;
    model.forward = forced_forward;
    model.backward = forced_backward;
    for (int drop = 0; drop < 2; drop++) {
        bp_spec spec = drop != 0 ? dropped(model_fixture_spec()) : model_fixture_spec();
        const uint64_t wanted = digest_after(&spec, 5);
        spec.model = &model;
        spec.poison = true;
        for (forced_variant = 0; forced_variant < BP_TAPE_VARIANTS; forced_variant++) {
            spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
            assert_true(digest_after(&spec, 5) == wanted);
            spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
            assert_true(digest_after(&spec, 5) == wanted);
        }
    }
}

/* Less on the tape takes less memory. */
static void test_variants_save_memory(void **state)
{
    (void)state;
    bp_model model = bp_model_gpt2;
    model.forward = forced_forward;
    model.backward = forced_backward;
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, layers, 6);
    spec.model = &model;
    uint64_t before = UINT64_MAX;
    const uint32_t less_and_less[] = {0, 1, 3, 7, 8};
    for (size_t i = 0; i < sizeof less_and_less / sizeof less_and_less[0]; i++) {
        forced_variant = less_and_less[i];
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        assert_true(r.plan.report.class_most[BP_CLASS_TAPE] < before);
        before = r.plan.report.class_most[BP_CLASS_TAPE];
        model_fixture_close(&r);
    }
}

/* Gradients of the first group, all of them. */
static float *gradients_of(const bp_spec *spec, uint64_t *count)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    const bp_builder *builder = &r.plan.builder;
    *count = r.plan.report.parameters;
    float *all = malloc((size_t)*count * sizeof *all);
    assert_non_null(all);
    (void)model_fixture_step(&r);
    uint64_t at = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        float *gradient = model_fixture_read(&r, builder->parameters[i].gradient);
        memcpy(all + at, gradient, (size_t)builder->parameters[i].count * sizeof *all);
        at += builder->parameters[i].count;
        free(gradient);
    }
    assert_int_equal(at, *count);
    model_fixture_close(&r);
    return all;
}

/* k micro-batches of b are one of k * b, dropout on: within 1e-6, norm-wise. */
/* verifies run-4.8194 */
static void test_accumulation(void **state)
{
    (void)state;
    bp_spec whole = dropped(model_fixture_spec());
    whole.batch = 6;
    whole.loss_rows = 17;
    uint64_t count = 0;
    float *wanted = gradients_of(&whole, &count);
    for (uint32_t batch = 1; batch <= 3; batch++) {
        bp_spec parts = whole;
        parts.batch = batch;
        parts.loss_rows = 0;
        parts.accumulation = 6 / batch;
        float *found = gradients_of(&parts, &count);
        double difference = 0.0;
        double norm = 0.0;
        for (uint64_t i = 0; i < count; i++) {
            const double d = (double)found[i] - (double)wanted[i];
            difference += d * d;
            norm += (double)wanted[i] * (double)wanted[i];
        }
        assert_true(sqrt(difference) <= 1e-6 * sqrt(norm));
        free(found);
    }
    free(wanted);
}

/* The loss of the first group with one parameter moved by `distance` along `direction`. */
static double moved_loss(model_fixture *r, uint32_t buffer, const float *at, const float *direction,
                         double distance)
{
    const size_t count = (size_t)r->plan.graph.buffers[buffer].bytes / sizeof *at;
    float *moved = malloc(count * sizeof *moved);
    assert_non_null(moved);
    for (size_t i = 0; i < count; i++) {
        moved[i] = (float)((double)at[i] + distance * (double)direction[i]);
    }
    model_fixture_write(r, buffer, moved);
    free(moved);
    r->runtime.steps = 0; /* the same tokens, the same masks */
    return model_fixture_step(r).loss;
}

/* Along its own gradient the loss grows by the gradient's norm: for every parameter, with a rate of
 * 0 so that the weights stay. */
static void check_differences(const bp_spec *spec)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    for (uint32_t p = 0; p < r.plan.builder.parameter_count; p++) {
        const bp_parameter *parameter = &r.plan.builder.parameters[p];
        r.runtime.steps = 0;
        (void)model_fixture_step(&r);
        float *gradient = model_fixture_read(&r, parameter->gradient);
        float *weight = model_fixture_read(&r, parameter->weight);
        double square = 0.0;
        for (uint64_t i = 0; i < parameter->count; i++) {
            square += (double)gradient[i] * (double)gradient[i];
        }
        assert_true(square > 0.0);
        /* A step of 2e-3 in all: the loss changes by far more than it is rounded. */
        const double step = 2e-3 / sqrt(square);
        const double rise = moved_loss(&r, parameter->weight, weight, gradient, step) -
                            moved_loss(&r, parameter->weight, weight, gradient, -step);
        if (fabs(rise / (2.0 * step) - square) > 0.01 * square + 2e-4 * sqrt(square)) {
            fail_msg("%s: slope %g, gradient %g", bp_graph_name(&r.plan.graph, parameter->weight),
                     rise / (2.0 * step) / sqrt(square), sqrt(square));
        }
        model_fixture_write(&r, parameter->weight, weight);
        free(gradient);
        free(weight);
    }
    model_fixture_close(&r);
}

/* verifies layers-4.97f8 */
static void test_differences(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.optimizer_options.learning_rate = 0.0;
    SET_FAMILY(&spec.config, bp_transformer, initializer_range, 0.3);
    check_differences(&spec);
    spec = dropped(spec);
    check_differences(&spec);
    SET_FAMILY(&spec.config, bp_transformer, inner, 13);
    spec.loss_rows = 3;
    check_differences(&spec);
}

static double negative_log_likelihood(const float *logits, uint32_t count, int32_t target)
{
    double most = (double)logits[0];
    for (uint32_t i = 1; i < count; i++) {
        most = fmax(most, (double)logits[i]);
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - most);
    }
    return most + log(sum) - (double)logits[target];
}

/* Tokens fed one by one predict as evaluation does; a prompt fed in runs predicts as one by one. */
/* verifies run-18.bb6f */
static void test_generation(void **state)
{
    (void)state;
    bp_spec spec = dropped(model_fixture_spec());
    spec.batch = 1;
    spec.evaluate = true;
    spec.generate_context = 12;
    spec.prefill_rows = 4;
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, 11);
    for (int i = 0; i < 3; i++) {
        (void)model_fixture_step(&r);
    }
    const uint64_t digest = model_fixture_digest(&r);
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &loss, &targets), BP_OK);
    assert_int_equal(targets, 10);
    assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
    double sum = 0.0;
    float each[10][37];
    for (int i = 0; i < 10; i++) {
        assert_int_equal(bp_runtime_accept(&r.runtime, &tokens[i], 1), BP_OK);
        memcpy(each[i], r.runtime.logits_host, sizeof each[i]);
        sum += negative_log_likelihood(r.runtime.logits_host, 37, tokens[i + 1]);
    }
    assert_true(fabs(sum / 10.0 - loss) <= 1e-5 * loss);
    for (uint32_t length = 1; length <= 10; length++) {
        assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&r.runtime, tokens, length), BP_OK);
        for (int v = 0; v < 37; v++) {
            const double wanted = (double)each[length - 1][v];
            assert_true(fabs((double)r.runtime.logits_host[v] - wanted) <= 1e-5);
        }
    }
    assert_true(model_fixture_digest(&r) == digest);
    model_fixture_close(&r);
}

/* Prefill and decode in chunks of the sequence say what they say without. */
/* verifies layers-51.f5f9 */
static void test_generation_in_chunks(void **state)
{
    (void)state;
    float logits[2][37];
    for (uint32_t chunked = 0; chunked < 2; chunked++) {
        bp_spec spec = model_fixture_spec();
        spec.batch = 1;
        spec.generate_context = 12;
        spec.prefill_rows = 5;
        spec.sequence_chunk = chunked * 2;
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, 11);
        (void)model_fixture_step(&r);
        assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&r.runtime, tokens, 9), BP_OK);
        memcpy(logits[chunked], r.runtime.logits_host, sizeof logits[chunked]);
        model_fixture_close(&r);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

/* Evaluation in chunks, of a last micro-batch that is not full, and without an optimizer. */
/* verifies face-23.839c */
static void test_evaluation(void **state)
{
    (void)state;
    bp_spec spec = dropped(model_fixture_spec());
    spec.evaluate = true;
    spec.optimizer = NULL;
    double wanted = 0.0;
    for (uint32_t rows = 0; rows <= 20; rows += 5) {
        model_fixture r;
        double loss = 0.0;
        uint64_t targets = 0;
        spec.loss_rows = rows;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &loss, &targets), BP_OK);
        assert_int_equal(targets, TOKENS - 1);
        wanted = rows == 0 ? loss : wanted;
        assert_true(fabs(loss - wanted) <= 1e-7 * wanted);
        assert_true(fabs(loss - log(37.0)) < 0.5);
        model_fixture_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),     cmocka_unit_test(test_seed_matters),
        cmocka_unit_test(test_variants),     cmocka_unit_test(test_variants_save_memory),
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_differences),
        cmocka_unit_test(test_generation),   cmocka_unit_test(test_generation_in_chunks),
        cmocka_unit_test(test_evaluation),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
