/* SPDX-License-Identifier: MIT */
/* DeBERTa-v2 and v3: transformers' configuration_deberta_v2.py and modeling_deberta_v2.py. */
#include "tools/formats/family/family_bert.h"

static void family_deberta_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_DEBERTA;
    own.embedding = own.embedding == own.stack.width ? 0 : own.embedding;
    if (own.classifier_dropout < 0.0) {
        own.classifier_dropout = own.stack.residual_dropout;
    }
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    {"cls_dropout", BP_ROW_REAL_NULL, BP_ROLE_DROPOUT, 0, BERT(classifier_dropout), 0, 1, -1, NULL},
    {"conv_kernel_size", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_READ, BERT(position_rows), 0, 0, 0,
     NULL},
    ROW_COUNT_NULL("embedding_size", BERT(embedding), WIDTH_MOST, 0, NONE, BP_ROW_SPARSE),
    ROW_ACT("hidden_act", STACK(activation)),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROWS_STACK(1536, 6144, 512, 24, 24),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-7, NONE),
    ROW_FIXED("legacy", TRUE, NULL, 0),
    {"max_relative_positions", BP_ROW_TOKEN, BP_ROLE_NONE, BP_ROW_SPARSE, BERT(distance), -1,
     INT32_MAX, -1, NULL},
    ROW_TYPE,
    ROW_FIXED("norm_rel_ebd", TEXT, "layer_norm", BP_ROW_REQUIRED),
    ROW_REAL("pooler_dropout", BERT(pooler_dropout), 1.0, 0.0, DROPOUT),
    ROW_FIXED("pooler_hidden_act", TEXT, "gelu", 0),
    ROW_FIXED("pos_att_type", WORDS, "p2c|c2p", BP_ROW_REQUIRED),
    ROW_FIXED("position_biased_input", FALSE, NULL, BP_ROW_REQUIRED),
    {"position_buckets", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_REQUIRED, BERT(buckets), 4, 4096, 256,
     NULL},
    ROW_FIXED("relative_attention", TRUE, NULL, BP_ROW_REQUIRED),
    ROW_FIXED("share_att_key", TRUE, NULL, BP_ROW_REQUIRED),
    {"type_vocab_size", BP_ROW_COUNT, BP_ROLE_NONE, 0, BERT(types), 0, TYPES_MOST, 0, NULL},
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(128100, -1, -1, 0),
    ROWS_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"deberta.*", "*", BP_LAYOUT_PLAIN},
};

/* Position numbers saved as buffers, and heads that a model has no use for. */
static const char *const ignored[] = {
    "deberta.embeddings.position_ids",
    "embeddings.position_ids",
    "deberta.embeddings.position_embeddings.weight",
    "cls.predictions.*",
    "lm_predictions.*",
    "mask_predictions.*",
    "pooler.dense.*",
    "classifier.*",
};

static const bp_tensor_twin twins[] = {
    {"cls.predictions.decoder.weight", "deberta.embeddings.word_embeddings.weight",
     "classifier.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", "classifier.weight"},
};

static const bp_preset presets[] = {
    {"tiny-deberta", "a byte-level DeBERTa for tests",
     BERT_TINY(&bp_family_deberta, 0, 1e-7, .kind = BP_DEBERTA, .buckets = 16, .distance = 64)},
};

/* Of the blocks; the pooler and the classifier are trained whole. */
static const char all_linear[] = "[\"query_proj\", \"key_proj\", \"value_proj\", "
                                 "\"intermediate.dense\", \"output.dense\"]";

const bp_family bp_family_deberta = {
    .model_type = "deberta-v2",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "DebertaV2ForMaskedLM",
    .judge_class = "DebertaV2ForSequenceClassification",
    .token_class = "DebertaV2ForTokenClassification",
    .resolve = family_deberta_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .adapter_targets = "query_proj,value_proj",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
