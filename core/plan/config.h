/* SPDX-License-Identifier: MIT */
/* What a model is: a few numbers that every part of the program asks for, and those that only its
 * own family of layers understands. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_CONFIG_H
#define BP_CORE_CONFIG_H

#include "arena/base.h"
#include "core/ops/storage_format.h"

#define BP_MORE_EOS_MAX 7

#define BP_FAMILY_CONFIG_WORDS 128
#define BP_FAMILY_CONFIG_BYTES (8 * BP_FAMILY_CONFIG_WORDS)

struct bp_family;

/* A dense layer between what is pooled of tokens and a vector. */
typedef struct bp_vector_dense {
    uint32_t width; /* of its output */
    bool bias;
    bool tanh; /* behind it */
} bp_vector_dense;

#define BP_VECTOR_DENSE_MAX 4

typedef struct bp_model_config {
    /* Whose rows describe `own` (tools/formats/family/family.h), for what reads and writes files.
     * Nothing in core/ and layers/ asks; NULL: nobody does. */
    const struct bp_family *family;
    uint32_t vocabulary; /* 0: rows of numbers instead of tokens */
    uint32_t positions;  /* longest sequence; numbers of a row */
    bp_task task;
    uint32_t classes;   /* outputs of the classifier; of vectors their width */
    bp_pooling pooling; /* of BP_TASK_EMBEDDING */
    bp_vector_dense dense[BP_VECTOR_DENSE_MAX]; /* of BP_TASK_EMBEDDING, in their order */
    uint32_t dense_count;
    bool raw_scores;   /* of BP_TASK_RANKING: scores are logits, not their sigmoid */
    int64_t bos_token; /* -1: none */
    int64_t eos_token;
    int64_t pad_token;
    int64_t more_eos[BP_MORE_EOS_MAX]; /* further tokens that end a text */
    uint32_t more_eos_count;
    bp_quantised quantised; /* the files' form of the blocks' dense layers, */
    bp_quantised experts;   /* and of experts' matrices */

    /* The family's own sizes and constants: a plain struct of its layers (bp_transformer,
     * bp_llama_config, ...), copied in and out by the two functions below. */
    uint64_t family_config[BP_FAMILY_CONFIG_WORDS];
} bp_model_config;

/* Copies the first `bytes` bytes of config->own to `own`, or from it; bytes <=
 * BP_FAMILY_CONFIG_BYTES. A family's struct shows with BP_FAMILY_CONFIG_FITS that it has no more.
 */
void bp_family_config_get(const bp_model_config *config, void *own, size_t bytes);
void bp_family_config_set(bp_model_config *config, const void *own, size_t bytes);

/* Fails to compile where `type` does not fit. */
#define BP_FAMILY_CONFIG_FITS(type)                                                                \
    typedef char type##_fits[sizeof(type) <= BP_FAMILY_CONFIG_BYTES ? 1 : -1]

/* Where a member of a family's struct lies, counted from the beginning of bp_model_config. */
#define BP_FAMILY_MEMBER(type, member)                                                             \
    (offsetof(bp_model_config, family_config) + offsetof(type, member))

#endif
