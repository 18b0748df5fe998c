/* SPDX-License-Identifier: MIT */
/* BERT (Devlin et al., arXiv 1810.04805) as the Hugging Face classes BertForMaskedLM,
 * BertForSequenceClassification, BertForTokenClassification and BertForQuestionAnswering compute
 * it: the same names, layouts and numerics. Tokens have type 0, but where the spec has pairs. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_BERT_H
#define BP_LAYERS_BERT_H

#include "layers/transformer.h"

typedef struct bp_bert_config {
    bp_transformer stack;
    uint32_t types;            /* type_vocab_size */
    double classifier_dropout; /* of what the classifier reads */
} bp_bert_config;

bp_bert_config bp_bert_config_of(const bp_model_config *config);

/* Stages: 0 the embeddings with their norm, 1 .. num_hidden_layers the blocks, then the head of
 * config.task: pooler and classifier, a classifier of tokens, the ends of answers, or transform and
 * vocabulary; and the loss. */
extern const bp_model bp_model_bert;

#endif
