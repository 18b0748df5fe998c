/* SPDX-License-Identifier: MIT */
/* Directories of sentence-transformers: a model directory in which modules.json says how texts
 * become vectors.
 *
 * modules.json lists modules, of which the last word of `type` counts: a Transformer in the
 * directory itself, a Pooling, up to BP_VECTOR_DENSE_MAX of Dense, and perhaps a Normalize;
 * whatever else is there is refused by its name. A Dense has its weights in model.safetensors of
 * its own directory, and Identity or Tanh behind it. Of Pooling's config.json both forms are read:
 * `pooling_mode`, and the older pooling_mode_mean_tokens and its like, of which one may be true
 * (none: the mean). Of sentence_bert_config.json max_seq_length counts, without it model_max_length
 * of tokenizer_config.json; of config_sentence_transformers.json prompts and default_prompt_name.
 */
#ifndef BP_FORMATS_EMBEDDER_H
#define BP_FORMATS_EMBEDDER_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "core/ops/storage_format.h"
#include "core/plan/config.h"

#define BP_EMBEDDER_SCRATCH 65536 /* bytes, aligned to 8 */
#define BP_EMBEDDER_PROMPT  2048  /* most bytes of a prompt, its end included */
#define BP_EMBEDDER_PATH    128   /* the same of a module's directory */
#define BP_EMBEDDER_MODULES (BP_VECTOR_DENSE_MAX + 2)

typedef struct bp_embedder {
    bool present; /* there is a modules.json */
    bp_pooling pooling;
    bool normalize;
    bp_vector_dense dense[BP_VECTOR_DENSE_MAX];
    uint32_t dense_count;
    uint32_t dense_in;     /* numbers that the first of them reads */
    uint32_t module_count; /* modules behind the transformer, and their directories: the Pooling's,
                              those of Dense, the Normalize's */
    char path[BP_EMBEDDER_MODULES][BP_EMBEDDER_PATH];
    uint32_t max_length;             /* tokens; 0: not said */
    bool excludes;                   /* the prompt's tokens are not pooled */
    char prompt[BP_EMBEDDER_PROMPT]; /* "": none */
} bp_embedder;

/* Reads what there is in a directory; of one without modules.json present is false and the pooling
 * the mean. `name`: the prompt that is wanted, NULL: the default one. BP_ERR_DATA, BP_ERR_STORE;
 * BP_ERR_USAGE: there is no prompt of this name. */
bp_status bp_embedder_read(bp_store *store, const char *directory, const char *name, void *scratch,
                           bp_embedder *to, bp_error *error) BP_MUST_CHECK;

/* Writes modules.json, config.json of Pooling and Dense in their directories,
 * sentence_bert_config.json and, if it is not there, config_sentence_transformers.json into a
 * directory that is there; tokens have `width` numbers, and texts at most `length` tokens. The
 * weights of Dense are the caller's, at bp_embedder_dense_path. BP_ERR_STORE. */
bp_status bp_embedder_write(bp_store *store, const char *directory, const bp_embedder *from,
                            uint32_t width, uint32_t length, bp_error *error) BP_MUST_CHECK;

/* Where the weights of Dense module `index` are written below the directory, and the prefix of its
 * parameters in a model (layers/heads/vector.h). */
void bp_embedder_dense_path(uint32_t index, char path[BP_EMBEDDER_PATH]);
void bp_embedder_dense_prefix(uint32_t index, char prefix[BP_EMBEDDER_PATH]);

/* The files of such a directory that lie in it, not below; NULL behind the last. */
extern const char *const bp_embedder_files[];

#endif
