/* SPDX-License-Identifier: MIT */
/* Llama and Qwen2 as GGUF, byte by byte as llama.cpp's converter writes them
 * (tools/golden/formats/port.py), and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/disk_file.h"
#include "tools/formats/gguf/gguf_export.h"
#include "tools/formats/gguf/gguf_llama.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"

#define GOLDEN "tests/golden/port/"

typedef struct fixture {
    memory_store memory;
    bp_error error;
    bp_model_config config;
    bp_tensor_set set;
    bp_parameters parameters;
    bp_weight_source source;
    bp_weight_target target;
    bp_gguf_file file;
    bp_staging room;
    uint64_t scratch[1 << 15];
    uint64_t work[1 << 14];
} fixture;

static bp_model_config llama_config(void)
{
    return config_with((bp_model_config){.family = &bp_family_llama,
                                         .vocabulary = 19,
                                         .positions = 32,
                                         .bos_token = 1,
                                         .eos_token = 2,
                                         .pad_token = -1},
                       OWN(bp_llama_config,
                           .stack = {.width = 16,
                                     .layers = 2,
                                     .heads = 2,
                                     .inner = 24,
                                     .norm_epsilon = 1e-6,
                                     .untied = true},
                           .kv_heads = 1, .head_width = 12, .rope_theta = 20000.0, .qkv_bias = true,
                           .output_bias = true, .mlp_bias = true));
}

static bp_model_config qwen2_config(void)
{
    bp_model_config config = llama_config();
    SET_FAMILY(&config, bp_llama_config, head_width, 0);
    SET_FAMILY(&config, bp_llama_config, output_bias, false);
    SET_FAMILY(&config, bp_llama_config, mlp_bias, false);
    SET_FAMILY(&config, bp_transformer, untied, false);
    return config;
}

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    d->target = (bp_weight_target){.store = &d->memory.store,
                                   .path = "out",
                                   .dtype = BP_F16,
                                   .work = {d->work, sizeof d->work},
                                   .error = &d->error};
    return d;
}

static void fixture_free(fixture *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d);
}

static void match(fixture *d, const bp_tensor_naming *naming)
{
    assert_int_equal(
        bp_parameters_list(&bp_model_llama, &d->config, &d->room, &d->parameters, &d->error),
        BP_OK);
    const bp_match m = {
        .set = &d->set,
        .naming = naming,
        .wanted = d->parameters.list,
        .count = d->parameters.count,
        .heads = {bp_transformer_of(&d->config).heads, bp_llama_config_of(&d->config).kv_heads, 0},
        .work = d->target.work};
    d->source = (bp_weight_source){
        .set = &d->set, .list = d->parameters.list, .count = d->parameters.count, .heads = m.heads};
    assert_int_equal(bp_tensor_match(&m), BP_OK);
}

static void open_hf(fixture *d, const char *path, const bp_model_config *config)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
    d->config = *config;
    disk_file_put(&d->memory, path, "in");
    assert_int_equal(bp_hf_open(&d->set, &d->memory.store, "in", &d->room, &d->error), BP_OK);
    match(d, &bp_family_find("llama")->naming);
}

static bp_status take(fixture *d, const char *name, const bp_gguf_family *family)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    d->room = (bp_staging){d->scratch, sizeof d->scratch};
    d->error = (bp_error){.code = BP_OK};
    d->config = (bp_model_config){.vocabulary = 19, .bos_token = 1, .eos_token = 2};
    assert_int_equal(bp_gguf_open(&d->file, &d->memory.store, name, &d->room, &d->error), BP_OK);
    bp_status status = family->take(&d->file, family->architecture, &d->config);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    return status;
}

/* verifies formats-7.5b71 */
static void files_are_those_of_the_converter_and_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "qwen2"};
    static const char *const ggufs[] = {GOLDEN "llama.gguf", GOLDEN "qwen2.gguf"};
    static const char *const hfs[] = {GOLDEN "llama.safetensors", GOLDEN "qwen2.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        fixture *d = fixture_new();
        bp_model_config config = i == 0 ? llama_config() : qwen2_config();
        const bp_gguf_family *family = bp_gguf_family_find(names[i]);
        const bp_gguf_model model = {family, &config, names[i], NULL, NULL, -1, NULL, 0};
        open_hf(d, hfs[i], &config);
        assert_int_equal(bp_gguf_export(&d->source, &model, &d->target), BP_OK);
        disk_file_compare(&d->memory, "out", ggufs[i]);
        /* Back: the keys say the same, and the values are those of fp16. */
        disk_file_put(&d->memory, ggufs[i], "in");
        assert_int_equal(take(d, "in", family), BP_OK);
        assert_int_equal(bp_llama_config_of(&d->config).kv_heads, 1);
        assert_int_equal(bp_llama_config_of(&d->config).head_width,
                         bp_llama_config_of(&config).head_width);
        assert_int_equal(bp_llama_config_of(&d->config).qkv_bias, true);
        assert_int_equal(bp_llama_config_of(&d->config).output_bias,
                         bp_llama_config_of(&config).output_bias);
        assert_int_equal(bp_llama_config_of(&d->config).mlp_bias,
                         bp_llama_config_of(&config).mlp_bias);
        assert_int_equal(bp_transformer_of(&d->config).untied, bp_transformer_of(&config).untied);
        assert_true(bp_llama_config_of(&d->config).rope_theta == 20000.0);
        assert_true(bp_transformer_of(&d->config).norm_epsilon == 1e-6);
        bp_tensor_set_init(&d->set, &d->memory.store, "in", &d->file.part, 1, &d->error);
        match(d, family->naming);
        assert_int_equal(bp_hf_export(&d->source, &bp_family_find("llama")->naming, &d->target),
                         BP_OK);
        size_t size;
        unsigned char *bytes = memory_store_bytes(&d->memory, "out", &size);
        memory_store_put(&d->memory, "back", bytes, size);
        open_hf(d, hfs[i], &config);
        assert_int_equal(bp_hf_export(&d->source, &bp_family_find("llama")->naming, &d->target),
                         BP_OK);
        bytes = memory_store_bytes(&d->memory, "out", &size);
        assert_memory_equal(memory_store_bytes(&d->memory, "back", &size), bytes, size);
        fixture_free(d);
    }
}

/* tools/golden/formats/port.py prints these: 500000, 64 wide, factor 8, 1 to 4, 8192. */
static const double llama3[32] = {1.0,       1.0,       1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
                                  1.0,       1.0,       1.0, 1.0, 1.0, 1.0, 1.0, 1.5534145,
                                  2.6945304, 5.2573272, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0,
                                  8.0,       8.0,       8.0, 8.0, 8.0, 8.0, 8.0, 8.0};

/* verifies formats-7.5b71 */
static void scaled_frequencies_are_written(void **state)
{
    (void)state;
    float factors[32];
    bp_model_config config = config_with(
        (bp_model_config){.family = NULL},
        OWN(bp_llama_config, .stack = {.width = 128, .heads = 2}, .rope_theta = 500000.0,
            .rope_scaling = {.factor = 8.0, .low = 1.0, .high = 4.0, .original = 8192}));
    assert_int_equal(bp_gguf_llama_frequencies(&config, factors, 32), 32);
    for (size_t i = 0; i < 32; i++) {
        assert_true(fabs((double)factors[i] - llama3[i]) < 2e-6);
    }
    assert_int_equal(bp_gguf_llama_frequencies(&config, factors, 4), 32);
    SET_FAMILY(&config, bp_llama_config, rope_scaling.factor, 0.0);
    assert_int_equal(bp_gguf_llama_frequencies(&config, factors, 32), 0);

    fixture *d = fixture_new();
    config = llama_config();
    SET_FAMILY(&config, bp_llama_config, rope_scaling,
               (bp_rope_scaling){.factor = 8.0, .low = 1.0, .high = 4.0, .original = 16});
    const bp_model_config whole = llama_config();
    open_hf(d, GOLDEN "llama.safetensors", &whole);
    const bp_gguf_family *family = bp_gguf_family_find("llama");
    const bp_gguf_model model = {family, &config, "", NULL, NULL, -1, NULL, 0};
    assert_int_equal(bp_gguf_export(&d->source, &model, &d->target), BP_OK);
    assert_int_equal(take(d, "out", family), BP_OK); /* the numbers follow from the factors */
    const bp_rope_scaling back = bp_llama_config_of(&d->config).rope_scaling;
    assert_true(back.factor == 8.0 && back.low == 1.0 && back.high == 4.0 && back.original == 16);
    assert_int_equal(d->file.part.entry_count, 36);
    SET_FAMILY(&config, bp_llama_config, rope_scaling,
               (bp_rope_scaling){.factor = 8.0, .low = 1.0, .high = 5.0, .original = 16});
    open_hf(d, GOLDEN "llama.safetensors", &whole);
    assert_int_equal(bp_gguf_export(&d->source, &model, &d->target), BP_OK);
    assert_int_equal(take(d, "out", family), BP_ERR_DATA); /* other numbers than Llama 3's */
    assert_non_null(strstr(d->error.name, "rope_freqs.weight"));
    SET_FAMILY(&config, bp_llama_config, head_width, 2048);
    open_hf(d, GOLDEN "llama.safetensors", &whole);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_export(&d->source, &model, &d->target), BP_ERR_USAGE);
    fixture_free(d);
}

/* Writes keys of a llama of which number `wrong` has another value. */
static void put_keys(fixture *d, size_t wrong, uint32_t value)
{
    static const struct {
        const char *name;
        uint32_t value;
    } keys[] = {
        {"llama.block_count", 2},          {"llama.context_length", 32},
        {"llama.embedding_length", 16},    {"llama.feed_forward_length", 24},
        {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2},
        {"llama.attention.key_length", 8},
    };
    bp_gguf_writer w;
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", NULL), BP_OK);
    for (size_t i = 0; i < 7; i++) {
        bp_gguf_put_u32(&w, keys[i].name, i == wrong ? value : keys[i].value);
    }
    bp_gguf_put_f32(&w, "llama.rope.freq_base", wrong == 7 ? (float)value : 10000.0f);
    bp_gguf_put_f32(&w, "llama.attention.layer_norm_rms_epsilon",
                    wrong == 8 ? (float)value : 1e-5f);
    if (wrong == 9) {
        bp_gguf_put_string(&w, "llama.rope.scaling.type", "long", 4);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
}

/* verifies formats-10.4a5c */
static void keys_are_held_to_their_bounds(void **state)
{
    (void)state;
    static const struct {
        size_t key;
        uint32_t value;
    } cases[] = {{0, 0}, {0, 4097}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 3}, {5, 0},
                 {5, 3}, {5, 8},    {6, 0}, {6, 7}, {7, 0}, {8, 1}, {9, 0}};
    fixture *d = fixture_new();
    const bp_gguf_family *family = bp_gguf_family_find("llama");
    put_keys(d, 100, 0);
    assert_int_equal(take(d, "g", family), BP_OK);
    assert_int_equal(bp_llama_config_of(&d->config).head_width, 8);
    assert_false(bp_transformer_of(&d->config).untied);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_keys(d, cases[i].key, cases[i].value);
        assert_int_equal(take(d, "g", family), BP_ERR_DATA);
    }
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_the_converter_and_come_back),
        cmocka_unit_test(scaled_frequencies_are_written),
        cmocka_unit_test(keys_are_held_to_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
