/* SPDX-License-Identifier: MIT */
/* T5 (Raffel et al., arXiv 1910.10683) and mT5 (Xue et al., arXiv 2010.11934) as the Hugging Face
 * classes T5ForConditionalGeneration, T5EncoderModel and T5ForTokenClassification compute them: the
 * same names, layouts and numerics. Norms divide by the root of the mean square, scores are not
 * scaled, and all blocks of a stack add the same table of distances to those of their own rows.
 * With the task causal-lm there is a decoder, which looks at the encoder's output. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_T5_H
#define BP_LAYERS_T5_H

#include "layers/families/transformer.h"

/* feed_forward_proj */
typedef enum bp_t5_perceptron { BP_T5_RELU, BP_T5_GATED_GELU, BP_T5_GATED_SILU } bp_t5_perceptron;

/* The stack's residual_dropout is dropout_rate, of sublayers, perceptrons and the last norm. */
typedef struct bp_t5_config {
    bp_transformer stack;
    uint32_t head_width;       /* d_kv */
    uint32_t buckets;          /* relative_attention_num_buckets */
    uint32_t distance;         /* relative_attention_max_distance: from here on the last bucket */
    uint32_t perceptron;       /* a bp_t5_perceptron */
    double classifier_dropout; /* of what the classifier of tokens reads */
    uint32_t decoder_layers;   /* num_decoder_layers; 0: num_layers */
    bool scaled;               /* scale_decoder_outputs: what the head reads is multiplied by
                                  1 / sqrt(d_model) */
    uint32_t start_token;      /* decoder_start_token_id: what a decoder's text begins with */
} bp_t5_config;

bp_t5_config bp_t5_config_of(const bp_model_config *config);

/* Stages: 0 the embedding, 1 .. num_layers the blocks, then the last norm, the vector or the
 * classifier of tokens, and the loss. With a decoder only the last norm, whose output is
 * bp_model.memory; then the decoder's embedding, its blocks, and its norm, the head and the loss.
 */
extern const bp_model bp_model_t5;

#endif
