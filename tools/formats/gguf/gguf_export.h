/* SPDX-License-Identifier: MIT */
/* A model as a GGUF file. */
#ifndef BP_FORMATS_GGUF_EXPORT_H
#define BP_FORMATS_GGUF_EXPORT_H

#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/hf/weight_target.h"

typedef struct bp_gguf_model {
    const bp_gguf_family *family;
    const bp_model_config *config;
    const char *name; /* general.name; "" leaves it out */
    /* Writes the tokenizer's keys; NULL when there is none. */
    bp_status (*put_tokenizer)(void *user, bp_gguf_writer *writer);
    void *user;
    int64_t unknown_token; /* -1: none; the others are the configuration's, of whose list of ends
                              the second is eot_token_id, the third eom_token_id */
    const char *chat_template; /* Jinja, of so many bytes; 0: none */
    size_t chat_template_bytes;
} bp_gguf_model;

/* Writes keys, tensors and data. As llama.cpp's converter does, vectors, norms, position embeddings
 * and token types are F32 whatever the target's type is. general.file_type is that of the token
 * embedding. Errors of reading and writing; BP_ERR_DATA when a value does not fit the type. */
bp_status bp_gguf_export(const bp_weight_source *source, const bp_gguf_model *model,
                         bp_weight_target *target) BP_MUST_CHECK;

#endif
