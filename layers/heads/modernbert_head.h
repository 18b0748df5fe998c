/* SPDX-License-Identifier: MIT */
/* ModernBERT's last stage: the last norm, then a dense layer with a norm before the vocabulary, the
 * classifier of tokens or that of samples; or vectors of samples. */
#ifndef BP_LAYERS_MODERNBERT_HEAD_H
#define BP_LAYERS_MODERNBERT_HEAD_H

#include "core/plan/model.h"

/* Parameters of the stage for config->task; `first` is the number of the first of them. */
uint32_t bp_modernbert_head_parameters(const bp_model_config *config);
void bp_modernbert_head_publish(bp_builder *builder, const bp_model_config *config);

/* The stage functions. The vocabulary's table is parameter 0. */
void bp_modernbert_head_forward(bp_builder *builder, bp_stage_call *call, uint32_t first);
void bp_modernbert_head_backward(bp_builder *builder, bp_stage_call *call, uint32_t first);

#endif
