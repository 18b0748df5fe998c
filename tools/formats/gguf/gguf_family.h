/* SPDX-License-Identifier: MIT */
/* Model families as GGUF files know them: one row each. Names and keys are those that llama.cpp's
 * convert_hf_to_gguf.py and gguf-py write. */
#ifndef BP_FORMATS_GGUF_FAMILY_H
#define BP_FORMATS_GGUF_FAMILY_H

#include "core/plan/spec.h"
#include "tools/formats/gguf/gguf_read.h"
#include "tools/formats/gguf/gguf_write.h"
#include "tools/formats/family/tensor_naming.h"

typedef struct bp_gguf_family {
    const char *model_type;   /* config.json's, and bp_model.name */
    const char *architecture; /* general.architecture, and the beginning of its keys */
    const bp_tensor_naming *naming;

    /* Writes the architecture's keys. */
    void (*put)(bp_gguf_writer *writer, const char *architecture, const bp_model_config *config);

    /* Reads them. The vocabulary is set before, from the embedding; everything else that the file
     * does not say has the defaults of the family's config.json. BP_ERR_DATA naming the key. */
    bp_status (*take)(const bp_gguf_file *file, const char *architecture, bp_model_config *config);

    /* Tensors of factors of the rotary frequencies, from number 0 on: how many floats tensor
     * `number` has, of which the first `room` are written; 0 behind the last. NULL: never any. */
    size_t (*factors)(const bp_model_config *config, uint32_t number, const char **name,
                      float *factors, size_t room);

    /* BP_ERR_USAGE naming what a reader of the architecture would get wrong; NULL: nothing. */
    bp_status (*exports)(const bp_model_config *config, bp_error *error);
} bp_gguf_family;

extern const bp_gguf_family bp_gguf_gpt2; /* gguf_gpt2.c */

/* gguf_bert.c: encoders, all of the architecture "bert". */
extern const bp_gguf_family bp_gguf_bert;
extern const bp_gguf_family bp_gguf_roberta;
extern const bp_gguf_family bp_gguf_xlm_roberta;
extern const bp_gguf_family bp_gguf_distilbert;
extern const bp_gguf_family bp_gguf_modernbert; /* gguf_modernbert.c */

/* Which of them a file holds: a RoBERTa where bert.position_offset is above 0 or, without that key,
 * the tokenizer is byte-level BPE that is not GPT-2's, or Unigram (XLM-R). A BERT without types of
 * tokens is a DistilBERT. */
const bp_gguf_family *bp_gguf_bert_of(const bp_gguf_file *file);

/* Rows of the table of positions before the first position's: of a RoBERTa. */
uint32_t bp_gguf_position_first(const bp_model_config *config);

/* By model type, or by the architecture that a file names. NULL when there is none. */
const bp_gguf_family *bp_gguf_family_find(const char *model_type);
const bp_gguf_family *bp_gguf_family_of(const char *architecture);

#endif
