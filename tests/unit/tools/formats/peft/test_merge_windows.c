/* SPDX-License-Identifier: MIT */
/* Merging adapters of convolutions: every element, what has none, and windows that are others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/formats/merge_fixture.h"

enum { OUT = 3, IN = 2, HIGH = 2, WIDE = 3, SEES = IN * HIGH * WIDE, RANK = 2 };

static const char weight[] = "layers.0.convolution.weight";
static const char a_name[] = "base_model.model.layers.0.convolution.lora_A.weight";
static const char b_name[] = "base_model.model.layers.0.convolution.lora_B.weight";

static merge_fixture *fixture_of(const bp_model *model, const bp_model_config *config,
                                 const char *family)
{
    merge_fixture *d = merge_fixture_new(model, config);
    made_tensors made = {.count = 0};
    for (size_t i = 0; i < d->parameters.count; i++) {
        const bp_wanted *w = &d->parameters.list[i];
        made_add_values(&made, w->name, BP_F32, w->rank, w->shape, (uint32_t)(7 + i));
    }
    made_write(&made, 0, made.count, &d->memory.store, "in");
    made_free(&made);
    merge_fixture_open(d, family, (bp_tensor_heads){1, 1, 0});
    return d;
}

static merge_fixture *fixture_new(void)
{
    const bp_model_config config = config_with(
        (bp_model_config){.positions = 3 * 4 * IN, .task = BP_TASK_CLASSES, .classes = 2},
        OWN(bp_cnn_config, .height = 3, .width = 4, .channels = IN, .layers = 1, .epsilon = 1e-3,
            .layer = {{.kind = BP_CNN_CONV,
                       .kernel = {HIGH, WIDE},
                       .stride = {1, 1},
                       .plain = 1,
                       .channels = OUT}}));
    return fixture_of(&bp_model_cnn, &config, "cnn");
}

typedef struct shapes {
    uint32_t a_rank;
    uint64_t a[4];
    uint32_t b_rank;
    uint64_t b[4];
} shapes;

static const shapes right = {4, {RANK, IN, HIGH, WIDE}, 4, {OUT, RANK, 1, 1}};

static bp_status load_named(merge_fixture *d, const char *a, const char *b, const shapes *s,
                            bool magnitudes)
{
    made_tensors made = {.count = 0};
    const bp_lora lora = {.rank = RANK, .alpha = 3.0, .magnitudes = magnitudes};
    made_add_values(&made, a, BP_F32, s->a_rank, s->a, 1);
    made_add_values(&made, b, BP_F32, s->b_rank, s->b, 2);
    return merge_fixture_load(d, &made, &lora);
}

static bp_status load(merge_fixture *d, const shapes *s, bool magnitudes)
{
    return load_named(d, a_name, b_name, s, magnitudes);
}

/* verifies layers-33.4818 */
static void elements(void **state)
{
    (void)state;
    merge_fixture *d = fixture_new();
    assert_int_equal(load(d, &right, false), BP_OK);
    bp_staging work = {d->work, sizeof d->work};
    for (size_t i = 0; i < d->parameters.count; i++) {
        const bp_wanted *w = &d->parameters.list[i];
        const uint64_t count = bp_tensor_view_elements(&w->view);
        float plain[64], merged[64];
        assert_true(count <= 64);
        d->source.merge = NULL;
        assert_int_equal(
            bp_weight_source_read(&d->source, i, &w->view, 0, count, BP_F32, plain, work), BP_OK);
        d->source.merge = &d->merge;
        assert_int_equal(
            bp_weight_source_read(&d->source, i, &w->view, 0, count, BP_F32, merged, work), BP_OK);
        const bool adapted = strcmp(w->name, weight) == 0;
        assert_true(bp_merge_changes(&d->merge, i) == adapted);
        for (uint64_t e = 0; e < count; e++) {
            float sum = 0.0f;
            for (uint64_t k = 0; adapted && k < RANK; k++) {
                sum = fmaf(made_value(2, e / SEES * RANK + k), made_value(1, k * SEES + e % SEES),
                           sum);
            }
            assert_true(merged[e] == plain[e] + 1.5f * sum);
        }
    }
    merge_fixture_free(d);
}

/* verifies layers-33.4818 */
static void other_windows(void **state)
{
    (void)state;
    static const shapes wrong[] = {{2, {RANK, SEES}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK + 1, IN, HIGH, WIDE}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK, IN + 1, HIGH, WIDE}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK, 2 * HIGH, 1, WIDE}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK, IN * WIDE, HIGH, 1}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK, IN, WIDE, HIGH}, 4, {OUT, RANK, 1, 1}},
                                   {4, {RANK, IN, HIGH, WIDE}, 2, {OUT, RANK}},
                                   {4, {RANK, IN, HIGH, WIDE}, 4, {OUT, 1, RANK, 1}},
                                   {4, {RANK, IN, HIGH, WIDE}, 4, {OUT, 1, 1, RANK}},
                                   {4, {RANK, IN, HIGH, WIDE}, 4, {OUT + 1, RANK, 1, 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        merge_fixture *d = fixture_new();
        assert_int_equal(load(d, &wrong[i], false), BP_ERR_DATA);
        assert_non_null(strstr(d->error.text, "its shape or type differs"));
        merge_fixture_free(d);
    }
    merge_fixture *d = fixture_new();
    assert_int_equal(load(d, &right, true), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "magnitudes (use_dora) of convolutions"));
    merge_fixture_free(d);
    d = fixture_new(); /* nor are windows merged that were trained themselves */
    assert_int_equal(load_named(d, "base_model.model.layers.0.convolution.weight",
                                "base_model.model.x.lora_B.weight",
                                &(shapes){4, {OUT, IN, HIGH, WIDE}, 4, {OUT, RANK, 1, 1}}, false),
                     BP_ERR_USAGE);
    assert_non_null(strstr(d->error.text, "trained beside adapters are not merged"));
    merge_fixture_free(d);
    d = fixture_new(); /* and of others they are nobody's here */
    assert_int_equal(load_named(d, "base_model.model.x.lora_A.weight",
                                "base_model.model.x.lora_B.weight", &right, true),
                     BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "a module that this model has not"));
    merge_fixture_free(d);
}

/* Modules of ViT have another name in transformers 5: adapters are found by either. */
/* verifies layers-33.4818 */
static void either_name(void **state)
{
    (void)state;
    enum { WIDTH = 8 };
    static const char *const modules[] = {"vit.encoder.layer.0.attention.attention.query",
                                          "vit.layers.0.attention.q_proj"};
    static const shapes of = {2, {RANK, WIDTH}, 2, {WIDTH, RANK}};
    const bp_model_config config = config_with(
        (bp_model_config){.positions = 4 * 4 * IN, .task = BP_TASK_CLASSES, .classes = 2},
        OWN(bp_vit_config,
            .stack = {.width = WIDTH, .layers = 1, .heads = 2, .inner = 12, .norm_epsilon = 1e-12},
            .image = 4, .channels = IN, .patch = 2));
    for (size_t m = 0; m < 2; m++) {
        char a[96], b[96];
        merge_fixture *d = fixture_of(&bp_model_vit, &config, "vit");
        snprintf(a, sizeof a, "base_model.model.%s.lora_A.weight", modules[m]);
        snprintf(b, sizeof b, "base_model.model.%s.lora_B.weight", modules[m]);
        assert_int_equal(load_named(d, a, b, &of, false), BP_OK);
        uint32_t changed = 0;
        for (size_t i = 0; i < d->parameters.count; i++) {
            const bool changes = bp_merge_changes(&d->merge, i);
            assert_true(!changes ||
                        strcmp(d->parameters.list[i].name,
                               "vit.encoder.layer.0.attention.attention.query.weight") == 0);
            changed += changes ? 1 : 0;
        }
        assert_int_equal(changed, 1);
        merge_fixture_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements), cmocka_unit_test(other_windows),
                                       cmocka_unit_test(either_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
