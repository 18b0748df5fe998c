/* SPDX-License-Identifier: MIT */
/* nomic-embed-text: transformers' configuration_nomic_bert.py and modeling_nomic_bert.py; of the
 * model's own code the keys of GPT-2's kind, and the names of tensors. */
#include "tools/formats/family/family_bert.h"

static void family_nomic_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    own.kind = BP_NOMIC;
    if (own.classifier_dropout < 0.0) {
        own.classifier_dropout = own.stack.residual_dropout;
    }
    bp_family_config_set(config, &own, sizeof own);
}

#define NOMIC_THETA 1000.0
#define ROW_OLDER(key, at, below)                                                                  \
    {                                                                                              \
        key, BP_ROW_REAL, BP_ROLE_NONE, BP_ROW_READ, at, 0, below, 0, NULL                         \
    }

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    {"classifier_dropout", BP_ROW_REAL_NULL, BP_ROLE_DROPOUT, 0, BERT(classifier_dropout), 0, 1, -1,
     NULL},
    ROW_COUNT_NULL("head_dim", BERT(head_width), WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu|swiglu", 0),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROWS_STACK(768, 3072, 2048, 12, 12),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),
    ROW_TYPE,
    {"rope_parameters", BP_ROW_THETA, BP_ROLE_NONE, 0, BERT(rope_theta), 0, 1e12, 0, NULL},
    {"rope_parameters.rope_theta", BP_ROW_REAL, BP_ROLE_NONE, BP_ROW_INSIDE, BERT(rope_theta), 0,
     1e12, NOMIC_THETA, NULL},
    ROW_COUNT("type_vocab_size", BERT(types), TYPES_MOST, 2, NONE),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(30528, -1, -1, 0),
    ROWS_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
    ROW_FIXED("activation_function", TEXT, "swiglu", BP_ROW_READ),
    ROW_OLDER("attn_pdrop", STACK(attention_dropout), 1.0),
    ROW_FIXED("causal", FALSE, NULL, BP_ROW_READ),
    ROW_OLDER("embd_pdrop", STACK(embedding_dropout), 1.0),
    ROW_OLDER("layer_norm_epsilon", STACK(norm_epsilon), 1.0),
    ROW_FIXED("mlp_fc1_bias", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("mlp_fc2_bias", FALSE, NULL, BP_ROW_READ),
    ROW_ALIAS("n_embd", STACK(width), WIDTH_MOST),
    ROW_ALIAS("n_head", STACK(heads), HEADS_MOST),
    ROW_ALIAS("n_inner", STACK(inner), INNER_MOST),
    ROW_ALIAS("n_layer", STACK(layers), LAYERS_MOST),
    ROW_ALIAS("n_positions", COMMON(positions), POSITIONS_MOST),
    ROW_FIXED("parallel_block", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("parallel_block_tied_norm", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("prenorm", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("qkv_proj_bias", FALSE, NULL, BP_ROW_READ),
    ROW_OLDER("resid_pdrop", STACK(residual_dropout), 1.0),
    ROW_FIXED("rope_scaling", EMPTY, NULL, BP_ROW_READ),
    ROW_OLDER("rope_theta", BERT(rope_theta), 1e12),
    ROW_OLDER("rotary_emb_base", BERT(rope_theta), 1e12),
    ROW_FIXED("rotary_emb_fraction", ONE, NULL, BP_ROW_READ | BP_ROW_SPARSE), /* 1.0 too */
    ROW_FIXED("rotary_emb_interleaved", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("rotary_emb_scale_base", NULL, NULL, BP_ROW_READ),
    ROW_FIXED("rotary_scaling_factor", NULL, NULL, BP_ROW_READ),
    ROW_FIXED("scale_attn_by_inverse_layer_idx", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("scale_attn_weights", TRUE, NULL, BP_ROW_READ),
    ROW_FIXED("use_rms_norm", FALSE, NULL, BP_ROW_READ),
};

/* An encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"nomic_bert.*", "*", BP_LAYOUT_PLAIN},
    {"nomic_bert.*", "bert.*", BP_LAYOUT_PLAIN},
};

/* Heads and poolers that a model has no use for. */
static const char *const ignored[] = {
    "cls.*",
    "nomic_bert.pooler.*",
    "pooler.*",
    "classifier.*",
};

/* Of the blocks, by the names of the files. */
static const char all_linear[] = "[\"Wqkv\", \"out_proj\", \"fc11\", \"fc12\", \"fc2\"]";

const bp_family bp_family_nomic_bert = {
    .model_type = "nomic_bert",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "NomicBertForMaskedLM",
    .judge_class = "NomicBertForSequenceClassification",
    .token_class = "NomicBertForTokenClassification",
    .resolve = family_nomic_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "Wqkv",
    .all_linear = all_linear};
