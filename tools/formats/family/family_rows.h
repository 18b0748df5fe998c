/* SPDX-License-Identifier: MIT */
/* Words to write descriptors with: rows, rows that several families share, and presets. Included by
 * the family_NAME.c files only. */
#ifndef BP_FORMATS_FAMILY_ROWS_H
#define BP_FORMATS_FAMILY_ROWS_H

#include "layers/families/transformer.h"
#include "tools/formats/family/family.h"

#define ROWS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Bounds of sizes. */
#define POSITIONS_MOST (1 << 24)
#define WIDTH_MOST     (1 << 20)
#define LAYERS_MOST    (1 << 12)
#define HEADS_MOST     (1 << 16)
#define INNER_MOST     (1 << 22)

/* Where a member lies: one that all families have, or one of a family's own struct. */
#define COMMON(member) offsetof(bp_model_config, member)
#define STACK(member)  BP_FAMILY_MEMBER(bp_transformer, member)

#define ROW_COUNT(key, at, most, otherwise, role)                                                  \
    {                                                                                              \
        key, BP_ROW_COUNT, BP_ROLE_##role, 0, at, 1, most, otherwise, NULL                         \
    }
#define ROW_COUNT_NULL(key, at, most, otherwise, role, flags)                                      \
    {                                                                                              \
        key, BP_ROW_COUNT_NULL, BP_ROLE_##role, flags, at, 1, most, otherwise, NULL                \
    }
/* Of a tower of texts; `in`: "text_config.", or "" in a file of its own. */
#define ROW_TOKENS(in, at, otherwise) ROW_COUNT(in "vocab_size", at, INT32_MAX, otherwise, NONE)
/* Another name of a count that another row has. */
#define ROW_ALIAS(key, at, most)                                                                   \
    {                                                                                              \
        key, BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_READ, at, 1, most, 0, NULL                         \
    }
#define ROW_REAL(key, at, below, otherwise, role)                                                  \
    {                                                                                              \
        key, BP_ROW_REAL, BP_ROLE_##role, 0, at, 0, below, otherwise, NULL                         \
    }
/* null: 0, which is written so; a 0 in a file would divide by it. */
#define ROW_REAL_NULL(key, at, below, otherwise)                                                   \
    {                                                                                              \
        key, BP_ROW_REAL_NULL, BP_ROLE_NONE, BP_ROW_SPARSE, at, 1e-6, below, otherwise, NULL       \
    }
#define ROW_FLAG(key, at, otherwise)                                                               \
    {                                                                                              \
        key, BP_ROW_FLAG, BP_ROLE_NONE, 0, at, 0, 1, otherwise, NULL                               \
    }
/* tie_word_embeddings; otherwise: whether the head has a table of its own. */
#define ROW_TIED(at, otherwise)                                                                    \
    {                                                                                              \
        "tie_word_embeddings", BP_ROW_FLAG_NOT, BP_ROLE_UNTIED, 0, at, 0, 1, otherwise, NULL       \
    }
#define ROW_CHOICE(key, at, words, otherwise)                                                      \
    {                                                                                              \
        key, BP_ROW_CHOICE, BP_ROLE_NONE, 0, at, 0, 0, otherwise, words                            \
    }
#define ROW_TOKEN(key, member, otherwise)                                                          \
    {                                                                                              \
        key, BP_ROW_TOKEN, BP_ROLE_NONE, 0, COMMON(member), -1, INT32_MAX, otherwise, NULL         \
    }
/* hidden_act, a bp_hidden_act. */
#define ROW_ACT(key, at) ROW_CHOICE(key, at, "gelu|gelu_new|gelu_fast|gelu_pytorch_tanh|relu", 0)
/* What has to be so, and what is not stored. */
#define ROW_FIXED(key, kind, words, flags)                                                         \
    {                                                                                              \
        key, BP_ROW_##kind, BP_ROLE_NONE, flags, 0, 0, 0, 0, words                                 \
    }
#define ROW_TYPE    ROW_FIXED("model_type", TYPE, NULL, 0)
#define ROW_CLASSES ROW_FIXED("architectures", CLASSES, NULL, 0)
#define ROW_LABELS                                                                                 \
    {                                                                                              \
        "id2label", BP_ROW_LABELS, BP_ROLE_NONE, 0, COMMON(classes), 0, 0, 0, NULL                 \
    }
#define ROW_PROBLEM ROW_FIXED("problem_type", PROBLEM, NULL, 0)

/* The end of every model of tokens. */
#define ROWS_TEXT(vocabulary_, bos_, eos_, pad_)                                                   \
    ROW_TOKEN("bos_token_id", bos_token, bos_), ROW_TOKEN("eos_token_id", eos_token, eos_),        \
        ROW_TOKEN("pad_token_id", pad_token, pad_),                                                \
        ROW_COUNT("vocab_size", COMMON(vocabulary), INT32_MAX, vocabulary_, NONE)

/* What no model of transformers' that is implemented may ask for, and the quantised form. */
#define ROWS_REFUSED                                                                               \
    ROW_FIXED("add_cross_attention", FALSE, NULL, BP_ROW_READ),                                    \
        ROW_FIXED("is_encoder_decoder", FALSE, NULL, BP_ROW_READ),                                 \
        ROW_FIXED("pruned_heads", EMPTY, NULL, BP_ROW_READ),                                       \
        ROW_FIXED("per_layer_config", EMPTY, NULL, BP_ROW_READ),                                   \
    {                                                                                              \
        "quantization_config", BP_ROW_QUANTISED, BP_ROLE_NONE, BP_ROW_READ, COMMON(quantised), 0,  \
            0, 0, NULL                                                                             \
    }

/* The same of decoders, which transformers 5 reads both ways where this is not true. */
#define ROWS_CAUSAL_REFUSED ROWS_REFUSED, ROW_FIXED("is_causal", TRUE, NULL, BP_ROW_READ)

/* Sizes under the names that Llama and BERT share, in the order in which they are written. */
#define ROWS_STACK(width_, inner_, positions_, heads_, layers_)                                    \
    ROW_COUNT("hidden_size", STACK(width), WIDTH_MOST, width_, WIDTH),                             \
        ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),               \
        ROW_COUNT("intermediate_size", STACK(inner), INNER_MOST, inner_, INNER),                   \
        ROW_COUNT("max_position_embeddings", COMMON(positions), POSITIONS_MOST, positions_, NONE), \
        ROW_COUNT("num_attention_heads", STACK(heads), HEADS_MOST, heads_, HEADS),                 \
        ROW_COUNT("num_hidden_layers", STACK(layers), LAYERS_MOST, layers_, LAYERS)

/* A preset's own struct. */
#define OWN(...) &__VA_ARGS__, sizeof(__VA_ARGS__)

#endif
