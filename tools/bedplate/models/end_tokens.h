/* SPDX-License-Identifier: MIT */
/* The tokens that end a generated text. */
#ifndef BP_BEDPLATE_END_TOKENS_H
#define BP_BEDPLATE_END_TOKENS_H

#include "tools/bedplate/models/run_tokenizer.h"

#define END_TOKENS_MAX RUN_TOKENIZER_ENDS

typedef struct end_tokens {
    bool given; /* by the file; else those of the model's configuration and its tokenizer count */
    uint32_t count;
    int64_t id[END_TOKENS_MAX];
    uint32_t turn; /* 1 + the token that ends a turn of the chat template; 0: none */
} end_tokens;

#define END_TOKENS_FILE "generation_config.json"

/* Reads eos_token_id, a number or a list of them, of that JSON file in a directory (NULL or "":
 * there is none). Without such a file or key nothing is given. BP_ERR_DATA: it is no JSON object,
 * or the key holds something else. */
bp_status end_tokens_read(end_tokens *ends, bp_store *store, const char *directory,
                          const char *name, bp_error *error) BP_MUST_CHECK;

/* What generation_config.json of the adapters (NULL: none) gives, else the list of the tokenizer;
 * of one that was not looked for, what the model's directory (NULL: it has none) gives. */
bp_status end_tokens_find(end_tokens *ends, bp_store *store, const char *adapter,
                          const run_tokenizer *c, const char *model, bp_error *error) BP_MUST_CHECK;

/* Puts a token behind the list, if it is none of them already and there is room. Where no file
 * gives a list, it begins with the tokens that end a text without one. */
void end_tokens_add(end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    int64_t id);

/* Writes the list as eos_token_id into generation_config.json of the directory `to`: what that of
 * `from` says otherwise stays, and a new one gets the model's bos and pad. `work`:
 * BP_CONFIG_COPY_SCRATCH bytes aligned to 8. */
bp_status end_tokens_write(const end_tokens *ends, const bp_model_config *config, bp_store *store,
                           const char *from, const char *to, void *work,
                           bp_error *error) BP_MUST_CHECK;

/* Whether a text ends at this token. */
bool end_tokens_has(const end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    uint32_t id);

#endif
