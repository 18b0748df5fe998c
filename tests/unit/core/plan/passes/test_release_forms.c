/* SPDX-License-Identifier: MIT */
/* The approximate forms of gradient release: each against its own mathematics in double, their
 * bytes, and what they refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

#define TOKENS 211
#define MICROS 3

static int32_t tokens[TOKENS];

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    return 0;
}

static bp_spec spec_of(bp_release form, uint32_t micros)
{
    bp_spec spec = model_fixture_spec();
    spec.gradient_release = form;
    spec.accumulation = micros;
    return spec;
}

/* Digest of the state after some steps. */
static uint64_t digest_of(const bp_spec *spec, uint32_t steps)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    for (uint32_t step = 0; step < steps; step++) {
        assert_false(model_fixture_step(&r).nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* One micro-batch leaves nothing to fold: AdamA is Adam, in every form of state. */
/* verifies compile-17.9698 */
static void test_one_micro_batch_is_adam(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_adam, &bp_optimizer_adamw,
                                                &bp_optimizer_adamw_8bit,
                                                &bp_optimizer_adamw_8bit_companded};
    static const bp_parameter_rule bits = {
        .glob = "*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        bp_spec plain = spec_of(BP_RELEASE_NONE, 1), folded = spec_of(BP_RELEASE_ADAMA, 1);
        plain.optimizer = folded.optimizer = rules[i];
        plain.optimizer_options.weight_decay = folded.optimizer_options.weight_decay = 0.1;
        plain.rules = folded.rules = &bits;
        plain.rule_count = folded.rule_count = rules[i]->form != BP_CODEC_F32 ? 1 : 0;
        assert_true(digest_of(&plain, 8) == digest_of(&folded, 8));
        SET_FAMILY(&plain.config, bp_transformer, untied, true); /* two tables in slices */
        SET_FAMILY(&folded.config, bp_transformer, untied, true);
        plain.config.vocabulary = folded.config.vocabulary = 9001;
        assert_true(digest_of(&plain, 2) == digest_of(&folded, 2));
    }
}

/* A runtime whose first moment, after a step, is the gradient of one micro-batch. */
static void open_probe(model_fixture *r)
{
    bp_spec spec = spec_of(BP_RELEASE_NONE, 1);
    spec.optimizer_options.beta1 = 0.0;
    spec.optimizer_options.learning_rate = 0.0;
    spec.rate_options.learning_rate = 0.0;
    model_fixture_open(r, &spec, tokens, TOKENS);
}

typedef struct tensors {
    float *w, *m, *v;
} tensors;

static tensors read_tensors(model_fixture *r, uint32_t i)
{
    const bp_parameter *p = &r->plan.builder.parameters[i];
    return (tensors){model_fixture_read(r, p->weight), model_fixture_read(r, p->state[0]),
                     model_fixture_read(r, p->state[1])};
}

static void free_tensors(tensors t)
{
    free(t.w);
    free(t.m);
    free(t.v);
}

/* The formulas of arXiv 2305.19982 in double, for one element: `g` are MICROS gradients. */
static void check_element(const bp_spec *spec, double decay, uint32_t t, const double *g,
                          const double was[3], const double is[3])
{
    const bp_optimizer_options *o = &spec->optimizer_options;
    const bool coupled = spec->optimizer == &bp_optimizer_adam;
    double m = o->beta1 * was[1], v = o->beta2 * was[2], size = fabs(was[1]);
    for (int k = 0; k < MICROS; k++) {
        const double all = g[k] + (coupled && k + 1 == MICROS ? decay * was[0] : 0.0);
        m += (1.0 - o->beta1) * all;
        v += (1.0 - o->beta2) * all * all;
        size += fabs(all);
    }
    const double c1 = 1.0 - pow(o->beta1, t), c2 = 1.0 - pow(o->beta2, t);
    const double kept = coupled ? was[0] : was[0] * (1.0 - o->learning_rate * decay);
    const double w = kept - o->learning_rate / c1 * is[1] / (sqrt(is[2]) / sqrt(c2) + o->epsilon);
    assert_true(fabs(is[1] - m) <= 1e-6 * size + 1e-9); /* where the gradient itself cancels */
    assert_true(fabs(is[2] - v) <= 1e-5 * v + 1e-6 * (1.0 - o->beta2) * size * size + 1e-16);
    assert_true(fabs(is[0] - w) <= 1e-6 * fabs(w) + 1e-7);
}

/* One step of `r`, and the gradients of its micro-batches from the probe, which has r's weights. */
static void check_step(model_fixture *r, model_fixture *probe, uint32_t t)
{
    const uint32_t count = r->plan.builder.parameter_count;
    tensors *was = calloc(count, sizeof *was), *g = calloc((size_t)MICROS * count, sizeof *g);
    for (uint32_t i = 0; i < count; i++) {
        was[i] = read_tensors(r, i);
        model_fixture_write(probe, probe->plan.builder.parameters[i].weight, was[i].w);
    }
    for (uint32_t k = 0; k < MICROS; k++) {
        (void)model_fixture_step(probe);
        for (uint32_t i = 0; i < count; i++) {
            g[k * count + i] = read_tensors(probe, i);
        }
    }
    assert_false(model_fixture_step(r).nonfinite);
    for (uint32_t i = 0; i < count; i++) {
        const bp_parameter *p = &r->plan.builder.parameters[i];
        const tensors now = read_tensors(r, i);
        for (uint64_t e = 0; e < p->count; e++) {
            double each[MICROS];
            for (uint32_t k = 0; k < MICROS; k++) {
                each[k] = (double)g[k * count + i].m[e] / MICROS;
            }
            const double before[3] = {(double)was[i].w[e], (double)was[i].m[e],
                                      (double)was[i].v[e]};
            const double after[3] = {(double)now.w[e], (double)now.m[e], (double)now.v[e]};
            check_element(&r->plan.spec, p->weight_decay, t, each, before, after);
        }
        free_tensors(now);
    }
    for (uint32_t i = 0; i < count; i++) {
        free_tensors(was[i]);
        for (uint32_t k = 0; k < MICROS; k++) {
            free_tensors(g[k * count + i]);
        }
    }
    free(was);
    free(g);
}

/* verifies compile-17.9698 */
static void test_adama_in_double(void **state)
{
    (void)state;
    for (int coupled = 0; coupled < 2; coupled++) {
        bp_spec spec = spec_of(BP_RELEASE_ADAMA, MICROS);
        spec.optimizer = coupled != 0 ? &bp_optimizer_adam : &bp_optimizer_adamw;
        spec.optimizer_options.weight_decay = 0.1;
        spec.policy.kind = coupled != 0 ? BP_POLICY_FULL : BP_POLICY_NONE;
        model_fixture r, probe;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        open_probe(&probe);
        for (uint32_t t = 1; t <= 3; t++) {
            check_step(&r, &probe, t);
        }
        model_fixture_close(&probe);
        model_fixture_close(&r);
    }
}

/* Micro-batches go one after the other: one tape, one stage's gradients. */
/* verifies compile-17.9698 */
static void test_adama_in_bytes(void **state)
{
    (void)state;
    uint64_t one[2], gradients[2], tape[3];
    for (uint32_t i = 0; i < 3; i++) {
        bp_spec spec = spec_of(i < 2 ? BP_RELEASE_ADAMA : BP_RELEASE_EXACT, i == 0 ? 1 : MICROS);
        spec.policy.kind = BP_POLICY_FULL;
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        const bp_report *report = &r.plan.report;
        tape[i] = report->class_most[BP_CLASS_CHECKPOINT];
        if (i < 2) {
            gradients[i] = report->class_most[BP_CLASS_GRADIENTS];
            one[i] = report->class_most[BP_CLASS_OPTIMIZER];
        }
        model_fixture_close(&r);
    }
    assert_true(gradients[0] == gradients[1]);
    assert_true(one[0] == one[1]);
    assert_true(tape[0] == tape[1]);
    assert_true(tape[2] == MICROS * tape[0]);
}

/* 8-bit state is rounded once for each micro-batch and still learns. */
/* verifies compile-17.9698 */
static void test_adama_learns(void **state)
{
    (void)state;
    bp_spec spec = spec_of(BP_RELEASE_ADAMA, MICROS);
    static const bp_parameter_rule bits = {
        .glob = "*", .kind = BP_RULE_OVERRIDE, .sets_bits = true, .optim_bits = 8};
    spec.optimizer = &bp_optimizer_adamw_8bit;
    spec.rules = &bits;
    spec.rule_count = 1;
    model_fixture r;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    const double first = model_fixture_step(&r).loss;
    double last = first;
    for (uint32_t step = 0; step < 20; step++) {
        last = model_fixture_step(&r).loss;
    }
    assert_true(last < first - 0.1);
    model_fixture_close(&r);
}

static float control_norm(model_fixture *r)
{
    bp_control_block *control = model_fixture_read(r, model_fixture_find(r, "control"));
    const float norm = control->norm;
    free(control);
    return norm;
}

/* SGD's step is its rate times clip times gradient: the ordinary form with each step's rate scaled
 * by hand is the reference. */
static double factor;

static double scaled_rate(const bp_rate_options *options, uint64_t step)
{
    (void)step;
    return options->learning_rate * factor;
}

/* verifies compile-17.9698 */
static void test_previous_norm(void **state)
{
    (void)state;
    const double bound = 0.25;
    for (uint32_t micros = 1; micros <= MICROS; micros += 2) {
        for (int scaled = 0; scaled < 2; scaled++) {
            bp_spec plain = spec_of(BP_RELEASE_NONE, micros), delayed;
            plain.optimizer = &bp_optimizer_sgd;
            plain.optimizer_options.weight_decay = 0.0;
            plain.rate_options.learning_rate = plain.optimizer_options.learning_rate = 0.3;
            delayed = plain;
            plain.rate = scaled_rate;
            delayed.gradient_release = BP_RELEASE_PREVIOUS_NORM;
            delayed.optimizer_options.max_grad_norm = bound;
            delayed.scaling.kind = scaled != 0 ? BP_SCALING_STATIC : BP_SCALING_OFF;
            delayed.scaling.initial = 64.0;
            model_fixture a, b;
            model_fixture_open(&a, &plain, tokens, TOKENS);
            model_fixture_open(&b, &delayed, tokens, TOKENS);
            double norm = 0.0;
            bool clipped = false;
            for (uint32_t step = 0; step < 12; step++) {
                factor = fmin(1.0, bound / (norm + 1e-6));
                clipped = clipped || factor < 1.0;
                const bp_outcome x = model_fixture_step(&a), y = model_fixture_step(&b);
                assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
                assert_true(fabs(x.norm - y.norm) <= 1e-4 * x.norm);
                assert_true((double)control_norm(&b) == y.norm);
                norm = y.norm;
            }
            assert_true(clipped);
            model_fixture_close(&b);
            model_fixture_close(&a);
        }
    }
}

/* Nothing to clip: nothing approximate. */
/* verifies compile-17.9698 */
static void test_previous_norm_below_the_bound(void **state)
{
    (void)state;
    bp_spec plain = spec_of(BP_RELEASE_EXACT, MICROS), delayed;
    delayed = plain;
    delayed.gradient_release = BP_RELEASE_PREVIOUS_NORM;
    delayed.optimizer_options.max_grad_norm = 0.0;
    model_fixture a, b;
    model_fixture_open(&a, &plain, tokens, TOKENS);
    model_fixture_open(&b, &delayed, tokens, TOKENS);
    for (uint32_t step = 0; step < 5; step++) {
        const bp_outcome x = model_fixture_step(&a), y = model_fixture_step(&b);
        assert_true(x.loss == y.loss && x.norm == y.norm);
    }
    model_fixture_close(&b);
    model_fixture_close(&a);
}

/* What is not finite reaches no weight of its stage or below, and leaves the norm of before. */
/* verifies compile-17.9698 */
static void test_nonfinite(void **state)
{
    (void)state;
    for (int form = BP_RELEASE_PREVIOUS_NORM; form <= BP_RELEASE_ADAMA; form++) {
        bp_spec spec = spec_of((bp_release)form, MICROS);
        model_fixture r;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        (void)model_fixture_step(&r);
        const float norm = control_norm(&r);
        uint32_t weight = model_fixture_find(&r, "transformer.h.1.ln_1.weight");
        uint32_t below = model_fixture_find(&r, "transformer.h.0.ln_1.weight");
        float *values = model_fixture_read(&r, weight), *was = model_fixture_read(&r, below);
        values[3] = NAN;
        model_fixture_write(&r, weight, values);
        assert_true(model_fixture_step(&r).nonfinite);
        float *is = model_fixture_read(&r, below);
        assert_memory_equal(was, is, bp_transformer_of(&spec.config).width * sizeof *is);
        assert_true(control_norm(&r) == norm);
        free(is);
        free(was);
        free(values);
        model_fixture_close(&r);
    }
}

static void expect_refusal(const bp_spec *spec, const char *word)
{
    bp_error error = {0};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "gradient-release");
    assert_non_null(strstr(error.text, word));
}

/* verifies compile-17.9698 */
static void test_refusals(void **state)
{
    (void)state;
    bp_error error = {0};
    for (int form = BP_RELEASE_PREVIOUS_NORM; form <= BP_RELEASE_ADAMA; form++) {
        bp_spec spec = spec_of((bp_release)form, MICROS);
        assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
        assert_false(bp_spec_needs_norm(&spec));
        spec.optimizer_options.percentile = 90;
        expect_refusal(&spec, "percentile");
        spec = spec_of((bp_release)form, MICROS);
        spec.scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                    .initial = 65536.0,
                                    .growth = 2.0,
                                    .backoff = 0.5,
                                    .interval = 2000,
                                    .hysteresis = 1};
        expect_refusal(&spec, "dynamic");
        spec.scaling.kind = BP_SCALING_STATIC;
        assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
        spec.optimizer = NULL;
        spec.scaling.kind = BP_SCALING_DYNAMIC;
        assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    }
    bp_spec spec = spec_of(BP_RELEASE_ADAMA, MICROS);
    spec.optimizer_options.max_grad_norm = 1.0;
    expect_refusal(&spec, "--max-grad-norm 0");
    spec = spec_of(BP_RELEASE_ADAMA, MICROS);
    spec.optimizer = &bp_optimizer_sgd;
    expect_refusal(&spec, "--optim adamw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_micro_batch_is_adam),
        cmocka_unit_test(test_adama_in_double),
        cmocka_unit_test(test_adama_in_bytes),
        cmocka_unit_test(test_adama_learns),
        cmocka_unit_test(test_previous_norm),
        cmocka_unit_test(test_previous_norm_below_the_bound),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
