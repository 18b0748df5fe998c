/* SPDX-License-Identifier: MIT */
/* ModernBERT (Warner et al., arXiv 2412.13663) as the Hugging Face classes ModernBertForMaskedLM,
 * ModernBertForSequenceClassification and ModernBertForTokenClassification compute it: the same
 * names, layouts and numerics, without the biases that its configuration could ask for. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_MODERNBERT_H
#define BP_LAYERS_MODERNBERT_H

#include "layers/families/llama.h"

/* Of Llama's configuration it has the stack and the rotary positions. Layers of `near` look at
 * window / 2 positions (local_attention) to either side, with near_theta; the others at all. */
typedef struct bp_modernbert_config {
    bp_llama_config llama;
    uint32_t every;            /* global_attn_every_n_layers: every so many layers one looks at all,
                                  the first among them; 0: `near` says which */
    uint32_t half_window;      /* sliding_window: half of llama.window, which it decides; 0: that is
                                  given itself */
    uint32_t pooling;          /* classifier_pooling: 0 the first token, 1 the mean of all */
    double mlp_dropout;        /* of what the second product of a block's mlp reads */
    double classifier_dropout; /* of what the classifier reads */
} bp_modernbert_config;

bp_modernbert_config bp_modernbert_config_of(const bp_model_config *config);

/* Stages: 0 the embedding with its norm, 1 .. num_hidden_layers the blocks, then the last norm, the
 * head of config.task (a dense layer and a norm before the classifier of samples or of tokens, or
 * before the vocabulary; or vectors of samples) and the loss. */
extern const bp_model bp_model_modernbert;

#endif
