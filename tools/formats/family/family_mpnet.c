/* SPDX-License-Identifier: MIT */
/* MPNet: transformers' configuration_mpnet.py and modeling_mpnet.py. */
#include "tools/formats/family/family_bert.h"

/* The buckets of distances that the model code computes, whatever the table has. */
#define MPNET_BUCKETS 32

/* What its files do not say: positions begin behind those of token 1, which is padding. */
static void family_mpnet_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_MPNET;
    own.types = 0;
    own.position_first = 2;
    own.classifier_dropout = own.stack.residual_dropout;
    config->positions =
        own.position_rows > own.position_first ? own.position_rows - own.position_first : 0;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    ROW_ACT("hidden_act", STACK(activation)),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROW_COUNT("hidden_size", STACK(width), WIDTH_MOST, 768, WIDTH),
    ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),
    ROW_COUNT("intermediate_size", STACK(inner), INNER_MOST, 3072, INNER),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),
    ROW_COUNT("max_position_embeddings", BERT(position_rows), POSITIONS_MOST, 512, NONE),
    ROW_TYPE,
    ROW_COUNT("num_attention_heads", STACK(heads), HEADS_MOST, 12, HEADS),
    ROW_COUNT("num_hidden_layers", STACK(layers), LAYERS_MOST, 12, LAYERS),
    {"relative_attention_num_buckets", BP_ROW_COUNT, BP_ROLE_NONE, 0, BERT(buckets), MPNET_BUCKETS,
     MPNET_BUCKETS, MPNET_BUCKETS, NULL},
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(30527, 0, 2, 1),
    ROWS_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"mpnet.*", "*", BP_LAYOUT_PLAIN},
};

/* Position numbers saved as buffers, and heads and poolers that a model has no use for. */
static const char *const ignored[] = {
    "mpnet.embeddings.position_ids",
    "embeddings.position_ids",
    "lm_head.*",
    "mpnet.pooler.*",
    "pooler.*",
    "classifier.*",
    "qa_outputs.*",
};

static const bp_tensor_twin twins[] = {
    {"lm_head.decoder.weight", "mpnet.embeddings.word_embeddings.weight",
     "classifier.out_proj.weight"},
    {"lm_head.decoder.bias", "lm_head.bias", "classifier.out_proj.weight"},
};

static const bp_preset presets[] = {
    {"tiny-mpnet", "a byte-level MPNet for tests",
     BERT_TINY(&bp_family_mpnet, 1, 1e-5, .kind = BP_MPNET, .position_rows = 130,
               .position_first = 2, .buckets = MPNET_BUCKETS)},
};

/* Of the blocks; the classifier's dense layers are trained whole. */
static const char all_linear[] =
    "[\"q\", \"k\", \"v\", \"o\", \"intermediate.dense\", \"output.dense\"]";

const bp_family bp_family_mpnet = {
    .model_type = "mpnet",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "MPNetForMaskedLM",
    .judge_class = "MPNetForSequenceClassification",
    .token_class = "MPNetForTokenClassification",
    .resolve = family_mpnet_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .adapter_targets = "q,v",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
