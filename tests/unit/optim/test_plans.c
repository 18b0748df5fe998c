/* SPDX-License-Identifier: MIT */
/* Every optimizer in a plan of a whole model: it learns, released gradients give the same bits, and
 * what it cannot take is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optim/rule.h"
#include "optim/rules.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 131

static int32_t tokens[TOKENS];

/* Rates at which rules learn this model; the others' is 1e-2. */
static const struct {
    const char *rule;
    double rate;
} rates[] = {{"sgd", 0.1},   {"lion", 3e-3}, {"rmsprop", 1e-3},   {"adagrad", 3e-2},
             {"lamb", 3e-2}, {"lars", 0.2},  {"adafactor", 3e-2}, {"schedule_free", 3e-2}};

static double rate_of(const bp_optimizer *optimizer)
{
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (strcmp(rates[i].rule, optimizer->rule->name) == 0) {
            return rates[i].rate;
        }
    }
    return 1e-2;
}

static const bp_parameter_rule every_state[] = {
    {.glob = "*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8}};

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec spec_of(const bp_optimizer *optimizer)
{
    bp_spec spec = model_fixture_spec();
    spec.optimizer = optimizer;
    spec.optimizer_options = *optimizer->defaults;
    spec.optimizer_options.learning_rate = rate_of(optimizer);
    spec.optimizer_options.max_grad_norm = 1.0;
    spec.optimizer_options.momentum = 0.9;
    spec.optimizer_options.trust_coefficient = 0.05;
    spec.optimizer_options.percentile = optimizer->name[0] % 3 == 0 ? 90 : 0;
    if (optimizer->form != BP_CODEC_F32) {
        spec.rules = every_state;
        spec.rule_count = 1;
    }
    return spec;
}

static uint64_t train(const bp_spec *spec, uint32_t steps, double *first, double *last)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t step = 0; step < steps; step++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(isfinite(outcome.loss));
        *first = step == 0 ? outcome.loss : *first;
        *last = outcome.loss;
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies optim-6.74aa */
static void test_every_rule_learns(void **state)
{
    (void)state;
    const bp_optimizer *optimizer;
    for (uint32_t i = 0; (optimizer = bp_rule_optimizer(i)) != NULL; i++) {
        double first = 0.0, last = 0.0;
        bp_spec spec = spec_of(optimizer);
        const uint64_t plain = train(&spec, 25, &first, &last);
        if (!(last < first - 0.02)) {
            fail_msg("%s: loss %g, then %g", spec.optimizer->name, first, last);
        }
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(train(&spec, 25, &first, &last) == plain);
    }
}

/* A table that two stages share, by several micro-batches: rules over whole tensors too. */
/* verifies optim-6.74aa */
static void test_released_shared_table(void **state)
{
    (void)state;
    const bp_optimizer *optimizer;
    double first = 0.0, last = 0.0;
    for (uint32_t i = 0; (optimizer = bp_rule_optimizer(i)) != NULL; i++) {
        bp_spec spec = spec_of(optimizer);
        spec.accumulation = 3;
        const uint64_t plain = train(&spec, 2, &first, &last);
        spec.gradient_release = BP_RELEASE_EXACT;
        if (train(&spec, 2, &first, &last) != plain) {
            fail_msg("%s: other bits where gradients are released", optimizer->name);
        }
    }
}

static bp_status check_of(const bp_spec *spec, bp_error *error)
{
    *error = (bp_error){0};
    return spec->optimizer->check(spec->optimizer, &spec->optimizer_options, error);
}

/* verifies optim-6.74aa */
static void test_what_rules_refuse(void **state)
{
    (void)state;
    bp_error error;
    const bp_optimizer *optimizer;
    for (uint32_t i = 0; (optimizer = bp_rule_optimizer(i)) != NULL; i++) {
        bp_spec spec = spec_of(optimizer);
        assert_int_equal(check_of(&spec, &error), BP_OK);
        spec.optimizer_options.percentile = 100;
        assert_int_equal(check_of(&spec, &error), BP_ERR_USAGE);
        assert_string_equal(error.name, "percentile-clipping");
        spec = spec_of(optimizer);
        spec.optimizer_options.learning_rate = -1.0;
        assert_int_equal(check_of(&spec, &error), BP_ERR_USAGE);
        assert_string_equal(error.name, "learning-rate");
    }
    bp_spec spec = spec_of(&bp_optimizer_sgd);
    spec.optimizer_options.nesterov = true;
    assert_int_equal(check_of(&spec, &error), BP_OK);
    spec.optimizer_options.dampening = 0.5;
    assert_int_equal(check_of(&spec, &error), BP_ERR_USAGE);
    spec = spec_of(
        &bp_optimizer_adamw); /* no rule with momentum of this kind: nesterov is nothing to it */
    spec.optimizer_options.nesterov = true;
    spec.optimizer_options.momentum = 0.0;
    assert_int_equal(check_of(&spec, &error), BP_OK);
    spec = spec_of(&bp_optimizer_sgd_8bit);
    spec.optimizer_options.momentum = 0.0;
    assert_int_equal(check_of(&spec, &error), BP_ERR_USAGE);
    spec = spec_of(&bp_optimizer_adamw);
    spec.optimizer_options.beta2 = 1.0;
    assert_int_equal(check_of(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "adam-beta2");
}

/* By name: 32 bits for a tensor of an 8-bit optimizer, 4 for one of a 32-bit one; small tensors and
 * embeddings keep 32. */
/* verifies optim-9.7184 */
static void test_bits_of_states(void **state)
{
    (void)state;
    bp_spec spec = spec_of(&bp_optimizer_adamw_8bit);
    bp_parameter large = {.count = 4096}, small = {.count = 4095}, table = {.count = 1 << 20};
    table.embedding = true;
    assert_int_equal(bp_rule_codec(&spec, &large), BP_CODEC_BLOCK8);
    assert_int_equal(bp_rule_codec(&spec, &small), BP_CODEC_F32);
    assert_int_equal(bp_rule_codec(&spec, &table), BP_CODEC_F32);
    table.optim_bits = 8;
    large.optim_bits = 32;
    small.optim_bits = 4;
    assert_int_equal(bp_rule_codec(&spec, &table), BP_CODEC_BLOCK8);
    assert_int_equal(bp_rule_codec(&spec, &large), BP_CODEC_F32);
    assert_int_equal(bp_rule_codec(&spec, &small), BP_CODEC_BLOCK4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule_learns),
        cmocka_unit_test(test_released_shared_table),
        cmocka_unit_test(test_what_rules_refuse),
        cmocka_unit_test(test_bits_of_states),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
