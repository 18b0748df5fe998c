/* SPDX-License-Identifier: MIT */
/* The tokens that end a generated text. */
#ifndef BP_BEDPLATE_END_TOKENS_H
#define BP_BEDPLATE_END_TOKENS_H

#include "tools/bedplate/models/run_tokenizer.h"

#define END_TOKENS_MAX 64

typedef struct end_tokens {
    bool given; /* by the file; else those of the model's configuration and its tokenizer count */
    uint32_t count;
    int64_t id[END_TOKENS_MAX];
} end_tokens;

/* Reads eos_token_id, a number or a list of them, of generation_config.json in the model's
 * directory (NULL: it has none), which is what transformers goes by. Without such a file or key
 * nothing is given. BP_ERR_DATA: it is no JSON object, or the key holds something else. */
bp_status end_tokens_read(end_tokens *ends, bp_store *store, const char *directory,
                          bp_error *error) BP_MUST_CHECK;

/* Whether a text ends at this token. */
bool end_tokens_has(const end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    uint32_t id);

#endif
