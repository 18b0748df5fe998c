/* SPDX-License-Identifier: MIT */
/* Configurations of chains of dense layers and of recurrent models, and rows of bare numbers with
 * several classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/mlp_model.h"
#include "layers/families/rnn.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_numbers.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/family.h"

static bp_status read_text(const char *json, bp_model_config *config, bp_error *error)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", json, strlen(json));
    *error = (bp_error){.code = BP_OK};
    bp_status status = bp_hf_config_read(&memory.store, "config.json", scratch, config, error);
    memory_store_free(&memory);
    return status;
}

/* verifies formats-27.f2cc */
static void chains_are_read(void **state)
{
    (void)state;
    bp_model_config config;
    bp_error error;
    assert_int_equal(read_text("{\"model_type\": \"mlp\", \"input_size\": 30, \"hidden_sizes\": "
                               "[20, 10, 5], \"hidden_act\": \"gelu\", \"num_labels\": 7, "
                               "\"hidden_dropout_prob\": 0.5, \"num_hidden_layers\": 3}",
                               &config, &error),
                     BP_OK);
    assert_int_equal(config.family, &bp_family_mlp);
    assert_int_equal(config.vocabulary, 0);
    assert_int_equal(config.positions, 30);
    assert_int_equal(bp_mlp_config_of(&config).layers, 3);
    assert_int_equal(bp_mlp_config_of(&config).hidden_sizes[0], 20);
    assert_int_equal(bp_mlp_config_of(&config).hidden_sizes[2], 5);
    assert_int_equal(bp_mlp_config_of(&config).activation, BP_ACTIVATION_GELU_ERF);
    assert_int_equal(config.task, BP_TASK_CLASSES);
    assert_int_equal(config.classes, 7);
    assert_true(bp_mlp_config_of(&config).dropout == 0.5);
    assert_int_equal(read_text("{\"model_type\": \"mlp\", \"input_size\": 3, \"num_labels\": 1}",
                               &config, &error),
                     BP_OK);
    assert_int_equal(config.task, BP_TASK_REGRESSION);
    assert_int_equal(bp_mlp_config_of(&config).layers, 1);
    assert_int_equal(bp_mlp_config_of(&config).width, 64);
    assert_int_equal(bp_mlp_config_of(&config).activation, BP_ACTIVATION_RELU);
    assert_int_equal(read_text("{\"model_type\": \"mlp\", \"input_size\": 3, \"hidden_sizes\": [], "
                               "\"problem_type\": \"multi_label_classification\"}",
                               &config, &error),
                     BP_OK);
    assert_int_equal(bp_mlp_config_of(&config).layers, 0);
    assert_int_equal(config.task, BP_TASK_LABELS);
    assert_int_equal(config.classes, 2);
}

/* verifies formats-2.1f4a */
static void chains_are_written(void **state)
{
    (void)state;
    static char json[BP_HF_CONFIG_TEXT];
    static const uint32_t layers[] = {0, 3, 3, 40};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        bp_model_config wanted = config_with(
            (bp_model_config){.family = &bp_family_mlp,
                              .positions = 9,
                              .bos_token = -1,
                              .eos_token = -1,
                              .pad_token = -1,
                              .task = BP_TASK_LABELS,
                              .classes = 5},
            OWN(bp_mlp_config, .width = 64, .layers = layers[i], .activation = BP_ACTIVATION_TANH));
        bp_model_config config;
        bp_error error;
        size_t length = 0;
        if (i == 2) {
            SET_FAMILY(&wanted, bp_mlp_config, hidden_sizes[0], 8);
            SET_FAMILY(&wanted, bp_mlp_config, hidden_sizes[1], 64);
            SET_FAMILY(&wanted, bp_mlp_config, hidden_sizes[2], 7);
        }
        assert_int_equal(bp_hf_config_text(&wanted, NULL, json, &length), BP_OK);
        assert_int_equal(read_text(json, &config, &error), BP_OK);
        assert_memory_equal(&config, &wanted, sizeof config);
    }
}

/* verifies formats-2.1f4a */
static void recurrent_models_are_read_and_written(void **state)
{
    (void)state;
    static char json[BP_HF_CONFIG_TEXT];
    bp_model_config config, again;
    bp_error error;
    size_t length = 0;
    assert_int_equal(read_text("{\"model_type\": \"rnn\"}", &config, &error), BP_OK);
    assert_int_equal(config.family, &bp_family_rnn);
    assert_int_equal(bp_rnn_config_of(&config).cell, BP_CELL_GRU);
    assert_int_equal(config.vocabulary, 256);
    assert_true(bp_rnn_config_of(&config).untied && config.task == BP_TASK_CAUSAL_LM);
    assert_int_equal(bp_hf_config_text(&config, NULL, json, &length), BP_OK);
    assert_int_equal(read_text(json, &again, &error), BP_OK);
    assert_memory_equal(&config, &again, sizeof config);
    assert_int_equal(
        read_text("{\"model_type\": \"rnn\", \"cell\": \"lstm\", \"vocab_size\": 77, "
                  "\"hidden_size\": 33, \"embedding_size\": 22, \"num_hidden_layers\": 3, "
                  "\"tie_word_embeddings\": true, \"max_position_embeddings\": 99, \"dropout\": "
                  "0.25, \"bidirectional\": false, \"eos_token_id\": 5}",
                  &config, &error),
        BP_OK);
    assert_int_equal(bp_rnn_config_of(&config).cell, BP_CELL_LSTM);
    assert_int_equal(bp_rnn_config_of(&config).embedding, 22);
    assert_int_equal(bp_rnn_config_of(&config).layers, 3);
    assert_int_equal(config.positions, 99);
    assert_true(!bp_rnn_config_of(&config).untied && bp_rnn_config_of(&config).dropout == 0.25 &&
                config.eos_token == 5);
    assert_int_equal(bp_hf_config_text(&config, NULL, json, &length), BP_OK);
    assert_int_equal(read_text(json, &again, &error), BP_OK);
    assert_memory_equal(&config, &again, sizeof config);
    assert_int_equal(
        read_text("{\"model_type\": \"rnn\", \"cell\": \"rnn_tanh\"}", &config, &error),
        BP_ERR_DATA);
    assert_string_equal(error.name, "config.json: cell");
    assert_non_null(strstr(error.right, "\"gru\" or \"lstm\""));
    assert_int_equal(
        read_text("{\"model_type\": \"rnn\", \"bidirectional\": true}", &config, &error),
        BP_ERR_DATA);
    assert_non_null(bp_family_find("rnn"));
}

/* verifies formats-1.08bd */
static void wrong_chains_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        const char *name;
    } refusals[] = {
        {"\"hidden_size\": 4", "input_size"},
        {"\"input_size\": 0", "input_size"},
        {"\"input_size\": 4, \"hidden_act\": \"silu\"", "hidden_act"},
        {"\"input_size\": 4, \"hidden_act\": \"rel\"", "hidden_act"},
        {"\"input_size\": 4, \"hidden_act\": 3", "hidden_act"},
        {"\"input_size\": 4, \"hidden_sizes\": 3", "hidden_sizes"},
        {"\"input_size\": 4, \"hidden_sizes\": [3, 0]", "hidden_sizes"},
        {"\"input_size\": 4, \"hidden_sizes\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
         "hidden_sizes"},
        {"\"input_size\": 4, \"hidden_sizes\": [3], \"num_hidden_layers\": 2", "num_hidden_layers"},
        {"\"input_size\": 4, \"hidden_dropout_prob\": 1.0", "hidden_dropout_prob"},
        {"\"input_size\": 4, \"num_labels\": 2000", "num_labels"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char json[512], name[64];
        bp_model_config config;
        bp_error error;
        snprintf(json, sizeof json, "{\"model_type\": \"mlp\", %s}", refusals[i].members);
        snprintf(name, sizeof name, "config.json: %s", refusals[i].name);
        assert_int_equal(read_text(json, &config, &error), BP_ERR_DATA);
        assert_string_equal(error.name, name);
    }
    assert_non_null(bp_family_find("mlp"));
}

static bp_status open_floats(const float *row, uint32_t classes, uint64_t *label, bp_error *error)
{
    memory_store memory;
    bp_data_file file = {.path = "a.f32"};
    bp_data data;
    bp_tokens tokens;
    bp_example example = {0};
    void *scratch = malloc(BP_NUMBERS_SCRATCH);
    memory_store_init(&memory);
    memory_store_put(&memory, "a.f32", row, 3 * sizeof *row);
    *error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_data_open(&data, &memory.store, &file, 1, BP_DATA_AUTO, error), BP_OK);
    bp_numbers work = {.data = &data,
                       .path = "rows.tokens",
                       .inputs = 2,
                       .labels = BP_LABELS_BITS,
                       .classes = classes,
                       .scratch = scratch,
                       .error = error};
    bp_status status = bp_numbers_open(&work, &tokens);
    if (status == BP_OK) {
        assert_int_equal(tokens.source.example(&tokens.source, 0, &example), BP_OK);
        bp_tokens_close(&tokens);
    }
    *label = example.label;
    bp_data_close(&data);
    memory_store_free(&memory);
    free(scratch);
    return status;
}

/* In bare numbers the classes that hold are the bits of a number. */
/* verifies formats-23.429b */
static void several_classes_are_bits(void **state)
{
    (void)state;
    uint64_t label;
    bp_error error;
    assert_int_equal(open_floats((const float[]){1, 2, 5}, 3, &label, &error), BP_OK);
    assert_int_equal(label, 5);
    const float wrong[] = {8.0f, -1.0f, 1.5f};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_floats((const float[]){1, 2, wrong[i]}, 3, &label, &error),
                         BP_ERR_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_read),
        cmocka_unit_test(chains_are_written),
        cmocka_unit_test(recurrent_models_are_read_and_written),
        cmocka_unit_test(wrong_chains_are_refused_by_name),
        cmocka_unit_test(several_classes_are_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
