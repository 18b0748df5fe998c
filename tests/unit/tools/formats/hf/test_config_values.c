/* SPDX-License-Identifier: MIT */
/* Values of config.json: what each says about the model, and what is refused. Documents are written
 * with ' for ". */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "layers/families/bert.h"
#include "layers/families/llama.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"

static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];

/* Reads {'model_type': type, members}. */
static bp_status read_members(const char *type, const char *members, bp_model_config *config,
                              bp_error *error)
{
    char json[2048];
    memory_store memory;
    int length = snprintf(json, sizeof json, "{'model_type': '%s'%s%s", type,
                          members[0] == '\0' || members[0] == '}' ? "" : ", ", members);
    assert_true(length > 0 && length < (int)sizeof json - 1);
    for (int i = 0; i < length; i++) {
        json[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    }
    memory_store_init(&memory);
    memory_store_put(&memory, "c", json, (size_t)length);
    *error = (bp_error){.code = BP_OK};
    bp_status status = bp_hf_config_read(&memory.store, "c", scratch, config, error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

static bp_model_config config_of(const char *type, const char *members)
{
    char whole[1024];
    bp_model_config config;
    bp_error error;
    snprintf(whole, sizeof whole, "%s}", members);
    if (read_members(type, whole, &config, &error) != BP_OK) {
        fail_msg("%s: %s: %s", members, error.name, error.text);
    }
    return config;
}

typedef struct refusal {
    const char *type;
    const char *members;
    const char *wanted; /* in "name: text" */
} refusal;

static void each_is_refused(const refusal *cases, size_t count, const char *end)
{
    for (size_t i = 0; i < count; i++) {
        char members[1024], message[768];
        bp_model_config config;
        bp_error error;
        snprintf(members, sizeof members, "%s%s", cases[i].members, end);
        assert_int_equal(read_members(cases[i].type, members, &config, &error), BP_ERR_DATA);
        assert_int_equal(error.code, BP_ERR_DATA);
        snprintf(message, sizeof message, "%s: %s: found %s, expected %s", error.name, error.text,
                 error.word, error.right);
        if (strstr(message, cases[i].wanted) == NULL) {
            fail_msg("\"%s\" has no \"%s\"", message, cases[i].wanted);
        }
    }
}

/* verifies formats-1.08bd */
static void values_out_of_place_are_refused(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"bert", "'classifier_dropout': 'x'",
         "classifier_dropout: this value is not supported: found \"x\", expected null or a "
         "number from 0 to below 1"},
        {"bert", "'classifier_dropout': 1",
         "classifier_dropout: this value is not supported: found 1, "},
        {"bert", "'pad_token_id': 2147483648",
         "pad_token_id: this value is not supported: found 2147483648, expected a token "
         "id, "},
        {"bert", "'pad_token_id': [2147483648]",
         "pad_token_id: this value is not supported: found 2147483648, expected a token "
         "id, "},
        {"bert", "'architectures': 'BertModel'",
         "supported: found \"BertModel\", expected null or a list of texts"},
        {"bert", "'architectures': [3]",
         "architectures: this value is not supported: found 3, expected null or a list"},
        {"bert", "'problem_type': 3", "expected null, \"single_label_classification\""},
        {"bert", "'problem_type': 'classification'",
         "expected null, \"single_label_classification\""},
        {"bert", "'id2label': 3",
         "id2label: this value is not supported: found 3, expected null or an object"},
        {"bert", "'position_embedding_type': 3", "found 3, expected \"absolute\""},
        {"bert", "'hidden_act': 'quick_gelu'",
         "found \"quick_gelu\", expected \"gelu\", \"gelu_new\", \"gelu_fast\", "
         "\"gelu_pytorch_tanh\" or \"relu\""},
        {"gpt2", "'activation_function': 'silu'",
         "found \"silu\", expected \"gelu_new\", \"gelu\", \"gelu_fast\", "
         "\"gelu_pytorch_tanh\" or \"relu\""},
        {"gpt2", "'n_embd': 768, 'hidden_size': 64", "two names of the same field hold different"},
        {"gpt2", "'pruned_heads': 3", "pruned_heads"},
        {"llama", "'hidden_act': 'relu'", "found \"relu\", expected \"silu\""},
        {"llama", "'pretraining_tp': 1.0", "supported: found 1.0, expected 1"},
        {"llama", "'pretraining_tp': '1'", "supported: found \"1\", expected 1"},
        {"llama", "'pretraining_tp': 0", "supported: found 0, expected 1"},
        {"llama", "'layer_types': 'full_attention'", "expected null or a list in which every item"},
        {"llama", "'layer_types': [3]",
         "found 3, expected null or a list in which every item is "
         "\"full_attention\""},
        {"llama", "'rope_theta': 1e12",
         "rope_theta: this value is not supported: found 1e12, expected a number from 0 to "
         "below 1000000000000"},
        {"llama", "'attention_bias': null",
         "attention_bias: this value is not supported: found null, expected true or false"},
        {"llama", "'hidden_size': 10, 'num_attention_heads': 3",
         "num_attention_heads: the heads do not divide the width"},
        {"gpt2", "'n_embd': 10, 'n_head': 3", "n_head: the heads do not divide the width"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "}");
}

/* verifies formats-1.08bd */
static void documents_that_end_too_soon_are_refused(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"gpt2", "'eos_token_id': [1 2]", "c: byte"},
        {"gpt2", "'eos_token_id': [1, ", "c: byte"},
        {"llama", "'layer_types': ['full_attention'", "c: byte"},
        {"bert", "'architectures': ['a'", "c: byte"},
        {"bert", "'id2label': {'0': ", "c: byte"},
        {"bert", "'id2label': {'0': 'a' 3", "c: byte"},
        {"bert", "'vocab_size': ", "c: byte"},
        {"bert", "'pruned_heads': {", "c: byte"},
        {"llama", "'rope_scaling': {", "c: byte"},
        {"llama", "'rope_scaling': {'factor': ", "c: byte"},
        {"llama", "'rope_scaling': {'unknown': ", "c: byte"},
        {"llama", "'other': [", "c: byte"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "");
}

/* verifies formats-27.f2cc */
static void lists_of_layers_are_read_and_refused(void **state)
{
    (void)state;
    static const refusal layers[] = {
        {"smollm3", "'num_hidden_layers': 3, 'no_rope_layers': [1, 0]}",
         "no_rope_layers: the list"},
        {"smollm3", "'no_rope_layers': [2]}", "no_rope_layers: this value"},
        {"gemma2", "'layer_types': ['other']}", "layer_types: this value"}};
    each_is_refused(layers, sizeof layers / sizeof layers[0], "");
    const bp_model_config config =
        config_of("smollm3", "'num_hidden_layers': 3, 'no_rope_layers': [1, 0, 1]");
    const bp_llama_config own = bp_llama_config_of(&config);
    assert_true(!bp_layer_in(&own.still, 0) && bp_layer_in(&own.still, 1));
}

/* verifies formats-1.08bd */
static void positions_that_are_not_implemented_are_refused(void **state)
{
    (void)state;
#define LLAMA3 "'rope_scaling': {'rope_type': 'llama3', "
    static const char whole[] = "rope_scaling: rope_type llama3 needs factor";
    static const char number[] = ": this value is not supported: found ";
    static const refusal cases[] = {
        {"llama",
         LLAMA3 "'low_freq_factor': 1, 'high_freq_factor': 4,"
                "'original_max_position_embeddings': 8}",
         whole},
        {"llama",
         LLAMA3 "'factor': 8, 'high_freq_factor': 4,"
                "'original_max_position_embeddings': 8}",
         whole},
        {"llama",
         LLAMA3 "'factor': 8, 'low_freq_factor': 4, 'high_freq_factor': 4,"
                "'original_max_position_embeddings': 8}",
         whole},
        {"llama",
         LLAMA3 "'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4,"
                "'original_max_position_embeddings': 16777217}",
         "rope_scaling.original_max_position_embeddings: this value is not supported: found "
         "16777217, expected a whole number from 1 to 16777216"},
        {"llama", "'rope_scaling': {'factor': '8'}", number},
        {"llama", "'rope_scaling': {'factor': 0}", number},
        {"llama", "'rope_scaling': {'factor': 1e12}", number},
        {"llama", "'rope_scaling': {'partial_rotary_factor': 0.5}", number},
        {"llama", "'rope_scaling': {'partial_rotary_factor': '1'}", number},
        {"llama", "'rope_scaling': {'type': 3}",
         "rope_scaling.type: this value is not supported: found 3, "},
        {"llama", "'rope_scaling': {'type': 'proportional', 'factor': 2}",
         "rope_scaling.type: this value is not supported: found "
         "\"proportional\", expected \"default\", "},
        {"llama", "'rope_scaling': {'type': 'linear'}", "linear and dynamic need factor"},
        {"llama", "'rope_scaling': {'type': 'longrope', 'short_factor': [1]}",
         "needs short_factor"},
        {"llama", "'rope_scaling': {'type': 'longrope', 'long_factor': [0]}", "long_factor: this"},
        {"llama", "'rope_scaling': []", "supported: found a list, expected null or an object"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "}");
    bp_model_config config = config_of(
        "llama", LLAMA3 "'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4, 'rope_theta':"
                        "5e5, 'partial_rotary_factor': 1.0, 'other': [{}],"
                        "'original_max_position_embeddings': 16777216}");
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 16777216);
    assert_true(bp_llama_config_of(&config).rope_theta == 5e5);
    assert_true(bp_llama_config_of(&config).rope_scaling.low == 1.0 &&
                bp_llama_config_of(&config).rope_scaling.high == 4.0);
    config = config_of("llama", "'rope_scaling': {'type': 'default', 'factor': 3}");
    assert_true(bp_llama_config_of(&config).rope_scaling.factor == 0.0 &&
                bp_llama_config_of(&config).rope_theta == 10000.0);
    config = config_of("llama", "'rope_scaling': null");
    assert_true(bp_llama_config_of(&config).rope_scaling.factor == 0.0);
}

/* Keys that are read and never written have the usual values of transformers' classes, too: which
 * layers look through a window, do not turn, or are linear. */
/* verifies formats-27.f2cc */
static void what_is_only_read_has_a_usual_value(void **state)
{
    (void)state;
    static const struct {
        const char *type, *members;
        uint64_t near, still, linear;
    } cases[] = {
        {"smollm3", "", 0, 8, 0},
        {"smollm3", ", 'use_sliding_window': true, 'sliding_window': 3", 8, 8, 0},
        {"exaone4", "", 7, 8, 0},
        {"cohere2", "", 7, 8, 0},
        {"qwen2_moe", ", 'use_sliding_window': true", 5, 0, 0},
        {"qwen3_next", "", 0, 0, 7},
        {"qwen3_5_text", "", 0, 0, 7},
        {"qwen3_5_moe_text", "", 0, 0, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char members[128];
        snprintf(members, sizeof members, "'num_hidden_layers': 4%s", cases[i].members);
        const bp_model_config config = config_of(cases[i].type, members);
        const bp_llama_config own = bp_llama_config_of(&config);
        if (own.near.bits[0] != cases[i].near || own.still.bits[0] != cases[i].still ||
            own.linear.bits[0] != cases[i].linear) {
            fail_msg("%s: near %" PRIx64 ", still %" PRIx64 ", linear %" PRIx64, cases[i].type,
                     own.near.bits[0], own.still.bits[0], own.linear.bits[0]);
        }
    }
}

/* transformers 5 does not load a config.json that has a float where its class has an int. */
/* verifies formats-27.f2cc */
static void whole_numbers_are_written_whole(void **state)
{
    (void)state;
    static char json[BP_HF_CONFIG_TEXT + 1];
    static const char *const values[][2] = {{"10", "\"query_pre_attn_scalar\": 10,"},
                                            {"10.0", "\"query_pre_attn_scalar\": 10,"},
                                            {"10.5", "\"query_pre_attn_scalar\": 10.5,"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char members[64];
        size_t length = 0;
        snprintf(members, sizeof members, "'query_pre_attn_scalar': %s", values[i][0]);
        const bp_model_config config = config_of("gemma2", members);
        assert_int_equal(bp_hf_config_text(&config, NULL, json, &length), BP_OK);
        json[length] = '\0';
        assert_non_null(strstr(json, values[i][1]));
    }
}

/* The other names that transformers' classes have for their members (attribute_map). */
/* verifies formats-27.f2cc */
static void sizes_have_the_other_names_of_their_class(void **state)
{
    (void)state;
    static const char *const types[] = {"gpt2", "distilbert", "t5", "mt5"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const bp_model_config config = config_of(
            types[i], "'hidden_size': 40, 'num_attention_heads': 5, 'num_hidden_layers': 3");
        const bp_transformer stack = bp_transformer_of(&config);
        assert_int_equal(stack.width, 40);
        assert_int_equal(stack.heads, 5);
        assert_int_equal(stack.layers, 3);
    }
    const bp_model_config config = config_of("t5", "'head_dim': 9");
    assert_int_equal(bp_family_count(&config, BP_ROLE_HEAD_WIDTH), 9);
}

/* As transformers' standardize_rope_params and the functions of its modeling_rope_utils.py have it.
 */
/* verifies formats-27.f2cc */
static void other_keys_complete_an_object_of_positions(void **state)
{
    (void)state;
#define YARN "'rope_scaling': {'type': 'yarn', 'original_max_position_embeddings': 32, "
    bp_model_config config =
        config_of("llama", "'max_position_embeddings': 4096, " LLAMA3
                           "'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4}");
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 4096);
    /* what lies beside the object, before or behind it */
    config = config_of("llama", "'original_max_position_embeddings': 16, " YARN "'factor': 2}");
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 16);
    config = config_of("llama", YARN "'factor': 2}, 'original_max_position_embeddings': null");
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 32);
    config = config_of("llama", "'rope_parameters': {'rope_theta': 77}, 'rope_theta': 5e5");
    assert_true(bp_llama_config_of(&config).rope_theta == 77.0);
    /* (0.1 * 0.8 ln(64) + 1) / (0.1 * 1.4 ln(64) + 1) with the factor 2048 / 32 */
    config = config_of("llama", YARN "'factor': null, 'mscale': 0.8, 'mscale_all_dim': 1.4}");
    const double m = bp_llama_config_of(&config).rope_scaling.magnitude;
    assert_true(m > 0.842291 && m < 0.842292);
    /* rope_type comes before type */
    config = config_of("llama", "'rope_scaling': {'rope_type': 'default', 'type': 'mrope'}");
    assert_true(bp_llama_config_of(&config).rope_scaling.factor == 0.0);
    /* of OLMo 3 the base beside the objects is that of layers that see all */
    static const struct {
        const char *members;
        double full, near;
    } bases[] = {
        {"'rope_theta': 37", 37, 500000},
        {"'rope_theta': 37, 'rope_scaling': {'rope_theta': 55}", 55, 500000},
        {"'rope_scaling': {'rope_theta': 55}", 55, 500000},
        {"'rope_parameters': {'full_attention': {'rope_theta': 5}, 'sliding_attention': {}}, "
         "'rope_theta': 37",
         5, 500000},
        {"'rope_parameters': {'sliding_attention': {'rope_theta': 6}}, 'rope_theta': 37", 37, 6},
    };
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        config = config_of("olmo3", bases[i].members);
        const bp_llama_config own = bp_llama_config_of(&config);
        assert_true(own.rope_theta == bases[i].full && own.near_theta == bases[i].near);
    }
    config = config_of("mt5", "'dense_act_fn': 'gelu_new', 'is_gated_act': true");
    assert_int_equal(bp_family_count(&config, BP_ROLE_HEADS), 6);
    config = config_of("nomic_bert", "'rope_theta': 37");
    assert_true(bp_bert_config_of(&config).rope_theta == 37.0);
    config = config_of("gemma3_text", "'rope_parameters': {'sliding_attention': {'rope_theta': 6}},"
                                      "'rope_local_base_freq': 7");
    assert_true(bp_llama_config_of(&config).near_theta == 6.0);
    /* gpt-oss's positions are scaled where the object says nothing */
    config = config_of("phi3", YARN "'factor': 2}");
    assert_int_equal(bp_llama_config_of(&config).rope_scaling.original, 4096);
    config = config_of("gpt_oss", "'rope_scaling': {}");
    assert_true(bp_llama_config_of(&config).rope_scaling.factor == 32.0);
    config = config_of("gpt_oss", "'rope_parameters': {}");
    assert_true(bp_llama_config_of(&config).rope_scaling.factor == 0.0);
    /* of GPT-NeoX the part is rotary_pct, or that in the object */
    config = config_of("gpt_neox", "'partial_rotary_factor': 0.5");
    assert_true(bp_llama_config_of(&config).rotary_share == 0.25);
}

/* verifies formats-27.f2cc */
static void the_task_is_what_architecture_and_labels_say(void **state)
{
    (void)state;
#define JUDGE "'architectures': ['BertForSequenceClassification', 'Short']"
    static const struct {
        const char *members;
        bp_task task;
        uint32_t classes;
    } cases[] = {
        {"'architectures': null", BP_TASK_MASKED_LM, 0},
        {"'architectures': ['BertForMaskedLM']", BP_TASK_MASKED_LM, 0},
        {JUDGE, BP_TASK_CLASSES, 2},
        {JUDGE ", 'id2label': null", BP_TASK_CLASSES, 2},
        {JUDGE ", 'id2label': {'0': 'a', '1': ['b', {}], '2': null}", BP_TASK_CLASSES, 3},
        {JUDGE ", 'id2label': {'0': 'a'}", BP_TASK_REGRESSION, 1},
        {JUDGE ", 'id2label': {'0': 'a'}, 'problem_type': null", BP_TASK_REGRESSION, 1},
        {JUDGE ", 'id2label': {'0': 'a', '1': 'b'}, 'problem_type': 'regression'",
         BP_TASK_REGRESSION, 2},
        {JUDGE ", 'problem_type': 'multi_label_classification'", BP_TASK_LABELS, 2},
        {JUDGE ", 'problem_type': 'single_label_classification'", BP_TASK_CLASSES, 2},
        {JUDGE ", 'id2label': {'0': 'a'}, 'sentence_transformers': {'version': '4', "
               "'activation_fn': 'torch.nn.modules.activation.Sigmoid'}",
         BP_TASK_RANKING, 1},
        {JUDGE ", 'id2label': {'0': 'a'}, 'sentence_transformers': {'activation_fn': null}, "
               "'problem_type': 'regression'",
         BP_TASK_RANKING, 1},
        {JUDGE ", 'id2label': {'0': 'a'}, 'sbert_ce_default_activation_function': "
               "'torch.nn.modules.linear.Identity'",
         BP_TASK_RANKING, 1},
        {JUDGE ", 'sentence_transformers': {}", BP_TASK_CLASSES, 2},
        {"'problem_type': 'regression'", BP_TASK_MASKED_LM, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_model_config config = config_of("bert", cases[i].members);
        assert_int_equal(config.task, cases[i].task);
        assert_int_equal(config.classes, cases[i].classes);
    }
}

/* verifies formats-27.f2cc */
static void scores_are_what_a_cross_encoder_says(void **state)
{
    (void)state;
#define ACTIVATION(name)                                                                           \
    JUDGE ", 'id2label': {'0': 'a'}, 'sentence_transformers': {'activation_fn': " name "}"
    bp_model_config config = config_of("bert", ACTIVATION("'torch.nn.modules.linear.Identity'"));
    assert_true(config.raw_scores);
    config = config_of("bert", ACTIVATION("'torch.nn.Sigmoid'"));
    assert_false(config.raw_scores);
    assert_int_equal(config.task, BP_TASK_RANKING);
}

/* verifies formats-27.f2cc */
static void values_that_say_nothing(void **state)
{
    (void)state;
    bp_model_config config = config_of("bert", "'classifier_dropout': null, 'pruned_heads': {},"
                                               "'hidden_dropout_prob': 0.5");
    assert_true(bp_bert_config_of(&config).classifier_dropout == 0.5);
    config = config_of("bert", "'classifier_dropout': 0.25, 'pruned_heads': null");
    assert_true(bp_bert_config_of(&config).classifier_dropout == 0.25);
    config = config_of("llama", "'layer_types': null, 'pretraining_tp': 1, 'head_dim': null");
    assert_int_equal(bp_llama_config_of(&config).head_width, 0);
    config = config_of("llama", "'layer_types': [], 'head_dim': 100, 'hidden_size': 333");
    assert_int_equal(bp_llama_config_of(&config).head_width,
                     100); /* heads need not divide the width then */
    config = config_of("bert", "'eos_token_id': [7, 8, 9], 'bos_token_id': []");
    assert_int_equal(config.eos_token, 7);
    assert_int_equal(config.bos_token, -1);
    const bp_family *family;
    for (size_t i = 0; (family = bp_family_at(i)) != NULL; i++) {
        const bp_family *named = bp_family_find(family->model_type);
        assert_ptr_equal(named->pairs == family ? named->pairs : named, family);
        assert_ptr_equal(bp_family_defaults(family).family, family);
        static const char deberta[] =
            "'relative_attention': true, 'position_buckets': 8, 'norm_rel_ebd': 'layer_norm', "
            "'share_att_key': true, 'pos_att_type': 'p2c|c2p', 'position_biased_input': false";
        const bool granite = strcmp(family->model_type, "granitemoehybrid") == 0;
        const bool glm = strcmp(family->model_type, "glm4_moe") == 0;
        const char *members = family == &bp_family_mlp       ? "'input_size': 1"
                              : family == &bp_family_deberta ? deberta
                              : granite                      ? "'num_local_experts': 0"
                              : glm                          ? "'head_dim': 128"
                                                             : "'other': 1";
        if (named == family) { /* else its files say what both towers are */
            assert_ptr_equal(config_of(family->model_type, members).family, family);
        }
    }
    assert_null(bp_family_find("gpt3"));
}

/* What is written of a model in an unusual shape says the same when it is read. */
/* verifies formats-2.1f4a */
static void unusual_shapes_read_back_the_same(void **state)
{
    (void)state;
    static const char *const shapes[][2] = {
        {"qwen2", "'hidden_size': 96, 'num_attention_heads': 6, 'num_key_value_heads': 2,"
                  "'tie_word_embeddings': true"},
        {"qwen2", "'architectures': ['Qwen2ForSequenceClassification'], 'id2label': {'0': 'a'}"},
        {"llama", "'head_dim': 100, 'hidden_size': 333, 'mlp_bias': true"},
        {"llama", "'eos_token_id': [1, 2, 3, 4, 5, 6, 7, 8]"},
        {"llama", "'architectures': ['LlamaForSequenceClassification'], 'problem_type':"
                  "'multi_label_classification', 'num_key_value_heads': 4"},
        {"llama", LLAMA3 "'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4,"
                         "'original_max_position_embeddings': 8192}, 'num_key_value_heads': 8"},
        {"bert", "'classifier_dropout': 0.25, 'type_vocab_size': 1, 'pad_token_id': null"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char json[BP_HF_CONFIG_TEXT + 1];
        size_t length;
        bp_error error = {.code = BP_OK};
        bp_model_config again, config = config_of(shapes[i][0], shapes[i][1]);
        memory_store memory;
        assert_int_equal(bp_hf_config_text(&config, NULL, json, &length), BP_OK);
        memory_store_init(&memory);
        memory_store_put(&memory, "c", json, length);
        assert_int_equal(bp_hf_config_read(&memory.store, "c", scratch, &again, &error), BP_OK);
        if (config.family != &bp_family_bert && bp_llama_config_of(&config).kv_heads == 0) {
            SET_FAMILY(&again, bp_llama_config, kv_heads, 0); /* as many as heads, said or not */
        }
        const size_t last = offsetof(bp_rope_scaling, even) + sizeof(bool);
        if (config.family != &bp_family_bert) { /* what lies behind it has no value */
            const size_t at = BP_FAMILY_MEMBER(bp_llama_config, rope_scaling) + last;
            memset((char *)&again + at, 0, sizeof(bp_rope_scaling) - last);
            memset((char *)&config + at, 0, sizeof(bp_rope_scaling) - last);
        }
        assert_memory_equal(&again, &config, sizeof config);
        memory_store_free(&memory);
    }
    /* A width of the inner layer that nobody named is four times the outer. */
    bp_model_config again, config = config_of("bert", "");
    bp_error error;
    char json[BP_HF_CONFIG_TEXT + 1];
    size_t length;
    SET_FAMILY(&config, bp_transformer, inner, 0);
    assert_int_equal(bp_hf_config_text(&config, NULL, json, &length), BP_OK);
    assert_non_null(strstr(json, "\"intermediate_size\": 3072"));
    memory_store memory;
    memory_store_init(&memory);
    memory_store_put(&memory, "c", json, length);
    assert_int_equal(bp_hf_config_read(&memory.store, "c", scratch, &again, &error), BP_OK);
    assert_int_equal(bp_transformer_of(&again).inner, 3072);
    memory_store_free(&memory);
}

/* What versions 4 and 5 of transformers write of one model, and of what both say another number. */
static const struct {
    const char *type;
    const char *four;
    const char *five;
    const char *other;
} dialects[] = {
    {"gpt_neox", "'torch_dtype': 'float16', 'rotary_emb_base': 500, 'rotary_pct': 0.5",
     "'dtype': 'float16', 'rope_parameters': {'rope_theta': 500, 'rope_type': 'default', "
     "'partial_rotary_factor': 0.5}",
     "'rope_parameters': {'rope_theta': 500, 'partial_rotary_factor': 1.0}"},
    {"gpt_neox", "'rotary_pct': 0.25, 'rope_scaling': {'type': 'linear', 'factor': 2}",
     "'rope_parameters': {'rope_theta': 10000.0, 'rope_type': 'linear', 'factor': 2.0}",
     "'use_parallel_residual': false"},
    {"gpt_neox", "'hidden_act': 'gelu_new', 'attention_bias': true",
     "'hidden_act': 'gelu_new', 'attention_bias': true, 'rope_parameters': null",
     "'hidden_act': 'gelu_new', 'attention_bias': false"},
    {"gemma",
     "'torch_dtype': 'bfloat16', 'rope_theta': 500, 'rope_scaling': null, "
     "'hidden_act': 'gelu'",
     "'dtype': 'bfloat16', 'rope_parameters': {'rope_theta': 500, 'rope_type': 'default'}, "
     "'hidden_activation': null, 'use_bidirectional_attention': null",
     "'head_dim': 128"},
    {"electra",
     "'torch_dtype': 'float32', 'position_embedding_type': 'absolute', "
     "'summary_type': 'first', 'embedding_size': 64",
     "'dtype': 'float32', 'bos_token_id': null, 'is_decoder': false, 'embedding_size': 64, "
     "'add_cross_attention': false, 'tie_word_embeddings': true",
     "'embedding_size': 128"},
    {"mpnet",
     "'torch_dtype': 'float32', 'layer_norm_eps': 1e-5, 'relative_attention_num_buckets': 32",
     "'dtype': 'float32', 'layer_norm_eps': 1e-5, 'is_decoder': false, 'add_cross_attention': "
     "false",
     "'layer_norm_eps': 1e-12"},
    {"nomic_bert",
     "'n_embd': 64, 'n_head': 4, 'n_inner': 100, 'n_layer': 3, 'n_positions': 99, "
     "'rotary_emb_base': 500, 'layer_norm_epsilon': 1e-5, 'resid_pdrop': 0.25, 'embd_pdrop': 0.25, "
     "'prenorm': false",
     "'hidden_size': 64, 'num_attention_heads': 4, 'intermediate_size': 100, "
     "'num_hidden_layers': 3, 'max_position_embeddings': 99, 'rope_parameters': {'rope_type': "
     "'default', 'rope_theta': 500.0}, 'layer_norm_eps': 1e-5, 'hidden_dropout_prob': 0.25",
     "'hidden_size': 64, 'num_attention_heads': 4"},
    {"t5",
     "'torch_dtype': 'float32', 'd_model': 64, 'is_encoder_decoder': true, 'n_positions': 512, "
     "'num_decoder_layers': 4, 'feed_forward_proj': 'gated-gelu', 'output_past': true",
     "'dtype': 'float32', 'd_model': 64, 'is_encoder_decoder': false, 'dense_act_fn': 'gelu_new', "
     "'is_gated_act': true, 'feed_forward_proj': 'gated-gelu', 'scale_decoder_outputs': true, "
     "'num_decoder_layers': 4",
     "'d_model': 64, 'feed_forward_proj': 'relu'"},
    {"deberta-v2",
     "'relative_attention': true, 'position_buckets': 8, 'norm_rel_ebd': 'layer_norm', "
     "'share_att_key': true, 'pos_att_type': 'p2c|c2p', 'position_biased_input': false, "
     "'max_relative_positions': -1, 'pooler_hidden_size': 1536, 'pooler_hidden_act': 'gelu'",
     "'relative_attention': true, 'position_buckets': 8, 'norm_rel_ebd': 'layer_norm', "
     "'share_att_key': true, 'pos_att_type': ['c2p', 'p2c'], 'position_biased_input': false, "
     "'legacy': true, 'conv_kernel_size': 0, 'cls_dropout': null, 'embedding_size': 1536",
     "'relative_attention': true, 'position_buckets': 16, 'norm_rel_ebd': 'layer_norm', "
     "'share_att_key': true, 'pos_att_type': 'p2c|c2p', 'position_biased_input': false"},
    {"mt5", "'d_kv': 32, 'd_ff': 100", "'d_kv': 32, 'd_ff': 100, 'feed_forward_proj': 'gated-gelu'",
     "'d_kv': 32, 'd_ff': 100, 'feed_forward_proj': 'gated-silu'"},
    {"modernbert",
     "'num_hidden_layers': 4, 'global_attn_every_n_layers': 2, 'global_rope_theta': 500, "
     "'local_rope_theta': 50, 'repad_logits_with_grad': false",
     "'num_hidden_layers': 4, 'layer_types': ['full_attention', 'sliding_attention', "
     "'full_attention', "
     "'sliding_attention'], 'rope_parameters': {'full_attention': {'rope_theta': 500, 'rope_type': "
     "'default'}, 'sliding_attention': {'rope_theta': 50, 'rope_type': 'default'}}",
     "'num_hidden_layers': 4, 'global_rope_theta': 500, 'local_rope_theta': 50"},
    {"modernbert", "'local_attention': 16", "'sliding_window': 8, 'local_attention': 128",
     "'sliding_window': 16"},
    {"modernbert", "'local_attention': 10", "'local_attention': 16, 'sliding_window': 5",
     "'local_attention': 11"},
};

/* verifies formats-27.f2cc */
static void both_dialects_say_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++) {
        const bp_model_config four = config_of(dialects[i].type, dialects[i].four),
                              five = config_of(dialects[i].type, dialects[i].five),
                              other = config_of(dialects[i].type, dialects[i].other);
        if (!bp_family_same(&four, &five) || bp_family_same(&four, &other)) {
            fail_msg("%s: %s", dialects[i].type, dialects[i].four);
        }
    }
}

/* verifies formats-1.08bd */
static void what_modernbert_may_not_say(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"deberta-v2", "'conv_kernel_size': 3}", "conv_kernel_size: this value"},
        {"deberta-v2", "'pos_att_type': 'c2p'}", "pos_att_type: this value"},
        {"deberta-v2", "'pos_att_type': 'c2p|p2c|p2p'}", "pos_att_type: this value"},
        {"deberta-v2", "'pos_att_type': []}", "pos_att_type: this value"},
        {"deberta-v2", "'pos_att_type': ['c2p', 3]}", "pos_att_type: this value"},
        {"deberta-v2", "'pos_att_type': null}", "pos_att_type: this value"},
        {"deberta-v2", "'position_biased_input': true}", "position_biased_input: this value"},
        {"deberta-v2", "'relative_attention': false}", "relative_attention: this value"},
        {"deberta-v2", "'share_att_key': false}", "share_att_key: this value"},
        {"deberta-v2", "'norm_rel_ebd': 'none'}", "norm_rel_ebd: this value"},
        {"deberta-v2", "'legacy': false}", "legacy: this value"},
        {"modernbert", "'norm_bias': true}", "norm_bias: this value"},
        {"modernbert", "'attention_bias': true}", "attention_bias: this value"},
        {"modernbert", "'mlp_bias': true}", "mlp_bias: this value"},
        {"modernbert", "'classifier_bias': true}", "classifier_bias: this value"},
        {"modernbert", "'decoder_bias': false}", "decoder_bias: this value"},
        {"modernbert", "'classifier_pooling': 'max'}", "classifier_pooling: this value"},
        {"modernbert", "'hidden_activation': 'silu'}", "hidden_activation: this value"},
        {"modernbert", "'global_attn_every_n_layers': 0}",
         "global_attn_every_n_layers: this value"},
        {"modernbert", "'sliding_window': 0}", "sliding_window: this value"},
        {"modernbert", "'sliding_window': null}", "sliding_window: this value"},
        {"modernbert", "'sliding_window': 8.5}", "sliding_window: this value"},
        {"modernbert", "'num_hidden_layers': 3, 'layer_types': ['full_attention']}",
         "layer_types: the list"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "");
}

/* verifies formats-1.08bd */
static void what_neox_may_not_say(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"gpt_neox", "'hidden_act': 'silu'}", "hidden_act: this value"},
        {"gpt_neox", "'rotary_pct': -0.5}", "rotary_pct: this value"},
        {"gpt_neox", "'is_decoder': true}", "is_decoder: this value"},
        {"gpt_neox", "'num_attention_heads': 5}", "num_attention_heads: "},
        {"gpt_neox", "'rope_parameters': {'rope_type': 'longrope', 'short_factor': [1.0]}}",
         "rope_parameters.short_factor: this value"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "");
}

/* [item, item, ..] */
static const char *list_of(char *text, const char *key, const char *item, int count)
{
    char *at = text + sprintf(text, "'%s': [", key);
    for (int i = 0; i < count; i++) {
        at += sprintf(at, "%s%s", i > 0 ? "," : "", item);
    }
    strcpy(at, "]");
    return text;
}

/* verifies formats-1.08bd */
static void values_in_lists_are_refused(void **state)
{
    (void)state;
    static char many_layers[1024], many_kinds[1024], many_sizes[1024];
    const refusal cases[] = {
        {"smollm3", "'no_rope_layers': ['1']", "no_rope_layers: this value is not supported"},
        {"smollm3", "'no_rope_layers': [0.5]", "no_rope_layers: this value is not supported"},
        {"smollm3", "'no_rope_layers': [-1]", "no_rope_layers: this value is not supported"},
        {"smollm3", "'no_rope_layers': [2]", "no_rope_layers: this value is not supported"},
        {"smollm3", list_of(many_kinds, "no_rope_layers", "1", 129), "no_rope_layers: this value"},
        {"mlp", "'hidden_sizes': ['8']", "hidden_sizes: this value is not supported"},
        {"mlp", "'hidden_sizes': [8.5]", "hidden_sizes: this value is not supported"},
        {"mlp", "'hidden_sizes': [0]", "hidden_sizes: this value is not supported"},
        {"mlp", "'hidden_sizes': [2147483648]", "hidden_sizes: this value is not supported"},
        {"mlp", list_of(many_sizes, "hidden_sizes", "8", 200), "hidden_sizes: this value"},
        {"cnn", "'layers': [3]", "layers: this value is not supported"},
        {"cnn", "'layers': ['x']", "layers: this value is not supported"},
        {"cnn", "'layers': 'x'", "layers: this value is not supported"},
        {"cnn", list_of(many_layers, "layers", "'dense 8'", 61), "layers: this value"},
    };
    each_is_refused(cases, sizeof cases / sizeof cases[0], "}");
}

/* Two of one family are the same until a number differs that a file stores. */
static void configurations_are_distinguished(void **state)
{
    (void)state;
    const bp_model_config llama = config_of("llama", "");
    static const char *const types[] = {"llama", "bert", "smollm3"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const bp_model_config one = config_of(types[i], "");
        bp_model_config other = one;
        assert_true(bp_family_same(&one, &other));
        assert_int_equal(bp_family_same(&llama, &other), i == 0);
        other.task = BP_TASK_REGRESSION;
        assert_false(bp_family_same(&one, &other));
        other = one;
        other.classes++;
        assert_false(bp_family_same(&one, &other));
    }
    const bp_model_config other = config_of("llama", "'hidden_size': 64");
    assert_false(bp_family_same(&llama, &other));
}

static void writes(const bp_model_config *config, const char *wanted, bool there)
{
    static char json[BP_HF_CONFIG_TEXT + 1];
    size_t length;
    assert_int_equal(bp_hf_config_text(config, NULL, json, &length), BP_OK);
    json[length] = '\0';
    if ((strstr(json, wanted) != NULL) != there) {
        fail_msg("%s: %s", wanted, json);
    }
}

/* A cap of any size is a number, and none is null; what gives its input back has no labels. */
/* verifies formats-2.1f4a */
static void what_is_not_there_is_not_written_as_zero(void **state)
{
    (void)state;
    bp_model_config config = config_of("gemma2", "'final_logit_softcapping': 0.1");
    writes(&config, "\"final_logit_softcapping\": 0.1", true);
    config = config_of("gemma2", "'final_logit_softcapping': 2");
    writes(&config, "\"final_logit_softcapping\": 2", true);
    config = config_of("gemma2", "'final_logit_softcapping': null");
    writes(&config, "\"final_logit_softcapping\": null", true);
    config = bp_preset_config(bp_preset_find("autoencoder"));
    writes(&config, "\"id2label\"", false);
    config = bp_preset_config(bp_preset_find("tiny-cnn"));
    writes(&config, "\"id2label\"", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_is_not_written_as_zero),
        cmocka_unit_test(values_in_lists_are_refused),
        cmocka_unit_test(configurations_are_distinguished),
        cmocka_unit_test(values_out_of_place_are_refused),
        cmocka_unit_test(documents_that_end_too_soon_are_refused),
        cmocka_unit_test(lists_of_layers_are_read_and_refused),
        cmocka_unit_test(positions_that_are_not_implemented_are_refused),
        cmocka_unit_test(whole_numbers_are_written_whole),
        cmocka_unit_test(sizes_have_the_other_names_of_their_class),
        cmocka_unit_test(what_is_only_read_has_a_usual_value),
        cmocka_unit_test(other_keys_complete_an_object_of_positions),
        cmocka_unit_test(the_task_is_what_architecture_and_labels_say),
        cmocka_unit_test(scores_are_what_a_cross_encoder_says),
        cmocka_unit_test(values_that_say_nothing),
        cmocka_unit_test(unusual_shapes_read_back_the_same),
        cmocka_unit_test(both_dialects_say_the_same),
        cmocka_unit_test(what_neox_may_not_say),
        cmocka_unit_test(what_modernbert_may_not_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
