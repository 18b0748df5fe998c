/* SPDX-License-Identifier: MIT */
/* DistilBERT: transformers' configuration_distilbert.py and modeling_distilbert.py. */
#include "tools/formats/family/family_bert.h"
#include "tools/formats/gguf/gguf_family.h"

/* What its files do not say. */
static void family_distilbert_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_DISTILBERT;
    own.types = 0;
    own.stack.norm_epsilon = 1e-12;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_ACT("activation", STACK(activation)),
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    ROW_COUNT("dim", STACK(width), WIDTH_MOST, 768, WIDTH),
    ROW_REAL("dropout", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("dropout", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROW_COUNT("hidden_dim", STACK(inner), INNER_MOST, 3072, INNER),
    ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),
    ROW_COUNT("max_position_embeddings", COMMON(positions), POSITIONS_MOST, 512, NONE),
    ROW_TYPE,
    ROW_COUNT("n_heads", STACK(heads), HEADS_MOST, 12, HEADS),
    ROW_COUNT("n_layers", STACK(layers), LAYERS_MOST, 6, LAYERS),
    ROW_REAL("qa_dropout", BERT(pooler_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("seq_classif_dropout", BERT(classifier_dropout), 1.0, 0.2, DROPOUT),
    ROW_FIXED("sinusoidal_pos_embds", FALSE, NULL, BP_ROW_READ),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(30522, -1, -1, 0),
    ROW_ALIAS("hidden_size", STACK(width), WIDTH_MOST),
    ROW_ALIAS("num_attention_heads", STACK(heads), HEADS_MOST),
    ROW_ALIAS("num_hidden_layers", STACK(layers), LAYERS_MOST),
    ROWS_REFUSED,
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"distilbert.*", "*", BP_LAYOUT_PLAIN},
};

static const char *const ignored[] = {
    "distilbert.embeddings.position_ids",
    "vocab_transform.*",
    "vocab_layer_norm.*",
    "vocab_projector.*",
    "pre_classifier.*",
    "classifier.*",
    "qa_outputs.*",
};

static const bp_tensor_twin twins[] = {
    {"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight", "classifier.weight"},
};

static const bp_preset presets[] = {
    {"tiny-distilbert", "a byte-level DistilBERT for tests",
     BERT_TINY(&bp_family_distilbert, 0, 1e-12, .kind = BP_DISTILBERT)},
};

static const char all_linear[] =
    "[\"q_lin\", \"k_lin\", \"v_lin\", \"out_lin\", \"lin1\", \"lin2\"]";

const bp_family bp_family_distilbert = {
    .model_type = "distilbert",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "DistilBertForMaskedLM",
    .judge_class = "DistilBertForSequenceClassification",
    .token_class = "DistilBertForTokenClassification",
    .answer_class = "DistilBertForQuestionAnswering",
    .resolve = family_distilbert_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .gguf = &bp_gguf_distilbert,
    .adapter_targets = "q_lin,v_lin",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
