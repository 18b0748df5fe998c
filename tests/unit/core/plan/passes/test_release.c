/* SPDX-License-Identifier: MIT */
/* Gradient release: the state after training is that of the ordinary form, in fewer bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/transformer.h"
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

/* Largest difference of two buffers of floats, relative to the largest value. */
static double distance(model_fixture *a, model_fixture *b, uint32_t i, uint32_t j)
{
    float *x = model_fixture_read(a, i);
    float *y = model_fixture_read(b, j);
    double most = 0.0, scale = 0.0;
    for (uint64_t k = 0; k < a->plan.graph.buffers[i].bytes / 4; k++) {
        most = fmax(most, fabs((double)x[k] - (double)y[k]));
        scale = fmax(scale, fabs((double)x[k]));
    }
    free(x);
    free(y);
    return scale > 0.0 ? most / scale : most;
}

/* Trains both forms and returns the largest distance of a weight; *exact tells whether losses and
 * norms are equal to the bit too. */
static double compare(const bp_spec *plain, const bp_spec *released, bool *exact)
{
    model_fixture a, b;
    double worst = 0.0;
    model_fixture_open(&a, plain, tokens, TOKENS);
    model_fixture_open(&b, released, tokens, TOKENS);
    *exact = true;
    for (uint32_t step = 0; step < STEPS; step++) {
        bp_outcome x = model_fixture_step(&a), y = model_fixture_step(&b);
        assert_true(fabs(x.loss - y.loss) <= 1e-6 * x.loss);
        assert_true(fabs(x.norm - y.norm) <= 1e-6 * x.norm);
        assert_false(y.nonfinite);
        *exact = *exact && x.loss == y.loss && x.norm == y.norm;
    }
    for (uint32_t i = 0; i < a.plan.builder.parameter_count; i++) {
        uint32_t weight = a.plan.builder.parameters[i].weight;
        double d = distance(&a, &b, weight, b.plan.builder.parameters[i].weight);
        worst = fmax(worst, d);
    }
    *exact = *exact && worst == 0.0;
    assert_true(b.plan.report.class_most[BP_CLASS_GRADIENTS] <
                a.plan.report.class_most[BP_CLASS_GRADIENTS]);
    model_fixture_close(&b);
    model_fixture_close(&a);
    return worst;
}

/* One micro-batch: everything is added in the same order, so all bits are equal. */
/* verifies compile-8.b061 */
static void test_one_micro_batch_is_exact(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_NONE},
                                  {.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (size_t p = 0; p < 5; p++) {
        for (int clip = 0; clip < 2; clip++) {
            bp_spec plain = model_fixture_spec(), released;
            plain.optimizer_options.max_grad_norm = clip != 0 ? 0.5 : 0.0;
            SET_FAMILY(&plain.config, bp_transformer, residual_dropout, 0.1);
            plain.policy = policies[p];
            plain.poison = p == 1;
            released = plain;
            released.gradient_release = BP_RELEASE_EXACT;
            bool exact = false;
            compare(&plain, &released, &exact);
            assert_true(clip == 0 || exact); /* without clipping the norm is added up by stages */
            bool same = false;
            assert_true(compare(&plain, &released, &same) == 0.0);
        }
    }
}

/* verifies compile-8.b061 */
static void test_accumulation_and_clipping(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        for (size_t p = 0; p < 2; p++) {
            bp_spec plain = model_fixture_spec(), released;
            plain.accumulation = 3;
            SET_FAMILY(&plain.config, bp_transformer, attention_dropout, 0.1);
            plain.optimizer_options.max_grad_norm = clip != 0 ? 0.5 : 0.0;
            released = plain;
            released.gradient_release = BP_RELEASE_EXACT;
            released.policy.kind = p == 0 ? BP_POLICY_FULL : BP_POLICY_SQRT;
            bool exact = false;
            assert_true(compare(&plain, &released, &exact) == 0.0);
            assert_true(clip == 0 || exact);
        }
    }
}

/* With the shared table frozen nothing is added in another order. */
/* verifies compile-8.b061 */
static void test_accumulation_is_exact_without_sharing(void **state)
{
    (void)state;
    const bp_parameter_rule rule = {.glob = "transformer.wte*", .kind = BP_RULE_FREEZE};
    bp_spec plain = model_fixture_spec(), released;
    plain.rules = &rule;
    plain.rule_count = 1;
    plain.accumulation = 3;
    plain.optimizer_options.max_grad_norm = 0.5;
    released = plain;
    released.gradient_release = BP_RELEASE_EXACT;
    bool exact = false;
    assert_true(compare(&plain, &released, &exact) == 0.0 && exact);
}

/* A head with a table of its own: each of the two tables is formed in slices behind its stage, and
 * neither ever has a whole gradient; equal bits where everything is added in one order. */
/* verifies compile-8.b061 */
static void test_tables_of_their_own_are_sliced(void **state)
{
    (void)state;
    static const bp_parameter_rule rules[] = {{.glob = "lm_head.weight", .kind = BP_RULE_FREEZE},
                                              {.glob = "*.wte.*", .kind = BP_RULE_FREEZE},
                                              {.glob = "transformer.*", .kind = BP_RULE_FREEZE}};
    for (uint32_t i = 0; i < 8; i++) {
        bp_spec plain = model_fixture_spec(), released;
        SET_FAMILY(&plain.config, bp_transformer, untied, true);
        plain.config.vocabulary = 9001;
        plain.device_options.variant = NULL;
        plain.accumulation = 1 + i % 2 * 2;
        plain.optimizer_options.max_grad_norm = i < 4 ? 0.5 : 0.0;
        plain.rules = i > 4 ? &rules[i - 5] : NULL;
        plain.rule_count = i > 4 ? 1 : 0;
        plain.poison = i % 4 == 1;
        released = plain;
        released.gradient_release = BP_RELEASE_EXACT;
        released.policy.kind = i % 4 < 2 ? BP_POLICY_FULL : BP_POLICY_NONE;
        bool exact = false;
        assert_true(compare(&plain, &released, &exact) == 0.0);
        assert_true(i >= 4 || exact); /* without clipping the norm is added up by stages */
        model_fixture r;
        model_fixture_open(&r, &released, tokens, TOKENS);
        assert_true(r.plan.report.class_most[BP_CLASS_GRADIENTS] < 9001 * 16 * 2);
        model_fixture_close(&r);
    }
}

/* A loss that is not finite changes no weight, in one pass or two. */
/* verifies run-5.fe52 */
static void test_nonfinite_loss(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        bp_spec spec = model_fixture_spec();
        spec.gradient_release = BP_RELEASE_EXACT;
        spec.optimizer_options.max_grad_norm = clip != 0 ? 1.0 : 0.0;
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        uint32_t weight = model_fixture_find(&r, "transformer.h.1.ln_1.weight");
        float *values = model_fixture_read(&r, weight);
        values[3] = NAN;
        model_fixture_write(&r, weight, values);
        uint64_t before = model_fixture_digest(&r);
        assert_true(model_fixture_step(&r).nonfinite);
        (void)before;
        float *after =
            model_fixture_read(&r, model_fixture_find(&r, "transformer.h.0.ln_1.weight"));
        for (uint32_t i = 0; i < bp_transformer_of(&spec.config).width; i++) {
            assert_true(after[i] == 1.0f);
        }
        free(after);
        free(values);
        model_fixture_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_micro_batch_is_exact),
        cmocka_unit_test(test_accumulation_and_clipping),
        cmocka_unit_test(test_accumulation_is_exact_without_sharing),
        cmocka_unit_test(test_tables_of_their_own_are_sliced),
        cmocka_unit_test(test_nonfinite_loss),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
