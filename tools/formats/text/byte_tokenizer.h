/* SPDX-License-Identifier: MIT */
/* The byte tokenizer: token id = byte value. Files that let transformers do the same. */
#ifndef BP_FORMATS_BYTE_TOKENIZER_H
#define BP_FORMATS_BYTE_TOKENIZER_H

#include "arena/base.h"

#define BP_BYTE_VOCABULARY 256

#define BP_BYTE_TOKENIZER_TEXT 8192 /* bytes that hold either text */

/* tokenizer.json as text: a BPE model without merges over GPT-2's 256 byte characters, each with
 * its byte's value as id; byte-level pre-tokenizer and decoder. Any text comes back unchanged from
 * encoding and decoding. `json` has BP_BYTE_TOKENIZER_TEXT bytes, *length becomes the characters
 * used. */
bp_status bp_byte_tokenizer_text(char *json, size_t *length) BP_MUST_CHECK;

/* tokenizer_config.json for a model of so many positions. */
bp_status bp_byte_tokenizer_settings(uint32_t positions, char *json, size_t *length) BP_MUST_CHECK;

#endif
