/* SPDX-License-Identifier: MIT */
/* Adapters of convolutions whose dropout takes elements: gradients against differences of the loss
 * with the same masks, adapters frozen in part, masks that belong to images, and what has no
 * adapter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/adapter.h"
#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { HEIGHT = 6, WIDTH = 6, CHANNELS = 2, NUMBERS = HEIGHT * WIDTH * CHANNELS, IMAGES = 6 };

static const char *const convolutions[] = {"convolution"};
static const char *const patches[] = {"projection", "query"};

static int32_t tokens[IMAGES * NUMBERS];

static void draw_images(void)
{
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        const float value = 0.25f * (float)((int)(i * 37 % 17) - 8);
        memcpy(&tokens[i], &value, sizeof value);
    }
}

static bp_status read_images(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index * NUMBERS, .count = NUMBERS, .label = (uint32_t)index % 3};
    return BP_OK;
}

static bp_spec images_spec(const bp_model *model, const void *own, size_t bytes)
{
    bp_spec spec = model_fixture_spec();
    spec.model = model;
    spec.config = (bp_model_config){.positions = NUMBERS, .task = BP_TASK_CLASSES, .classes = 3};
    bp_family_config_set(&spec.config, own, bytes);
    spec.sequence = NUMBERS;
    spec.batch = IMAGES;
    spec.lora = (bp_lora){
        .rank = 2, .alpha = 6.0, .dropout = 0.4, .targets = convolutions, .target_count = 1};
    return spec;
}

/* A window of 3 x 3 with a stride, one that sees its image as it is, one with a norm. */
static bp_spec cnn_spec(void)
{
    static const bp_cnn_config own = {
        .height = HEIGHT,
        .width = WIDTH,
        .channels = CHANNELS,
        .layers = 3,
        .epsilon = 1e-3,
        .momentum = 0.1,
        .layer = {
            {.kind = BP_CNN_CONV,
             .kernel = {3, 3},
             .stride = {2, 2},
             .padding = 1,
             .plain = 1,
             .linear = 1,
             .channels = 5},
            {.kind = BP_CNN_CONV, .kernel = {1, 1}, .stride = {1, 1}, .linear = 1, .channels = 4},
            {.kind = BP_CNN_CONV, .kernel = {2, 3}, .stride = {1, 1}, .linear = 1, .channels = 3}}};
    return images_spec(&bp_model_cnn, &own, sizeof own);
}

static bp_spec vit_spec(void)
{
    static const bp_vit_config own = {.stack = {.width = 8,
                                                .layers = 1,
                                                .heads = 2,
                                                .inner = 12,
                                                .norm_epsilon = 1e-12,
                                                .initializer_range = 0.2,
                                                .activation = BP_HIDDEN_GELU},
                                      .image = HEIGHT,
                                      .channels = CHANNELS,
                                      .patch = 2};
    bp_spec spec = images_spec(&bp_model_vit, &own, sizeof own);
    spec.lora.targets = patches;
    spec.lora.target_count = 2;
    return spec;
}

static void open_model_fixture(model_fixture *r, const bp_spec *spec)
{
    draw_images();
    model_fixture_open(r, spec, tokens, 1000000);
    r->source.read = read_images;
    r->source.count = IMAGES * NUMBERS;
    r->source.examples = IMAGES;
    r->source.example = example;
    r->feed.classes = 3;
    r->feed.kind = BP_LABELS_CLASS;
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
    /* B begins as zeros, beside which nothing moves. */
    const bp_builder *builder = &r->plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        if (p->base == BP_NO_PARAMETER) {
            continue;
        }
        float *values = model_fixture_read(r, p->weight);
        for (uint64_t k = 0; k < p->count; k++) {
            values[k] = 0.2f * (float)((int)((k * 29 + i) % 11) - 5);
        }
        model_fixture_write(r, p->weight, values);
        free(values);
    }
}

static void gradients_of(bp_spec spec, uint32_t trained)
{
    model_fixture r;
    uint32_t adapters = 0;
    spec.optimizer_options.learning_rate = 0.0;
    spec.optimizer_options.weight_decay = 0.0;
    open_model_fixture(&r, &spec);
    for (uint32_t i = 0; i < r.plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r.plan.builder.parameters[i];
        double difference, norm;
        if (p->base == BP_NO_PARAMETER || !p->trainable) {
            continue;
        }
        model_fixture_differ(&r, p, 4e-3, &difference, &norm);
        assert_true(norm > 1e-4);
        if (fabs(difference - norm) > 3e-3 * norm) {
            fail_msg("%s: %g for %g", bp_build_name(&r.plan.builder, i), difference, norm);
        }
        adapters++;
    }
    assert_int_equal(adapters, trained);
    model_fixture_close(&r);
}

/* verifies layers-33.4818 */
static void test_gradients_beside_dropout(void **state)
{
    (void)state;
    gradients_of(cnn_spec(), 6);
    gradients_of(vit_spec(), 4);
}

/* One tensor of a convolution's adapter is frozen, or both: the others' gradients are right. */
/* verifies layers-33.4818 */
static void test_frozen_adapters(void **state)
{
    (void)state;
    static const struct {
        const char *cnn, *vit;
        uint32_t frozen;
    } rows[] = {{"*layers.1.*.lora_A.*", "*projection.lora_A.*", 1},
                {"*layers.1.*.lora_B.*", "*projection.lora_B.*", 1},
                {"*layers.1.*.lora_[AB].*", "*projection.lora_[AB].*", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_parameter_rule rule = {.glob = rows[i].cnn, .kind = BP_RULE_FREEZE};
        bp_spec spec = cnn_spec();
        spec.rules = &rule;
        spec.rule_count = 1;
        gradients_of(spec, 6 - rows[i].frozen);
        rule.glob = rows[i].vit;
        spec = vit_spec();
        spec.rules = &rule;
        spec.rule_count = 1;
        spec.lora.bias = BP_LORA_BIAS_ALL; /* so that patches have a backward pass anyway */
        gradients_of(spec, 4 - rows[i].frozen);
    }
}

static double loss_after(bp_spec spec, uint32_t batch, uint32_t accumulation, bp_policy_kind kind,
                         uint64_t *digest)
{
    model_fixture r;
    double loss = 0.0;
    spec.batch = batch;
    spec.accumulation = accumulation;
    spec.policy.kind = kind;
    open_model_fixture(&r, &spec);
    for (int step = 0; step < 4; step++) {
        loss = model_fixture_step(&r).loss;
    }
    *digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return loss;
}

/* What dropout takes of an image does not depend on the others beside it, nor on what is computed
 * again. */
/* verifies layers-33.4818 */
static void test_masks_of_images(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        const bp_spec spec = which == 0 ? cnn_spec() : vit_spec();
        uint64_t digest, other;
        const double loss = loss_after(spec, IMAGES, 1, BP_POLICY_NONE, &digest);
        for (uint32_t batch = 1; batch < IMAGES; batch++) {
            if (IMAGES % batch == 0) {
                const double found =
                    loss_after(spec, batch, IMAGES / batch, BP_POLICY_NONE, &other);
                assert_true(fabs(found - loss) <= 1e-5 * loss);
            }
        }
        (void)loss_after(spec, IMAGES, 1, BP_POLICY_FULL, &other);
        assert_true(other == digest);
    }
}

static void refused(const bp_spec *spec, const char *name, const char *text)
{
    const bp_spec plain = model_fixture_spec();
    const uint64_t bytes = 2 * plan_bytes(&plain) + (8u << 20);
    static bp_plan plan;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&plan, spec, memory, bytes), BP_ERR_USAGE);
    assert_non_null(strstr(plan.error.name, name));
    assert_non_null(strstr(plan.error.text, text));
    free(memory);
}

/* No "all-linear" means a convolution; one of each channel by itself has no adapter, and none has
 * magnitudes. */
/* verifies layers-33.4818 */
static void test_what_has_none(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = cnn_spec();
    spec.lora.targets = all;
    refused(&spec, "all-linear", "no convolution");
    spec = cnn_spec();
    spec.lora.magnitudes = true;
    refused(&spec, "layers.0.convolution.weight", "magnitudes");
    bp_cnn_config own = bp_cnn_config_of(&spec.config);
    spec.lora.magnitudes = false;
    own.layer[1] = (bp_cnn_layer){.kind = BP_CNN_DEPTHWISE, .kernel = {3, 3}, .padding = 1};
    bp_family_config_set(&spec.config, &own, sizeof own);
    refused(&spec, "layers.1.convolution.weight", "each channel");
    spec.lora.usual = true; /* nobody named it */
    model_fixture r;
    open_model_fixture(&r, &spec);
    const bp_builder *builder = &r.plan.builder;
    uint32_t adapted = 0, passed_over = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        const bool adapts = p->adapter != BP_NO_PARAMETER;
        assert_true(!(adapts && p->depthwise));
        adapted += adapts ? 1 : 0;
        passed_over += p->depthwise ? 1 : 0;
    }
    assert_int_equal(adapted, 2);
    assert_int_equal(passed_over, 1);
    model_fixture_close(&r);
}

/* Beside adapters running statistics are taken and stay, so several ranks may train. */
/* verifies layers-33.4818 */
static void test_statistics_stay(void **state)
{
    (void)state;
    bp_spec spec = cnn_spec();
    spec.lora.bias =
        BP_LORA_BIAS_ALL; /* norms' biases are trained, and so is nothing else of them */
    model_fixture r;
    open_model_fixture(&r, &spec);
    const bp_builder *builder = &r.plan.builder;
    uint32_t statistics = 0;
    for (int step = 0; step < 3; step++) {
        (void)model_fixture_step(&r);
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *p = &builder->parameters[i];
        assert_true(bp_adapter_convolution(builder, i) ==
                    (p->rank == 4 && p->base == BP_NO_PARAMETER));
        if (!p->statistic) {
            continue;
        }
        float *values = model_fixture_read(&r, p->weight);
        const float right = strstr(bp_build_name(builder, i), "running_var") != NULL ? 1.0f : 0.0f;
        for (uint64_t k = 0; k < p->count; k++) {
            assert_true(values[k] == right);
        }
        free(values);
        statistics++;
    }
    assert_true(statistics >= 4);
    assert_false(builder->moves);
    model_fixture_close(&r);
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    spec.batch = 2;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    spec.lora = (bp_lora){.rank = 0};
    assert_int_equal(bp_spec_check(&spec, NULL), BP_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_beside_dropout), cmocka_unit_test(test_frozen_adapters),
        cmocka_unit_test(test_masks_of_images), cmocka_unit_test(test_what_has_none),
        cmocka_unit_test(test_statistics_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
