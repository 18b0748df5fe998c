/* SPDX-License-Identifier: MIT */
/* Layers of convolutional nets as texts: what is read, written back, and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layers/images/image.h"
#include "tools/formats/family/images/cnn_text.h"

static void require_written(const char *text, const char *plain)
{
    char out[96];
    bp_text to;
    bp_cnn_layer layer, again;
    assert_true(bp_cnn_layer_read(text, &layer));
    bp_text_init(&to, NULL, NULL, out, sizeof out);
    bp_cnn_layer_put(&to, &layer);
    bp_text_char(&to, '\0');
    assert_int_equal(bp_text_flush(&to), BP_OK);
    assert_string_equal(out, plain);
    assert_true(bp_cnn_layer_read(out, &again));
    assert_memory_equal(&layer, &again, sizeof layer);
}

/* verifies formats-2.1f4a */
static void layers_are_read_and_written(void **state)
{
    (void)state;
    bp_cnn_layer layer;
    assert_true(bp_cnn_layer_read("conv 64 10x4 stride 2x1 padding same plain linear", &layer));
    const bp_cnn_layer right = {BP_CNN_CONV, {10, 4}, {2, 1}, BP_PADDING_SAME, 1, 1, 64};
    assert_memory_equal(&layer, &right, sizeof layer);
    assert_true(bp_cnn_layer_read("mean-pool all", &layer));
    const bp_cnn_layer all = {BP_CNN_MEAN_POOL, {0, 0}, {1, 1}, 0, 0, 0, 0};
    assert_memory_equal(&layer, &all, sizeof layer);
    require_written("conv 64 10x4 stride 2x1 padding same plain linear",
                    "conv 64 10x4 stride 2x1 padding same plain linear");
    require_written("conv  8   3x3 linear padding half stride 1", "conv 8 3 linear");
    require_written("depthwise 253 padding 0", "depthwise 253 padding 0");
    require_written("separable 16384 3 stride 2", "separable 16384 3 stride 2");
    require_written("conv 8 3 stride 1x2", "conv 8 3 stride 1x2");
    require_written("max-pool 2 padding half", "max-pool 2 padding half");
    require_written("dense 128", "dense 128");
    require_written("dense 8  linear plain", "dense 8 plain linear");
    require_written("basic 16", "basic 16");
    require_written("bottleneck 256 stride 2 padding 1", "bottleneck 256 stride 2 padding 1");
    require_written("max-pool 3 stride 2 padding 1", "max-pool 3 stride 2 padding 1");
    require_written("mean-pool all padding 0", "mean-pool all");
    require_written("mean-pool 2x3 padding same", "mean-pool 2x3 padding same");
}

/* verifies formats-1.08bd */
static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        " conv 8 3",
                                        "dense",
                                        "dense 8 3",
                                        "dense 8 stride 2",
                                        "dense 8 padding 0",
                                        "convolution 8 3",
                                        "conv",
                                        "conv 8",
                                        "conv 0 3",
                                        "conv 16385 3",
                                        "conv 8x8 3",
                                        "conv -8 3",
                                        "conv 8 0",
                                        "conv 8 254",
                                        "conv 8 3x",
                                        "conv 8 3x3x3",
                                        "conv 8 3y",
                                        "conv 8 all",
                                        "conv 8 3 stride",
                                        "conv 8 3 stride 0",
                                        "conv 8 3 stride 2 stride 2",
                                        "conv 8 3 padding",
                                        "conv 8 3 padding 1x1",
                                        "conv 8 3 padding valid",
                                        "conv 8 3 plain plain",
                                        "conv 8 3 relu",
                                        "conv 999999999999 3",
                                        "separable 8 3 plain",
                                        "basic 8 3",
                                        "bottleneck",
                                        "max-pool",
                                        "max-pool 2 linear",
                                        "max-pool all 2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bp_cnn_layer layer;
        if (bp_cnn_layer_read(texts[i], &layer)) {
            fail_msg("\"%s\" is read", texts[i]);
        }
    }
}

/* Configs are the same where their layers are; more than can be are not looked at. */
static void configs_are_compared_layer_by_layer(void **state)
{
    (void)state;
    static bp_cnn_config one, other;
    static char out[64 * (BP_CNN_LAYERS_MAX + 1)];
    static const uint32_t counts[] = {0, 1, 3, BP_CNN_LAYERS_MAX, BP_CNN_LAYERS_MAX + 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        bp_model_config a = {.positions = 1}, b = {.positions = 1};
        bp_text text;
        bp_json_writer json;
        size_t written = 0;
        one.layers = counts[i];
        for (uint32_t k = 0; k < counts[i] && k < BP_CNN_LAYERS_MAX; k++) {
            assert_true(bp_cnn_layer_read("dense 8", &one.layer[k]));
        }
        other = one;
        bp_family_config_set(&a, &one, sizeof one);
        bp_family_config_set(&b, &other, sizeof other);
        assert_true(bp_cnn_same(&a, &b));
        bp_text_init(&text, NULL, NULL, out, sizeof out);
        bp_json_put_begin(&json, &text, BP_JSON_SPACED);
        bp_cnn_layers_put(&json, NULL, &a);
        bp_text_char(&text, '\0');
        assert_int_equal(bp_text_flush(&text), BP_OK);
        for (const char *at = strstr(out, "dense 8"); at != NULL; at = strstr(at + 1, "dense 8")) {
            written++;
        }
        assert_int_equal(written, counts[i] < BP_CNN_LAYERS_MAX ? counts[i] : BP_CNN_LAYERS_MAX);
        if (counts[i] == 3) {
            other.layer[1].channels = 9;
            bp_family_config_set(&b, &other, sizeof other);
            assert_false(bp_cnn_same(&a, &b));
        }
        other.layers = counts[i] + 1;
        bp_family_config_set(&b, &other, sizeof other);
        assert_false(bp_cnn_same(&a, &b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_read_and_written),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(configs_are_compared_layer_by_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
