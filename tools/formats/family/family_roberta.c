/* SPDX-License-Identifier: MIT */
/* RoBERTa and XLM-R: transformers' configuration_roberta.py and modeling_roberta.py. */
#include "tools/formats/family/family_bert.h"
#include "tools/formats/gguf/gguf_family.h"

/* The first token's position is the one behind the padding's: of max_position_embeddings rows so
 * many are left. */
static void family_roberta_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_ROBERTA;
    own.position_first = (uint32_t)(config->pad_token >= 0 ? config->pad_token + 1 : 2);
    config->positions =
        own.position_rows > own.position_first ? own.position_rows - own.position_first : 0;
    if (own.classifier_dropout < 0.0) {
        own.classifier_dropout = own.stack.residual_dropout;
    }
    bp_family_config_set(config, &own, sizeof own);
}

#define ROBERTA_ROWS(vocabulary_)                                                                  \
    ROW_CLASSES,                                                                                   \
        ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.1, DROPOUT),     \
        {"classifier_dropout",                                                                     \
         BP_ROW_REAL_NULL,                                                                         \
         BP_ROLE_DROPOUT,                                                                          \
         0,                                                                                        \
         BERT(classifier_dropout),                                                                 \
         0,                                                                                        \
         1,                                                                                        \
         -1,                                                                                       \
         NULL},                                                                                    \
        ROW_ACT("hidden_act", STACK(activation)),                                                  \
        ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.1, DROPOUT),               \
        ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),              \
        ROW_COUNT("hidden_size", STACK(width), WIDTH_MOST, 768, WIDTH),                            \
        ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),               \
        ROW_COUNT("intermediate_size", STACK(inner), INNER_MOST, 3072, INNER),                     \
        ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),                         \
        ROW_COUNT("max_position_embeddings", BERT(position_rows), POSITIONS_MOST, 512, NONE),      \
        ROW_TYPE, ROW_COUNT("num_attention_heads", STACK(heads), HEADS_MOST, 12, HEADS),           \
        ROW_COUNT("num_hidden_layers", STACK(layers), LAYERS_MOST, 12, LAYERS),                    \
        ROW_FIXED("position_embedding_type", TEXT, "absolute", 0),                                 \
        ROW_COUNT("type_vocab_size", BERT(types), TYPES_MOST, 2, NONE), ROW_LABELS, ROW_PROBLEM,   \
        ROWS_TEXT(vocabulary_, 0, 2, 1), ROWS_REFUSED,                                             \
        ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),                                         \
        ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ)

static const bp_row rows[] = {ROBERTA_ROWS(50265)};
static const bp_row xlm_rows[] = {ROBERTA_ROWS(30522)};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"roberta.*", "*", BP_LAYOUT_PLAIN},
};

/* Position numbers saved as buffers, and heads and poolers that a model has no use for. */
static const char *const ignored[] = {
    "roberta.embeddings.position_ids",
    "embeddings.position_ids",
    "roberta.embeddings.token_type_ids",
    "lm_head.*",
    "roberta.pooler.*",
    "pooler.*",
    "classifier.*",
    "qa_outputs.*",
};

static const bp_tensor_twin twins[] = {
    {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight",
     "classifier.out_proj.weight"},
    {"lm_head.decoder.bias", "lm_head.bias", "classifier.out_proj.weight"},
};

static const bp_preset presets[] = {
    {"tiny-roberta", "a byte-level RoBERTa for tests",
     BERT_TINY(&bp_family_roberta, 1, 1e-5, .types = 1, .kind = BP_ROBERTA, .position_rows = 130,
               .position_first = 2)},
};

/* Of the blocks; the classifier's dense layers are trained whole. */
static const char all_linear[] =
    "[\"query\", \"key\", \"value\", \"intermediate.dense\", \"output.dense\"]";

#define ROBERTA_FAMILY(type_, rows_, class_)                                                       \
    .model_type = type_, .model = &bp_model_bert, .rows = rows_, .row_count = ROWS_COUNT(rows_),   \
    .task = BP_TASK_MASKED_LM, .language_class = class_ "ForMaskedLM",                             \
    .judge_class = class_ "ForSequenceClassification",                                             \
    .token_class = class_ "ForTokenClassification", .resolve = family_roberta_resolve,             \
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},  \
    .adapter_targets = "query,value", .all_linear = all_linear

const bp_family bp_family_roberta = {ROBERTA_FAMILY("roberta", rows, "Roberta"),
                                     .gguf = &bp_gguf_roberta, .presets = presets,
                                     .preset_count = ROWS_COUNT(presets)};
const bp_family bp_family_xlm_roberta = {ROBERTA_FAMILY("xlm-roberta", xlm_rows, "XLMRoberta"),
                                         .gguf = &bp_gguf_xlm_roberta};
