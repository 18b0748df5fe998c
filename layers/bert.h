/* SPDX-License-Identifier: MIT */
/* BERT (Devlin et al., arXiv 1810.04805) as the Hugging Face classes BertForSequenceClassification
 * and BertForMaskedLM compute it: the same names, layouts and numerics. Every token has type 0. */
#ifndef BP_LAYERS_BERT_H
#define BP_LAYERS_BERT_H

#include "core/compile/model.h"

/* Stages: 0 the embeddings with their norm, 1 .. num_hidden_layers the blocks, then the head of
 * config.task: pooler and classifier, or transform and vocabulary; and the loss. */
extern const bp_model bp_model_bert;

#endif
