/* SPDX-License-Identifier: MIT */
/* Magnitudes of adapters: they begin as the lengths of the base's rows, so that the model is its
 * base; gradients are differences of the loss while the lengths are held; results depend neither on
 * the policy nor on the ranks. PEFT's values are in tests/golden. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/model_fixture.h"

#define TOKENS 131
#define FEW    21 /* one group of two windows */

static int32_t tokens[TOKENS];
static const char *const all_linear[] = {"all-linear"};
static const char *const some[] = {"c_attn", "mlp.c_fc"};

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec magnitude_spec(const char *const *targets, uint32_t count)
{
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){
        .rank = 3, .alpha = 6.0, .magnitudes = true, .targets = targets, .target_count = count};
    spec.evaluate = true;
    return spec;
}

static double evaluated(model_fixture *r)
{
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bp_runtime_evaluate(&r->runtime, &r->feed, 0, &loss, &targets), BP_OK);
    return loss;
}

/* n of one output of a plain weight (in, out), from floats. */
static double norm_of(model_fixture *r, uint32_t weight, uint64_t output)
{
    const bp_builder *builder = &r->plan.builder;
    const bp_parameter *p = &builder->parameters[weight], *pa = &builder->parameters[p->adapter];
    const uint64_t in = p->shape[0], out = p->shape[1], rank = pa->shape[0];
    float *w = calloc(p->count, sizeof *w), *a = calloc(pa->count, sizeof *a);
    float *b = calloc(pa[1].count, sizeof *b);
    double sum = 0.0;
    assert_int_equal(bp_runtime_get_weight(&r->runtime, p->adapter, 0, a, pa->count), BP_OK);
    assert_int_equal(bp_runtime_get_weight(&r->runtime, p->adapter + 1, 0, b, pa[1].count), BP_OK);
    if (p->quantised != BP_QUANTISED_NONE) { /* as (out, in) */
        assert_int_equal(bp_runtime_dequantise(&r->runtime, weight, output * in, w, in), BP_OK);
    } else {
        assert_int_equal(bp_runtime_get_weight(&r->runtime, weight, 0, w, p->count), BP_OK);
    }
    for (uint64_t i = 0; i < in; i++) {
        double v = (double)w[p->quantised != BP_QUANTISED_NONE ? i : i * out + output];
        for (uint64_t k = 0; k < rank; k++) {
            v += 6.0 / 3.0 * (double)b[output * rank + k] * (double)a[k * in + i];
        }
        sum += v * v;
    }
    free(w);
    free(a);
    free(b);
    return sqrt(sum);
}

/* Every magnitude that a run begins with is a length; *loss becomes what the model says. */
static void check_beginning(const bp_spec *spec, double bound, double *loss)
{
    model_fixture r;
    uint32_t magnitudes = 0;
    model_fixture_open(&r, spec, tokens, TOKENS);
    const bp_builder *builder = &r.plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const uint32_t m = builder->parameters[i].adapter + 2;
        for (uint64_t o = 0;
             builder->parameters[i].adapter != BP_NO_PARAMETER && o < builder->parameters[m].count;
             o++) {
            const double norm = norm_of(&r, i, o);
            float value;
            assert_int_equal(bp_runtime_get_weight(&r.runtime, m, o, &value, 1), BP_OK);
            assert_true(norm > 0.0 && fabs((double)value - norm) <= bound * norm);
            magnitudes++;
        }
    }
    assert_true(magnitudes > 0);
    *loss = evaluated(&r);
    model_fixture_close(&r);
}

/* verifies layers-12.6104 */
static void test_it_begins_as_the_base(void **state)
{
    (void)state;
    double loss = 0.0;
    bp_spec spec = magnitude_spec(all_linear, 1);
    model_fixture base;
    bp_spec plain = model_fixture_spec();
    plain.evaluate = true;
    check_beginning(&spec, 1e-6, &loss);
    model_fixture_open(&base, &plain, tokens, TOKENS);
    assert_true(fabs(loss - evaluated(&base)) <= 1e-6 * loss);
    model_fixture_close(&base);
    static const bp_quantised forms[] = {BP_QUANTISED_NF4, BP_QUANTISED_NF4_DOUBLE,
                                         BP_QUANTISED_INT8};
    for (size_t i = 0; i < 3; i++) {
        spec.quantised = forms[i];
        check_beginning(&spec, 1e-6, &loss);
    }
    spec.quantised = BP_QUANTISED_NONE;
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    for (bp_master form = BP_MASTER_FP32; form <= BP_MASTER_SPLIT8; form++) {
        spec.master = form;
        check_beginning(&spec, form == BP_MASTER_SPLIT8 ? 1e-4 : 1e-6, &loss);
    }
}

/* A copy of a run's weights in a new one. */
static void open_copy(model_fixture *copy, model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(copy, spec, tokens, FEW);
    for (uint32_t k = 0; k < r->plan.builder.parameter_count; k++) {
        const uint32_t buffer = r->plan.builder.parameters[k].weight;
        void *bytes = model_fixture_read(r, buffer);
        model_fixture_write(copy, buffer, bytes);
        free(bytes);
    }
}

/* The loss of the first step, dropout's masks those of any other, with element `at` of a parameter
 * moved by h, and magnitudes such that m / n stays: n is a constant of backward. */
static double moved_loss(model_fixture *r, const bp_spec *spec, uint32_t index, uint64_t at,
                         float h)
{
    model_fixture copy;
    const bp_parameter *p = &r->plan.builder.parameters[index];
    const uint32_t base = p->base != BP_NO_PARAMETER ? p->base : index;
    const uint32_t adapter = r->plan.builder.parameters[base].adapter;
    const bool turns = adapter != BP_NO_PARAMETER && index != adapter + 2;
    open_copy(&copy, r, spec);
    float value = 0.0f;
    assert_int_equal(bp_runtime_get_weight(&copy.runtime, index, at, &value, 1), BP_OK);
    value += h;
    assert_int_equal(bp_runtime_put_weight(&copy.runtime, index, at, &value, 1), BP_OK);
    for (uint64_t o = 0; turns && o < r->plan.builder.parameters[adapter + 2].count; o++) {
        float m;
        assert_int_equal(bp_runtime_get_weight(&copy.runtime, adapter + 2, o, &m, 1), BP_OK);
        m = (float)((double)m * norm_of(&copy, base, o) / norm_of(r, base, o));
        assert_int_equal(bp_runtime_put_weight(&copy.runtime, adapter + 2, o, &m, 1), BP_OK);
    }
    const double loss = model_fixture_step(&copy).loss;
    model_fixture_close(&copy);
    return loss;
}

/* Gradients of everything that is trained, a weight below adapters and a table before them too. */
static void check_gradients(double dropout)
{
    static const bp_parameter_rule rules[] = {
        {.glob = "*h.0.attn.c_attn.weight", .kind = BP_RULE_TRAIN},
        {.glob = "*h.1.mlp.c_fc.bias", .kind = BP_RULE_TRAIN},
        {.glob = "*wpe.weight", .kind = BP_RULE_TRAIN}};
    bp_spec spec = magnitude_spec(some, 2);
    spec.lora.dropout = dropout;
    spec.rules = rules;
    spec.rule_count = 3;
    spec.optimizer_options.weight_decay = 0.0;
    spec.optimizer_options.beta1 = 0.0; /* the first moment is the gradient */
    spec.optimizer_options.learning_rate = 1e-2;
    spec.accumulation = 1;
    uint32_t checked = 0;
    model_fixture r, copy;
    model_fixture_open(&r, &spec, tokens, FEW);
    for (int i = 0; i < 5; i++) {
        (void)model_fixture_step(&r);
    }
    open_copy(&copy, &r, &spec);
    (void)model_fixture_step(&copy);
    const bp_builder *builder = &r.plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        if (!p->trainable) {
            continue;
        }
        const uint64_t at = p->count / 3;
        const double h = 1e-2;
        const double above = moved_loss(&r, &spec, i, at, (float)h);
        const double below = moved_loss(&r, &spec, i, at, (float)-h);
        const double numeric = (above - below) / (2.0 * h);
        float *m = model_fixture_read(&copy, copy.plan.builder.parameters[i].state[0]);
        if (fabs(numeric - (double)m[at]) > 1e-2 * fabs(numeric) + 2e-5) {
            fail_msg("%s: %g for %g", bp_build_name(builder, i), (double)m[at], numeric);
        }
        free(m);
        checked++;
    }
    assert_int_equal(checked, 4 * 3 + 3);
    model_fixture_close(&r);
    model_fixture_close(&copy);
}

/* verifies layers-12.6104 */
static void test_gradients(void **state)
{
    (void)state;
    check_gradients(0.0);
    check_gradients(0.25);
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

/* verifies run-1.e4fa */
static void test_policies_and_release_agree(void **state)
{
    (void)state;
    const bp_policy policies[] = {{.kind = BP_POLICY_FULL},
                                  {.kind = BP_POLICY_MEMORY_POOR},
                                  {.kind = BP_POLICY_SQRT},
                                  {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL}};
    for (int set = 0; set < 2; set++) {
        bp_spec spec = set == 0 ? magnitude_spec(all_linear, 1) : magnitude_spec(some, 2);
        spec.lora.dropout = set == 0 ? 0.25 : 0.0;
        spec.accumulation = 1 + 2 * (uint32_t)set;
        spec.optimizer_options.max_grad_norm = 0.5;
        const uint64_t expected = digest_after(&spec, 4);
        for (size_t p = 0; p < 4; p++) {
            spec.policy = policies[p];
            spec.poison = p == 2;
            assert_true(digest_after(&spec, 4) == expected);
        }
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(digest_after(&spec, 4) == expected);
    }
}

/* Frozen parameters have no gradient, and the others the same: only the magnitudes learn here. */
/* verifies compile-9.cceb */
static void test_magnitudes_alone(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen = {.glob = "*.lora_[AB].*", .kind = BP_RULE_FREEZE};
    bp_spec spec = magnitude_spec(all_linear, 1);
    spec.rules = &frozen;
    spec.rule_count = 1;
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const double before = evaluated(&r);
    for (uint32_t i = 0; i < r.plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r.plan.builder.parameters[i];
        assert_true(p->trainable == (p->init == BP_INIT_NORMS));
    }
    for (int i = 0; i < 30; i++) {
        (void)model_fixture_step(&r);
    }
    assert_true(evaluated(&r) < before - 0.01);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_begins_as_the_base), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_policies_and_release_agree), cmocka_unit_test(test_magnitudes_alone)};
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
