/* SPDX-License-Identifier: MIT */
/* Llama (Touvron et al., arXiv 2302.13971 and 2307.09288) as the Hugging Face classes
 * LlamaForCausalLM and LlamaForSequenceClassification compute it, and Qwen2, which differs by its
 * biases: the same names, layouts and numerics, so that weights move both ways. */
#ifndef BP_LAYERS_LLAMA_H
#define BP_LAYERS_LLAMA_H

#include "core/compile/model.h"

/* Stages: 0 the embedding, 1 .. num_hidden_layers the blocks, then the last norm, the head (with
 * the embedding's table or its own, or a classifier of each sample's last token) and the loss. */
extern const bp_model bp_model_llama;

#endif
