/* SPDX-License-Identifier: MIT */
/* GPT-2 against what PyTorch computed in float64 (tools/golden/gpt2.py): every gradient within
 * 1e-5, the losses of the first 50 AdamW steps within 1e-4, the held-out loss after 500 within 0.5
 * %. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/transformer.h"
#include "optim/rate.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/golden.h"
#include "tests/fixtures/model_fixture.h"

typedef struct reference {
    golden file;
    bp_spec spec;
    int32_t *tokens;
    uint32_t token_count;
} reference;

static void reference_open(reference *ref, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/gpt2_%s.safetensors", name);
    golden_open(&ref->file, path);
    size_t bytes = 0;
    int32_t *shape = golden_tensor(&ref->file, "shape", &bytes);
    assert_int_equal(bytes, 9 * sizeof *shape);
    ref->spec = model_fixture_spec();
    ref->spec.config.vocabulary = (uint32_t)shape[0];
    ref->spec.config.positions = (uint32_t)shape[1];
    SET_FAMILY(&ref->spec.config, bp_transformer, width, (uint32_t)shape[2]);
    SET_FAMILY(&ref->spec.config, bp_transformer, layers, (uint32_t)shape[3]);
    SET_FAMILY(&ref->spec.config, bp_transformer, heads, (uint32_t)shape[4]);
    SET_FAMILY(&ref->spec.config, bp_transformer, inner, (uint32_t)shape[5]);
    ref->spec.batch = (uint32_t)shape[6];
    ref->spec.sequence = (uint32_t)shape[7];
    ref->spec.accumulation = (uint32_t)shape[8];
    free(shape);
    ref->tokens = golden_tensor(&ref->file, "tokens", &bytes);
    ref->token_count = (uint32_t)(bytes / sizeof *ref->tokens);
}

static void reference_close(reference *ref)
{
    free(ref->tokens);
    golden_close(&ref->file);
}

static void load_weights(const reference *ref, model_fixture *r)
{
    const bp_builder *builder = &r->plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        uint32_t buffer = builder->parameters[i].weight;
        size_t bytes = 0;
        float *weight = golden_tensor(&ref->file, bp_graph_name(&r->plan.graph, buffer), &bytes);
        assert_int_equal(bytes, r->plan.graph.buffers[buffer].bytes);
        model_fixture_write(r, buffer, weight);
        free(weight);
    }
}

static float *gradient_of(const reference *ref, const model_fixture *r, uint32_t index)
{
    char name[160];
    size_t bytes = 0;
    const bp_parameter *parameter = &r->plan.builder.parameters[index];
    snprintf(name, sizeof name, "grad.%s", bp_graph_name(&r->plan.graph, parameter->weight));
    float *gradient = golden_tensor(&ref->file, name, &bytes);
    assert_int_equal(bytes, parameter->count * sizeof *gradient);
    return gradient;
}

static double largest(const float *values, uint64_t count)
{
    double most = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)values[i]));
    }
    return most;
}

static double largest_of_model(const reference *ref, const model_fixture *r)
{
    double most = 0.0;
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        float *gradient = gradient_of(ref, r, i);
        most = fmax(most, largest(gradient, r->plan.builder.parameters[i].count));
        free(gradient);
    }
    return most;
}

/* The error of docs/explanation/numerics.md, as a part of what it allows at tolerance 1. */
static double gradient_error(const reference *ref, model_fixture *r, uint32_t index,
                             double model_most)
{
    const bp_parameter *parameter = &r->plan.builder.parameters[index];
    float *wanted = gradient_of(ref, r, index);
    float *found = model_fixture_read(r, parameter->gradient);
    double worst = 0.0;
    for (uint64_t i = 0; i < parameter->count; i++) {
        worst = fmax(worst, fabs((double)found[i] - (double)wanted[i]));
        assert_true(isfinite(found[i]));
    }
    double scale = fmax(largest(wanted, parameter->count), 1e-3 * model_most);
    free(wanted);
    free(found);
    return worst / scale;
}

static double scalar_of(const reference *ref, const char *name, uint32_t index)
{
    size_t bytes = 0;
    double *values = golden_tensor(&ref->file, name, &bytes);
    assert_true(index < bytes / sizeof *values);
    double value = values[index];
    free(values);
    return value;
}

static void check_gradients(const char *name, const char *variant, uint32_t loss_rows)
{
    reference ref;
    reference_open(&ref, name);
    ref.spec.device_options.variant = variant;
    ref.spec.device_options.threads = 2;
    ref.spec.loss_rows = loss_rows;
    model_fixture r;
    model_fixture_open(&r, &ref.spec, ref.tokens, ref.token_count);
    load_weights(&ref, &r);
    /* The update reads every gradient in its last op, so all of them still lie in the arena. */
    const bp_outcome outcome = model_fixture_step(&r);
    const double loss = scalar_of(&ref, "loss", 0);
    const double norm = scalar_of(&ref, "norm", 0);
    assert_true(fabs(outcome.loss - loss) <= 1e-6 * loss);
    assert_true(fabs(outcome.norm - norm) <= 1e-5 * norm);
    const double most = largest_of_model(&ref, &r);
    double worst = 0.0;
    for (uint32_t i = 0; i < r.plan.builder.parameter_count; i++) {
        double error = gradient_error(&ref, &r, i, most);
        if (error > 1e-5) {
            fail_msg("%s: gradient of %s off by %g", name,
                     bp_graph_name(&r.plan.graph, r.plan.builder.parameters[i].weight), error);
        }
        worst = fmax(worst, error);
    }
    print_message("%s: worst gradient %.1e of its scale\n", name, worst);
    model_fixture_close(&r);
    reference_close(&ref);
}

/* verifies layers-1.1061 */
static void test_gradients(void **state)
{
    (void)state;
    check_gradients("one_head", "portable", 0);
    check_gradients("two_layers", "portable", 0);
    check_gradients("odd", "portable", 0);
    check_gradients("one_token", "portable", 0);
    check_gradients("short", "portable", 0);
}

/* Chunks of the loss that do not divide the tokens, of one token, and exactly all. */
/* verifies layers-1.1061 */
static void test_gradients_in_chunks(void **state)
{
    (void)state;
    check_gradients("two_layers", "portable", 13);
    check_gradients("odd", "portable", 1);
    check_gradients("short", "portable", 20);
}

/* Whatever forms of the kernels this processor has. */
/* verifies layers-1.1061 */
static void test_gradients_fast(void **state)
{
    (void)state;
    check_gradients("one_head", NULL, 0);
    check_gradients("two_layers", NULL, 7);
    check_gradients("odd", NULL, 5);
    check_gradients("one_token", NULL, 0);
    check_gradients("short", NULL, 0);
}

/* verifies layers-1.1061 */
static void test_training(void **state)
{
    (void)state;
    reference ref;
    reference_open(&ref, "train");
    bp_spec *spec = &ref.spec;
    spec->optimizer_options.max_grad_norm = 1.0;
    spec->optimizer_options.beta2 = 0.98;
    spec->rate = bp_rate_cosine;
    spec->rate_options =
        (bp_rate_options){.learning_rate = 2e-3, .warmup_steps = 20, .total_steps = 500};
    spec->evaluate = true;
    spec->device_options.variant = NULL;
    model_fixture r;
    model_fixture_open(&r, spec, ref.tokens, ref.token_count);
    load_weights(&ref, &r);
    double worst_early = 0.0;
    double worst = 0.0;
    for (uint32_t step = 0; step < 500; step++) {
        const bp_outcome outcome = model_fixture_step(&r);
        const double wanted = scalar_of(&ref, "loss", step);
        const double error = fabs(outcome.loss - wanted) / wanted;
        worst = fmax(worst, error);
        if (step < 50) {
            worst_early = fmax(worst_early, error);
            assert_true(error <= 1e-4);
            assert_true(fabs(outcome.norm - scalar_of(&ref, "norm", step)) <= 1e-3 * outcome.norm);
        }
    }
    size_t bytes = 0;
    int32_t *held = golden_tensor(&ref.file, "held_out", &bytes);
    bp_feed feed;
    bp_source source;
    model_fixture_feed(&r, &feed, &source, held, (uint32_t)(bytes / sizeof *held));
    /* Evaluation groups are single micro-batches. */
    feed.group = spec->batch;
    assert_int_equal(bp_feed_init(&feed, &r.error), BP_OK);
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &feed, 0, &loss, &targets), BP_OK);
    const double wanted = scalar_of(&ref, "held_out_loss", 0);
    assert_int_equal(targets, bytes / sizeof *held - 1);
    print_message("loss: worst of 50 steps %.1e, of 500 %.1e; held out %.6f against %.6f\n",
                  worst_early, worst, loss, wanted);
    assert_true(fabs(loss - wanted) <= 5e-3 * wanted);
    free(held);
    model_fixture_close(&r);
    reference_close(&ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradients_in_chunks),
        cmocka_unit_test(test_gradients_fast),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
