/* SPDX-License-Identifier: MIT */
/* ELECTRA: transformers' configuration_electra.py and modeling_electra.py; of its two models the
 * generator's head guesses words. */
#include "tools/formats/family/family_bert.h"

static void family_electra_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_ELECTRA;
    if (own.classifier_dropout < 0.0) {
        own.classifier_dropout = own.stack.residual_dropout;
    }
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    {"classifier_dropout", BP_ROW_REAL_NULL, BP_ROLE_DROPOUT, 0, BERT(classifier_dropout), 0, 1, -1,
     NULL},
    ROW_COUNT("embedding_size", BERT(embedding), WIDTH_MOST, 128, NONE),
    ROW_ACT("hidden_act", STACK(activation)),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROWS_STACK(256, 1024, 512, 4, 12),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),
    ROW_TYPE,
    ROW_FIXED("position_embedding_type", TEXT, "absolute", BP_ROW_READ),
    ROW_COUNT("type_vocab_size", BERT(types), TYPES_MOST, 2, NONE),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(30522, -1, -1, 0),
    ROWS_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"electra.*", "*", BP_LAYOUT_PLAIN},
};

/* Position numbers saved as buffers, and heads that a model has no use for. */
static const char *const ignored[] = {
    "electra.embeddings.position_ids",
    "embeddings.position_ids",
    "electra.embeddings.token_type_ids",
    "discriminator_predictions.*",
    "generator_predictions.*",
    "generator_lm_head.bias",
    "classifier.*",
    "qa_outputs.*",
};

static const bp_tensor_twin twins[] = {
    {"generator_lm_head.weight", "electra.embeddings.word_embeddings.weight", NULL},
};

static const bp_preset presets[] = {
    {"tiny-electra", "a byte-level ELECTRA for tests",
     BERT_TINY(&bp_family_electra, 0, 1e-12, .types = 2, .kind = BP_ELECTRA, .embedding = 32)},
};

/* Of the blocks; the classifier's dense layers are trained whole. */
static const char all_linear[] =
    "[\"query\", \"key\", \"value\", \"intermediate.dense\", \"output.dense\"]";

const bp_family bp_family_electra = {
    .model_type = "electra",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "ElectraForMaskedLM",
    .judge_class = "ElectraForSequenceClassification",
    .token_class = "ElectraForTokenClassification",
    .answer_class = "ElectraForQuestionAnswering",
    .resolve = family_electra_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .adapter_targets = "query,value",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
