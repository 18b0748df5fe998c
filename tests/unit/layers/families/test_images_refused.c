/* SPDX-License-Identifier: MIT */
/* Layers over images that cannot be, and what of them trains: nodes whose values do not go with
 * their window, layers that a description cannot have, and parameters frozen one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/search/measure.h"
#include "layers/families/cnn.h"
#include "layers/images/cnn_layer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { INPUT, OUTPUT, STATISTICS };

static const bp_image_window window = {4, 5, 3, 3, 4, {2, 2}, {1, 1}, {0, 0}, 1};

/* One node that reads the block's input (2, 4, 5, 3). */
static bp_block one_node(bp_node node, uint64_t out, bool places)
{
    bp_block block = {.value = {[INPUT] = {"input", "d_input", {2, 4, 5, 3}, false},
                                [OUTPUT] = {"out", "d_out", {2, 3, 4, out}, false},
                                [STATISTICS] = {"place", NULL, {2, 3, 4, out}, true}},
                      .values = places ? 3 : 2,
                      .nodes = 1};
    node.in[0] = INPUT;
    node.out[0] = OUTPUT;
    node.out[1] = STATISTICS;
    block.node[0] = node;
    return block;
}

static void accepted(const bp_block *block)
{
    bp_error error = {0};
    if (bp_block_check(block, &error) != BP_OK) {
        fail_msg("%s", error.text);
    }
}

static void refused(const bp_block *block)
{
    bp_error error = {0};
    assert_int_equal(bp_block_check(block, &error), BP_ERR_USAGE);
    assert_non_null(strstr(error.text, "shapes"));
}

/* Every dimension of every value, wrong alone. */
static void each_dimension_wrong(const bp_block *good)
{
    accepted(good);
    for (uint32_t v = 0; v < good->values; v++) {
        for (uint32_t d = 0; d < BP_RANK_MAX && good->value[v].shape[d] != 0; d++) {
            bp_block block = *good;
            block.value[v].shape[d]++;
            refused(&block);
        }
    }
}

/* verifies layers-6.5ba0 */
static void test_windows_and_their_values(void **state)
{
    (void)state;
    const bp_convolution wide = {.window = window, .out = 7}, thin = {.window = window, .out = 3};
    bp_block block =
        one_node((bp_node){.kind = BP_NODE_CONVOLUTION, .convolution = wide}, 7, false);
    each_dimension_wrong(&block);
    block.node[0].convolution.depthwise = true;
    refused(&block); /* seven channels of three, each by itself */
    block = one_node((bp_node){.kind = BP_NODE_CONVOLUTION, .convolution = thin}, 3, false);
    block.node[0].convolution.depthwise = true;
    each_dimension_wrong(&block);
    block = one_node((bp_node){.kind = BP_NODE_MEAN_POOL, .window = window}, 3, false);
    each_dimension_wrong(&block);
    block = one_node((bp_node){.kind = BP_NODE_MAX_POOL, .window = window}, 3, true);
    each_dimension_wrong(&block);
    block.value[STATISTICS].statistics = false;
    refused(&block);
}

/* verifies layers-6.5ba0 */
static void test_batch_norms_and_their_values(void **state)
{
    (void)state;
    bp_block good = one_node(
        (bp_node){.kind = BP_NODE_BATCH_NORM, .batch_norm = {.width = 3, .places = 20}}, 3, true);
    good.value[OUTPUT] = (bp_value){"out", "d_out", {2, 4, 5, 3}, false};
    good.value[STATISTICS] = (bp_value){"statistics", NULL, {2, 3}, true};
    each_dimension_wrong(&good);
    bp_block block = good;
    block.value[STATISTICS].statistics = false;
    refused(&block);
    block = good;
    block.node[0].batch_norm.width++;
    refused(&block);
    block = good;
    block.node[0].batch_norm.places++;
    refused(&block);
}

static const bp_cnn_layer conv = {BP_CNN_CONV, {3, 2}, {1, 1}, 1, 0, 0, 3};

/* A net of one layer over images of 6 x 5 of two channels. */
static bp_spec net_of(bp_cnn_layer layer)
{
    bp_spec spec = model_fixture_spec();
    bp_cnn_config own = {.height = 6,
                         .width = 5,
                         .channels = 2,
                         .layers = 2,
                         .epsilon = 1e-5,
                         .momentum = 0.1,
                         .layer = {conv, layer}};
    spec.model = &bp_model_cnn;
    spec.config = (bp_model_config){.positions = 60, .task = BP_TASK_CLASSES, .classes = 3};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.sequence = spec.config.positions;
    spec.batch = 3;
    return spec;
}

/* verifies layers-15.2c18 */
static void test_layers_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        bp_cnn_layer layer;
        const char *words; /* NULL: it can be */
    } rows[] = {
        {{BP_CNN_CONV, {3, 3}, {1, 1}, 1, 0, 0, 4}, NULL},
        {{BP_CNN_KIND_COUNT, {3, 3}, {1, 1}, 1, 0, 0, 0}, "no known kind"},
        {{BP_CNN_CONV, {3, 3}, {1, 1}, 1, 0, 0, 0}, "channels"},
        {{BP_CNN_CONV, {3, 3}, {1, 1}, 1, 0, 0, BP_CNN_SIZE_MOST}, NULL},
        {{BP_CNN_CONV, {3, 3}, {1, 1}, 1, 0, 0, BP_CNN_SIZE_MOST + 1}, "channels"},
        {{BP_CNN_DEPTHWISE, {3, 3}, {1, 1}, 1, 0, 0, 0}, NULL},
        {{BP_CNN_DEPTHWISE, {3, 3}, {1, 1}, 1, 0, 0, 4}, "channels"},
        {{BP_CNN_SEPARABLE, {3, 3}, {1, 1}, 1, 0, 0, 4}, NULL},
        {{BP_CNN_MAX_POOL, {2, 2}, {2, 2}, 0, 0, 0, 4}, "channels"},
        {{BP_CNN_MAX_POOL, {2, 2}, {2, 2}, 0, 0, 0, 0}, NULL},
        {{BP_CNN_MEAN_POOL, {0, 0}, {1, 1}, 0, 0, 0, 0}, NULL},
        {{BP_CNN_MAX_POOL, {0, 2}, {1, 1}, 0, 0, 0, 0}, NULL},
        {{BP_CNN_BOTTLENECK, {0, 0}, {1, 1}, 1, 0, 0, 8}, NULL},
        {{BP_CNN_BOTTLENECK, {0, 0}, {1, 1}, 1, 0, 0, 6}, "channels"},
        {{BP_CNN_BASIC, {0, 0}, {2, 1}, BP_PADDING_HALF, 0, 0, 3}, NULL},
        {{BP_CNN_BASIC, {0, 0}, {1, 2}, 1, 0, 0, 3}, NULL},
        {{BP_CNN_BASIC, {0, 0}, {1, 1}, 1, 0, 0, 3}, NULL},
        {{BP_CNN_BASIC, {0, 0}, {1, 1}, 3, 0, 0, 3}, "padding"},
        {{BP_CNN_DENSE, {0, 0}, {1, 1}, 0, 0, 0, 5}, NULL},
        {{BP_CNN_CONV, {0, 3}, {1, 1}, 1, 0, 0, 4}, "no size"},
        {{BP_CNN_CONV, {3, 0}, {1, 1}, 1, 0, 0, 4}, "no size"},
        {{BP_CNN_CONV, {2, 4}, {1, 1}, 2, 0, 0, 4}, "padding"},
        {{BP_CNN_CONV, {4, 2}, {1, 1}, 2, 0, 0, 4}, "padding"},
        {{BP_CNN_CONV, {1, 1}, {1, 1}, 0, 0, 0, 4}, NULL},
        {{BP_CNN_CONV, {9, 3}, {1, 1}, 0, 0, 0, 4}, "larger"},
        {{BP_CNN_CONV, {3, 9}, {1, 1}, 0, 0, 0, 4}, "larger"},
        {{BP_CNN_CONV, {3, 3}, {1, 1}, BP_PADDING_SAME, 0, 0, 4}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        const bp_spec spec = net_of(rows[i].layer);
        const bp_status status = bp_spec_check(&spec, &error);
        if (rows[i].words == NULL
                ? status != BP_OK
                : status != BP_ERR_USAGE || strstr(error.text, rows[i].words) == NULL) {
            fail_msg("row %zu: %d %s", i, (int)status, error.text);
        }
    }
}

/* Same windows: an image of no height has none, and strides beyond the kernel pad nothing. */
static void test_windows_over_small_images(void **state)
{
    (void)state;
    static const struct {
        uint64_t height;
        uint8_t kernel, stride;
        uint64_t out;
        uint32_t before;
    } rows[] = {
        {5, 3, 1, 5, 1}, {4, 1, 2, 2, 0}, {5, 3, 2, 3, 1}, {1, 2, 1, 1, 0}, {0, 3, 1, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint64_t image[3] = {rows[i].height, rows[i].height, 1};
        const uint8_t kernel[2] = {rows[i].kernel, rows[i].kernel};
        const uint8_t stride[2] = {rows[i].stride, rows[i].stride};
        const bp_image_window w = bp_image_window_over(image, kernel, stride, BP_PADDING_SAME, 1);
        assert_int_equal(w.out_height, rows[i].out);
        assert_int_equal(w.out_width, rows[i].out);
        assert_int_equal(w.before[0], rows[i].before);
    }
}

static void refused_by(const bp_spec *spec, const char *name)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, name);
}

/* verifies layers-15.2c18 */
static void test_tasks_and_ranks_that_images_have_not(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = net_of(conv);
    spec.generate_context = 4;
    refused_by(&spec, "task");
    spec = net_of(conv);
    spec.sequence--;
    refused_by(&spec, "max-seq-length");
    spec = net_of(conv);
    spec.working = spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT;
    refused_by(&spec, "bf16");
    spec = net_of(conv);
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    refused_by(&spec, "ranks");
    SET_FAMILY(&spec.config, bp_cnn_config, frozen, true);
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    spec = net_of(conv);
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    SET_FAMILY(&spec.config, bp_cnn_config, layer[0].plain, 1);
    refused_by(&spec, "ranks"); /* the second layer has one */
    SET_FAMILY(&spec.config, bp_cnn_config, layer[1].plain, 1);
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
}

/* The bytes of a plan with these parameters frozen; what is left to train. */
static uint64_t planned_bytes(const char *glob, uint32_t plain, bool frozen, uint32_t *trained)
{
    static const char *const none = "";
    const bp_parameter_rule rule = {.glob = glob != NULL ? glob : none, .kind = BP_RULE_FREEZE};
    static bp_plan plan;
    bp_spec spec = net_of(conv);
    SET_FAMILY(&spec.config, bp_cnn_config, layer[0].plain, (uint8_t)(plain & 1));
    SET_FAMILY(&spec.config, bp_cnn_config, layer[1].plain, (uint8_t)(plain >> 1));
    SET_FAMILY(&spec.config, bp_cnn_config, frozen, frozen);
    spec.rules = &rule;
    spec.rule_count = glob != NULL ? 1 : 0;
    spec.evaluate = true;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    if (bp_plan_make(&plan, &spec, memory, bytes) != BP_OK) {
        fail_msg("%s: %s", glob, plan.error.text);
    }
    *trained = 0;
    for (uint32_t i = 0; i < plan.builder.parameter_count; i++) {
        *trained += plan.builder.parameters[i].trainable ? 1 : 0;
    }
    const uint64_t arena = plan.report.arena_bytes;
    free(memory);
    return arena;
}

/* What is frozen is neither updated nor held a gradient for. */
/* verifies compile-9.cceb */
static void test_frozen_parts_of_a_layer(void **state)
{
    (void)state;
    static const struct {
        const char *glob;
        uint32_t plain, frozen; /* how many it freezes */
    } rows[] = {{"*convolution.weight", 0, 2},    {"*normalization.weight", 0, 2},
                {"*normalization.bias", 0, 2},    {"layers.*normalization.*", 0, 4},
                {"*convolution.bias", 3, 2},      {"*convolution.*", 3, 4},
                {"layers.0.convolution.*", 1, 2}, {"layers.*", 0, 6},
                {"layers.*.weight", 3, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint32_t still = 0; still < 2; still++) {
            uint32_t whole = 0, left = 0;
            const uint64_t all = planned_bytes(NULL, rows[i].plain, still != 0, &whole);
            const uint64_t some = planned_bytes(rows[i].glob, rows[i].plain, still != 0, &left);
            assert_int_equal(left + rows[i].frozen, whole);
            assert_true(some < all);
        }
    }
}

/* Every set of values that a residual layer may keep can be measured, and who keeps less computes
 * no less in backward. */
/* verifies compile-4.ecdd */
static void test_sets_that_a_layer_may_keep(void **state)
{
    (void)state;
    static const bp_cnn_layer layers[] = {{BP_CNN_BASIC, {0, 0}, {1, 1}, 1, 0, 0, 4},
                                          {BP_CNN_BOTTLENECK, {0, 0}, {2, 2}, 1, 0, 0, 8}};
    for (size_t i = 0; i < 2; i++) {
        const bp_spec spec = net_of(layers[i]);
        const bp_rates rates = BP_RATES_DEFAULT;
        bp_chain_stage stages[8];
        bp_arena arena;
        bp_error error = {0};
        uint64_t bytes = bp_measure_scratch(&spec);
        assert_true(spec.model->stages(&spec.config) <= 8);
        for (int round = 0; round < 2; round++) {
            void *memory = malloc((size_t)bytes);
            assert_non_null(memory);
            bp_arena_init(&arena, memory, (size_t)bytes);
            const bp_status status = round == 0
                                         ? bp_measure_count(&spec, &arena, stages, &bytes, &error)
                                         : bp_measure_stages(&spec, &rates, &arena, stages, &error);
            free(memory);
            assert_int_equal(status, BP_OK);
        }
        uint32_t sets = 0;
        for (uint32_t s = 0; s < spec.model->stages(&spec.config); s++) {
            const bp_chain_stage *stage = &stages[s];
            const bp_chain_variant *least = &stage->variant[stage->variants - 1];
            for (uint32_t v = 0; v + 1 < stage->variants; v++) {
                sets++;
                assert_true(stage->variant[v].tape >= least->tape);
                assert_true(stage->variant[v].backward <= least->backward);
            }
        }
        assert_true(sets > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_that_a_layer_may_keep),
        cmocka_unit_test(test_windows_and_their_values),
        cmocka_unit_test(test_batch_norms_and_their_values),
        cmocka_unit_test(test_layers_that_cannot_be),
        cmocka_unit_test(test_windows_over_small_images),
        cmocka_unit_test(test_tasks_and_ranks_that_images_have_not),
        cmocka_unit_test(test_frozen_parts_of_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
