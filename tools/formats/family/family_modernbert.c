/* SPDX-License-Identifier: MIT */
/* ModernBERT: transformers' configuration_modernbert.py. */
#include "layers/families/modernbert.h"

#include "tools/formats/family/family_llama.h"
#include "tools/formats/gguf/gguf_family.h"

#define MODERN(member) BP_FAMILY_MEMBER(bp_modernbert_config, member)

/* The first of every so many layers looks at all where the file does not list them. */
static void family_modernbert_resolve(bp_model_config *config)
{
    bp_modernbert_config own = bp_modernbert_config_of(config);
    bp_layer_set *near = &own.llama.near;
    const uint32_t layers = own.llama.stack.layers, every = own.every != 0 ? own.every : 3;
    for (uint32_t i = 0; near->listed == 0 && i < layers; i++) {
        if (i % every != 0) {
            bp_layer_put(near, i);
        }
    }
    near->listed = layers;
    if (own.half_window != 0) {
        own.llama.window = 2 * own.half_window;
    }
    own.every = own.half_window = 0; /* they have said it all */
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FIXED("attention_bias", FALSE, NULL, 0),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("attention_dropout", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_FIXED("classifier_activation", TEXT, "gelu", 0),
    ROW_FIXED("classifier_bias", FALSE, NULL, 0),
    ROW_REAL("classifier_dropout", MODERN(classifier_dropout), 1.0, 0.0, DROPOUT),
    ROW_CHOICE("classifier_pooling", MODERN(pooling), "cls|mean", 0),
    ROW_FIXED("decoder_bias", TRUE, NULL, 0),
    ROW_REAL("embedding_dropout", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("global_rope_theta", LLAMA(rope_theta), 1e12, 160000.0, ROTARY),
    ROW_FIXED("hidden_activation", TEXT, "gelu", 0),
    ROWS_STACK(768, 1152, 8192, 12, 22),
    ROW_LAYER_TYPES,
    ROW_COUNT("local_attention", LLAMA(window), POSITIONS_MOST, 128, NONE),
    ROW_REAL("local_rope_theta", LLAMA(near_theta), 1e12, 10000.0, NONE),
    ROW_FIXED("mlp_bias", FALSE, NULL, 0),
    ROW_REAL("mlp_dropout", MODERN(mlp_dropout), 1.0, 0.0, DROPOUT),
    ROW_TYPE,
    ROW_FIXED("norm_bias", FALSE, NULL, 0),
    ROW_REAL("norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50368, 50281, 50282, 50283),
    {"global_attn_every_n_layers", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_READ, MODERN(every), 1,
     LAYERS_MOST, 0, NULL},
    ROWS_ROPE_WINDOWS,
    ROW_FIXED("rope_scaling", NULL, NULL, BP_ROW_READ),
    /* transformers' setter of it makes local_attention twice its value, whatever stands there */
    {"sliding_window", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_READ, MODERN(half_window), 1,
     POSITIONS_MOST / 2, 0, NULL},
    ROWS_REFUSED,
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"model.*", "*", BP_LAYOUT_PLAIN},
};

/* Heads that a model has no use for. */
static const char *const ignored[] = {
    "*rotary_emb.*",
    "head.*",
    "decoder.bias",
    "classifier.*",
};

static const bp_tensor_twin twins[] = {
    {"decoder.weight", "model.embeddings.tok_embeddings.weight", "classifier.weight"},
};

#define MODERNBERT(vocabulary_, positions_, pad_, stack_, near_, ...)                              \
    {.family = &bp_family_modernbert,                                                              \
     .vocabulary = (vocabulary_),                                                                  \
     .positions = (positions_),                                                                    \
     .bos_token = (pad_) > 0 ? 50281 : -1,                                                         \
     .eos_token = (pad_) > 0 ? 50282 : -1,                                                         \
     .pad_token = (pad_),                                                                          \
     .task = BP_TASK_MASKED_LM},                                                                   \
        OWN((const bp_modernbert_config){.llama = {.stack = stack_,                                \
                                                   .rope_theta = 160000.0,                         \
                                                   .near = near_,                                  \
                                                   .near_theta = 10000.0,                          \
                                                   __VA_ARGS__}})
#define BRACES(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define SIZES(width_, layers_, heads_, inner_)                                                     \
    BRACES(.width = (width_), .layers = (layers_), .heads = (heads_), .inner = (inner_),           \
           .norm_epsilon = 1e-5, .initializer_range = 0.02)
/* Bit i: layer i looks at its neighbours; none of every third. */
#define NEAR(bits, layers_) BRACES({bits, 0}, layers_)

static const bp_preset presets[] = {
    {"modernbert-base", "ModernBERT, 150 million parameters",
     MODERNBERT(50368, 8192, 50283, SIZES(768, 22, 12, 1152), NEAR(0x1b6db6, 22), .window = 128)},
    {"modernbert-large", "ModernBERT, 396 million parameters",
     MODERNBERT(50368, 8192, 50283, SIZES(1024, 28, 16, 2624), NEAR(0x6db6db6, 28), .window = 128)},
    {"tiny-modernbert", "a byte-level ModernBERT for tests",
     MODERNBERT(256, 128, 0, SIZES(64, 3, 4, 96), NEAR(6, 3), .window = 16)},
};

static const char all_linear[] = "[\"Wqkv\", \"Wo\", \"Wi\"]";

const bp_family bp_family_modernbert = {
    .model_type = "modernbert",
    .model = &bp_model_modernbert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "ModernBertForMaskedLM",
    .judge_class = "ModernBertForSequenceClassification",
    .token_class = "ModernBertForTokenClassification",
    .resolve = family_modernbert_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .gguf = &bp_gguf_modernbert,
    .adapter_targets = "Wqkv",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
