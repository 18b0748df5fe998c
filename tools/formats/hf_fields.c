/* SPDX-License-Identifier: MIT */
/* The keys of config.json: transformers' configuration_gpt2.py, configuration_llama.py,
 * configuration_qwen2.py and configuration_bert.py, and Bedplate's own. Keys that change nothing
 * about the model are not listed. */
#include "tools/formats/hf_fields.h"

#include <string.h>

#include "layers/bert.h"
#include "layers/gpt2.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/rnn.h"

#define AT(member) offsetof(bp_model_config, member)

#define POSITIONS_MOST (1 << 24)
#define WIDTH_MOST     (1 << 20)
#define LAYERS_MOST    (1 << 12)
#define HEADS_MOST     (1 << 16)
#define INNER_MOST     (1 << 22)
#define TYPES_MOST     (1 << 16)
#define HEAD_MOST      (1 << 14)

#define STACK(member)    BP_OWN(bp_transformer, member)
#define OF_LLAMA(member) BP_OWN(bp_llama_config, member)
#define ROLE(role)       BP_ROLE_##role

/* What every family has. */
#define COMMON                                                                                     \
    {"vocab_size", BP_FIELD_COUNT, AT(vocabulary), INT32_MAX, 0, NULL, ROLE(NONE)},                \
        {"initializer_range", BP_FIELD_REAL, STACK(initializer_range), 0, 1e6, NULL, ROLE(NONE)},  \
        {"bos_token_id", BP_FIELD_TOKEN, AT(bos_token), 0, 0, NULL, ROLE(NONE)},                   \
        {"eos_token_id", BP_FIELD_TOKEN, AT(eos_token), 0, 0, NULL, ROLE(NONE)},                   \
        {"pad_token_id", BP_FIELD_TOKEN, AT(pad_token), 0, 0, NULL, ROLE(NONE)},                   \
        {"add_cross_attention", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},                        \
        {"is_encoder_decoder", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},                         \
        {"pruned_heads", BP_FIELD_EMPTY, 0, 0, 0, NULL, ROLE(NONE)},                               \
        {"quantization_config", BP_FIELD_QUANTISED, AT(quantised), 0, 0, NULL, ROLE(NONE)},        \
        {"architectures", BP_FIELD_CLASSES, 0, 0, 0, NULL, ROLE(NONE)},                            \
        {"problem_type", BP_FIELD_PROBLEM, 0, 0, 0, NULL, ROLE(NONE)},                             \
    {                                                                                              \
        "id2label", BP_FIELD_LABELS, AT(classes), 0, 0, NULL, ROLE(NONE)                           \
    }

/* The names that Llama, Qwen2 and BERT share. */
#define SHAPES                                                                                     \
    {                                                                                              \
        "max_position_embeddings",                                                                 \
        BP_FIELD_COUNT,                                                                            \
        AT(positions),                                                                             \
        POSITIONS_MOST,                                                                            \
        0,                                                                                         \
        NULL,                                                                                      \
        ROLE(NONE)},                                                                               \
        {"hidden_size", BP_FIELD_COUNT, STACK(width), WIDTH_MOST, 0, NULL, ROLE(WIDTH)},           \
        {"num_hidden_layers", BP_FIELD_COUNT, STACK(layers), LAYERS_MOST, 0, NULL, ROLE(LAYERS)},  \
        {"num_attention_heads", BP_FIELD_COUNT, STACK(heads), HEADS_MOST, 0, NULL, ROLE(HEADS)},   \
    {                                                                                              \
        "intermediate_size", BP_FIELD_COUNT, STACK(inner), INNER_MOST, 0, NULL, ROLE(INNER)        \
    }

static const bp_hf_field gpt2_fields[] = {
    COMMON,
    {"n_positions", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL, ROLE(NONE)},
    {"max_position_embeddings", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL, ROLE(NONE)},
    {"n_embd", BP_FIELD_COUNT, STACK(width), WIDTH_MOST, 0, NULL, ROLE(WIDTH)},
    {"hidden_size", BP_FIELD_COUNT, STACK(width), WIDTH_MOST, 0, NULL, ROLE(WIDTH)},
    {"n_layer", BP_FIELD_COUNT, STACK(layers), LAYERS_MOST, 0, NULL, ROLE(LAYERS)},
    {"num_hidden_layers", BP_FIELD_COUNT, STACK(layers), LAYERS_MOST, 0, NULL, ROLE(LAYERS)},
    {"n_head", BP_FIELD_COUNT, STACK(heads), HEADS_MOST, 0, NULL, ROLE(HEADS)},
    {"num_attention_heads", BP_FIELD_COUNT, STACK(heads), HEADS_MOST, 0, NULL, ROLE(HEADS)},
    {"n_inner", BP_FIELD_COUNT_NULL, STACK(inner), INNER_MOST, 0, NULL, ROLE(INNER)},
    {"layer_norm_epsilon", BP_FIELD_REAL, STACK(norm_epsilon), 0, 1.0, NULL, ROLE(NONE)},
    {"embd_pdrop", BP_FIELD_REAL, STACK(embedding_dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"resid_pdrop", BP_FIELD_REAL, STACK(residual_dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"attn_pdrop", BP_FIELD_REAL, STACK(attention_dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"activation_function", BP_FIELD_TEXT, 0, 0, 0, "gelu_new", ROLE(NONE)},
    {"scale_attn_weights", BP_FIELD_TRUE, 0, 0, 0, NULL, ROLE(NONE)},
    {"scale_attn_by_inverse_layer_idx", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
    {"reorder_and_upcast_attn", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
    {"tie_word_embeddings", BP_FIELD_FLAG_NOT, STACK(untied), 0, 0, NULL, ROLE(UNTIED)},
};

#define LLAMA                                                                                      \
    COMMON, SHAPES,                                                                                \
        {"num_key_value_heads", BP_FIELD_COUNT_NULL, OF_LLAMA(kv_heads), HEADS_MOST, 0, NULL,      \
         ROLE(KV_HEADS)},                                                                          \
        {"head_dim", BP_FIELD_COUNT_NULL, OF_LLAMA(head_width), HEAD_MOST, 0,                      \
         NULL,       ROLE(HEAD_WIDTH)},                                                            \
        {"hidden_act", BP_FIELD_TEXT, 0, 0, 0, "silu", ROLE(NONE)},                                \
        {"rms_norm_eps", BP_FIELD_REAL, STACK(norm_epsilon), 0, 1.0, NULL, ROLE(NONE)},            \
        {"attention_dropout", BP_FIELD_REAL, STACK(attention_dropout), 0, 1, NULL, ROLE(DROPOUT)}, \
        {"tie_word_embeddings", BP_FIELD_FLAG_NOT, STACK(untied), 0, 0, NULL, ROLE(UNTIED)},       \
        {"rope_theta", BP_FIELD_REAL, OF_LLAMA(rope_theta), 0, 1e12, NULL, ROLE(NONE)},            \
        {"rope_scaling", BP_FIELD_ROPE, 0, 0, 0, NULL, ROLE(NONE)},                                \
        {"rope_parameters", BP_FIELD_ROPE, 0, 0, 0, NULL, ROLE(NONE)},                             \
    {                                                                                              \
        "layer_types", BP_FIELD_TEXTS, 0, 0, 0, "full_attention", ROLE(NONE)                       \
    }

static const bp_hf_field llama_fields[] = {
    LLAMA,
    {"attention_bias", BP_FIELD_FLAG, OF_LLAMA(qkv_bias), 0, 0, NULL, ROLE(NONE)},
    {"attention_bias", BP_FIELD_FLAG, OF_LLAMA(output_bias), 0, 0, NULL, ROLE(NONE)},
    {"mlp_bias", BP_FIELD_FLAG, OF_LLAMA(mlp_bias), 0, 0, NULL, ROLE(NONE)},
    {"pretraining_tp", BP_FIELD_ONE, 0, 0, 0, NULL, ROLE(NONE)},
    {"sliding_window", BP_FIELD_NULL, 0, 0, 0, NULL, ROLE(NONE)},
};

/* Qwen2 names a sliding window that it does not use. */
static const bp_hf_field qwen2_fields[] = {
    LLAMA,
    {"use_sliding_window", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
    {"use_mrope", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
};

static const bp_hf_field bert_fields[] = {
    COMMON,
    SHAPES,
    {"hidden_act", BP_FIELD_TEXT, 0, 0, 0, "gelu", ROLE(NONE)},
    {"hidden_dropout_prob", BP_FIELD_REAL, STACK(embedding_dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"hidden_dropout_prob", BP_FIELD_REAL, STACK(residual_dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"attention_probs_dropout_prob", BP_FIELD_REAL, STACK(attention_dropout), 0, 1.0, NULL,
     ROLE(DROPOUT)},
    {"classifier_dropout", BP_FIELD_REAL_NULL, BP_OWN(bp_bert_config, classifier_dropout), 0, 1.0,
     NULL, ROLE(DROPOUT)},
    {"type_vocab_size", BP_FIELD_COUNT, BP_OWN(bp_bert_config, types), TYPES_MOST, 0, NULL,
     ROLE(NONE)},
    {"layer_norm_eps", BP_FIELD_REAL, STACK(norm_epsilon), 0, 1.0, NULL, ROLE(NONE)},
    {"position_embedding_type", BP_FIELD_TEXT, 0, 0, 0, "absolute", ROLE(NONE)},
    {"is_decoder", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
    {"tie_word_embeddings", BP_FIELD_TRUE, 0, 0, 0, NULL, ROLE(NONE)},
};

/* Bedplate's own: transformers has no such class. */
static const bp_hf_field mlp_fields[] = {
    {"input_size", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL, ROLE(NONE)},
    {"hidden_size", BP_FIELD_COUNT, BP_OWN(bp_mlp_config, width), WIDTH_MOST, 0, NULL, ROLE(WIDTH)},
    {"num_hidden_layers", BP_FIELD_COUNT, BP_OWN(bp_mlp_config, layers), LAYERS_MOST, 0, NULL,
     ROLE(LAYERS)},
    {"hidden_sizes", BP_FIELD_SIZES, BP_OWN(bp_mlp_config, hidden_sizes), WIDTH_MOST, 0, NULL,
     ROLE(NONE)},
    {"hidden_act", BP_FIELD_CHOICE, BP_OWN(bp_mlp_config, activation), 0, 0, "gelu|tanh|relu",
     ROLE(NONE)},
    {"hidden_dropout_prob", BP_FIELD_REAL, BP_OWN(bp_mlp_config, dropout), 0, 1.0, NULL,
     ROLE(DROPOUT)},
    {"initializer_range", BP_FIELD_REAL, BP_OWN(bp_mlp_config, initializer_range), 0, 1e6, NULL,
     ROLE(NONE)},
    {"problem_type", BP_FIELD_PROBLEM, 0, 0, 0, NULL, ROLE(NONE)},
    {"num_labels", BP_FIELD_COUNT, AT(classes), 1024, 0, NULL, ROLE(NONE)},
    {"id2label", BP_FIELD_LABELS, AT(classes), 0, 0, NULL, ROLE(NONE)},
    {"quantization_config", BP_FIELD_NULL, 0, 0, 0, NULL, ROLE(NONE)},
};

static const bp_hf_field rnn_fields[] = {
    {"vocab_size", BP_FIELD_COUNT, AT(vocabulary), INT32_MAX, 0, NULL, ROLE(NONE)},
    {"embedding_size", BP_FIELD_COUNT_NULL, BP_OWN(bp_rnn_config, embedding), WIDTH_MOST, 0, NULL,
     ROLE(NONE)},
    {"hidden_size", BP_FIELD_COUNT, BP_OWN(bp_rnn_config, width), WIDTH_MOST, 0, NULL, ROLE(WIDTH)},
    {"num_hidden_layers", BP_FIELD_COUNT, BP_OWN(bp_rnn_config, layers), LAYERS_MOST, 0, NULL,
     ROLE(LAYERS)},
    {"max_position_embeddings", BP_FIELD_COUNT, AT(positions), POSITIONS_MOST, 0, NULL, ROLE(NONE)},
    {"cell", BP_FIELD_CHOICE, BP_OWN(bp_rnn_config, cell), 0, 0, "gru|lstm", ROLE(NONE)},
    {"tie_word_embeddings", BP_FIELD_FLAG_NOT, BP_OWN(bp_rnn_config, untied), 0, 0, NULL,
     ROLE(UNTIED)},
    {"dropout", BP_FIELD_REAL, BP_OWN(bp_rnn_config, dropout), 0, 1.0, NULL, ROLE(DROPOUT)},
    {"bidirectional", BP_FIELD_FALSE, 0, 0, 0, NULL, ROLE(NONE)},
    {"initializer_range", BP_FIELD_REAL, BP_OWN(bp_rnn_config, initializer_range), 0, 1e6, NULL,
     ROLE(NONE)},
    {"bos_token_id", BP_FIELD_TOKEN, AT(bos_token), 0, 0, NULL, ROLE(NONE)},
    {"eos_token_id", BP_FIELD_TOKEN, AT(eos_token), 0, 0, NULL, ROLE(NONE)},
    {"pad_token_id", BP_FIELD_TOKEN, AT(pad_token), 0, 0, NULL, ROLE(NONE)},
    {"quantization_config", BP_FIELD_NULL, 0, 0, 0, NULL, ROLE(NONE)},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ROWS(name)   name##_fields, COUNT(name##_fields)
#define OWN(...)     &__VA_ARGS__, sizeof(__VA_ARGS__)

const bp_family bp_family_gpt2 = {"gpt2",
                                  &bp_model_gpt2,
                                  ROWS(gpt2),
                                  {.family = &bp_family_gpt2,
                                   .vocabulary = 50257,
                                   .positions = 1024,
                                   .bos_token = 50256,
                                   .eos_token = 50256,
                                   .pad_token = -1},
                                  OWN((const bp_transformer){.width = 768,
                                                             .layers = 12,
                                                             .heads = 12,
                                                             .norm_epsilon = 1e-5,
                                                             .initializer_range = 0.02,
                                                             .embedding_dropout = 0.1,
                                                             .residual_dropout = 0.1,
                                                             .attention_dropout = 0.1}),
                                  0};

const bp_family bp_family_llama = {"llama",
                                   &bp_model_llama,
                                   ROWS(llama),
                                   {.family = &bp_family_llama,
                                    .vocabulary = 32000,
                                    .positions = 2048,
                                    .bos_token = 1,
                                    .eos_token = 2,
                                    .pad_token = -1},
                                   OWN((const bp_llama_config){.stack = {.width = 4096,
                                                                         .layers = 32,
                                                                         .heads = 32,
                                                                         .inner = 11008,
                                                                         .norm_epsilon = 1e-6,
                                                                         .initializer_range = 0.02,
                                                                         .untied = true},
                                                               .rope_theta = 10000.0}),
                                   0};

const bp_family bp_family_qwen2 = {"qwen2",
                                   &bp_model_llama,
                                   ROWS(qwen2),
                                   {.family = &bp_family_qwen2,
                                    .vocabulary = 151936,
                                    .positions = 32768,
                                    .bos_token = -1,
                                    .eos_token = -1,
                                    .pad_token = -1},
                                   OWN((const bp_llama_config){.stack = {.width = 4096,
                                                                         .layers = 32,
                                                                         .heads = 32,
                                                                         .inner = 22016,
                                                                         .norm_epsilon = 1e-6,
                                                                         .initializer_range = 0.02,
                                                                         .untied = true},
                                                               .kv_heads = 32,
                                                               .rope_theta = 10000.0,
                                                               .qkv_bias = true}),
                                   0};

const bp_family bp_family_bert = {"bert",
                                  &bp_model_bert,
                                  ROWS(bert),
                                  {.family = &bp_family_bert,
                                   .vocabulary = 30522,
                                   .positions = 512,
                                   .bos_token = -1,
                                   .eos_token = -1,
                                   .pad_token = 0,
                                   .task = BP_TASK_MASKED_LM},
                                  OWN((const bp_bert_config){.stack = {.width = 768,
                                                                       .layers = 12,
                                                                       .heads = 12,
                                                                       .inner = 3072,
                                                                       .norm_epsilon = 1e-12,
                                                                       .initializer_range = 0.02,
                                                                       .embedding_dropout = 0.1,
                                                                       .residual_dropout = 0.1,
                                                                       .attention_dropout = 0.1},
                                                             .types = 2,
                                                             .classifier_dropout = -1.0}),
                                  0};

const bp_family bp_family_mlp = {
    "mlp",
    &bp_model_mlp,
    ROWS(mlp),
    {.family = &bp_family_mlp,
     .bos_token = -1,
     .eos_token = -1,
     .pad_token = -1,
     .task = BP_TASK_CLASSES},
    OWN((const bp_mlp_config){.width = 64, .layers = 1, .activation = BP_ACTIVATION_RELU}),
    0};

const bp_family bp_family_rnn = {
    "rnn",
    &bp_model_rnn,
    ROWS(rnn),
    {.family = &bp_family_rnn,
     .vocabulary = 256,
     .positions = 1 << 20,
     .bos_token = -1,
     .eos_token = -1,
     .pad_token = -1},
    OWN((const bp_rnn_config){.width = 256, .layers = 1, .untied = true}),
    BP_OWN(bp_rnn_config, chunks)};

/* Every family that this library knows. */
static const bp_family *const families[] = {&bp_family_gpt2, &bp_family_llama, &bp_family_qwen2,
                                            &bp_family_bert, &bp_family_mlp,   &bp_family_rnn};

const bp_family *bp_family_at(size_t index)
{
    return index < COUNT(families) ? families[index] : NULL;
}

const bp_family *bp_family_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (strcmp(families[i]->model_type, model_type) == 0) {
            return families[i];
        }
    }
    return NULL;
}

bp_model_config bp_family_defaults(const bp_family *family)
{
    bp_model_config config = family->defaults;
    bp_config_set_own(&config, family->own, family->own_bytes);
    return config;
}

bp_model_config bp_family_adopt(const bp_spec *spec)
{
    bp_model_config config = spec->config;
    for (size_t i = 0; i < COUNT(families) && config.family == NULL; i++) {
        config.family = families[i]->model == spec->model ? families[i] : NULL;
    }
    return config;
}

uint32_t bp_family_count(const bp_model_config *config, bp_role role)
{
    const bp_family *family = config->family;
    uint32_t value = 0;
    for (size_t i = 0; family != NULL && i < family->count; i++) {
        if (family->fields[i].role == role) {
            memcpy(&value, (const char *)config + family->fields[i].offset, sizeof value);
            break;
        }
    }
    return value;
}

bool bp_family_untied(const bp_model_config *config)
{
    const bp_family *family = config->family;
    bool value = false;
    for (size_t i = 0; family != NULL && i < family->count; i++) {
        if (family->fields[i].role == BP_ROLE_UNTIED) {
            memcpy(&value, (const char *)config + family->fields[i].offset, sizeof value);
        }
    }
    return value;
}

void bp_family_set_dropouts(bp_model_config *config, double probability)
{
    const bp_family *family = config->family;
    for (size_t i = 0; i < family->count; i++) {
        if (family->fields[i].role == BP_ROLE_DROPOUT) {
            memcpy((char *)config + family->fields[i].offset, &probability, sizeof probability);
        }
    }
}

void bp_family_set_pieces(bp_model_config *config, uint32_t pieces)
{
    const bp_family *family = config->family;
    if (family->pieces != 0) {
        memcpy((char *)config + family->pieces, &pieces, sizeof pieces);
    }
}

uint32_t bp_family_pieces(const bp_model_config *config)
{
    uint32_t pieces = 0;
    if (config->family->pieces != 0) {
        memcpy(&pieces, (const char *)config + config->family->pieces, sizeof pieces);
    }
    return pieces;
}

/* A whole number of a config as the model takes it: what 0 leaves open is filled in. */
static uint64_t settled_count(const bp_model_config *config, const bp_hf_field *field)
{
    uint32_t value;
    memcpy(&value, (const char *)config + field->offset, sizeof value);
    return value != 0                        ? value
           : field->role == BP_ROLE_INNER    ? 4 * (uint64_t)bp_family_count(config, BP_ROLE_WIDTH)
           : field->role == BP_ROLE_KV_HEADS ? bp_family_count(config, BP_ROLE_HEADS)
           : field->role == BP_ROLE_HEAD_WIDTH
               ? bp_family_count(config, BP_ROLE_WIDTH) / bp_family_count(config, BP_ROLE_HEADS)
               : 0;
}

/* Widths that are listed, or all the same. */
static bool same_sizes(const bp_model_config *a, const bp_model_config *b, const bp_hf_field *field)
{
    const uint32_t layers = bp_family_count(a, BP_ROLE_LAYERS);
    for (uint32_t i = 0; i < layers && i < BP_HIDDEN_SIZES_MAX; i++) {
        bp_hf_field one = *field;
        one.offset += i * sizeof(uint32_t);
        const uint64_t size_a = settled_count(a, &one), size_b = settled_count(b, &one);
        if ((size_a != 0 ? size_a : bp_family_count(a, BP_ROLE_WIDTH)) !=
            (size_b != 0 ? size_b : bp_family_count(b, BP_ROLE_WIDTH))) {
            return false;
        }
    }
    return true;
}

/* Where widths are listed, the one of them all says nothing. */
static bool same_field(const bp_model_config *a, const bp_model_config *b, const bp_hf_field *field)
{
    const char *at_a = (const char *)a + field->offset, *at_b = (const char *)b + field->offset;
    switch (field->kind) {
    case BP_FIELD_COUNT:
    case BP_FIELD_COUNT_NULL:
        return settled_count(b, field);
    case BP_FIELD_SIZES:
        return same_sizes(a, b, field);
    case BP_FIELD_FLAG:
    case BP_FIELD_FLAG_NOT:
        return memcmp(at_a, at_b, sizeof(bool)) == 0;
    case BP_FIELD_CHOICE:
        return memcmp(at_a, at_b, sizeof(uint32_t)) == 0;
    default:
        return true;
    }
}

bool bp_family_same(const bp_model_config *a, const bp_model_config *b)
{
    bool same = a->family == b->family && a->task == b->task && a->classes == b->classes;
    for (size_t i = 0; same && i < a->family->count; i++) {
        same = same_field(a, b, &a->family->fields[i]);
    }
    return same;
}
