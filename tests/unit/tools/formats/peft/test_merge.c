/* SPDX-License-Identifier: MIT */
/* Merging: every element of every adapted tensor, in the model's own order and as files have it
 * turned, and adapters of another base. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/disk_file.h"
#include "tests/fixtures/formats/merge_fixture.h"

#define QUERY "base_model.model.model.layers.0.self_attn.q_proj"
#define WIDTH 16u
#define OUT   24u /* 2 heads of 12 */
#define RANK  3u

static bp_model_config llama_config(void)
{
    return config_with((bp_model_config){.vocabulary = 19, .positions = 32},
                       OWN(bp_llama_config,
                           .stack = {.width = WIDTH,
                                     .layers = 2,
                                     .heads = 2,
                                     .inner = 24,
                                     .norm_epsilon = 1e-6,
                                     .untied = true},
                           .kv_heads = 1, .head_width = 12, .rope_theta = 20000.0, .qkv_bias = true,
                           .output_bias = true, .mlp_bias = true));
}

static merge_fixture *fixture_new(void)
{
    const bp_model_config llama = llama_config();
    merge_fixture *d = merge_fixture_new(&bp_model_llama, &llama);
    disk_file_put(&d->memory, "tests/golden/port/llama.safetensors", "in");
    merge_fixture_open(d, "llama", (bp_tensor_heads){2, 1, 0});
    return d;
}

/* Writes and loads adapters of the first query projection; out and rank may be wrong ones. The
 * scale is 2 either way. */
static bp_status load_scaled(merge_fixture *d, const char *module, uint64_t out, uint64_t rank,
                             bool both, bool stabilized)
{
    made_tensors made = {.count = 0};
    const uint64_t a[2] = {rank, WIDTH}, b[2] = {out, rank};
    const bp_lora lora = {
        .rank = RANK, .alpha = stabilized ? 2.0 * sqrt(RANK) : 6.0, .rank_stabilized = stabilized};
    char name[96];
    snprintf(name, sizeof name, "%s.lora_A.weight", module);
    made_add_values(&made, name, BP_F32, 2, a, 1);
    if (both) {
        snprintf(name, sizeof name, "%s.lora_B.weight", module);
        made_add_values(&made, name, BP_BF16, 2, b, 2);
    }
    return merge_fixture_load(d, &made, &lora);
}

static bp_status load(merge_fixture *d, const char *module, uint64_t out, uint64_t rank, bool both)
{
    return load_scaled(d, module, out, rank, both, false);
}

static size_t index_of(const merge_fixture *d, const char *name)
{
    for (size_t i = 0; i < d->parameters.count; i++) {
        if (strcmp(d->parameters.list[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("%s is not there", name);
    return 0;
}

static float expected(uint64_t row, uint64_t column)
{
    float sum = 0.0f;
    for (uint64_t k = 0; k < RANK; k++) {
        sum = fmaf(made_value(2, row * RANK + k), made_value(1, k * WIDTH + column), sum);
    }
    return 2.0f * sum;
}

/* What a form holds, merged, less what it holds plain, is the adapter's part. */
static void check_form(merge_fixture *d, bp_tensor_layout form, bp_dtype type)
{
    size_t index = index_of(d, "model.layers.0.self_attn.q_proj.weight");
    bp_tensor_view view = d->parameters.list[index].view;
    static float plain[OUT * WIDTH], merged[OUT * WIDTH];
    static uint16_t narrow[OUT * WIDTH];
    bp_staging work = {d->work, sizeof d->work};
    assert_true(bp_tensor_view_transpose(&view, form, d->source.heads));
    d->source.merge = NULL;
    assert_int_equal(
        bp_weight_source_read(&d->source, index, &view, 0, OUT * WIDTH, BP_F32, plain, work),
        BP_OK);
    d->source.merge = &d->merge;
    void *to = type == BP_F32 ? (void *)merged : (void *)narrow;
    assert_int_equal(bp_weight_source_read(&d->source, index, &view, 0, 7, type, to, work), BP_OK);
    to = type == BP_F32 ? (void *)(merged + 7) : (void *)(narrow + 7);
    assert_int_equal(
        bp_weight_source_read(&d->source, index, &view, 7, OUT * WIDTH - 7, type, to, work), BP_OK);
    for (uint64_t i = 0; i < OUT * WIDTH; i++) {
        uint64_t row = i / WIDTH, column = i % WIDTH;
        if (form == BP_LAYOUT_TRANSPOSED) {
            row = i % OUT;
            column = i / OUT;
        } else if (form == BP_LAYOUT_QUERY_HEADS) {
            uint64_t at = row % 12;
            row = row / 12 * 12 + at % 2 * 6 + at / 2;
        }
        float want = plain[i] + expected(row, column);
        if (type == BP_F32) {
            assert_true(merged[i] == want);
        } else {
            assert_int_equal(narrow[i], bp_bf16_from_f32(want));
        }
    }
}

/* verifies formats-28.7a35 */
static void test_elements(void **state)
{
    (void)state;
    merge_fixture *d = fixture_new();
    assert_int_equal(load(d, QUERY, OUT, RANK, true), BP_OK);
    check_form(d, BP_LAYOUT_PLAIN, BP_F32);
    check_form(d, BP_LAYOUT_PLAIN, BP_BF16);
    check_form(d, BP_LAYOUT_TRANSPOSED, BP_F32);
    check_form(d, BP_LAYOUT_QUERY_HEADS, BP_F32);
    merge_fixture_free(d);
    d = fixture_new();
    assert_int_equal(load_scaled(d, QUERY, OUT, RANK, true, true), BP_OK);
    check_form(d, BP_LAYOUT_PLAIN, BP_F32);
    merge_fixture_free(d);
}

/* Where the model has its weights turned (GPT-2), the factors' product is turned too. */
/* verifies formats-28.7a35 */
static void test_input_major(void **state)
{
    (void)state;
    static const float a[3] = {1.0f, 2.0f, 3.0f}, b[2] = {5.0f, 7.0f}; /* rank 1: 3 in, 2 out */
    bp_merge_pair pairs[2] = {
        {.rank = 1, .scale = 0.5f, .a = a, .b = b, .in = 3, .out = 2, .turned = true}, {.a = NULL}};
    const struct bp_merge merge = {.pairs = pairs};
    bp_wanted list[2];
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < 2; i++) {
        list[i].view = (bp_tensor_view){.rank = 2, .shape = {3, 2}};
    }
    const bp_weight_source source = {.list = list, .count = 2};
    float values[6] = {0};
    bp_merge_add(&merge, &source, 0, &list[0].view, 0, 6, values);
    for (size_t i = 0; i < 6; i++) {
        assert_true(values[i] == 0.5f * a[i / 2] * b[i % 2]);
    }
    /* A view that is turned once more. */
    bp_tensor_view view = {.rank = 2, .shape = {2, 3}, .transposed = true};
    memset(values, 0, sizeof values);
    bp_merge_add(&merge, &source, 0, &view, 1, 5, values + 1);
    for (size_t i = 1; i < 6; i++) {
        assert_true(values[i] == 0.5f * a[i % 3] * b[i / 3]);
    }
    assert_true(values[0] == 0.0f);
    /* Nothing is added to a tensor without adapters. */
    bp_merge_add(&merge, &source, 1, &list[1].view, 1, 5, values + 1);
    assert_true(values[1] == 0.5f * a[1] * b[0]);
}

#define NORM "model.norm.weight"
#define HEAD "lm_head.weight"

/* A file with an adapter and two of the model's own parameters, one of them maybe of a wrong shape.
 */
static bp_status load_own(merge_fixture *d, uint64_t norm, bp_dtype type)
{
    made_tensors made = {.count = 0};
    const uint64_t a[2] = {RANK, WIDTH}, b[2] = {OUT, RANK}, head[2] = {19, WIDTH};
    const bp_lora lora = {.rank = RANK, .alpha = 6.0};
    made_add_values(&made, QUERY ".lora_A.weight", BP_F32, 2, a, 1);
    made_add_values(&made, QUERY ".lora_B.weight", BP_F32, 2, b, 2);
    made_add_values(&made, "base_model.model." NORM, type, 1, &norm, 3);
    made_add_values(&made, "base_model.model." HEAD, BP_F32, 2, head, 4);
    made_write(&made, 0, made.count, &d->memory.store, "ad");
    made_free(&made);
    d->error = (bp_error){0};
    assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error), BP_OK);
    return bp_merge_load(&d->merge, &d->adapters, &lora, false, &d->source, &d->room, &d->error);
}

static void read_own(merge_fixture *d, const char *name, bp_tensor_layout form, uint64_t first,
                     uint64_t count, float *values)
{
    const size_t index = index_of(d, name);
    bp_tensor_view view = d->parameters.list[index].view;
    bp_staging work = {d->work, sizeof d->work};
    assert_true(bp_tensor_view_transpose(&view, form, d->source.heads));
    assert_int_equal(
        bp_weight_source_read(&d->source, index, &view, first, count, BP_F32, values, work), BP_OK);
}

/* What was trained beside the adapters takes the base's place, in whatever form a file has it. */
/* verifies formats-28.7a35 */
static void test_own_parameters(void **state)
{
    (void)state;
    float values[19 * WIDTH];
    merge_fixture *d = fixture_new();
    assert_int_equal(load_own(d, WIDTH, BP_F32), BP_OK);
    d->source.merge = &d->merge;
    read_own(d, NORM, BP_LAYOUT_PLAIN, 3, WIDTH - 3, values);
    for (uint64_t i = 0; i < WIDTH - 3; i++) {
        assert_true(values[i] == made_value(3, i + 3));
    }
    read_own(d, HEAD, BP_LAYOUT_PLAIN, 5, 19 * WIDTH - 5, values);
    for (uint64_t i = 0; i < 19 * WIDTH - 5; i++) {
        assert_true(values[i] == made_value(4, i + 5));
    }
    read_own(d, HEAD, BP_LAYOUT_TRANSPOSED, 0, 19 * WIDTH, values);
    for (uint64_t i = 0; i < 19 * WIDTH; i++) {
        assert_true(values[i] == made_value(4, i % 19 * WIDTH + i / 19));
    }
    /* Others are the base's, or have adapters. */
    read_own(d, "model.layers.0.input_layernorm.weight", BP_LAYOUT_PLAIN, 0, WIDTH, values);
    assert_true(d->merge.pairs[index_of(d, NORM)].whole != NULL);
    assert_true(d->merge.pairs[index_of(d, "model.layers.0.input_layernorm.weight")].whole == NULL);
    merge_fixture_free(d);
    d = fixture_new();
    assert_int_equal(load_own(d, WIDTH + 1, BP_F32), BP_ERR_DATA);
    assert_non_null(strstr(d->error.text, "another base"));
    merge_fixture_free(d);
    d = fixture_new();
    assert_int_equal(load_own(d, WIDTH, BP_I32), BP_ERR_DATA);
    merge_fixture_free(d);
}

/* verifies formats-26.24e5 */
static void test_little_memory(void **state)
{
    (void)state;
    merge_fixture *d = fixture_new();
    assert_int_equal(load(d, QUERY, OUT, RANK, true), BP_OK);
    const bp_lora lora = {.rank = RANK, .alpha = 6.0};
    for (size_t bytes = 8; bytes < 4096; bytes += 8) {
        bp_staging room = {d->work, bytes};
        d->error = (bp_error){0};
        bp_status status =
            bp_merge_load(&d->merge, &d->adapters, &lora, false, &d->source, &room, &d->error);
        assert_true(status == BP_ERR_FIT || status == BP_OK);
        assert_int_equal(d->error.code, status);
    }
    merge_fixture_free(d);
}

static void test_other_bases(void **state)
{
    (void)state;
    static const struct {
        const char *module;
        uint64_t out, rank;
        bool both;
    } cases[] = {{"base_model.model.model.layers.7.self_attn.q_proj", OUT, RANK, true},
                 {QUERY, OUT + 1, RANK, true},
                 {QUERY, OUT, RANK + 1, true},
                 {"base_model.model.model.layers.0.input_layernorm", OUT, RANK, true},
                 {QUERY, OUT, RANK, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        merge_fixture *d = fixture_new();
        assert_int_equal(load(d, cases[i].module, cases[i].out, cases[i].rank, cases[i].both),
                         BP_ERR_DATA);
        merge_fixture_free(d);
    }
}

/* ---- DoRA, and what goes wrong with names ---- */

/* Writes an adapter of the first query projection with its magnitudes. */
static void put_dora(merge_fixture *d, uint64_t magnitudes, const char *more)
{
    made_tensors made = {.count = 0};
    const uint64_t a[2] = {RANK, WIDTH}, b[2] = {OUT, RANK}, spare = 1;
    made_add_values(&made, QUERY ".lora_A.weight", BP_F32, 2, a, 1);
    made_add_values(&made, QUERY ".lora_B.weight", BP_F32, 2, b, 2);
    if (magnitudes > 0) {
        made_add_values(&made, QUERY ".lora_magnitude_vector", BP_F32, 1, &magnitudes, 5);
    }
    if (more != NULL) {
        made_add(&made, more, BP_F32, 1, &spare);
    }
    made_write(&made, 0, made.count, &d->memory.store, "ad");
    made_free(&made);
    d->error = (bp_error){0};
    assert_int_equal(bp_tensor_set_close(&d->adapters), BP_OK);
    assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error), BP_OK);
}

static const bp_lora dora = {.rank = RANK, .alpha = 6.0, .magnitudes = true};

/* Each row has the length that its magnitude says: m (W + 2 B A) / |W + 2 B A|. */
/* verifies formats-28.7a35 */
static void test_magnitudes(void **state)
{
    (void)state;
    static float base[OUT * WIDTH], merged[OUT * WIDTH];
    merge_fixture *d = fixture_new();
    const size_t index = index_of(d, "model.layers.0.self_attn.q_proj.weight");
    bp_staging work = {d->work, sizeof d->work};
    put_dora(d, OUT, NULL);
    assert_int_equal(
        bp_merge_load(&d->merge, &d->adapters, &dora, false, &d->source, &d->room, &d->error),
        BP_OK);
    const bp_tensor_view *view = &d->parameters.list[index].view;
    assert_int_equal(
        bp_weight_source_read(&d->source, index, view, 0, OUT * WIDTH, BP_F32, base, work), BP_OK);
    d->source.merge = &d->merge;
    assert_int_equal(
        bp_weight_source_read(&d->source, index, view, 0, OUT * WIDTH, BP_F32, merged, work),
        BP_OK);
    for (uint64_t row = 0; row < OUT; row++) {
        double square = 0.0;
        for (uint64_t c = 0; c < WIDTH; c++) {
            const double sum = (double)(base[row * WIDTH + c] + expected(row, c));
            square += sum * sum;
        }
        for (uint64_t c = 0; c < WIDTH; c++) {
            const double sum = (double)(base[row * WIDTH + c] + expected(row, c));
            const double right = (double)made_value(5, row) * sum / sqrt(square);
            assert_true(fabs((double)merged[row * WIDTH + c] - right) < 1e-5 * (1.0 + fabs(right)));
        }
    }
    merge_fixture_free(d);
}

/* verifies formats-26.24e5 */
static void test_magnitudes_in_little_memory(void **state)
{
    (void)state;
    merge_fixture *d = fixture_new();
    put_dora(d, OUT, NULL);
    size_t fit = 0;
    for (size_t bytes = 8; bytes < 16384; bytes += 8) {
        bp_staging room = {d->work, bytes};
        d->error = (bp_error){0};
        const bp_status status =
            bp_merge_load(&d->merge, &d->adapters, &dora, false, &d->source, &room, &d->error);
        assert_true(status == BP_ERR_FIT || status == BP_OK);
        assert_true(fit == 0 || status == BP_OK); /* more memory is no worse */
        fit = status == BP_OK && fit == 0 ? bytes : fit;
    }
    assert_true(fit > 0);
    merge_fixture_free(d);
}

/* verifies formats-6.0edb */
static void test_tensors_that_are_nobodys(void **state)
{
    (void)state;
    static const struct {
        uint64_t magnitudes;
        const char *more, *says; /* NULL: it is taken */
    } rows[] = {
        {0, NULL, "lacks its magnitudes"},
        {OUT + 1, NULL, "another base"},
        {OUT, "x", "another base"},
        {OUT, QUERY ".other", "another base"},
        {OUT, QUERY ".modules_to_save.bias", NULL}, /* PEFT's copies of a bias */
        {OUT, QUERY ".original_module.bias", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        merge_fixture *d = fixture_new();
        put_dora(d, rows[i].magnitudes, rows[i].more);
        const bp_status status =
            bp_merge_load(&d->merge, &d->adapters, &dora, false, &d->source, &d->room, &d->error);
        assert_int_equal(status, rows[i].says == NULL ? BP_OK : BP_ERR_DATA);
        assert_true(rows[i].says == NULL || strstr(d->error.text, rows[i].says) != NULL);
        merge_fixture_free(d);
    }
}

/* A model of one matrix, one vector and names that no adapter's can be: too long, or of no weight.
 */
static bp_status merge_hand_made(const made_tensor *tensors, size_t count, bool input_major,
                                 char *said)
{
    static char long_weight[400], long_bias[400];
    memset(long_weight, 'n', sizeof long_weight);
    memset(long_bias, 'n', sizeof long_bias);
    strcpy(long_weight + 368, ".weight");
    strcpy(long_bias + 368, ".bias");
    bp_wanted list[] = {{.name = "m.fc.weight", .rank = 2, .shape = {3, 2}},
                        {.name = "m.fc.bias", .rank = 1, .shape = {3}},
                        {.name = "m.table", .rank = 2, .shape = {2, 2}},
                        {.name = long_weight, .rank = 2, .shape = {2, 2}},
                        {.name = long_bias, .rank = 1, .shape = {2}}};
    merge_fixture *d = fixture_new();
    made_tensors made = {.count = 0};
    const bp_lora lora = {.rank = 1, .alpha = 1.0};
    for (size_t i = 0; i < count; i++) {
        made_add_values(&made, tensors[i].name, tensors[i].dtype, tensors[i].rank, tensors[i].shape,
                        i);
    }
    made_write(&made, 0, made.count, &d->memory.store, "ad");
    made_free(&made);
    assert_int_equal(bp_hf_open(&d->adapters, &d->memory.store, "ad", &d->room, &d->error), BP_OK);
    const bp_weight_source source = {.set = &d->set, .list = list, .count = 5};
    const bp_status status =
        bp_merge_load(&d->merge, &d->adapters, &lora, input_major, &source, &d->room, &d->error);
    strcpy(said, status == BP_OK ? "" : d->error.text);
    merge_fixture_free(d);
    return status;
}

#define FC "base_model.model.m.fc"
#define A_ONE                                                                                      \
    {                                                                                              \
        FC ".lora_A.weight", BP_F32, 2, {1, 2}, NULL                                               \
    }
#define B_ONE                                                                                      \
    {                                                                                              \
        FC ".lora_B.weight", BP_F32, 2, {3, 1}, NULL                                               \
    }

/* verifies formats-6.0edb */
static void test_shapes_and_names(void **state)
{
    (void)state;
    static const struct {
        made_tensor tensors[3];
        size_t count;
        bp_status status;
        const char *says;
    } rows[] = {
        {{A_ONE, B_ONE}, 2, BP_OK, ""},
        {{A_ONE, B_ONE, {FC ".bias", BP_F32, 1, {3}, NULL}}, 3, BP_OK, ""},
        {{A_ONE, B_ONE, {FC ".base_layer.bias", BP_F32, 1, {3}, NULL}}, 3, BP_OK, ""},
        {{{"base_model.model.m.table", BP_F32, 2, {2, 2}, NULL}}, 1, BP_OK, ""},
        {{{FC ".lora_A.weight", BP_F32, 1, {2}, NULL}, B_ONE}, 2, BP_ERR_DATA, "another base"},
        {{{FC ".lora_A.weight", BP_F32, 2, {1, 3}, NULL}, B_ONE}, 2, BP_ERR_DATA, "another base"},
        {{A_ONE, B_ONE, {FC ".bias", BP_F32, 1, {4}, NULL}}, 3, BP_ERR_DATA, "another base"},
        {{A_ONE, B_ONE, {FC ".bias", BP_F32, 2, {3, 1}, NULL}}, 3, BP_ERR_DATA, "another base"},
        {{A_ONE, B_ONE, {FC ".bias", BP_I32, 1, {3}, NULL}}, 3, BP_ERR_DATA, "another base"},
        /* Of a table, whose rows go in. */
        {{{FC ".lora_embedding_A", BP_F32, 2, {1, 3}, NULL}}, 1, BP_ERR_DATA, "one of its two"},
        {{{FC ".lora_embedding_A", BP_F32, 2, {1, 3}, NULL},
          {FC ".lora_embedding_B", BP_F32, 2, {2, 1}, NULL}},
         2,
         BP_OK,
         ""},
        {{{FC ".lora_embedding_A", BP_F32, 2, {1, 3}, NULL},
          {FC ".lora_embedding_B", BP_F32, 2, {2, 1}, NULL},
          {FC ".base_layer.weight", BP_F32, 2, {3, 2}, NULL}}, /* as PEFT writes the table along */
         3,
         BP_OK,
         ""},
        {{{FC ".lora_embedding_A", BP_F32, 2, {1, 2}, NULL},
          {FC ".lora_embedding_B", BP_F32, 2, {3, 1}, NULL}},
         2,
         BP_ERR_DATA,
         "another base"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[256];
        const bp_status status = merge_hand_made(rows[i].tensors, rows[i].count, false, said);
        if (status != rows[i].status || strstr(said, rows[i].says) == NULL) {
            fail_msg("row %zu: %d %s", i, status, said);
        }
    }
}

/* GPT-NeoX's file has queries, keys and values head by head; a GGUF has them apart. */
/* verifies formats-28.7a35 */
static void test_thirds(void **state)
{
    (void)state;
    enum { HEADS = 2, SIZE = 3, ROWS = 3 * HEADS * SIZE };
    float a[1] = {1.0f}, b[ROWS], values[ROWS];
    bp_wanted wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.rank = 2;
    wanted.view = (bp_tensor_view){.rank = 2, .shape = {ROWS, 1}};
    for (size_t i = 0; i < ROWS; i++) {
        b[i] = (float)i;
    }
    bp_merge_pair pair = {.rank = 1, .scale = 1.0f, .a = a, .b = b, .in = 1, .out = ROWS};
    const struct bp_merge merge = {.pairs = &pair};
    const bp_weight_source source = {.list = &wanted, .count = 1};
    bp_tensor_view view = {.rank = 2, .shape = {ROWS, 1}, .thirds = true, .heads = HEADS};
    memset(values, 0, sizeof values);
    bp_merge_add(&merge, &source, 0, &view, 0, ROWS, values);
    for (size_t third = 0; third < 3; third++) {
        for (size_t head = 0; head < HEADS; head++) {
            for (size_t i = 0; i < SIZE; i++) {
                const size_t ours = (head * 3 + third) * SIZE + i;
                assert_true(values[(third * HEADS + head) * SIZE + i] == (float)ours);
            }
        }
    }
    view.to_halves = true; /* the file has them as the parameter has */
    memset(values, 0, sizeof values);
    bp_merge_add(&merge, &source, 0, &view, 0, ROWS, values);
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(values[i] == (float)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_input_major),
        cmocka_unit_test(test_own_parameters),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_other_bases),
        cmocka_unit_test(test_magnitudes),
        cmocka_unit_test(test_magnitudes_in_little_memory),
        cmocka_unit_test(test_tensors_that_are_nobodys),
        cmocka_unit_test(test_shapes_and_names),
        cmocka_unit_test(test_thirds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
