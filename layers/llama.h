/* SPDX-License-Identifier: MIT */
/* Llama (Touvron et al., arXiv 2302.13971 and 2307.09288) as the Hugging Face classes
 * LlamaForCausalLM and LlamaForSequenceClassification compute it, and Qwen2, which differs by its
 * biases: the same names, layouts and numerics, so that weights move both ways. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_LLAMA_H
#define BP_LAYERS_LLAMA_H

#include "layers/rope_scaling.h"
#include "layers/transformer.h"

/* What a Llama or Qwen2 has of its own; names as in config.json where none is given. */
typedef struct bp_llama_config {
    bp_transformer stack;
    uint32_t kv_heads;   /* num_key_value_heads; 0: heads */
    uint32_t head_width; /* head_dim; 0: width / heads */
    double rope_theta;
    bp_rope_scaling rope_scaling;
    bool qkv_bias;    /* llama: attention_bias; qwen2: always */
    bool output_bias; /* llama: attention_bias */
    bool mlp_bias;
    bool head_norms; /* queries and keys are normalised head by head: q_norm, k_norm (Qwen3) */
} bp_llama_config;

bp_llama_config bp_llama_config_of(const bp_model_config *config);

/* Stages: 0 the embedding, 1 .. num_hidden_layers the blocks, then the last norm, the head (with
 * the embedding's table or its own, or a classifier of each sample's last token) and the loss. */
extern const bp_model bp_model_llama;

#endif
