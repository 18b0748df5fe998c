/* SPDX-License-Identifier: MIT */
/* BERT: transformers' configuration_bert.py and modeling_bert.py. Keys that change nothing about
 * the model are not listed. */
#include "tools/formats/family/family_bert.h"
#include "tools/formats/gguf/gguf_family.h"

/* A dropout that nobody named is that of the layers. */
static void family_bert_resolve(bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    if (own.classifier_dropout < 0.0) {
        own.classifier_dropout = own.stack.residual_dropout;
        bp_family_config_set(config, &own, sizeof own);
    }
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    {"classifier_dropout", BP_ROW_REAL_NULL, BP_ROLE_DROPOUT, 0, BERT(classifier_dropout), 0, 1, -1,
     NULL},
    ROW_ACT("hidden_act", STACK(activation)),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.1, DROPOUT),
    ROWS_STACK(768, 3072, 512, 12, 12),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),
    ROW_TYPE,
    ROW_FIXED("position_embedding_type", TEXT, "absolute", 0),
    ROW_COUNT("type_vocab_size", BERT(types), TYPES_MOST, 2, NONE),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(30522, -1, -1, 0),
    ROWS_REFUSED,
    ROW_FIXED("is_decoder", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
};

/* Files made from the first TensorFlow checkpoints call weight and bias of the norms gamma and
 * beta; an encoder by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"*LayerNorm.weight", "*LayerNorm.gamma", BP_LAYOUT_PLAIN},
    {"*LayerNorm.bias", "*LayerNorm.beta", BP_LAYOUT_PLAIN},
    {"bert.*", "*", BP_LAYOUT_PLAIN},
    {"bert.*LayerNorm.weight", "*LayerNorm.gamma", BP_LAYOUT_PLAIN},
    {"bert.*LayerNorm.bias", "*LayerNorm.beta", BP_LAYOUT_PLAIN},
};

/* Position numbers saved as buffers, and the heads of other tasks, that a model has no use for.
 * What a model does want is claimed before it comes to this. */
static const char *const ignored[] = {
    "bert.embeddings.position_ids",
    "embeddings.position_ids",
    "cls.*",
    "bert.pooler.*",
    "pooler.*",
    "classifier.*",
    "qa_outputs.*",
};

static const bp_tensor_twin twins[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight",
     "classifier.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", "classifier.weight"},
};

/* arXiv 1810.04805, uncased, as a masked language model unless a task is asked for. */
#define PRESET(vocabulary_, positions_, width_, layers_, heads_, dropout_)                         \
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

static const bp_preset presets[] = {
    {"bert-base", "BERT, 110 million parameters", PRESET(30522, 512, 768, 12, 12, 0.1)},
    {"bert-large", "BERT, 335 million parameters", PRESET(30522, 512, 1024, 24, 16, 0.1)},
    {"tiny-bert", "a byte-level BERT for tests", PRESET(256, 128, 64, 2, 4, 0.0)},
};

/* In BERT PEFT's "all-linear" has the pooler too, which is no layer of the blocks. */
static const char all_linear[] =
    "[\"query\", \"key\", \"value\", \"intermediate.dense\", \"output.dense\"]";

const bp_family bp_family_bert = {
    .model_type = "bert",
    .model = &bp_model_bert,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_MASKED_LM,
    .language_class = "BertForMaskedLM",
    .judge_class = "BertForSequenceClassification",
    .token_class = "BertForTokenClassification",
    .answer_class = "BertForQuestionAnswering",
    .resolve = family_bert_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), twins, ROWS_COUNT(twins)},
    .gguf = &bp_gguf_bert,
    .adapter_targets = "query,value",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
