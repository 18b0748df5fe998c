/* SPDX-License-Identifier: MIT */
/* Llama, Qwen2 and BERT on the CUDA device: the host's losses for every task, in 32 and in 16 bits,
 * with adapters, in evaluation and generation; the same bits on every run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/host/host.h"
#include "layers/families/bert.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/share.h"

#define TOKENS  131
#define SAMPLES 13
#define STEPS   4

static instrument on;
static int32_t tokens[TOKENS];

static const struct kind {
    const char *name;
    bp_task task;
    bool bert;
} kinds[] = {
    {"a Llama", BP_TASK_CAUSAL_LM, false},
    {"a Llama with classes", BP_TASK_CLASSES, false},
    {"a BERT with a masked language model", BP_TASK_MASKED_LM, true},
    {"a BERT with classes", BP_TASK_CLASSES, true},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* Samples of 1 to 10 tokens, three classes. */
static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index * 10, .count = 1 + index * 7 % 10, .label = index % 3};
    return BP_OK;
}

/* Grouped keys, scaled rotary positions and biases as Qwen2 has them; token types. */
static bp_spec spec_of(const struct kind *kind)
{
    bp_spec spec = model_fixture_spec();
    bp_model_config *config = &spec.config;
    spec.model = kind->bert ? &bp_model_bert : &bp_model_llama;
    spec.optimizer_options.max_grad_norm = 1.0;
    SET_FAMILY(config, bp_transformer, inner, 20);
    SET_FAMILY(config, bp_transformer, heads, 4);
    if (kind->bert) {
        SET_FAMILY(config, bp_bert_config, types, 2);
    } else {
        SET_FAMILY(config, bp_llama_config, kv_heads, 2);
        SET_FAMILY(config, bp_llama_config, rope_theta, 100.0);
        SET_FAMILY(config, bp_llama_config, rope_scaling,
                   (bp_rope_scaling){.factor = 4.0, .low = 1.0, .high = 4.0, .original = 8});
        SET_FAMILY(config, bp_llama_config, qkv_bias, true);
    }
    config->task = kind->task;
    config->classes = kind->task < BP_TASK_CLASSES ? 0 : 3;
    return spec;
}

static bp_spec on_cuda(bp_spec spec)
{
    spec.device = &bp_device_cuda;
    spec.device_options = (bp_device_options){.threads = 1};
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

/* Half of them but at night: the second has what the first left. */
static uint32_t steps(void)
{
    return share_of(STEPS, STEPS / 2, STEPS / 2);
}

typedef struct course {
    double loss[STEPS];
    double norm[STEPS];
    uint64_t digest;
} course;

static course train(const bp_spec *spec)
{
    model_fixture r;
    course c = {.loss = {0}};
    open_model(&r, spec);
    for (uint32_t i = 0; i < steps(); i++) {
        bp_outcome outcome = model_fixture_step(&r);
        assert_false(outcome.nonfinite);
        c.loss[i] = outcome.loss;
        c.norm[i] = outcome.norm;
    }
    c.digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return c;
}

static void assert_near(double got, double right, double tolerance, const char *what)
{
    if (!(fabs(got - right) <= tolerance * fabs(right))) {
        fail_msg("%s: %.9g, on the host %.9g", what, got, right);
    }
}

/* Trains on both devices. */
static course check(const struct kind *kind, const bp_spec *spec, double tolerance)
{
    const course host = train(spec);
    const bp_spec cuda = on_cuda(*spec);
    const course graph = train(&cuda);
    for (uint32_t i = 0; i < steps(); i++) {
        assert_near(graph.loss[i], host.loss[i], tolerance, kind->name);
        assert_near(graph.norm[i], host.norm[i], 100.0 * tolerance, kind->name);
    }
    return graph;
}

/* Undefined bytes watched for, and another order of whatever may run in any order: no bit changes.
 */
static void check_again(const bp_spec *spec, const course *graph)
{
    bp_spec cuda = on_cuda(*spec);
    if (!on.real) {
        assert_int_equal(on.set("PTXVM_SEED", "3"), 0);
    }
    cuda.poison = true;
    cuda.device_options.variant = "plain";
    const course watched = train(&cuda);
    assert_true(on.real || on.set("PTXVM_SEED", "0") == 0);
    assert_memory_equal(watched.loss, graph->loss, sizeof graph->loss);
    assert_memory_equal(watched.norm, graph->norm, sizeof graph->norm);
    assert_true(watched.digest == graph->digest);
    assert_true(on.real || on.ledger(NULL, 0) == 0);
}

/* verifies device-11.4def */
static void training_is_the_hosts(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const bp_spec spec = spec_of(&kinds[k]);
        (void)check(&kinds[k], &spec, 1e-5);
    }
}

/* verifies device-11.4def */
static void dropout_and_micro_batches_agree(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = spec_of(&kinds[k]);
        SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, 0.1);
        SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
        SET_FAMILY(&spec.config, bp_transformer, attention_dropout, 0.15);
        if (spec.model == &bp_model_bert) {
            SET_FAMILY(&spec.config, bp_bert_config, classifier_dropout, 0.3);
        }
        spec.accumulation = 2;
        spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
        const course graph = check(&kinds[k], &spec, 1e-5);
        check_again(&spec, &graph);
    }
}

/* What the devices compute in another order is rounded to 8 bits at every activation. */
/* verifies device-11.4def */
static void training_in_bf16_is_the_hosts(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = spec_of(&kinds[k]);
        spec.working = BP_BF16;
        spec.master = BP_MASTER_SPLIT;
        spec.gradient = BP_BF16;
        (void)check(&kinds[k], &spec, 2e-3);
    }
}

/* verifies device-11.4def */
static void adapters_agree(void **state)
{
    (void)state;
    static const char *const all_linear[] = {"all-linear"};
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = spec_of(&kinds[k]);
        spec.lora = (bp_lora){.rank = 3, .alpha = 6.0, .dropout = 0.25, .magnitudes = k % 2 == 0};
        spec.lora.targets = all_linear;
        spec.lora.target_count = 1;
        if (k % 3 == 0) {
            (void)check(&kinds[k], &spec, 1e-5);
            continue;
        }
        spec.working = BP_BF16;
        spec.master = BP_MASTER_SPLIT;
        spec.gradient = BP_BF16;
        (void)check(&kinds[k], &spec, 2e-3);
    }
}

/* verifies device-11.4def */
static void evaluation_agrees(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        bp_spec spec = spec_of(&kinds[k]);
        double loss[2];
        spec.evaluate = true;
        for (uint32_t i = 0; i < 2; i++) {
            model_fixture r;
            uint64_t targets = 0;
            spec = i == 0 ? spec : on_cuda(spec);
            open_model(&r, &spec);
            assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 2, &loss[i], &targets),
                             BP_OK);
            model_fixture_close(&r);
        }
        assert_near(loss[1], loss[0], 1e-5, kinds[k].name);
    }
}

/* A cache of keys that are turned to their positions. */
/* verifies device-11.4def */
static void generation_agrees(void **state)
{
    (void)state;
    static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
    float logits[2][37];
    bp_spec spec = spec_of(&kinds[0]);
    spec.generate_context = 12;
    spec.prefill_rows = 5;
    for (uint32_t i = 0; i < 2; i++) {
        model_fixture r;
        spec = i == 0 ? spec : on_cuda(spec);
        open_model(&r, &spec);
        assert_int_equal(bp_runtime_restart(&r.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&r.runtime, prompt, 8), BP_OK);
        memcpy(logits[i], r.runtime.logits_host, sizeof logits[i]);
        model_fixture_close(&r);
    }
    for (uint32_t i = 0; i < 37; i++) {
        assert_true(fabs((double)logits[0][i] - (double)logits[1][i]) < 1e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_the_hosts),
        cmocka_unit_test(dropout_and_micro_batches_agree),
        cmocka_unit_test(training_in_bf16_is_the_hosts),
        cmocka_unit_test(adapters_agree),
        cmocka_unit_test(evaluation_agrees),
        cmocka_unit_test(generation_agrees),
    };
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + i / 5) % 37;
    }
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
