/* SPDX-License-Identifier: MIT */
/* GPT-2: transformers' configuration_gpt2.py and modeling_gpt2.py. Keys that change nothing about
 * the model are not listed. */
#include "layers/families/gpt2.h"
#include "tools/formats/family/family_rows.h"

static const bp_row rows[] = {
    ROW_CHOICE("activation_function", STACK(activation),
               "gelu_new|gelu|gelu_fast|gelu_pytorch_tanh|relu", BP_GPT2_GELU_NEW),
    ROW_CLASSES,
    ROW_REAL("attn_pdrop", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("embd_pdrop", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),
    ROW_REAL("layer_norm_epsilon", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_TYPE,
    ROW_COUNT("n_embd", STACK(width), WIDTH_MOST, 768, WIDTH),
    ROW_COUNT("n_head", STACK(heads), HEADS_MOST, 12, HEADS),
    ROW_COUNT_NULL("n_inner", STACK(inner), INNER_MOST, 0, INNER, 0),
    ROW_COUNT("n_layer", STACK(layers), LAYERS_MOST, 12, LAYERS),
    ROW_COUNT("n_positions", COMMON(positions), POSITIONS_MOST, 1024, NONE),
    ROW_FIXED("reorder_and_upcast_attn", FALSE, NULL, 0),
    ROW_REAL("resid_pdrop", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_FLAG("scale_attn_by_inverse_layer_idx", STACK(scale_by_layer), false),
    ROW_FIXED("scale_attn_weights", TRUE, NULL, 0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50257, 50256, 50256, -1),
    ROW_ALIAS("max_position_embeddings", COMMON(positions), POSITIONS_MOST),
    ROW_ALIAS("hidden_size", STACK(width), WIDTH_MOST),
    ROW_ALIAS("num_hidden_layers", STACK(layers), LAYERS_MOST),
    ROW_ALIAS("num_attention_heads", STACK(heads), HEADS_MOST),
    ROWS_CAUSAL_REFUSED,
};

/* The hub's own files leave the prefix out. Conv1D weights are (in, out) in the file and in
 * Bedplate. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"transformer.*", "*", BP_LAYOUT_PLAIN},
};

/* The causal masks that old versions saved as buffers. */
static const char *const ignored[] = {
    "transformer.h.#.attn.bias",
    "transformer.h.#.attn.masked_bias",
    "h.#.attn.bias",
    "h.#.attn.masked_bias",
};

static const bp_tensor_twin twins[] = {
    {"lm_head.weight", "transformer.wte.weight", "score.weight"}};

/* Shapes as published with the models (huggingface.co/gpt2 and its sizes); everything else is the
 * family's default. */
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

static const bp_preset presets[] = {
    {"gpt2", "GPT-2, 124 million parameters", GPT2(768, 12, 12)},
    {"gpt2-medium", "GPT-2, 355 million parameters", GPT2(1024, 24, 16)},
    {"gpt2-large", "GPT-2, 774 million parameters", GPT2(1280, 36, 20)},
    {"gpt2-xl", "GPT-2, 1,558 million parameters", GPT2(1600, 48, 25)},
    {"demo", "a byte-level GPT that learns in minutes on two cores", BYTES(224, 4, 7, 256, 0.1)},
    {"tiny", "a byte-level GPT for tests", BYTES(64, 2, 4, 64, 0.0)},
};

const bp_family bp_family_gpt2 = {
    .model_type = "gpt2",
    .model = &bp_model_gpt2,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .language_class = "GPT2LMHeadModel",
    .judge_class = "GPT2ForSequenceClassification",
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .gguf = &bp_gguf_gpt2,
    .adapter_targets = "c_attn",
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
