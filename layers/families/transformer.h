/* SPDX-License-Identifier: MIT */
/* What every model of transformer blocks has: the beginning of its family's own configuration. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_TRANSFORMER_H
#define BP_LAYERS_TRANSFORMER_H

#include "core/plan/spec.h"

/* hidden_act: gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, quick_gelu, relu2. */
typedef enum bp_hidden_act {
    BP_HIDDEN_GELU,      /* by the error function */
    BP_HIDDEN_GELU_TANH, /* the tanh form, and so are all that is not named */
    BP_HIDDEN_RELU = 4,
    BP_HIDDEN_GELU_QUICK,
    BP_HIDDEN_RELU_SQUARED
} bp_hidden_act;

/* Names in config.json differ from family to family: those of GPT-2 are given here. The structs of
 * families that have more begin with this one. */
typedef struct bp_transformer {
    uint32_t width;           /* n_embd */
    uint32_t layers;          /* n_layer */
    uint32_t heads;           /* n_head */
    uint32_t inner;           /* n_inner; 0 means 4 * width */
    double norm_epsilon;      /* layer_norm_epsilon */
    double initializer_range; /* deviation of random weights */
    double embedding_dropout; /* embd_pdrop */
    double residual_dropout;  /* resid_pdrop */
    double attention_dropout; /* attn_pdrop */
    bool untied;              /* not tie_word_embeddings: the head has a table of its own */
    bool scale_by_layer;      /* GPT-2: scores of block i, from 1, are divided by i, too */
    uint32_t activation;      /* GPT-2's activation_function, a bp_gpt2_activation; hidden_act of
                                 the others, a bp_hidden_act */
} bp_transformer;

/* That of a config whose family is one of them. */
bp_transformer bp_transformer_of(const bp_model_config *config);

/* Width inside the blocks' mlp. */
uint64_t bp_transformer_inner(const bp_transformer *own);

/* BP_ERR_USAGE naming the first field that is out of range, the vocabulary among them, with
 * `family` as the error's place. */
bp_status bp_transformer_check(const bp_model_config *config, const char *family,
                               bp_error *error) BP_MUST_CHECK;

#endif
