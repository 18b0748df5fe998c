/* SPDX-License-Identifier: MIT */
/* What descriptions of families say of single layers, rows and tasks, that no published model has:
 * widths of a MobileNetV2 that shrink or do not, ReLU without a limit, tasks that a ViT has not,
 * rows of a padding token that are trained, packed rows for other tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ops/activation.h"
#include "core/run/runtime.h"
#include "layers/families/bert.h"
#include "layers/families/cnn.h"
#include "layers/families/mobilenet.h"
#include "layers/families/transformer.h"
#include "layers/families/vit.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static bp_plan plan;
static void *memory;

static void plan_of(const bp_spec *spec)
{
    memory = plan_make(&plan, spec);
}

static bp_cnn_config net_of(double multiplier, bool scaled)
{
    return (bp_cnn_config){.height = 32,
                           .width = 32,
                           .channels = 3,
                           .epsilon = 1e-3,
                           .mobilenet = {.multiplier = multiplier,
                                         .expansion = 2.0,
                                         .divisor = 8,
                                         .least = 8,
                                         .stride = 32,
                                         .scaled = scaled}};
}

/* The last width is 1280 times the multiplier, but for one below 1 where it is not scaled. */
static void last_width_of_a_mobilenet(void **state)
{
    (void)state;
    static const struct {
        double multiplier;
        bool scaled;
        uint32_t width;
    } nets[] = {{0.5, false, 1280}, {0.5, true, 640}, {1.5, false, 1920}, {1.5, true, 1920}};
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        bp_cnn_config own = net_of(nets[i].multiplier, nets[i].scaled);
        bp_mobilenet_expand(&own);
        assert_int_equal(own.layer[own.layers - 2].channels, nets[i].width);
    }
}

/* hidden_act relu6, or relu: an op for each, and none of the other. */
static void activations_of_a_mobilenet(void **state)
{
    (void)state;
    for (uint32_t unlimited = 0; unlimited < 2; unlimited++) {
        bp_cnn_config own = net_of(0.1, true);
        bp_spec spec = model_fixture_spec();
        uint32_t found[BP_ACTIVATION_COUNT] = {0};
        own.mobilenet.unlimited = unlimited;
        spec.model = &bp_model_cnn;
        spec.config =
            (bp_model_config){.positions = 32 * 32 * 3, .task = BP_TASK_CLASSES, .classes = 3};
        bp_family_config_set(&spec.config, &own, sizeof own);
        spec.sequence = spec.config.positions;
        plan_of(&spec);
        for (uint32_t i = 0; i < plan.graph.used.ops; i++) {
            const bp_op *op = &plan.graph.ops[i];
            if (op->kernel == BP_KERNEL_activation_forward) {
                const bp_activation_forward_scalars *s =
                    (const void *)(plan.graph.scalars + op->scalar);
                found[s->kind]++;
            }
        }
        free(memory);
        assert_true((found[BP_ACTIVATION_RELU6] > 0) == (unlimited == 0));
        assert_true((found[BP_ACTIVATION_RELU] > 0) == (unlimited != 0));
    }
}

/* verifies layers-15.2c18 */
static void tasks_of_a_vit(void **state)
{
    (void)state;
    const bp_vit_config own = {.stack = {.width = 16,
                                         .layers = 1,
                                         .heads = 2,
                                         .inner = 32,
                                         .norm_epsilon = 1e-12,
                                         .initializer_range = 0.02},
                               .image = 8,
                               .channels = 3,
                               .patch = 4};
    bp_error error = {.code = BP_OK};
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_vit;
    spec.config = (bp_model_config){.positions = 8 * 8 * 3, .task = BP_TASK_CLASSES, .classes = 3};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.sequence = spec.config.positions;
    if (bp_spec_check(&spec, &error) != BP_OK) {
        fail_msg("%s %s", error.text, error.name);
    }
    for (uint32_t i = 0; i < 3; i++) {
        bp_spec other = spec;
        error = (bp_error){.code = BP_OK};
        other.config.task = i == 0   ? BP_TASK_TOKENS
                            : i == 1 ? BP_TASK_RECONSTRUCTION
                                     : spec.config.task;
        other.config.classes = i == 1 ? spec.config.positions : 3;
        other.generate_context = i == 2 ? 8 : 0;
        assert_int_equal(bp_spec_check(&other, &error), BP_ERR_USAGE);
        assert_string_equal(error.name, "task");
    }
}

/* Packed rows are for the next token: what reads all of a row has no places for them. */
/* verifies compile-1.aa19 */
static void packed_rows_of_tasks(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    bp_error error = {.code = BP_OK};
    spec.packed = true;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
    plan_of(&spec);
    free(memory);
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 3;
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
}

/* Where the loss reads padding its row stays as it is, wherever it lies among those trained. */
/* verifies layers-30.753f */
static void trained_rows_around_padding(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    static const uint32_t chosen[][2] = {{3, 4}, {2, 3}, {4, 5}, {1, 2}};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        bp_spec spec = model_fixture_spec();
        uint32_t still = 0, rows = 0;
        spec.model = &bp_model_bert;
        SET_FAMILY(&spec.config, bp_bert_config, types, 2);
        spec.config.task = BP_TASK_ANSWERS;
        spec.config.classes = 2;
        spec.config.pad_token = 3;
        spec.lora = (bp_lora){.rank = 2,
                              .alpha = 4.0,
                              .targets = all,
                              .target_count = 1,
                              .tokens = chosen[i],
                              .token_count = 2};
        plan_of(&spec);
        for (uint32_t k = 0; k < plan.graph.used.ops; k++) {
            const bp_op *op = &plan.graph.ops[k];
            if (op->kernel == BP_KERNEL_embedding_token_backward) {
                const bp_embedding_token_backward_scalars *s =
                    (const void *)(plan.graph.scalars + op->scalar);
                still += s->first == 37;
                rows += s->first < 37 ? (uint32_t)s->vocabulary : 0;
            }
        }
        free(memory);
        assert_int_equal(still, i < 2 ? 1 : 0);
        assert_int_equal(rows, i < 2 ? 1 : 2);
    }
}

/* Which biases learn beside adapters: none, those of what is adapted, or all. */
static void biases_beside_adapters(void **state)
{
    (void)state;
    static const char *const some[] = {"c_fc"};
    uint64_t trained[BP_LORA_BIASES];
    for (uint32_t bias = 0; bias < BP_LORA_BIASES; bias++) {
        bp_spec spec = model_fixture_spec();
        spec.lora = (bp_lora){.rank = 2,
                              .alpha = 4.0,
                              .targets = some,
                              .target_count = 1,
                              .bias = (bp_lora_bias)bias};
        plan_of(&spec);
        trained[bias] = 0;
        for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
            const bp_parameter *p = &plan.builder.parameters[i];
            trained[bias] += p->trainable ? p->count : 0;
        }
        free(memory);
    }
    assert_int_equal(trained[BP_LORA_BIAS_ADAPTED], trained[BP_LORA_BIAS_NONE] + 2 * 64);
    assert_true(trained[BP_LORA_BIAS_ALL] > trained[BP_LORA_BIAS_ADAPTED]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_width_of_a_mobilenet),
        cmocka_unit_test(activations_of_a_mobilenet),
        cmocka_unit_test(tasks_of_a_vit),
        cmocka_unit_test(packed_rows_of_tasks),
        cmocka_unit_test(trained_rows_around_padding),
        cmocka_unit_test(biases_beside_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
