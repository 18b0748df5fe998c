/* SPDX-License-Identifier: MIT */
/* The table of presets. */
#include "tools/formats/preset.h"

#include <string.h>

#include "layers/bert.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/rnn.h"
#include "tools/formats/hf_fields.h"

#define OWN(...) &__VA_ARGS__, sizeof(__VA_ARGS__)

/* Shapes of the GPT-2 family as published with the models (huggingface.co/gpt2 and its sizes);
 * everything else is the family's default. */
#define GPT2(width_, layers_, heads_)                                                              \
    {.family = &bp_family_gpt2,                                                                    \
     .vocabulary = 50257,                                                                          \
     .positions = 1024,                                                                            \
     .bos_token = 50256,                                                                           \
     .eos_token = 50256,                                                                           \
     .pad_token = -1},                                                                             \
        OWN((const bp_transformer){.width = (width_),                                              \
                                   .layers = (layers_),                                            \
                                   .heads = (heads_),                                              \
                                   .norm_epsilon = 1e-5,                                           \
                                   .initializer_range = 0.02,                                      \
                                   .embedding_dropout = 0.1,                                       \
                                   .residual_dropout = 0.1,                                        \
                                   .attention_dropout = 0.1})

/* Models over bytes: id = byte value, no special tokens. */
#define BYTES(width_, layers_, heads_, positions_, dropout_)                                       \
    {.family = &bp_family_gpt2,                                                                    \
     .vocabulary = 256,                                                                            \
     .positions = (positions_),                                                                    \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1},                                                                             \
        OWN((const bp_transformer){.width = (width_),                                              \
                                   .layers = (layers_),                                            \
                                   .heads = (heads_),                                              \
                                   .norm_epsilon = 1e-5,                                           \
                                   .initializer_range = 0.02,                                      \
                                   .embedding_dropout = (dropout_),                                \
                                   .residual_dropout = (dropout_),                                 \
                                   .attention_dropout = (dropout_)})

/* Llama of the first two generations (arXiv 2302.13971, 2307.09288; TinyLlama arXiv 2401.02385):
 * shapes as in the config.json that come with the weights. */
#define LLAMA(width_, inner_, layers_, heads_, kv_heads_, positions_, epsilon_)                    \
    {.family = &bp_family_llama,                                                                   \
     .vocabulary = 32000,                                                                          \
     .positions = (positions_),                                                                    \
     .bos_token = 1,                                                                               \
     .eos_token = 2,                                                                               \
     .pad_token = -1},                                                                             \
        OWN((const bp_llama_config){.stack = {.width = (width_),                                   \
                                              .layers = (layers_),                                 \
                                              .heads = (heads_),                                   \
                                              .inner = (inner_),                                   \
                                              .norm_epsilon = (epsilon_),                          \
                                              .initializer_range = 0.02,                           \
                                              .untied = true},                                     \
                                    .kv_heads = (kv_heads_),                                       \
                                    .rope_theta = 10000.0})

/* Llama 3 (arXiv 2407.21783). */
#define LLAMA3(width_, inner_, layers_, heads_, positions_, factor_, untied_)                      \
    {.family = &bp_family_llama,                                                                   \
     .vocabulary = 128256,                                                                         \
     .positions = (positions_),                                                                    \
     .bos_token = 128000,                                                                          \
     .eos_token = 128001,                                                                          \
     .pad_token = -1},                                                                             \
        OWN((const bp_llama_config){.stack = {.width = (width_),                                   \
                                              .layers = (layers_),                                 \
                                              .heads = (heads_),                                   \
                                              .inner = (inner_),                                   \
                                              .norm_epsilon = 1e-5,                                \
                                              .initializer_range = 0.02,                           \
                                              .untied = (untied_)},                                \
                                    .kv_heads = 8,                                                 \
                                    .rope_theta = 500000.0,                                        \
                                    .rope_scaling = {(factor_), (factor_) > 0.0 ? 1.0 : 0.0,       \
                                                     (factor_) > 0.0 ? 4.0 : 0.0,                  \
                                                     (factor_) > 0.0 ? 8192 : 0}})

/* BERT (arXiv 1810.04805), uncased, as a masked language model unless a task is asked for. */
#define BERT(vocabulary_, positions_, width_, layers_, heads_, dropout_)                           \
    {.family = &bp_family_bert,                                                                    \
     .vocabulary = (vocabulary_),                                                                  \
     .positions = (positions_),                                                                    \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = 0,                                                                               \
     .task = BP_TASK_MASKED_LM},                                                                   \
        OWN((const bp_bert_config){.stack = {.width = (width_),                                    \
                                             .layers = (layers_),                                  \
                                             .heads = (heads_),                                    \
                                             .inner = 4 * (width_),                                \
                                             .norm_epsilon = 1e-12,                                \
                                             .initializer_range = 0.02,                            \
                                             .embedding_dropout = (dropout_),                      \
                                             .residual_dropout = (dropout_),                       \
                                             .attention_dropout = (dropout_)},                     \
                                   .types = 2,                                                     \
                                   .classifier_dropout = (dropout_)})

/* Chains of dense layers over rows of numbers. */
#define MLP(inputs_, width_, layers_, classes_, activation_)                                       \
    {.family = &bp_family_mlp,                                                                     \
     .positions = (inputs_),                                                                       \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = (classes_)},                                                                       \
        OWN((const bp_mlp_config){                                                                 \
            .width = (width_), .layers = (layers_), .activation = (activation_)})

/* Recurrent models over bytes. */
#define RNN(cell_, width_, layers_)                                                                \
    {.family = &bp_family_rnn,                                                                     \
     .vocabulary = 256,                                                                            \
     .positions = 1 << 20,                                                                         \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1},                                                                             \
        OWN((const bp_rnn_config){                                                                 \
            .width = (width_), .layers = (layers_), .untied = true, .cell = (cell_)})

static const bp_preset presets[] = {
    {"gpt2", "GPT-2, 124 million parameters", GPT2(768, 12, 12)},
    {"gpt2-medium", "GPT-2, 355 million parameters", GPT2(1024, 24, 16)},
    {"gpt2-large", "GPT-2, 774 million parameters", GPT2(1280, 36, 20)},
    {"gpt2-xl", "GPT-2, 1,558 million parameters", GPT2(1600, 48, 25)},
    {"llama-7b", "Llama 2, 6,738 million parameters", LLAMA(4096, 11008, 32, 32, 32, 4096, 1e-5)},
    {"llama-13b", "Llama 2, 13,016 million parameters", LLAMA(5120, 13824, 40, 40, 40, 4096, 1e-5)},
    {"llama-3-8b", "Llama 3, 8,030 million parameters",
     LLAMA3(4096, 14336, 32, 32, 8192, 0.0, true)},
    {"llama-3.2-1b", "Llama 3.2, 1,236 million parameters",
     LLAMA3(2048, 8192, 16, 32, 131072, 32.0, false)},
    {"tinyllama-1.1b", "TinyLlama, 1,100 million parameters",
     LLAMA(2048, 5632, 22, 32, 4, 2048, 1e-5)},
    {"bert-base", "BERT, 110 million parameters", BERT(30522, 512, 768, 12, 12, 0.1)},
    {"bert-large", "BERT, 335 million parameters", BERT(30522, 512, 1024, 24, 16, 0.1)},
    {"demo", "a byte-level GPT that learns in minutes on two cores", BYTES(224, 4, 7, 256, 0.1)},
    {"tiny", "a byte-level GPT for tests", BYTES(64, 2, 4, 64, 0.0)},
    {"tiny-llama",
     "a byte-level Llama with grouped heads for tests",
     {.family = &bp_family_llama,
      .vocabulary = 256,
      .positions = 128,
      .bos_token = -1,
      .eos_token = -1,
      .pad_token = -1},
     OWN((const bp_llama_config){.stack = {.width = 64,
                                           .layers = 2,
                                           .heads = 4,
                                           .inner = 176,
                                           .norm_epsilon = 1e-5,
                                           .initializer_range = 0.02},
                                 .kv_heads = 2,
                                 .rope_theta = 10000.0})},
    {"tiny-bert", "a byte-level BERT for tests", BERT(256, 128, 64, 2, 4, 0.0)},
    {"mlp", "a chain of dense layers for images of 28 x 28 pixels",
     MLP(784, 512, 2, 10, BP_ACTIVATION_RELU)},
    {"tiny-mlp", "a chain of dense layers for tests: 4 numbers a row",
     MLP(4, 16, 2, 3, BP_ACTIVATION_TANH)},
    {"gru", "a byte-level GRU", RNN(BP_CELL_GRU, 512, 2)},
    {"lstm", "a byte-level LSTM", RNN(BP_CELL_LSTM, 512, 2)},
    {"tiny-gru", "a byte-level GRU for tests", RNN(BP_CELL_GRU, 32, 2)},
    {"tiny-lstm", "a byte-level LSTM for tests", RNN(BP_CELL_LSTM, 32, 1)},
};

const bp_preset *bp_preset_at(uint32_t index)
{
    return index < sizeof presets / sizeof presets[0] ? &presets[index] : NULL;
}

const bp_preset *bp_preset_find(const char *name)
{
    const bp_preset *preset = NULL;
    for (uint32_t i = 0; (preset = bp_preset_at(i)) != NULL; i++) {
        if (strcmp(preset->name, name) == 0) {
            break;
        }
    }
    return preset;
}

bp_model_config bp_preset_config(const bp_preset *preset)
{
    bp_model_config config = preset->config;
    bp_config_set_own(&config, preset->own, preset->own_bytes);
    return config;
}
