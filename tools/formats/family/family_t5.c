/* SPDX-License-Identifier: MIT */
/* T5 and mT5: transformers' configuration_t5.py, configuration_mt5.py and modeling_t5.py. Of whole
 * models encoders are read too, without their decoders. */
#include "layers/families/t5.h"

#include "tools/formats/family/family_rows.h"

#define T5(member) BP_FAMILY_MEMBER(bp_t5_config, member)

/* Distances have no end, so that texts are as long as they may be here. */
static void family_t5_resolve(bp_model_config *config)
{
    bp_t5_config own = bp_t5_config_of(config);
    config->positions = 1u << 20;
    /* A head of its own and outputs that are not scaled go together: transformers 4 says the one,
     * transformers 5 the other. */
    own.stack.untied = own.stack.untied || !own.scaled;
    own.scaled = !own.stack.untied;
    bp_family_config_set(config, &own, sizeof own);
}

/* All have a head of their own, whatever a file says; transformers passes it over as well. */
static void family_mt5_resolve(bp_model_config *config)
{
    bp_t5_config own = bp_t5_config_of(config);
    own.stack.untied = true;
    bp_family_config_set(config, &own, sizeof own);
    family_t5_resolve(config);
}

#define T5_ROWS(vocabulary_, inner_, heads_, layers_, perceptron_, flags_)                         \
    ROW_CLASSES, ROW_REAL("classifier_dropout", T5(classifier_dropout), 1.0, 0.0, DROPOUT),        \
        ROW_COUNT("d_ff", STACK(inner), INNER_MOST, inner_, INNER),                                \
        ROW_COUNT("d_kv", T5(head_width), HEADS_MOST, 64, HEAD_WIDTH),                             \
        ROW_COUNT("d_model", STACK(width), WIDTH_MOST, 512, WIDTH), {"decoder_start_token_id",     \
                                                                     BP_ROW_COUNT,                 \
                                                                     BP_ROLE_NONE,                 \
                                                                     0,                            \
                                                                     T5(start_token),              \
                                                                     0,                            \
                                                                     INT32_MAX,                    \
                                                                     0,                            \
                                                                     NULL},                        \
        ROW_REAL("dropout_rate", STACK(residual_dropout), 1.0, 0.1, DROPOUT),                      \
        ROW_REAL("dropout_rate", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),                     \
        ROW_REAL("dropout_rate", STACK(attention_dropout), 1.0, 0.1, DROPOUT),                     \
        ROW_CHOICE("feed_forward_proj", T5(perceptron), "relu|gated-gelu|gated-silu",              \
                   perceptron_),                                                                   \
        ROW_REAL("initializer_factor", STACK(initializer_range), 1e6, 1.0, INITIAL),               \
        ROW_FIXED("is_decoder", FALSE, NULL, 0),                                                   \
        ROW_REAL("layer_norm_epsilon", STACK(norm_epsilon), 1.0, 1e-6, NONE), ROW_TYPE,            \
        ROW_COUNT_NULL("num_decoder_layers", T5(decoder_layers), LAYERS_MOST, 0, NONE, 0),         \
        ROW_COUNT("num_heads", STACK(heads), HEADS_MOST, heads_, HEADS),                           \
        ROW_COUNT("num_layers", STACK(layers), LAYERS_MOST, layers_, LAYERS),                      \
        ROW_COUNT("relative_attention_max_distance", T5(distance), POSITIONS_MOST, 128, NONE),     \
        {"relative_attention_num_buckets",                                                         \
         BP_ROW_COUNT,                                                                             \
         BP_ROLE_NONE,                                                                             \
         0,                                                                                        \
         T5(buckets),                                                                              \
         4,                                                                                        \
         256,                                                                                      \
         32,                                                                                       \
         NULL},                                                                                    \
        {"scale_decoder_outputs", BP_ROW_FLAG, BP_ROLE_NONE, flags_, T5(scaled), 0, 1, 1, NULL},   \
        {"tie_word_embeddings",                                                                    \
         BP_ROW_FLAG_NOT,                                                                          \
         BP_ROLE_UNTIED,                                                                           \
         flags_,                                                                                   \
         STACK(untied),                                                                            \
         0,                                                                                        \
         1,                                                                                        \
         0,                                                                                        \
         NULL},                                                                                    \
        ROW_LABELS, ROW_PROBLEM, ROWS_TEXT(vocabulary_, -1, 1, 0),                                 \
        ROW_ALIAS("head_dim", T5(head_width), HEADS_MOST),                                         \
        ROW_ALIAS("hidden_size", STACK(width), WIDTH_MOST),                                        \
        ROW_ALIAS("num_attention_heads", STACK(heads), HEADS_MOST),                                \
        ROW_ALIAS("num_hidden_layers", STACK(layers), LAYERS_MOST),                                \
        ROW_FIXED("is_causal", FALSE, NULL, BP_ROW_READ),                                          \
        ROW_FIXED("per_layer_config", EMPTY, NULL, BP_ROW_READ),                                   \
    {                                                                                              \
        "quantization_config", BP_ROW_QUANTISED, BP_ROLE_NONE, BP_ROW_READ, COMMON(quantised), 0,  \
            0, 0, NULL                                                                             \
    }

static const bp_row t5_rows[] = {T5_ROWS(32128, 2048, 8, 6, BP_T5_RELU, 0)};
static const bp_row mt5_rows[] = {T5_ROWS(250112, 1024, 6, 8, BP_T5_GATED_GELU, BP_ROW_READ)};

/* A classifier of tokens has the encoder below a prefix. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"transformer.*", "*", BP_LAYOUT_PLAIN},
    {"shared.weight", "transformer.shared.weight", BP_LAYOUT_PLAIN},
    {"encoder.*", "transformer.encoder.*", BP_LAYOUT_PLAIN},
};

/* The decoder, and heads that a model has no use for. */
static const char *const ignored[] = {
    "decoder.*",
    "lm_head.weight",
    "classifier.*",
};

static const bp_tensor_twin twins[] = {
    {"lm_head.weight", "shared.weight", "lm_head.weight"},
    {"decoder.embed_tokens.weight", "shared.weight", "transformer.shared.weight"},
    {"encoder.embed_tokens.weight", "shared.weight", "transformer.shared.weight"},
    {"transformer.encoder.embed_tokens.weight", "transformer.shared.weight", "shared.weight"},
};

/* PEFT passes names over that a model lacks; they are errors when such a file is read here. */
static const char *family_t5_linear(const bp_model_config *config)
{
    return bp_t5_config_of(config).perceptron != BP_T5_RELU
               ? "[\"q\", \"k\", \"v\", \"o\", \"wi_0\", \"wi_1\", \"wo\"]"
               : "[\"q\", \"k\", \"v\", \"o\", \"wi\", \"wo\"]";
}

#define T5_FAMILY(name_, class_, rows_, resolve_)                                                  \
    {                                                                                              \
        .model_type = (name_), .model = &bp_model_t5, .rows = (rows_),                             \
        .row_count = ROWS_COUNT(rows_), .task = BP_TASK_EMBEDDING,                                 \
        .language_class = class_ "EncoderModel", .token_class = class_ "ForTokenClassification",   \
        .whole_class = class_ "ForConditionalGeneration", .resolve = (resolve_),                   \
        .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored),                         \
                   twins, ROWS_COUNT(twins)},                                                      \
        .adapter_targets = "q,v", .linear_names = family_t5_linear                                 \
    }

const bp_family bp_family_t5 = T5_FAMILY("t5", "T5", t5_rows, family_t5_resolve);
const bp_family bp_family_mt5 = T5_FAMILY("mt5", "MT5", mt5_rows, family_mt5_resolve);
