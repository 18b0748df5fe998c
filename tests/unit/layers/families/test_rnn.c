/* SPDX-License-Identifier: MIT */
/* Recurrent models as whole models: equal bits under every checkpoint policy, gradient release and
 * kernel form, the same sums however the sequence and the batch are cut, gradients against finite
 * differences, memory that grows as the root of the length, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/rnn.h"
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

static bp_spec spec_of(bp_cell cell, uint32_t layers)
{
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_rnn;
    spec.config = config_with((bp_model_config){.vocabulary = 37, .positions = 64},
                              OWN(bp_rnn_config, .width = 9, .embedding = 6, .layers = layers,
                                  .untied = true, .cell = cell, .chunks = 5));
    spec.batch = 3;
    spec.sequence = 12;
    return spec;
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(isfinite(outcome.loss) && !outcome.nonfinite);
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
                                  {.kind = BP_POLICY_EVERY, .every = 3},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = 7}};
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        for (uint32_t accumulation = 1; accumulation <= 2; accumulation++) {
            bp_spec spec = spec_of((bp_cell)cell, 2);
            spec.accumulation = accumulation;
            const uint64_t wanted = digest_after(&spec, 4);
            spec.poison = true;
            for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
                spec.policy = policies[p];
                assert_true(digest_after(&spec, 4) == wanted);
            }
            spec.device_options.threads = 3;
            spec.device_options.variant = NULL;
            if (accumulation == 1) {
                spec.gradient_release = true;
            }
            assert_true(digest_after(&spec, 4) == wanted);
        }
    }
}

/* More layers than a list has values. */
/* verifies run-1.e4fa */
static void test_deep(void **state)
{
    (void)state;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 13);
        const uint64_t wanted = digest_after(&spec, 2);
        spec.poison = true;
        spec.policy.kind = BP_POLICY_SQRT;
        assert_true(digest_after(&spec, 2) == wanted);
    }
}

/* The model with one tape variant whatever the schedule asks for. */
static uint32_t forced;

static void forward_forced(bp_builder *builder, bp_stage_call *call)
{
    call->variant = BP_TAPE_SET | forced;
    bp_model_rnn.forward(builder, call);
}

static void backward_forced(bp_builder *builder, bp_stage_call *call)
{
    call->variant = BP_TAPE_SET | forced;
    bp_model_rnn.backward(builder, call);
}

/* Whatever is kept of the embedded ids and of the states and gates, the bits are equal. */
/* verifies layers-5.febc */
static void test_kept_sets(void **state)
{
    (void)state;
    bp_model model = bp_model_rnn;
    model.forward = forward_forced;
    model.backward = backward_forced;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 2);
        const uint64_t wanted = digest_after(&spec, 2);
        spec.model = &model;
        spec.poison = true;
        for (uint32_t set = 0; set < 8; set++) {
            forced = set << 1;
            if (digest_after(&spec, 2) != wanted) {
                fail_msg("cell %d, kept set %x: another digest", cell, forced);
            }
        }
    }
}

/* Under release with several micro-batches, and with clipping, which forms the norm first, sums are
 * added in other orders. */
/* verifies compile-8.b061 */
static void test_release(void **state)
{
    (void)state;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 2);
        model_fixture plain, released;
        spec.accumulation = 2;
        spec.optimizer_options.max_grad_norm = 0.5;
        model_fixture_open(&plain, &spec, tokens, TOKENS);
        spec.gradient_release = true;
        model_fixture_open(&released, &spec, tokens, TOKENS);
        for (uint32_t i = 0; i < 4; i++) {
            const bp_outcome x = model_fixture_step(&plain), y = model_fixture_step(&released);
            assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
            assert_true(fabs(x.norm - y.norm) <= 1e-4 * x.norm);
        }
        model_fixture_close(&plain);
        model_fixture_close(&released);
    }
}

/* Other pieces of time, chunks of the loss and micro-batches: the same sums up to their rounding.
 */
static void test_cuts(void **state)
{
    (void)state;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 2);
        model_fixture whole, cut;
        spec.batch = 4;
        SET_FAMILY(&spec.config, bp_rnn_config, chunks, 0);
        spec.evaluate = true;
        model_fixture_open(&whole, &spec, tokens, TOKENS);
        spec.batch = 2;
        spec.accumulation = 2;
        SET_FAMILY(&spec.config, bp_rnn_config, chunks, 12);
        spec.loss_rows = 1;
        model_fixture_open(&cut, &spec, tokens, TOKENS);
        for (uint32_t i = 0; i < 4; i++) {
            double loss;
            uint64_t targets;
            assert_int_equal(bp_runtime_evaluate(&whole.runtime, &whole.feed, 1, &loss, &targets),
                             BP_OK);
            const bp_outcome x = model_fixture_step(&whole), y = model_fixture_step(&cut);
            assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
            assert_true(fabs(x.norm - y.norm) <= 1e-4 * x.norm);
            assert_true(i > 0 || fabs(x.loss - loss) <= 1e-6 * loss);
        }
        model_fixture_close(&whole);
        model_fixture_close(&cut);
    }
}

/* verifies layers-4.97f8 */
static void test_differences(void **state)
{
    (void)state;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 2);
        model_fixture r;
        SET_FAMILY(&spec.config, bp_rnn_config, initializer_range, 0.4);
        spec.optimizer_options.learning_rate = 0.0;
        spec.optimizer_options.weight_decay = 0.0;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        for (uint32_t p = 0; p < r.plan.builder.parameter_count; p++) {
            double difference, norm;
            model_fixture_differ(&r, &r.plan.builder.parameters[p], 1e-2, &difference, &norm);
            assert_true(fabs(difference - norm) <= 0.02 * norm + 1e-4);
        }
        model_fixture_close(&r);
    }
}

/* A frozen encoder leaves its gradient out, and the others as they were. */
/* verifies compile-9.cceb */
static void test_frozen_encoder(void **state)
{
    (void)state;
    bp_spec spec = spec_of(BP_CELL_GRU, 1);
    const bp_parameter_rule rule = {.glob = "encoder.*", .kind = BP_RULE_FREEZE};
    model_fixture all, some;
    model_fixture_open(&all, &spec, tokens, TOKENS);
    spec.rules = &rule;
    spec.rule_count = 1;
    model_fixture_open(&some, &spec, tokens, TOKENS);
    assert_true(model_fixture_step(&all).loss == model_fixture_step(&some).loss);
    float *a = model_fixture_read(&all, model_fixture_find(&all, "rnn.weight_ih_l0"));
    float *b = model_fixture_read(&some, model_fixture_find(&some, "rnn.weight_ih_l0"));
    assert_memory_equal(a, b, sizeof(float) * 27 * 6);
    free(a);
    free(b);
    model_fixture_close(&all);
    model_fixture_close(&some);
}

/* In 16 bits the losses are near those of single precision. */
static void test_half(void **state)
{
    (void)state;
    for (int cell = BP_CELL_GRU; cell <= BP_CELL_LSTM; cell++) {
        bp_spec spec = spec_of((bp_cell)cell, 2);
        model_fixture single, half;
        model_fixture_open(&single, &spec, tokens, TOKENS);
        spec.working = BP_BF16;
        spec.master = BP_MASTER_SPLIT;
        spec.gradient = BP_BF16;
        model_fixture_open(&half, &spec, tokens, TOKENS);
        for (uint32_t i = 0; i < 10; i++) {
            const double x = model_fixture_step(&single).loss, y = model_fixture_step(&half).loss;
            assert_true(fabs(x - y) <= 0.02 * x);
        }
        model_fixture_close(&single);
        model_fixture_close(&half);
    }
}

static uint64_t arena_of(uint32_t sequence, bp_policy_kind kind)
{
    bp_spec spec = spec_of(BP_CELL_LSTM, 1);
    model_fixture r;
    spec.config.positions = 1024;
    SET_FAMILY(&spec.config, bp_rnn_config, width, 32);
    SET_FAMILY(&spec.config, bp_rnn_config, chunks, sequence);
    spec.sequence = sequence;
    spec.batch = 1;
    spec.policy.kind = kind;
    static int32_t many[1025];
    model_fixture_open(&r, &spec, many, 1025);
    const uint64_t bytes =
        r.plan.report.class_most[BP_CLASS_TAPE] + r.plan.report.class_most[BP_CLASS_CHECKPOINT];
    model_fixture_close(&r);
    return bytes;
}

/* Each step a stage: four times the length, twice the tape and checkpoints of sqrt. */
/* verifies layers-11.ea8b */
static void test_memory_grows_as_the_root(void **state)
{
    (void)state;
    const uint64_t all = arena_of(128, BP_POLICY_NONE), four = arena_of(512, BP_POLICY_NONE);
    const uint64_t root = arena_of(128, BP_POLICY_SQRT), twice = arena_of(512, BP_POLICY_SQRT);
    assert_true((double)four > 3.8 * (double)all && (double)four < 4.2 * (double)all);
    assert_true((double)twice > 1.8 * (double)root && (double)twice < 2.2 * (double)root);
    assert_true(twice * 8 < four);
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
    bp_spec spec = spec_of(BP_CELL_GRU, 1);
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 2;
    refused(&spec, "task");
    spec = spec_of(BP_CELL_GRU, 1);
    SET_FAMILY(&spec.config, bp_rnn_config, chunks, 13);
    refused(&spec, "time-chunk");
    spec = spec_of(BP_CELL_GRU, 1);
    SET_FAMILY(&spec.config, bp_rnn_config, untied, false);
    refused(&spec, "embedding_size");
    spec = spec_of(BP_CELL_GRU, 1);
    SET_FAMILY(&spec.config, bp_rnn_config, dropout, 0.1);
    refused(&spec, "dropout");
    spec = spec_of(BP_CELL_GRU, 1);
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0};
    refused(&spec, "lora-r");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_kept_sets),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_frozen_encoder),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_memory_grows_as_the_root),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
