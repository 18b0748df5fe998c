/* SPDX-License-Identifier: MIT */
/* GPT-2 (Radford et al., 2019) as the Hugging Face class GPT2LMHeadModel computes it: the same
 * names, layouts, initial distribution and numerics, so that weights move both ways. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_GPT2_H
#define BP_LAYERS_GPT2_H

#include "layers/families/transformer.h"

/* activation_function: gelu_new, gelu, gelu_fast, gelu_pytorch_tanh, relu. */
typedef enum bp_gpt2_activation {
    BP_GPT2_GELU_NEW, /* the tanh form, and so are all that is not named */
    BP_GPT2_GELU_ERF,
    BP_GPT2_RELU = 4
} bp_gpt2_activation;

/* A config's own struct is a bp_transformer.
 *
 * Stages: 0 the embeddings, 1 .. n_layer the blocks, n_layer + 1 the last norm, the head (with
 * the embedding's table or its own, or a classifier of each sample's last token) and the loss. */
extern const bp_model bp_model_gpt2;

#endif
