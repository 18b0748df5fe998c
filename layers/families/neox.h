/* SPDX-License-Identifier: MIT */
/* GPT-NeoX (Black et al., arXiv 2204.06745) and Pythia (Biderman et al., arXiv 2304.01373) as the
 * Hugging Face classes GPTNeoXForCausalLM and GPTNeoXForSequenceClassification compute them: the
 * same names, layouts and numerics, so that weights move both ways. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_NEOX_H
#define BP_LAYERS_NEOX_H

#include "layers/families/llama.h"

/* Of Llama's configuration it has the stack, the rotary positions and the biases of attention;
 * heads turn in their first rotary_share. */
typedef struct bp_neox_config {
    bp_llama_config llama;
    bool parallel;       /* use_parallel_residual: both sublayers read the block's input */
    uint32_t activation; /* hidden_act, a bp_hidden_act */
} bp_neox_config;

bp_neox_config bp_neox_config_of(const bp_model_config *config);

/* Stages: 0 the embedding, 1 .. num_hidden_layers the blocks, then the last norm, the head (with a
 * table of its own or the embedding's, or a classifier of each sample's last token) and the loss.
 */
extern const bp_model bp_model_neox;

#endif
