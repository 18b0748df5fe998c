/* SPDX-License-Identifier: MIT */
/* Freezing: what is left learns as it did without it, what is frozen stays and costs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
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

#define FREEZE(g)                                                                                  \
    {                                                                                              \
        .glob = (g), .kind = BP_RULE_FREEZE                                                        \
    }
#define TRAIN(g)                                                                                   \
    {                                                                                              \
        .glob = (g), .kind = BP_RULE_TRAIN                                                         \
    }

/* Rules and the lowest stage that they leave to train. */
static const struct frozen {
    bp_parameter_rule rules[4];
    uint32_t count;
    uint32_t first;
} cases[] = {
    {{FREEZE("transformer.wte*")}, 1, 0},
    {{FREEZE("transformer.w?e.weight")}, 1, 1},
    {{FREEZE("transformer.w[pt]e*"), FREEZE("transformer.h.0.*")}, 2, 2},
    {{FREEZE("transformer.w*"), FREEZE("*.h.0.*"), TRAIN("*.h.0.ln_1.bias")}, 3, 1},
    {{FREEZE("*"), TRAIN("transformer.h.1.mlp.c_proj.bias")}, 2, 2},
    {{FREEZE("*"), TRAIN("transformer.ln_f.*")}, 2, 3},
};
#define CASES (sizeof cases / sizeof cases[0])

static bp_spec frozen_spec(const struct frozen *c)
{
    bp_spec spec = model_fixture_spec();
    spec.rules = c->rules;
    spec.rule_count = c->count;
    return spec;
}

static bool same_buffer(model_fixture *a, model_fixture *b, uint32_t i, uint32_t j)
{
    void *x = model_fixture_read(a, i);
    void *y = model_fixture_read(b, j);
    bool same = memcmp(x, y, (size_t)a->plan.graph.buffers[i].bytes) == 0;
    free(x);
    free(y);
    return same;
}

/* After one step without clipping, equal optimizer state and weights mean equal gradients. */
/* verifies compile-9.cceb */
static void test_the_rest_learns_the_same(void **state)
{
    (void)state;
    const bp_spec whole_spec = model_fixture_spec();
    for (size_t k = 0; k < CASES; k++) {
        const bp_spec spec = frozen_spec(&cases[k]);
        model_fixture whole, part, start;
        model_fixture_open(&whole, &whole_spec, tokens, TOKENS);
        model_fixture_open(&part, &spec, tokens, TOKENS);
        model_fixture_open(&start, &spec, tokens, TOKENS);
        assert_int_equal(part.plan.compile.first, cases[k].first);
        bp_outcome one = model_fixture_step(&whole), other = model_fixture_step(&part);
        assert_true(one.loss == other.loss);
        for (uint32_t i = 0; i < part.plan.builder.parameter_count; i++) {
            const bp_parameter *p = &part.plan.builder.parameters[i];
            const bp_parameter *q = &whole.plan.builder.parameters[i];
            model_fixture *like = p->trainable ? &whole : &start;
            assert_true(
                same_buffer(&part, like, p->weight, like == &whole ? q->weight : p->weight));
            for (uint32_t s = 0; s < 2; s++) {
                assert_int_equal(p->state[s] != BP_NO_BUFFER, p->trainable);
                assert_true(!p->trainable || same_buffer(&part, &whole, p->state[s], q->state[s]));
            }
        }
        assert_true(part.plan.report.arena_bytes < whole.plan.report.arena_bytes);
        model_fixture_close(&start);
        model_fixture_close(&part);
        model_fixture_close(&whole);
    }
}

static uint64_t digest_after(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t i = 0; i < steps; i++) {
        assert_false(model_fixture_step(&r).nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* verifies compile-9.cceb */
static void test_policies_agree(void **state)
{
    (void)state;
    const uint32_t list[] = {1, 2};
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_EVERY, .every = 2},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_LIST, .list = list, .list_count = 2},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (size_t k = 0; k < CASES; k++) {
        bp_spec spec = frozen_spec(&cases[k]);
        SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
        spec.accumulation = 1 + 2 * (uint32_t)(k % 2);
        spec.poison = k % 3 == 0;
        const uint64_t expected = digest_after(&spec, 3);
        for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
            spec.policy = policies[p];
            assert_true(digest_after(&spec, 3) == expected);
        }
    }
}

static bp_status plan_status(const bp_spec *spec, bp_error *error)
{
    uint64_t bytes = plan_bytes(spec);
    static bp_plan plan;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, (size_t)bytes), 0);
    bp_status status = bp_plan_make(&plan, spec, memory, bytes);
    *error = plan.error;
    free(memory);
    return status;
}

/* verifies compile-9.cceb */
static void test_rules_that_make_no_sense(void **state)
{
    (void)state;
    const bp_parameter_rule nothing = FREEZE("transformer.x*");
    const bp_parameter_rule all = FREEZE("*");
    bp_spec spec = model_fixture_spec();
    bp_error error;
    spec.rule_count = 1;
    spec.rules = &nothing;
    assert_int_equal(plan_status(&spec, &error), BP_ERR_USAGE);
    assert_non_null(strstr(error.name, "transformer.x*"));
    assert_non_null(strstr(error.text, "no parameter"));
    bp_parameter_rule may_miss = nothing;
    may_miss.may_match_none = true;
    spec.rules = &may_miss;
    assert_int_equal(plan_status(&spec, &error), BP_OK);
    spec.rules = &all;
    assert_int_equal(plan_status(&spec, &error), BP_ERR_USAGE);
    assert_non_null(strstr(error.text, "every parameter is frozen"));
}

/* verifies optim-9.7184 */
static void test_overrides(void **state)
{
    (void)state;
    const bp_parameter_rule rules[] = {
        {.glob = "*", .kind = BP_RULE_OVERRIDE, .sets_rate = true, .learning_rate = 5e-3},
        {.glob = "*.ln_?.*", .kind = BP_RULE_OVERRIDE, .sets_decay = true, .weight_decay = 0.5},
        {.glob = "*.wte.*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8}};
    bp_spec spec = model_fixture_spec();
    model_fixture r;
    spec.rules = rules;
    spec.rule_count = 2;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const bp_parameter *p = r.plan.builder.parameters;
    assert_true(p[0].rate_scale == 0.5 && p[0].weight_decay == 0.1);
    assert_true(p[2].weight_decay == 0.5 && p[3].weight_decay == 0.5);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rest_learns_the_same),
        cmocka_unit_test(test_policies_agree),
        cmocka_unit_test(test_rules_that_make_no_sense),
        cmocka_unit_test(test_overrides),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
