/* SPDX-License-Identifier: MIT */
/* The text side of a model: its tokenizer, or bytes. */
#ifndef BP_BEDPLATE_CODER_H
#define BP_BEDPLATE_CODER_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/settings.h"
#include "tools/formats/text/tokenizer.h"

typedef enum coder_kind {
    CODER_NONE, /* there is no tokenizer, and bytes would be wrong for the weights */
    CODER_BYTES,
    CODER_TOKENIZER
} coder_kind;

/* Must not move once open. */
typedef struct coder {
    coder_kind kind;
    char directory[BP_STORE_PATH_MAX]; /* where the tokenizer's files are */
    bp_tokenizer_need need;
    uint64_t bytes; /* of memory that it takes while it is open; 0 before it was looked for */
    memory_block block;
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    void *scratch; /* BP_TOKENISE_SCRATCH bytes, while it is open */
} coder;

/* What the search needs to know. */
typedef struct coder_ask {
    bp_store *store;
    const settings *set;
    const bp_model_config *config;
    bool directory; /* --model is a directory */
    bool weights;   /* and has weights */
    bp_error *error;
} coder_ask;

/* Looks for a tokenizer: in --tokenizer, else in the model's directory, else, of a snapshot, in the
 * directory around it. The byte tokenizer that training writes is bytes. Without any, a model of
 * 256 ids is one over bytes, and so is a larger one whose weights are random. Nothing is loaded
 * yet. BP_ERR_DATA: --tokenizer holds none, one that cannot be used, or one with more tokens than
 * the model's vocabulary. */
bp_status coder_find(coder *c, const coder_ask *ask) BP_MUST_CHECK;

/* Takes the memory and loads what coder_find found; nothing when it is open. */
bp_status coder_open(coder *c, const coder_ask *ask) BP_MUST_CHECK;

/* Gives the memory back. Safe at any stage. */
void coder_close(coder *c);

/* The token that ends a text: the tokenizer's, else the model's, else -1. Open, if it has a
 * tokenizer. */
int64_t coder_end_token(const coder *c, const bp_model_config *config);

/* Whether generating ends at this token. */
bool coder_ends(const coder *c, const bp_model_config *config, uint32_t id);

#endif
