/* SPDX-License-Identifier: MIT */
/* BERT's heads: pooler and classifier of samples, a classifier of tokens, the ends of answers,
 * vectors of samples, or transform and vocabulary. */
#ifndef BP_LAYERS_BERT_HEAD_H
#define BP_LAYERS_BERT_HEAD_H

#include "core/plan/model.h"

/* Parameters of the head of config->task; `first` is the number of the first of them. */
uint32_t bp_bert_head_parameters(const bp_model_config *config);
void bp_bert_head_publish(bp_builder *builder, const bp_model_config *config);

/* The stage functions of the last stage. The vocabulary's table is parameter 0. */
void bp_bert_head_forward(bp_builder *builder, bp_stage_call *call, uint32_t first);
void bp_bert_head_backward(bp_builder *builder, bp_stage_call *call, uint32_t first);

#endif
