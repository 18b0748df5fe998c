/* SPDX-License-Identifier: MIT */
/* config.json, presets, names of tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/model.h"
#include "core/base/error.h"
#include "layers/families/bert.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"

static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];

static bp_status read_text(const char *json, bp_model_config *config, bp_error *error)
{
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", json, strlen(json));
    *error = (bp_error){.code = BP_OK};
    bp_status status = bp_hf_config_read(&memory.store, "config.json", scratch, config, error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

/* verifies formats-27.f2cc */
static void an_almost_empty_file_has_the_defaults_of_the_family(void **state)
{
    (void)state;
    bp_model_config config;
    bp_error error;
    assert_int_equal(read_text("{\"model_type\": \"gpt2\"}", &config, &error), BP_OK);
    const bp_model_config preset = bp_preset_config(bp_preset_find("gpt2"));
    assert_memory_equal(&config, &preset, sizeof config);
}

/* verifies formats-27.f2cc */
static void every_field_is_read(void **state)
{
    (void)state;
    bp_model_config config;
    bp_error error;
    assert_int_equal(
        read_text("{\"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 11, "
                  "\"n_positions\": 12, \"n_ctx\": 99, \"n_embd\": 14, \"n_layer\": 3, "
                  "\"n_head\": 7, \"n_inner\": 15, \"layer_norm_epsilon\": 1e-6, "
                  "\"initializer_range\": 0.5, \"embd_pdrop\": 0, \"resid_pdrop\": 0.25, "
                  "\"attn_pdrop\": 0.125, \"bos_token_id\": null, \"eos_token_id\": [5, 6], "
                  "\"activation_function\": \"gelu_new\", \"scale_attn_weights\": true, "
                  "\"pruned_heads\": {}, \"quantization_config\": null, "
                  "\"task_specific_params\": {\"a\": {\"n_head\": -1}}, "
                  "\"model_type\": \"gpt2\"}",
                  &config, &error),
        BP_OK);
    assert_int_equal(config.vocabulary, 11);
    assert_int_equal(config.positions, 12);
    assert_int_equal(bp_transformer_of(&config).width, 14);
    assert_int_equal(bp_transformer_of(&config).layers, 3);
    assert_int_equal(bp_transformer_of(&config).heads, 7);
    assert_int_equal(bp_transformer_of(&config).inner, 15);
    assert_true(bp_transformer_of(&config).norm_epsilon == 1e-6);
    assert_true(bp_transformer_of(&config).initializer_range == 0.5);
    assert_true(bp_transformer_of(&config).embedding_dropout == 0.0);
    assert_true(bp_transformer_of(&config).residual_dropout == 0.25);
    assert_true(bp_transformer_of(&config).attention_dropout == 0.125);
    assert_int_equal(config.bos_token, -1);
    assert_int_equal(config.eos_token, 5);
}

/* verifies formats-27.f2cc */
static void other_names_mean_the_same(void **state)
{
    (void)state;
    bp_model_config config;
    bp_error error;
    assert_int_equal(read_text("{\"model_type\": \"gpt2\", \"hidden_size\": 64, \"n_embd\": 64, "
                               "\"max_position_embeddings\": 32, \"num_attention_heads\": 4, "
                               "\"num_hidden_layers\": 2, \"n_inner\": null, \"eos_token_id\": []}",
                               &config, &error),
                     BP_OK);
    assert_int_equal(bp_transformer_of(&config).width, 64);
    assert_int_equal(config.positions, 32);
    assert_int_equal(bp_transformer_of(&config).heads, 4);
    assert_int_equal(bp_transformer_of(&config).layers, 2);
    assert_int_equal(bp_transformer_of(&config).inner, 0);
    assert_int_equal(config.eos_token, -1);
}

/* The members stand behind a good model_type. */
typedef struct refusal {
    const char *members;
    const char *name; /* of the error, behind "config.json: " */
} refusal;

/* verifies formats-1.08bd */
static void every_wrong_value_is_refused_by_name(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"\"vocab_size\": 0", "vocab_size"},
        {"\"vocab_size\": -5", "vocab_size"},
        {"\"vocab_size\": 2147483648", "vocab_size"},
        {"\"vocab_size\": 99999999999999999999999", "vocab_size"},
        {"\"vocab_size\": 1.5", "vocab_size"},
        {"\"vocab_size\": \"11\"", "vocab_size"},
        {"\"vocab_size\": null", "vocab_size"},
        {"\"n_inner\": 0", "n_inner"},
        {"\"n_layer\": []", "n_layer"},
        {"\"n_head\": 5", "n_head"},
        {"\"n_embd\": 64, \"hidden_size\": 65", "hidden_size"},
        {"\"attn_pdrop\": 1", "attn_pdrop"},
        {"\"attn_pdrop\": -0.5", "attn_pdrop"},
        {"\"resid_pdrop\": \"0\"", "resid_pdrop"},
        {"\"layer_norm_epsilon\": 2", "layer_norm_epsilon"},
        {"\"bos_token_id\": -2", "bos_token_id"},
        {"\"bos_token_id\": 1e3", "bos_token_id"},
        {"\"bos_token_id\": true", "bos_token_id"},
        {"\"eos_token_id\": [\"a\"]", "eos_token_id"},
        {"\"eos_token_id\": [1, \"a\"]", "eos_token_id"},
        {"\"eos_token_id\": [1, -2]", "eos_token_id"},
        {"\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]", "eos_token_id"},
        {"\"activation_function\": \"silu\"", "activation_function"},
        {"\"activation_function\": 1", "activation_function"},
        {"\"scale_attn_weights\": false", "scale_attn_weights"},
        {"\"scale_attn_by_inverse_layer_idx\": 1", "scale_attn_by_inverse_layer_idx"},
        {"\"reorder_and_upcast_attn\": true", "reorder_and_upcast_attn"},
        {"\"add_cross_attention\": true", "add_cross_attention"},
        {"\"is_encoder_decoder\": true", "is_encoder_decoder"},
        {"\"tie_word_embeddings\": 1", "tie_word_embeddings"},
        {"\"pruned_heads\": {\"0\": [1]}", "pruned_heads"},
        {"\"pruned_heads\": []", "pruned_heads"},
        {"\"quantization_config\": {}", "quantization_config"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char json[512];
        char name[64];
        bp_model_config config =
            config_with((bp_model_config){.family = NULL}, OWN(bp_transformer, .width = 77));
        bp_error error;
        snprintf(json, sizeof json, "{\"model_type\": \"gpt2\", %s}", refusals[i].members);
        snprintf(name, sizeof name, "config.json: %s", refusals[i].name);
        assert_int_equal(read_text(json, &config, &error), BP_ERR_DATA);
        assert_int_equal(error.code, BP_ERR_DATA);
        assert_string_equal(error.name, name);
        assert_int_equal(bp_transformer_of(&config).width, 77);
    }
}

/* verifies formats-1.08bd */
static void what_is_no_gpt2_configuration_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "7",
        "{",
        "{}",
        "{\"model_type\": \"mamba\"}",
        "{\"model_type\": 2}",
        "{\"model_type\": \"gpt2\"",
        "{\"model_type\": \"gpt2\"} {}",
        "{\"model_type\": \"gpt2\", \"n_head\"",
        "{\"model_type\": \"gpt2\", \"n_head\": 12, \"n_head\": 12}",
        "{\"model_type\": \"gpt2\", \"eos_token_id\": [1, ",
        "{\"model_type\": \"gpt2\", \"pruned_heads\": {",
        "{\"model_type\": \"gpt2\", \"pruned_heads\": {\"a",
        "{\"model_type\": \"gpt2\", \"x\": }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bp_model_config config;
        bp_error error;
        assert_int_equal(read_text(texts[i], &config, &error), BP_ERR_DATA);
        assert_true(strncmp(error.name, "config.json", 11) == 0);
    }
}

/* verifies file-2.efdf */
static void a_hostile_number_of_keys_is_refused(void **state)
{
    (void)state;
    static char json[200000];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"model_type\": \"gpt2\"");
    for (int i = 0; i < 10000; i++) {
        used += (size_t)snprintf(json + used, sizeof json - used, ", \"k%d\": 0", i);
    }
    snprintf(json + used, sizeof json - used, "}");
    bp_model_config config;
    bp_error error;
    assert_int_equal(read_text(json, &config, &error), BP_ERR_DATA);
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    static const char json[] = "{\"model_type\": \"gpt2\"}";
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", json, sizeof json - 1);
    for (size_t i = 0; i < 3; i++) {
        faulty_store faulty;
        bp_model_config config;
        bp_error error = {.code = BP_OK};
        faulty_store_init(&faulty, &memory.store);
        faulty_store_arm(&faulty, kinds[i], 1, false);
        assert_int_equal(bp_hf_config_read(&faulty.store, "config.json", scratch, &config, &error),
                         BP_ERR_STORE);
        assert_int_equal(error.code, BP_ERR_STORE);
        assert_int_equal(memory.open_files, 0);
        /* The first error stays, and none is needed. */
        assert_int_equal(bp_hf_config_read(&memory.store, "nothing", scratch, &config, &error),
                         BP_ERR_STORE);
        assert_int_equal(bp_hf_config_read(&memory.store, "nothing", scratch, &config, NULL),
                         BP_ERR_STORE);
    }
    memory_store_put(&memory, "config.json", "{}", 2);
    bp_model_config config;
    assert_int_equal(bp_hf_config_read(&memory.store, "config.json", scratch, &config, NULL),
                     BP_ERR_DATA);
    bp_error error = {.code = BP_ERR_USAGE};
    assert_int_equal(bp_hf_config_read(&memory.store, "config.json", scratch, &config, &error),
                     BP_ERR_DATA);
    assert_int_equal(error.code, BP_ERR_USAGE);
    memory_store_free(&memory);
}

/* verifies formats-2.1f4a */
static void what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    bp_model_config configs[3] = {bp_preset_config(bp_preset_find("gpt2-xl")),
                                  bp_preset_config(bp_preset_find("tiny"))};
    configs[2] = configs[1];
    SET_FAMILY(&configs[2], bp_transformer, inner, 100);
    SET_FAMILY(&configs[2], bp_transformer, residual_dropout, 0.1 + 0.2); /* 17 digits */
    SET_FAMILY(&configs[2], bp_transformer, norm_epsilon, 1e-12);
    SET_FAMILY(&configs[2], bp_transformer, initializer_range, 3);
    for (size_t i = 0; i < 3; i++) {
        char json[BP_HF_CONFIG_TEXT + 1];
        size_t length;
        bp_model_config config;
        bp_error error;
        assert_int_equal(bp_hf_config_text(&configs[i], NULL, json, &length), BP_OK);
        assert_int_equal(strlen(json), length);
        assert_int_equal(read_text(json, &config, &error), BP_OK);
        assert_memory_equal(&config, &configs[i], sizeof config);
        json_error_t why;
        json_t *tree = json_loads(json, JSON_REJECT_DUPLICATES, &why);
        assert_non_null(tree);
        /* A strict reader takes 3 for an integer: reals must look real. */
        assert_true(json_is_real(json_object_get(tree, "initializer_range")));
        assert_string_equal(json_string_value(json_object_get(tree, "model_type")), "gpt2");
        json_decref(tree);
    }
}

/* Elements of all parameters that a model publishes. */
static uint64_t count_parameters(const bp_model *model, const bp_model_config *config)
{
    static uint64_t memory[1 << 19];
    static bp_parameter parameters[4096];
    const bp_spec spec = {.model = model, .config = *config};
    const bp_graph_limits limits = {
        .buffers = 8192, .ops = 1, .refs = 1, .scalars = 1, .name_bytes = 1 << 20};
    bp_arena arena;
    bp_graph graph;
    bp_error error = {.code = BP_OK};
    uint64_t count = 0;
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &limits, &arena, &error), BP_OK);
    bp_builder builder;
    bp_build_init(&builder, &graph, &spec, parameters, 4096);
    model->parameters(&builder, config);
    assert_int_equal(builder.status, BP_OK);
    assert_int_equal(builder.parameter_count, model->parameter_count(config));
    for (uint32_t i = 0; i < builder.parameter_count; i++) {
        count += parameters[i].count;
    }
    return count;
}

/* What lies behind the last member of a scaling has no value that C promises. */
static void resolve(bp_model_config *config)
{
    const size_t last = offsetof(bp_rope_scaling, even) + sizeof(bool);
    if (config->family->model == &bp_model_llama) {
        memset((char *)config + BP_FAMILY_MEMBER(bp_llama_config, rope_scaling) + last, 0,
               sizeof(bp_rope_scaling) - last);
    }
}

/* verifies formats-2.1f4a */
static void every_preset_is_written_and_read_back(void **state)
{
    (void)state;
    static char json[BP_HF_CONFIG_TEXT];
    const bp_preset *preset;
    for (uint32_t i = 0; (preset = bp_preset_at(i)) != NULL; i++) {
        const bool tokens = preset->config.family == &bp_family_bert;
        const bp_task last = tokens ? BP_TASK_ANSWERS : BP_TASK_REGRESSION;
        for (bp_task task = preset->config.task; task <= last; task++) {
            bp_model_config wanted = bp_preset_config(preset), config;
            bp_error error;
            size_t length = 0;
            const bp_family *family = preset->config.family;
            const bool alone = family->language_class == NULL && family->whole_class == NULL;
            const bool judges = family != &bp_family_rnn && (alone || family->judge_class != NULL);
            if (task != preset->config.task && (task < BP_TASK_CLASSES || !judges)) {
                continue;
            }
            wanted.task = task;
            wanted.classes = task < BP_TASK_CLASSES       ? 0
                             : task == BP_TASK_REGRESSION ? 1
                             : task == BP_TASK_ANSWERS    ? 2
                                                          : 5;
            assert_int_equal(bp_hf_config_text(&wanted, NULL, json, &length), BP_OK);
            assert_int_equal(read_text(json, &config, &error), BP_OK);
            if (wanted.family->model == &bp_model_llama &&
                bp_llama_config_of(&wanted).kv_heads == 0) {
                SET_FAMILY(&config, bp_llama_config, kv_heads,
                           0); /* as many as heads, said or not */
            }
            resolve(&config);
            resolve(&wanted);
            wanted.experts = BP_QUANTISED_NONE; /* what is written holds floats */
            assert_memory_equal(&config, &wanted, sizeof config);
            wanted.experts = preset->config.experts;
            json_error_t why;
            json_t *tree = json_loads(json, JSON_REJECT_DUPLICATES, &why);
            assert_non_null(tree);
            json_decref(tree);
        }
    }
}

/* What transformers counts: LlamaForCausalLM, BertForMaskedLM, GPT2LMHeadModel of these shapes. */
/* verifies formats-27.f2cc */
static void presets_have_the_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const bp_model *model;
        uint64_t parameters;
    } published[] = {{"gpt2", &bp_model_gpt2, UINT64_C(124439808)},
                     {"gpt2-medium", &bp_model_gpt2, UINT64_C(354823168)},
                     {"gpt2-large", &bp_model_gpt2, UINT64_C(774030080)},
                     {"gpt2-xl", &bp_model_gpt2, UINT64_C(1557611200)},
                     {"llama-7b", &bp_model_llama, UINT64_C(6738415616)},
                     {"llama-13b", &bp_model_llama, UINT64_C(13015864320)},
                     {"llama-3-8b", &bp_model_llama, UINT64_C(8030261248)},
                     {"llama-3.2-1b", &bp_model_llama, UINT64_C(1235814400)},
                     {"tinyllama-1.1b", &bp_model_llama, UINT64_C(1100048384)},
                     {"bert-base", &bp_model_bert, UINT64_C(109514298)},
                     {"bert-large", &bp_model_bert, UINT64_C(335174458)}};
    assert_null(bp_preset_find("gpt3"));
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const bp_preset *preset = bp_preset_find(published[i].name);
        assert_non_null(preset);
        assert_true(preset->note[0] != '\0');
        const bp_model_config config = bp_preset_config(preset);
        assert_true(count_parameters(published[i].model, &config) == published[i].parameters);
    }
}

/* verifies formats-27.f2cc */
static void other_families_are_read(void **state)
{
    (void)state;
    bp_model_config config;
    bp_error error;
    assert_int_equal(
        read_text("{\"rope_theta\": 500000.0, \"rope_scaling\": {\"factor\": 8.0, \"type\": "
                  "\"llama3\", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                  "\"original_max_position_embeddings\": 8192}, \"hidden_size\": 96, "
                  "\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 24, "
                  "\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true, "
                  "\"sliding_window\": null, \"eos_token_id\": [7, 8], \"model_type\": \"llama\"}",
                  &config, &error),
        BP_OK);
    assert_int_equal(config.family, &bp_family_llama);
    assert_int_equal(bp_transformer_of(&config).width, 96);
    assert_int_equal(bp_llama_config_of(&config).kv_heads, 3);
    assert_int_equal(bp_llama_config_of(&config).head_width, 24);
    assert_true(bp_llama_config_of(&config).qkv_bias && bp_llama_config_of(&config).output_bias &&
                bp_llama_config_of(&config).mlp_bias && !bp_transformer_of(&config).untied);
    assert_true(bp_llama_config_of(&config).rope_theta == 500000.0 &&
                bp_llama_config_of(&config).rope_scaling.factor == 8.0);
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 8192);
    assert_int_equal(config.eos_token, 7);
    assert_true(config.more_eos_count == 1 && config.more_eos[0] == 8);
    assert_int_equal(read_text("{\"model_type\": \"qwen2\", \"rope_parameters\": {\"rope_theta\": "
                               "1e6, \"rope_type\": \"default\"}, \"sliding_window\": 4096, "
                               "\"use_sliding_window\": false, \"layer_types\": "
                               "[\"full_attention\"], \"num_hidden_layers\": 1}",
                               &config, &error),
                     BP_OK);
    assert_true(config.family == &bp_family_qwen2 && bp_llama_config_of(&config).qkv_bias &&
                !bp_llama_config_of(&config).output_bias);
    assert_true(bp_llama_config_of(&config).rope_theta == 1e6 &&
                bp_llama_config_of(&config).rope_scaling.factor == 0.0);
    assert_int_equal(read_text("{\"model_type\": \"bert\", \"architectures\": "
                               "[\"BertForSequenceClassification\"], \"id2label\": {\"0\": \"a\", "
                               "\"1\": \"b\", \"2\": \"c\"}, \"hidden_dropout_prob\": 0.25}",
                               &config, &error),
                     BP_OK);
    assert_true(config.family == &bp_family_bert && config.task == BP_TASK_CLASSES);
    assert_int_equal(config.classes, 3);
    assert_true(bp_transformer_of(&config).embedding_dropout == 0.25 &&
                bp_transformer_of(&config).residual_dropout == 0.25);
    assert_true(bp_bert_config_of(&config).classifier_dropout == 0.25);
}

/* Which layers look through a window: the keys of both dialects, and what they are written as. */
static void expect_windows(const char *members, const char *windows, const char *keys)
{
    static char text[BP_HF_CONFIG_TEXT];
    char json[512], seen[16] = "", all[512] = "";
    bp_model_config config;
    bp_error error;
    size_t length;
    snprintf(json, sizeof json, "{\"num_hidden_layers\": 4, %s}", members);
    assert_int_equal(read_text(json, &config, &error), BP_OK);
    const bp_llama_config own = bp_llama_config_of(&config);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        const bool near = own.window != 0 && (own.near.listed == 0 || bp_layer_in(&own.near, i));
        strcat(seen, near ? "w" : ".");
    }
    assert_string_equal(seen, windows);
    assert_int_equal(bp_hf_config_text(&config, NULL, text, &length), BP_OK);
    static const char *const written[] = {"layer_types", "max_window_layers",
                                          "no_rope_layer_interval", "sliding_window",
                                          "use_sliding_window"};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\": ", written[i]);
        const char *at = strstr(text, key);
        if (at != NULL && written[i][0] != 'l') {
            strncat(all, at + strlen(key), strcspn(at + strlen(key), "\n"));
        } else if (at != NULL) {
            strcat(all, "list,");
        }
    }
    assert_string_equal(all, keys);
    bp_model_config again;
    assert_int_equal(read_text(text, &again, &error), BP_OK);
    assert_true(bp_family_same(&config, &again));
}

/* verifies formats-27.f2cc */
static void windows_of_some_layers_are_read_and_written(void **state)
{
    (void)state;
    expect_windows("\"model_type\": \"qwen2\"", "....", "");
    expect_windows("\"model_type\": \"qwen2\", \"sliding_window\": 8", "....", "");
    expect_windows("\"model_type\": \"qwen2\", \"use_sliding_window\": true, "
                   "\"sliding_window\": null",
                   "....", "");
    expect_windows("\"model_type\": \"qwen2\", \"use_sliding_window\": true", "....",
                   "list,4,4096,true,");
    expect_windows("\"model_type\": \"qwen3\", \"use_sliding_window\": true, "
                   "\"sliding_window\": 8, \"max_window_layers\": 1",
                   ".www", "list,1,8,true,");
    expect_windows("\"model_type\": \"qwen3\", \"use_sliding_window\": true, "
                   "\"sliding_window\": 8, \"max_window_layers\": 0",
                   "wwww", "list,0,8,true,");
    expect_windows("\"model_type\": \"qwen2\", \"use_sliding_window\": true, "
                   "\"sliding_window\": 8, \"max_window_layers\": 3, \"layer_types\": "
                   "[\"full_attention\", \"sliding_attention\", \"full_attention\", "
                   "\"sliding_attention\"]",
                   ".w.w", "list,1,8,true,");
    expect_windows("\"model_type\": \"olmo3\", \"sliding_window\": 8", "www.", "list,8,");
    expect_windows("\"model_type\": \"exaone4\", \"sliding_window\": 8, "
                   "\"sliding_window_pattern\": \"LG\"",
                   "w.w.", "list,8,");
    expect_windows("\"model_type\": \"exaone4\", \"sliding_window\": null, "
                   "\"sliding_window_pattern\": null",
                   "....", "list,null,");
    expect_windows("\"model_type\": \"cohere2\", \"sliding_window\": 8, "
                   "\"sliding_window_pattern\": 3",
                   "ww.w", "list,8,");
    expect_windows("\"model_type\": \"smollm3\", \"sliding_window\": 8", "....", "null,");
    expect_windows("\"model_type\": \"smollm3\", \"use_sliding_window\": true", "....", "null,");
    expect_windows("\"model_type\": \"smollm3\", \"use_sliding_window\": true, "
                   "\"sliding_window\": 8, \"no_rope_layer_interval\": 2",
                   ".w.w", "list,8,true,");
    expect_windows("\"model_type\": \"smollm3\", \"sliding_window\": 8, \"layer_types\": "
                   "[\"full_attention\", \"sliding_attention\", \"full_attention\", "
                   "\"full_attention\"]",
                   ".w..", "list,8,true,");
}

static const struct {
    const char *type;
    const char *members;
    const char *name;
} refusals[] = {
    {"llama", "\"hidden_act\": \"gelu\"", "hidden_act"},
    {"llama", "\"rope_scaling\": {\"rope_type\": \"spiral\", \"factor\": 4}",
     "rope_scaling.rope_type"},
    {"llama", "\"rope_scaling\": {\"rope_type\": \"llama3\"}", "rope_scaling"},
    {"llama", "\"rope_scaling\": 7", "rope_scaling"},
    {"llama", "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}",
     "rope_parameters.partial_rotary_factor"},
    {"llama", "\"sliding_window\": 4096", "sliding_window"},
    {"llama", "\"is_causal\": false", "is_causal"},
    {"gpt2", "\"is_causal\": null", "is_causal"},
    {"qwen3_next", "\"is_causal\": false", "is_causal"},
    {"llama", "\"per_layer_config\": {\"1\": {\"intermediate_size\": 20}}", "per_layer_config"},
    {"bert", "\"per_layer_config\": {\"0\": {}}", "per_layer_config"},
    {"gpt_oss", "\"partial_rotary_factor\": 0.25", "partial_rotary_factor"},
    {"qwen2", "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 20}}", "rope_parameters"},
    {"llama",
     "\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 2], "
     "\"long_factor\": [3, 4]}",
     "long_factor"},
    {"llama", "\"pretraining_tp\": 2", "pretraining_tp"},
    {"llama", "\"num_key_value_heads\": 5", "num_key_value_heads"},
    {"llama", "\"num_attention_heads\": 3", "num_attention_heads"},
    {"llama", "\"head_dim\": 7", "head_dim"},
    {"llama", "\"attention_bias\": 1", "attention_bias"},
    {"qwen2", "\"use_sliding_window\": 1", "use_sliding_window"},
    {"qwen2",
     "\"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\", "
     "\"sliding_attention\"]",
     "layer_types"},
    {"qwen2",
     "\"use_sliding_window\": true, \"sliding_window\": null, "
     "\"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]",
     "layer_types"},
    {"qwen3", "\"use_sliding_window\": true, \"num_hidden_layers\": 129", "layer_types"},
    {"qwen3", "\"use_sliding_window\": true, \"max_window_layers\": -1", "max_window_layers"},
    {"qwen3", "\"use_sliding_window\": true, \"layer_types\": [\"chunked_attention\"]",
     "layer_types"},
    {"gemma2", "\"sliding_window\": null", "layer_types"},
    {"gemma2", "\"attn_logit_softcapping\": 0.0", "attn_logit_softcapping"},
    {"gemma3_text", "\"final_logit_softcapping\": 0", "final_logit_softcapping"},
    {"gemma3_text", "\"rope_parameters\": {\"rope_theta\": 20}", "rope_parameters"},
    {"olmo3", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", "rope_scaling"},
    {"olmo3", "\"rope_scaling\": {\"full_attention\": {\"rope_theta\": 20}}", "rope_scaling"},
    {"granitemoehybrid", "\"num_local_experts\": 0, \"layers_block_type\": [\"mamba\"]",
     "layers_block_type"},
    {"smollm3", "\"no_rope_layer_interval\": 0", "no_rope_layer_interval"},
    {"exaone4", "\"sliding_window_pattern\": \"LLGL\"", "sliding_window_pattern"},
    {"exaone4",
     "\"sliding_window\": null, \"num_hidden_layers\": 1, \"layer_types\": "
     "[\"sliding_attention\"]",
     "layer_types"},
    {"cohere", "\"use_qk_norm\": true", "use_qk_norm"},
    {"arcee", "\"hidden_act\": \"relu\"", "hidden_act"},
    {"granitemoehybrid", "\"num_local_experts\": 8", "num_local_experts"},
    {"granitemoehybrid", "\"hidden_size\": 64", "num_local_experts"},
    {"qwen3_moe", "\"output_router_logits\": 2", "output_router_logits"},
    {"mixtral", "\"router_aux_loss_coef\": -0.5", "router_aux_loss_coef"},
    {"qwen3_moe", "\"mlp_only_layers\": [0, 128]", "mlp_only_layers"},
    {"qwen3_moe", "\"mlp_only_layers\": 3", "mlp_only_layers"},
    {"qwen3_moe", "\"decoder_sparse_step\": 0", "decoder_sparse_step"},
    {"qwen3_moe", "\"num_experts\": 4, \"num_local_experts\": 5", "num_local_experts"},
    {"olmoe", "\"clip_qkv\": 8.0", "clip_qkv"},
    {"mixtral", "\"num_local_experts\": 0", "num_local_experts"},
    {"glm4_moe", "\"n_group\": 65", "n_group"},
    {"glm4_moe", "\"topk_group\": 0", "topk_group"},
    {"glm4_moe", "\"n_shared_experts\": 0", "n_shared_experts"},
    {"glm4_moe", "\"output_router_logits\": true", "output_router_logits"},
    {"glm4_moe", "\"n_routed_experts\": 4, \"num_local_experts\": 5", "num_local_experts"},
    {"granitemoehybrid",
     "\"num_local_experts\": 0, \"num_hidden_layers\": 1, \"layer_types\": [\"mamba\"]",
     "layer_types"},
    {"bert", "\"position_embedding_type\": \"relative_key\"", "position_embedding_type"},
    {"bert", "\"hidden_act\": \"silu\"", "hidden_act"},
    {"t5", "\"dense_act_fn\": \"gelu_new\"", "dense_act_fn"},
    {"t5", "\"dense_act_fn\": \"tanh\"", "dense_act_fn"},
    {"mt5", "\"dense_act_fn\": \"silu\"", "dense_act_fn"},
    {"mt5", "\"is_gated_act\": false", "is_gated_act"},
    {"t5", "\"is_gated_act\": 1", "is_gated_act"},
    {"t5", "\"is_causal\": true", "is_causal"},
    {"nomic_bert", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}", "rope_scaling"},
    {"bert", "\"is_decoder\": true", "is_decoder"},
    {"bert", "\"problem_type\": \"ranking\"", "problem_type"},
    {"bert", "\"id2label\": []", "id2label"},
};

/* verifies formats-1.08bd */
static void what_other_families_lack_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char json[512], name[64];
        bp_model_config config;
        bp_error error;
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", %s}", refusals[i].type,
                 refusals[i].members);
        snprintf(name, sizeof name, "config.json: %s", refusals[i].name);
        assert_int_equal(read_text(json, &config, &error), BP_ERR_DATA);
        assert_string_equal(error.name, name);
    }
}

/* What is found in place of a number is said, of a text longer than is read at once its beginning.
 */
/* verifies formats-1.08bd */
static void a_long_text_is_no_number(void **state)
{
    (void)state;
    static char json[4000];
    bp_model_config config;
    bp_error error = {.code = BP_OK};
    size_t at = (size_t)sprintf(json, "{\"model_type\": \"gpt2\", \"n_embd\": \"");
    memset(json + at, 'w', 3000);
    strcpy(json + at + 3000, "\"}");
    assert_int_equal(read_text(json, &config, &error), BP_ERR_DATA);
    assert_non_null(strstr(error.name, "n_embd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_almost_empty_file_has_the_defaults_of_the_family),
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(other_names_mean_the_same),
        cmocka_unit_test(every_wrong_value_is_refused_by_name),
        cmocka_unit_test(what_is_no_gpt2_configuration_is_refused),
        cmocka_unit_test(a_hostile_number_of_keys_is_refused),
        cmocka_unit_test(storage_that_fails_is_said_so),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(every_preset_is_written_and_read_back),
        cmocka_unit_test(presets_have_the_published_sizes),
        cmocka_unit_test(other_families_are_read),
        cmocka_unit_test(windows_of_some_layers_are_read_and_written),
        cmocka_unit_test(what_other_families_lack_is_refused_by_name),
        cmocka_unit_test(a_long_text_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
