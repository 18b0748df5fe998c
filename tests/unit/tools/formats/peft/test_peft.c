/* SPDX-License-Identifier: MIT */
/* adapter_config.json: what PEFT writes is read, what is not implemented is refused by its key, and
 * what is written is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/bert.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/peft/peft_config.h"
#include "tools/formats/peft/peft_choice.h"

static uint64_t scratch[BP_PEFT_CONFIG_SCRATCH / 8];
static bp_peft_config config;

static bp_status read_text(const char *json, size_t length, bp_error *error)
{
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "adapter_config.json", json, length);
    *error = (bp_error){0};
    bp_status status =
        bp_peft_config_read(&memory.store, "adapter_config.json", scratch, &config, error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

/* As peft 0.21 writes one. */
static const char good[] =
    "{\"alora_invocation_tokens\": null, \"alpha_pattern\": {}, \"auto_mapping\": null, "
    "\"base_model_name_or_path\": \"base\", \"bias\": \"none\", \"corda_config\": null, "
    "\"eva_config\": null, \"exclude_modules\": null, \"fan_in_fan_out\": false, "
    "\"inference_mode\": true, \"init_lora_weights\": true, \"layer_replication\": null, "
    "\"layers_pattern\": null, \"layers_to_transform\": null, \"loftq_config\": {}, "
    "\"lora_alpha\": 16, \"lora_bias\": false, \"lora_dropout\": 0.05, \"megatron_config\": null, "
    "\"megatron_core\": \"megatron.core\", \"modules_to_save\": null, \"peft_type\": \"LORA\", "
    "\"r\": 4, \"rank_pattern\": {}, \"revision\": null, \"target_modules\": [\"v_proj\", "
    "\"q_proj\"], \"task_type\": \"CAUSAL_LM\", \"use_dora\": false, \"use_rslora\": true}";

/* verifies formats-12.b2fa */
static void test_what_peft_writes(void **state)
{
    (void)state;
    bp_error error;
    assert_int_equal(read_text(good, sizeof good - 1, &error), BP_OK);
    const bp_lora *lora = &config.lora;
    assert_true(lora->rank == 4 && lora->alpha == 16.0 && lora->dropout == 0.05);
    assert_true(lora->rank_stabilized && lora->target_count == 2);
    assert_string_equal(lora->targets[0], "v_proj");
    assert_string_equal(lora->targets[1], "q_proj");
    assert_string_equal(config.base, "base");
    assert_false(config.saves_table);
    assert_int_equal(lora->bias, BP_LORA_BIAS_NONE);
    for (int bias = 0; bias < BP_LORA_BIASES; bias++) {
        char json[200];
        const int length = sprintf(json,
                                   "{\"peft_type\": \"LORA\", \"r\": 4, \"bias\": \"%s\", "
                                   "\"target_modules\": [\"a\"]}",
                                   bp_peft_bias_word((bp_lora_bias)bias));
        assert_int_equal(read_text(json, (size_t)length, &error), BP_OK);
        assert_int_equal(lora->bias, bias);
    }
    assert_string_equal(bp_peft_bias_word(BP_LORA_BIASES), "");
    static const char *const more[] = {
        "null", "true", "\"gaussian\"", "\"eva\", \"modules_to_save\": [\"embed_tokens\"]",
        "false, \"modules_to_save\": [\"norm\", \"transformer.wte\"]"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        char json[300];
        int length = sprintf(json,
                             "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": [\"a\"], "
                             "\"init_lora_weights\": %s}",
                             more[i]);
        assert_int_equal(read_text(json, (size_t)length, &error), BP_OK);
        assert_int_equal(config.saves_table, i >= 3);
    }
}

/* A list, or an object that names the table; null. */
/* verifies formats-12.b2fa */
static void test_trained_tokens(void **state)
{
    (void)state;
    static const char *const words[] = {"[7, 1]", "{\"model.embed_tokens\": [7, 1]}",
                                        "{\"tok_embeddings\": [7, 1]}", "null", "{}"};
    bp_error error;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char json[200];
        const int length = sprintf(json,
                                   "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": "
                                   "[\"a\"], \"trainable_token_indices\": %s}",
                                   words[i]);
        assert_int_equal(read_text(json, (size_t)length, &error), BP_OK);
        assert_int_equal(config.lora.token_count, i < 3 ? 2 : 0);
        assert_true(i >= 3 || (config.lora.tokens[0] == 7 && config.lora.tokens[1] == 1));
    }
}

static const struct {
    const char *json, *text;
} refusals[] = {
    {"[]", "not an object"},
    {"{\"peft_type\": \"IA3\"}", "only LORA"},
    {"{\"peft_type\": \"LORA\", \"r\": 0}", "in its range"},
    {"{\"peft_type\": \"LORA\", \"r\": 2.5}", "not whole"},
    {"{\"peft_type\": \"LORA\", \"r\": \"8\"}", "in its range"},
    {"{\"lora_alpha\": -1}", "in its range"},
    {"{\"lora_dropout\": 1.5}", "in its range"},
    {"{\"use_rslora\": 3}", "true or false"},
    {"{\"use_dora\": 1}", "true or false"},
    {"{\"bias\": \"some\"}", "not none, all or lora_only"},
    {"{\"bias\": true}", "not none, all or lora_only"},
    {"{\"rank_pattern\": {\"a\": 2.5}}", "not whole"},
    {"{\"rank_pattern\": {\"a\": 9999}}", "in its range"},
    {"{\"rank_pattern\": {\"\": 2}}", "a name is empty"},
    {"{\"rank_pattern\": {\"(\": 2}}", "not closed"},
    {"{\"rank_pattern\": [2]}", "not an object"},
    {"{\"alpha_pattern\": {\"a\": \"b\"}}", "in its range"},
    {"{\"exclude_modules\": 5}", "not a list of names"},
    {"{\"layers_pattern\": [5]}", "not a list of names"},
    {"{\"layers_to_transform\": \"a\"}", "not a list of numbers"},
    {"{\"layers_to_transform\": [1, -2]}", "from 0 on"},
    {"{\"layers_to_transform\": 1.5}", "from 0 on"},
    {"{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": [\"a\"], "
     "\"layers_pattern\": \"h\"}",
     "needs layers_to_transform"},
    {"{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": \"a.*\", "
     "\"layers_to_transform\": 1}",
     "needs names in target_modules"},
    {"{\"trainable_token_indices\": 5}", "not a list of numbers"},
    {"{\"trainable_token_indices\": [\"a\"]}", "not a list of numbers"},
    {"{\"trainable_token_indices\": [1, -1]}", "whole one from 0 on"},
    {"{\"trainable_token_indices\": [1.5]}", "whole one from 0 on"},
    {"{\"trainable_token_indices\": {\"wte\": 3}}", "not a list of numbers"},
    {"{\"trainable_token_indices\": {\"lm_head\": [3]}}", "another module"},
    {"{\"trainable_token_indices\": {\"wte\": [3], \"lm_head\": [3]}}", "another module"},
    {"{\"modules_to_save\": [\"score\", 5]}", "not a list of names"},
    {"{\"modules_to_save\": true}", "not a list of names"},
    {"{\"init_lora_weights\": \"pissa\"}", "changes the base"},
    {"{\"init_lora_weights\": \"loftq\"}", "changes the base"},
    {"{\"init_lora_weights\": 3}", "changes the base"},
    {"{\"use_qalora\": true}", "not implemented"},
    {"{\"target_modules\": \"(?!a).*proj\"}", "look-around"},
    {"{\"target_modules\": {}}", "not a list"},
    {"{\"target_modules\": [1]}", "not a list of names"},
    {"{\"base_model_name_or_path\": 5}", "not a text"},
    {"{\"peft_type\": \"LORA\", \"r\": 4}", "lacks"},
    {"{\"r\": 4, \"target_modules\": [\"a\"]}", "lacks"},
    {"{\"r\": 4, \"r\": 5}", ""},
    {"{\"r\": 4", ""},
};

/* verifies formats-12.b2fa */
static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        bp_error error;
        assert_int_equal(read_text(refusals[i].json, strlen(refusals[i].json), &error),
                         BP_ERR_DATA);
        if (strstr(error.text, refusals[i].text) == NULL) {
            fail_msg("%s: %s", refusals[i].json, error.text);
        }
        assert_non_null(strstr(error.name, "adapter_config.json"));
        assert_false(error.numbers);
    }
}

static void test_limits(void **state)
{
    (void)state;
    static char json[16384];
    bp_error error;
    size_t used = (size_t)sprintf(json, "{\"target_modules\": [\"a\"");
    for (int i = 0; i < BP_PEFT_TARGETS_MAX; i++) {
        used += (size_t)sprintf(json + used, ", \"b%d\"", i);
    }
    used += (size_t)sprintf(json + used, "]}");
    assert_int_equal(read_text(json, used, &error), BP_ERR_DATA);
    assert_non_null(strstr(error.text, "192 names"));
    used = (size_t)sprintf(json, "{\"target_modules\": [\"");
    memset(json + used, 'x', 300);
    used += 300;
    used += (size_t)sprintf(json + used, "\"]}");
    assert_int_equal(read_text(json, used, &error), BP_ERR_DATA);
    for (size_t length = 0; length < sizeof good - 1; length += 7) {
        assert_int_equal(read_text(good, length, &error), BP_ERR_DATA);
    }
}

/* verifies formats-24.7573 */
static void test_failing_reads(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_EXISTS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        memory_store memory;
        faulty_store faulty;
        bp_error error = {0};
        memory_store_init(&memory);
        memory_store_put(&memory, "c", good, sizeof good - 1);
        faulty_store_init(&faulty, &memory.store);
        faulty_store_arm(&faulty, kinds[i], 1, false);
        bp_status status = bp_peft_config_read(&faulty.store, "c", scratch, &config, &error);
        assert_true(status == BP_ERR_STORE || status == BP_ERR_DATA);
        assert_int_equal(bp_peft_config_read(&memory.store, "d", scratch, &config, &error),
                         BP_ERR_DATA);
        memory_store_free(&memory);
    }
}

static const char *const modules[] = {"model.layers.0.self_attn.q_proj",
                                      "model.layers.0.self_attn.v_proj",
                                      "model.layers.0.mlp.down_proj",
                                      "model.layers.1.self_attn.q_proj",
                                      "model.layers.1.self_attn.v_proj",
                                      "model.layers.1.mlp.down_proj",
                                      "model.layers.10.self_attn.q_proj",
                                      "model.layers.10.self_attn.v_proj",
                                      "model.layers.10.mlp.down_proj",
                                      "transformer.h.1.attn.c_attn",
                                      "layers.1.q_proj",
                                      "encoder.layer.2.attention.output.dense",
                                      "q_proj",
                                      "model.my_q_proj"};
static const struct {
    const char *json, *right;
} choices[] = {
    {"\"target_modules\": [\"q_proj\", \"dense\"], \"rank_pattern\": {\"x\": 1}", "4..4..4...444."},
    {"\"target_modules\": \".*\\\\.(q|down)_proj\"", "4.44.44.4.4..."},
    {"\"target_modules\": [\"q_proj\", \"v_proj\", \"c_attn\", \"dense\"], "
     "\"layers_to_transform\": [1]",
     "...44....4..4."},
    {"\"target_modules\": [\"q_proj\", \"v_proj\"], \"layers_to_transform\": 10, "
     "\"layers_pattern\": \"layers\"",
     "......44....4."},
    {"\"target_modules\": [\"q_proj\", \"c_attn\", \"dense\"], \"layers_to_transform\": [1, "
     "2], "
     "\"layers_pattern\": [\"h\", \"layer\"]",
     ".........4.44."},
    {"\"target_modules\": [\"q_proj\", \"v_proj\", \"down_proj\"], \"exclude_modules\": "
     "[\"v_proj\"], \"alpha_pattern\": null, \"rank_pattern\": null",
     "4.44.44.4.4.4."},
    {"\"target_modules\": [\"q_proj\", \"v_proj\", \"down_proj\"], \"exclude_modules\": "
     "\"model\\\\.layers\\\\.[01]\\\\..*\"",
     "......444.4.4."},
    {"\"target_modules\": [\"q_proj\", \"v_proj\", \"down_proj\", \"dense\"], "
     "\"rank_pattern\": "
     "{\"down_proj\": 6, \"layers\\\\.\\\\d+\\\\.self_attn\\\\.[qv]_proj\": 3, \"q_proj\": 5}, "
     "\"alpha_pattern\": {\"model.layers.1.self_attn.q_proj\": 7, \"dense\": 2}",
     "336(37)36336.5(42)5."},
};

/* What check_target_module_exists and get_pattern_key of peft 0.21 say of these names: a letter for
 * each,
 * '.' where there is no adapter, else its rank, and where alpha is another than 8 that behind it.
 */
/* verifies formats-12.b2fa */
static void test_modules_as_peft_chooses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        char json[512], found[64] = "";
        bp_error error;
        size_t at = 0;
        const int length = sprintf(
            json, "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, %s}", choices[i].json);
        assert_int_equal(read_text(json, (size_t)length, &error), BP_OK);
        const bp_lora *lora = &config.lora;
        assert_ptr_equal(bp_peft_choice_of(lora), &config.choice);
        for (size_t k = 0; k < sizeof modules / sizeof modules[0]; k++) {
            const bp_lora_part part = lora->choose(lora, modules[k], strlen(modules[k]));
            at += (size_t)(part.rank == 0 ? sprintf(found + at, ".")
                           : part.alpha == 8.0
                               ? sprintf(found + at, "%u", part.rank)
                               : sprintf(found + at, "(%u%.0f)", part.rank, part.alpha));
        }
        assert_string_equal(found, choices[i].right);
    }
}

/* What is trained beside the adapters is listed by the last parts of its modules' names, once. */
/* verifies formats-12.b2fa */
static void test_saved_modules(void **state)
{
    (void)state;
    static char names[] =
        "a.weight\0b.c.weight\0b.c.bias\0d.c.weight\0classifier.bias\0plain\0e.f.lora_A";
    static char json[BP_PEFT_CONFIG_TEXT];
    bp_buffer buffers[1 + 7];
    bp_parameter parameters[7];
    uint32_t at = 0;
    memset(buffers, 0, sizeof buffers);
    memset(parameters, 0, sizeof parameters);
    for (uint32_t i = 0; i < 7; i++) {
        buffers[1 + i].name = at;
        at += (uint32_t)strlen(names + at) + 1;
        parameters[i] = (bp_parameter){
            .weight = 1 + i, .trainable = i > 0, .base = i == 6 ? 0 : BP_NO_PARAMETER};
    }
    static const char *const every[] = {"all-linear"};
    bp_graph graph = {.names = names, .buffers = buffers, .used = {.buffers = 1 + 7}};
    const bp_spec spec = {.model = &bp_model_bert,
                          .config = {.task = BP_TASK_REGRESSION},
                          .lora = {.rank = 2, .alpha = 2.0, .targets = every, .target_count = 1}};
    bp_builder builder;
    bp_build_init(&builder, &graph, &spec, parameters, 7);
    builder.parameter_count = 7;
    size_t length = 0;
    bp_error error;
    assert_int_equal(bp_peft_config_text(&builder, "b", json, sizeof json, &length), BP_OK);
    assert_non_null(strstr(json, "\"modules_to_save\": [\"c\", \"classifier\"],\n"));
    assert_non_null(strstr(json, "\"task_type\": \"SEQ_CLS\""));
    assert_non_null(strstr(json, "\"target_modules\": [\"query\", \"key\", \"value\", "
                                 "\"intermediate.dense\", \"output.dense\"]"));
    assert_int_equal(read_text(json, length, &error), BP_OK);
}

/* verifies formats-12.b2fa */
static void test_round_trip(void **state)
{
    (void)state;
    static const char *const names[] = {"c_attn", "mlp.c_fc"};
    static const char *const every[] = {"all-linear"};
    static char json[BP_PEFT_CONFIG_TEXT];
    for (int kind = 0; kind < 2; kind++) {
        bp_lora lora = {.rank = 8,
                        .alpha = 12.5,
                        .dropout = 0.1,
                        .rank_stabilized = kind == 1,
                        .targets = kind == 0 ? names : every,
                        .target_count = kind == 0 ? 2 : 1};
        const bp_spec spec = {.model = kind == 0 ? &bp_model_gpt2 : &bp_model_llama,
                              .config = {.task = kind == 0 ? BP_TASK_CAUSAL_LM : BP_TASK_MASKED_LM},
                              .lora = lora};
        bp_builder builder;
        bp_build_init(&builder, NULL, &spec, NULL, 0);
        size_t length = 0;
        bp_error error;
        assert_int_equal(bp_peft_config_text(&builder, "dir \"a\"", json, sizeof json, &length),
                         BP_OK);
        assert_non_null(strstr(json, "\"modules_to_save\": null"));
        assert_non_null(strstr(json, kind == 0 ? "\"CAUSAL_LM\"" : "\"task_type\": null"));
        assert_int_equal(read_text(json, length, &error), BP_OK);
        assert_true(config.lora.rank == 8 && config.lora.alpha == 12.5);
        assert_int_equal(config.lora.rank_stabilized, lora.rank_stabilized);
        assert_int_equal(config.lora.target_count, lora.target_count);
        assert_string_equal(config.lora.targets[0], lora.targets[0]);
        assert_string_equal(config.base, "dir \"a\"");
        assert_int_equal(bp_peft_config_text(&builder, "b", json, 40, &length), BP_ERR_FIT);
    }
}

/* The number of a token is below that which stands for none. */
/* verifies formats-12.b2fa */
static void test_largest_token(void **state)
{
    (void)state;
    static bp_peft_choice choice;
    static const double wrong[] = {-1.0, 0.5, 4294967295.0, 1e300};
    choice = (bp_peft_choice){.token_count = 0};
    assert_null(bp_peft_add_token(&choice, 4294967294.0));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_non_null(bp_peft_add_token(&choice, wrong[i]));
    }
    assert_int_equal(choice.token_count, 1);
    assert_true(choice.tokens[0] == 4294967294u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_peft_writes), cmocka_unit_test(test_trained_tokens),
        cmocka_unit_test(test_what_is_refused),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failing_reads),    cmocka_unit_test(test_saved_modules),
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_modules_as_peft_chooses),
        cmocka_unit_test(test_largest_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
