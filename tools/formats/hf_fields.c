/* SPDX-License-Identifier: MIT */
/* The keys of config.json: transformers' configuration_gpt2.py, configuration_llama.py,
 * configuration_qwen2.py and configuration_bert.py, and Bedplate's own. Keys that change nothing
 * about the model are not listed. */
#include "tools/formats/hf_fields.h"

#include <string.h>

#define AT(member) offsetof(bp_model_config, member)

#define POSITIONS_MOST (1 << 24)
#define WIDTH_MOST     (1 << 20)
#define LAYERS_MOST    (1 << 12)
#define HEADS_MOST     (1 << 16)
#define INNER_MOST     (1 << 22)
#define TYPES_MOST     (1 << 16)
#define HEAD_MOST      (1 << 14)

/* What every family has. */
#define COMMON                                                                                     \
    {"vocab_size", BP_FIELD_COUNT, AT(vocabulary), INT32_MAX, 0, NULL},                            \
        {"initializer_range", BP_FIELD_REAL, AT(initializer_range), 0, 1e6, NULL},                 \
        {"bos_token_id", BP_FIELD_TOKEN, AT(bos_token), 0, 0, NULL},                               \
        {"eos_token_id", BP_FIELD_TOKEN, AT(eos_token), 0, 0, NULL},                               \
        {"pad_token_id", BP_FIELD_TOKEN, AT(pad_token), 0, 0, NULL},                               \
        {"add_cross_attention", BP_FIELD_FALSE, 0, 0, 0, NULL},                                    \
        {"is_encoder_decoder", BP_FIELD_FALSE, 0, 0, 0, NULL},                                     \
        {"pruned_heads", BP_FIELD_EMPTY, 0, 0, 0, NULL},                                           \
        {"quantization_config", BP_FIELD_QUANTISED, AT(quantised), 0, 0, NULL},                    \
        {"architectures", BP_FIELD_CLASSES, 0, 0, 0, NULL},                                        \
        {"problem_type", BP_FIELD_PROBLEM, 0, 0, 0, NULL},                                         \
    {                                                                                              \
        "id2label", BP_FIELD_LABELS, AT(classes), 0, 0, NULL                                       \
    }

/* The names that Llama, Qwen2 and BERT share. */
#define SHAPES                                                                                     \
    {"max_position_embeddings", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL},           \
        {"hidden_size", BP_FIELD_COUNT, AT(width), WIDTH_MOST, 0, NULL},                           \
        {"num_hidden_layers", BP_FIELD_COUNT, AT(layers), LAYERS_MOST, 0, NULL},                   \
        {"num_attention_heads", BP_FIELD_COUNT, AT(heads), HEADS_MOST, 0, NULL},                   \
    {                                                                                              \
        "intermediate_size", BP_FIELD_COUNT, AT(inner), INNER_MOST, 0, NULL                        \
    }

static const bp_hf_field gpt2_fields[] = {
    COMMON,
    {"n_positions", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL},
    {"max_position_embeddings", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL},
    {"n_embd", BP_FIELD_COUNT, AT(width), WIDTH_MOST, 0, NULL},
    {"hidden_size", BP_FIELD_COUNT, AT(width), WIDTH_MOST, 0, NULL},
    {"n_layer", BP_FIELD_COUNT, AT(layers), LAYERS_MOST, 0, NULL},
    {"num_hidden_layers", BP_FIELD_COUNT, AT(layers), LAYERS_MOST, 0, NULL},
    {"n_head", BP_FIELD_COUNT, AT(heads), HEADS_MOST, 0, NULL},
    {"num_attention_heads", BP_FIELD_COUNT, AT(heads), HEADS_MOST, 0, NULL},
    {"n_inner", BP_FIELD_COUNT_NULL, AT(inner), INNER_MOST, 0, NULL},
    {"layer_norm_epsilon", BP_FIELD_REAL, AT(norm_epsilon), 0, 1.0, NULL},
    {"embd_pdrop", BP_FIELD_REAL, AT(embedding_dropout), 0, 1.0, NULL},
    {"resid_pdrop", BP_FIELD_REAL, AT(residual_dropout), 0, 1.0, NULL},
    {"attn_pdrop", BP_FIELD_REAL, AT(attention_dropout), 0, 1.0, NULL},
    {"activation_function", BP_FIELD_TEXT, 0, 0, 0, "gelu_new"},
    {"scale_attn_weights", BP_FIELD_TRUE, 0, 0, 0, NULL},
    {"scale_attn_by_inverse_layer_idx", BP_FIELD_FALSE, 0, 0, 0, NULL},
    {"reorder_and_upcast_attn", BP_FIELD_FALSE, 0, 0, 0, NULL},
    {"tie_word_embeddings", BP_FIELD_FLAG_NOT, AT(untied), 0, 0, NULL},
};

#define LLAMA                                                                                      \
    COMMON, SHAPES,                                                                                \
        {"num_key_value_heads", BP_FIELD_COUNT_NULL, AT(kv_heads), HEADS_MOST, 0, NULL},           \
        {"head_dim", BP_FIELD_COUNT_NULL, AT(head_width), HEAD_MOST, 0, NULL},                     \
        {"hidden_act", BP_FIELD_TEXT, 0, 0, 0, "silu"},                                            \
        {"rms_norm_eps", BP_FIELD_REAL, AT(norm_epsilon), 0, 1.0, NULL},                           \
        {"attention_dropout", BP_FIELD_REAL, AT(attention_dropout), 0, 1.0, NULL},                 \
        {"tie_word_embeddings", BP_FIELD_FLAG_NOT, AT(untied), 0, 0, NULL},                        \
        {"rope_theta", BP_FIELD_REAL, AT(rope_theta), 0, 1e12, NULL},                              \
        {"rope_scaling", BP_FIELD_ROPE, 0, 0, 0, NULL},                                            \
        {"rope_parameters", BP_FIELD_ROPE, 0, 0, 0, NULL},                                         \
    {                                                                                              \
        "layer_types", BP_FIELD_TEXTS, 0, 0, 0, "full_attention"                                   \
    }

static const bp_hf_field llama_fields[] = {
    LLAMA,
    {"attention_bias", BP_FIELD_FLAG, AT(qkv_bias), 0, 0, NULL},
    {"attention_bias", BP_FIELD_FLAG, AT(output_bias), 0, 0, NULL},
    {"mlp_bias", BP_FIELD_FLAG, AT(mlp_bias), 0, 0, NULL},
    {"pretraining_tp", BP_FIELD_ONE, 0, 0, 0, NULL},
    {"sliding_window", BP_FIELD_NULL, 0, 0, 0, NULL},
};

/* Qwen2 names a sliding window that it does not use. */
static const bp_hf_field qwen2_fields[] = {
    LLAMA,
    {"use_sliding_window", BP_FIELD_FALSE, 0, 0, 0, NULL},
    {"use_mrope", BP_FIELD_FALSE, 0, 0, 0, NULL},
};

static const bp_hf_field bert_fields[] = {
    COMMON,
    SHAPES,
    {"hidden_act", BP_FIELD_TEXT, 0, 0, 0, "gelu"},
    {"hidden_dropout_prob", BP_FIELD_REAL, AT(embedding_dropout), 0, 1.0, NULL},
    {"hidden_dropout_prob", BP_FIELD_REAL, AT(residual_dropout), 0, 1.0, NULL},
    {"attention_probs_dropout_prob", BP_FIELD_REAL, AT(attention_dropout), 0, 1.0, NULL},
    {"classifier_dropout", BP_FIELD_REAL_NULL, AT(classifier_dropout), 0, 1.0, NULL},
    {"type_vocab_size", BP_FIELD_COUNT, AT(types), TYPES_MOST, 0, NULL},
    {"layer_norm_eps", BP_FIELD_REAL, AT(norm_epsilon), 0, 1.0, NULL},
    {"position_embedding_type", BP_FIELD_TEXT, 0, 0, 0, "absolute"},
    {"is_decoder", BP_FIELD_FALSE, 0, 0, 0, NULL},
    {"tie_word_embeddings", BP_FIELD_TRUE, 0, 0, 0, NULL},
};

/* Bedplate's own: transformers has no such class. */
static const bp_hf_field mlp_fields[] = {
    {"input_size", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL},
    {"hidden_size", BP_FIELD_COUNT, AT(width), WIDTH_MOST, 0, NULL},
    {"num_hidden_layers", BP_FIELD_COUNT, AT(layers), LAYERS_MOST, 0, NULL},
    {"hidden_sizes", BP_FIELD_SIZES, AT(hidden_sizes), WIDTH_MOST, 0, NULL},
    {"hidden_act", BP_FIELD_CHOICE, AT(activation), 0, 0, "gelu|tanh|relu"},
    {"hidden_dropout_prob", BP_FIELD_REAL, AT(residual_dropout), 0, 1.0, NULL},
    {"initializer_range", BP_FIELD_REAL, AT(initializer_range), 0, 1e6, NULL},
    {"problem_type", BP_FIELD_PROBLEM, 0, 0, 0, NULL},
    {"num_labels", BP_FIELD_COUNT, AT(classes), 1024, 0, NULL},
    {"id2label", BP_FIELD_LABELS, AT(classes), 0, 0, NULL},
    {"quantization_config", BP_FIELD_NULL, 0, 0, 0, NULL},
};

static const bp_hf_field rnn_fields[] = {
    {"vocab_size", BP_FIELD_COUNT, AT(vocabulary), INT32_MAX, 0, NULL},
    {"embedding_size", BP_FIELD_COUNT_NULL, AT(inner), WIDTH_MOST, 0, NULL},
    {"hidden_size", BP_FIELD_COUNT, AT(width), WIDTH_MOST, 0, NULL},
    {"num_hidden_layers", BP_FIELD_COUNT, AT(layers), LAYERS_MOST, 0, NULL},
    {"max_position_embeddings", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL},
    {"cell", BP_FIELD_CHOICE, AT(cell), 0, 0, "gru|lstm"},
    {"tie_word_embeddings", BP_FIELD_FLAG_NOT, AT(untied), 0, 0, NULL},
    {"dropout", BP_FIELD_REAL, AT(residual_dropout), 0, 1.0, NULL},
    {"bidirectional", BP_FIELD_FALSE, 0, 0, 0, NULL},
    {"initializer_range", BP_FIELD_REAL, AT(initializer_range), 0, 1e6, NULL},
    {"bos_token_id", BP_FIELD_TOKEN, AT(bos_token), 0, 0, NULL},
    {"eos_token_id", BP_FIELD_TOKEN, AT(eos_token), 0, 0, NULL},
    {"pad_token_id", BP_FIELD_TOKEN, AT(pad_token), 0, 0, NULL},
    {"quantization_config", BP_FIELD_NULL, 0, 0, 0, NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const bp_hf_fields tables[] = {
    [BP_FAMILY_GPT2] = {"gpt2",
                        gpt2_fields,
                        COUNT(gpt2_fields),
                        {.family = BP_FAMILY_GPT2,
                         .vocabulary = 50257,
                         .positions = 1024,
                         .width = 768,
                         .layers = 12,
                         .heads = 12,
                         .norm_epsilon = 1e-5,
                         .initializer_range = 0.02,
                         .embedding_dropout = 0.1,
                         .residual_dropout = 0.1,
                         .attention_dropout = 0.1,
                         .bos_token = 50256,
                         .eos_token = 50256,
                         .pad_token = -1}},
    [BP_FAMILY_LLAMA] = {"llama",
                         llama_fields,
                         COUNT(llama_fields),
                         {.family = BP_FAMILY_LLAMA,
                          .vocabulary = 32000,
                          .positions = 2048,
                          .width = 4096,
                          .layers = 32,
                          .heads = 32,
                          .inner = 11008,
                          .norm_epsilon = 1e-6,
                          .initializer_range = 0.02,
                          .bos_token = 1,
                          .eos_token = 2,
                          .pad_token = -1,
                          .rope_theta = 10000.0,
                          .untied = true}},
    [BP_FAMILY_QWEN2] = {"qwen2",
                         qwen2_fields,
                         COUNT(qwen2_fields),
                         {.family = BP_FAMILY_QWEN2,
                          .vocabulary = 151936,
                          .positions = 32768,
                          .width = 4096,
                          .layers = 32,
                          .heads = 32,
                          .inner = 22016,
                          .kv_heads = 32,
                          .norm_epsilon = 1e-6,
                          .initializer_range = 0.02,
                          .bos_token = -1,
                          .eos_token = -1,
                          .pad_token = -1,
                          .rope_theta = 10000.0,
                          .qkv_bias = true,
                          .untied = true}},
    [BP_FAMILY_BERT] = {"bert",
                        bert_fields,
                        COUNT(bert_fields),
                        {.family = BP_FAMILY_BERT,
                         .vocabulary = 30522,
                         .positions = 512,
                         .width = 768,
                         .layers = 12,
                         .heads = 12,
                         .inner = 3072,
                         .norm_epsilon = 1e-12,
                         .initializer_range = 0.02,
                         .embedding_dropout = 0.1,
                         .residual_dropout = 0.1,
                         .attention_dropout = 0.1,
                         .bos_token = -1,
                         .eos_token = -1,
                         .types = 2,
                         .pad_token = 0,
                         .classifier_dropout = -1.0,
                         .task = BP_TASK_MASKED_LM}},
    [BP_FAMILY_MLP] = {"mlp",
                       mlp_fields,
                       COUNT(mlp_fields),
                       {.family = BP_FAMILY_MLP,
                        .width = 64,
                        .layers = 1,
                        .heads = 1,
                        .activation = BP_ACTIVATION_RELU,
                        .bos_token = -1,
                        .eos_token = -1,
                        .pad_token = -1,
                        .task = BP_TASK_CLASSES}},
    [BP_FAMILY_RNN] = {"rnn",
                       rnn_fields,
                       COUNT(rnn_fields),
                       {.family = BP_FAMILY_RNN,
                        .vocabulary = 256,
                        .positions = 1 << 20,
                        .width = 256,
                        .layers = 1,
                        .heads = 1,
                        .bos_token = -1,
                        .eos_token = -1,
                        .pad_token = -1,
                        .untied = true}},
};

const bp_hf_fields *bp_hf_fields_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(tables); i++) {
        if (strcmp(tables[i].model_type, model_type) == 0) {
            return &tables[i];
        }
    }
    return NULL;
}

const bp_hf_fields *bp_hf_fields_of(bp_family family)
{
    return &tables[family];
}
