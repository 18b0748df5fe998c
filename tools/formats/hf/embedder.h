/* SPDX-License-Identifier: MIT */
/* Directories of sentence-transformers: a model directory in which modules.json says how texts
 * become vectors.
 *
 * modules.json lists modules, of which the last word of `type` counts: a Transformer in the
 * directory itself, a Pooling, and perhaps a Normalize; whatever else is there is refused by its
 * name. Of Pooling's config.json both forms are read: `pooling_mode`, and the older
 * pooling_mode_mean_tokens and its like, of which one may be true (none: the mean). Of
 * sentence_bert_config.json max_seq_length counts, without it model_max_length of
 * tokenizer_config.json; of config_sentence_transformers.json prompts and default_prompt_name. */
#ifndef BP_FORMATS_EMBEDDER_H
#define BP_FORMATS_EMBEDDER_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "core/ops/storage_format.h"

#define BP_EMBEDDER_SCRATCH 65536 /* bytes, aligned to 8 */
#define BP_EMBEDDER_PROMPT  2048  /* most bytes of a prompt, its end included */

typedef struct bp_embedder {
    bool present; /* there is a modules.json */
    bp_pooling pooling;
    bool normalize;
    uint32_t max_length;             /* tokens; 0: not said */
    bool excludes;                   /* the prompt's tokens are not pooled */
    char prompt[BP_EMBEDDER_PROMPT]; /* "": none */
} bp_embedder;

/* Reads what there is in a directory; of one without modules.json present is false and the pooling
 * the mean. `name`: the prompt that is wanted, NULL: the default one. BP_ERR_DATA, BP_ERR_STORE;
 * BP_ERR_USAGE: there is no prompt of this name. */
bp_status bp_embedder_read(bp_store *store, const char *directory, const char *name, void *scratch,
                           bp_embedder *to, bp_error *error) BP_MUST_CHECK;

/* Writes modules.json, 1_Pooling/config.json, sentence_bert_config.json and, if it is not there,
 * config_sentence_transformers.json into a directory that is there; vectors have `width` numbers,
 * and texts at most `length` tokens. BP_ERR_STORE. */
bp_status bp_embedder_write(bp_store *store, const char *directory, const bp_embedder *from,
                            uint32_t width, uint32_t length, bp_error *error) BP_MUST_CHECK;

/* The files of such a directory, that below it among them, with the directories that they need;
 * NULL behind the last. */
extern const char *const bp_embedder_files[];
extern const char *const bp_embedder_directories[];

#endif
