/* SPDX-License-Identifier: MIT */
/* The byte tokenizer: token id = byte value. Files that let transformers do the same. */
#ifndef BP_FORMATS_BYTE_TOKENIZER_H
#define BP_FORMATS_BYTE_TOKENIZER_H

#include "core/error.h"
#include "core/store.h"

#define BP_BYTE_VOCABULARY 256

/* Writes tokenizer.json (a BPE model without merges over GPT-2's 256 byte characters, each with its
 * byte's value as id; byte-level pre-tokenizer and decoder) and tokenizer_config.json into
 * `directory`. Any text comes back unchanged from encoding and decoding. `scratch` holds at least
 * BP_BYTE_TOKENIZER_SCRATCH bytes. */
#define BP_BYTE_TOKENIZER_SCRATCH 8192

bp_status bp_byte_tokenizer_write(bp_store *store, const char *directory, void *scratch,
                                  uint32_t positions, bp_error *error) BP_MUST_CHECK;

#endif
