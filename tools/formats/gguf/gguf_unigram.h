/* SPDX-License-Identifier: MIT */
/* Unigram in GGUF ("t5"): pieces with the logarithms of their probabilities, and SentencePiece's
 * character map. Readers take the best of all ways to cut a text, as SentencePiece does. */
#ifndef BP_FORMATS_GGUF_UNIGRAM_H
#define BP_FORMATS_GGUF_UNIGRAM_H

#include "arena/json_write.h"
#include "core/plan/spec.h"
#include "tools/formats/gguf/gguf_read.h"
#include "tools/formats/gguf/gguf_write.h"
#include "tools/formats/text/tokenizer.h"

/* Why readers would give other ids; NULL: they would not, but for texts of spaces alone where
 * spaces are kept and one is put before a text, and for marks behind a character that the
 * tokenizers library looks up as one with it. Cost: a pass over the vocabulary. */
const char *bp_gguf_unigram_refusal(const bp_tokenizer *tokenizer, const bp_model_config *config);

/* Writes what kind of tokenizer it is, what it does to spaces, its character map and its special
 * tokens; where the configuration names a first or a last token, its writer does. */
void bp_gguf_unigram_put(const bp_tokenizer *tokenizer, const bp_model_config *config,
                         bp_gguf_writer *writer);

/* Why a file of this kind cannot be said in a tokenizer.json; NULL when it can. Reads the types of
 * its tokens. */
const char *bp_gguf_unigram_foreign(const bp_gguf_file *file);

/* Bytes of memory for the rules: those of its character map. */
uint64_t bp_gguf_unigram_bytes(const bp_gguf_file *file);

/* Puts the normalizer, the pre_tokenizer and the decoder. `token` is room for one token, `memory`
 * has bp_gguf_unigram_bytes bytes. BP_ERR_DATA: the character map is damaged. */
bp_status bp_gguf_unigram_rules(const bp_gguf_file *file, char *token, size_t room, void *memory,
                                bp_json_writer *json) BP_MUST_CHECK;

/* Puts the model. BP_ERR_DATA: the arrays differ in number, a score is not
 * finite, or the token for unknown text is none. */
bp_status bp_gguf_unigram_model(const bp_gguf_file *file, char *token, size_t room,
                                bp_json_writer *json) BP_MUST_CHECK;

#endif
