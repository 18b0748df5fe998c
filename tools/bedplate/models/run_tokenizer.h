/* SPDX-License-Identifier: MIT */
/* The text side of a model: its tokenizer, or bytes. */
#ifndef BP_BEDPLATE_RUN_TOKENIZER_H
#define BP_BEDPLATE_RUN_TOKENIZER_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/memory.h"
#include "tools/bedplate/app/settings.h"
#include "tools/formats/text/tokenizer.h"

typedef enum run_tokenizer_kind {
    TOKENIZER_NONE, /* there is no tokenizer, and bytes would be wrong for the weights */
    TOKENIZER_BYTES,
    TOKENIZER_TOKENIZER
} run_tokenizer_kind;

#define RUN_TOKENIZER_ENDS 64

/* Must not move once open. */
typedef struct run_tokenizer {
    run_tokenizer_kind kind;
    char directory[BP_STORE_PATH_MAX]; /* where the tokenizer's files are */
    bp_tokenizer_need need;
    uint64_t bytes; /* of memory that it takes while it is open; 0 before it was looked for */
    memory_block block;
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    void *scratch;   /* BP_TOKENISE_SCRATCH bytes, while it is open */
    bool ends_given; /* the list is of generation_config.json, or of --tokenizer's config.json */
    uint32_t end_count;
    int64_t end[RUN_TOKENIZER_ENDS]; /* what these say, else the model's config.json */
} run_tokenizer;

/* What the search needs to know. */
typedef struct run_tokenizer_ask {
    bp_store *store;
    const settings *set;
    const bp_model_config *config;
    bool directory; /* --model is a directory */
    bool weights;   /* and has weights */
    bp_error *error;
} run_tokenizer_ask;

/* Looks for a tokenizer: in --tokenizer, else in the model's directory, else, of a checkpoint, in
 * the directory around it. The byte tokenizer that training writes is bytes. Without any, a model
 * of 256 ids is one over bytes, and so is a larger one whose weights are random. Nothing is loaded
 * yet. BP_ERR_DATA: --tokenizer holds none, one that cannot be used, or one with more tokens than
 * the model's vocabulary. */
bp_status run_tokenizer_find(run_tokenizer *c, const run_tokenizer_ask *ask) BP_MUST_CHECK;

/* Takes the memory and loads what run_tokenizer_find found; nothing when it is open. */
bp_status run_tokenizer_open(run_tokenizer *c, const run_tokenizer_ask *ask) BP_MUST_CHECK;

/* Gives the memory back. Safe at any stage. */
void run_tokenizer_close(run_tokenizer *c);

/* The token that is put behind a text: the tokenizer's own where the list of ends has it or is
 * empty, else the first of the list, else the model's, else -1. Open, if it has a tokenizer. */
int64_t run_tokenizer_end_token(const run_tokenizer *c, const bp_model_config *config);
/* The same by the roles of a tokenizer that is no longer open. */
int64_t run_tokenizer_end_of(const run_tokenizer *c, const bp_tokenizer_special *special,
                             const bp_model_config *config);

/* Whether generating ends at this token. */
bool run_tokenizer_ends(const run_tokenizer *c, const bp_model_config *config, uint32_t id);

#endif
