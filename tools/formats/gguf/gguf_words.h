/* SPDX-License-Identifier: MIT */
/* WordPiece in GGUF ("bert"): tokens that begin a word stand behind U+2581, those that go on with
 * one stand as they are. Readers lower-case texts, drop accents and stand ideographs alone. */
#ifndef BP_FORMATS_GGUF_WORDS_H
#define BP_FORMATS_GGUF_WORDS_H

#include "arena/json_write.h"
#include "core/plan/spec.h"
#include "tools/formats/gguf/gguf_write.h"
#include "tools/formats/text/tokenizer.h"

/* Why readers would give other ids; NULL: they would not. */
const char *bp_gguf_words_refusal(const bp_tokenizer *tokenizer);

/* A token's text, which is no special one's, as the file spells it; in place, with three bytes of
 * room more. Returns its length. */
size_t bp_gguf_words_spell(char *text, size_t length);

/* The reverse, as a key. */
void bp_gguf_words_json(bp_json_writer *to, const char *text, size_t length);

/* Writes the keys that say what kind of tokenizer it is, and its special tokens; where the
 * configuration names a first or a last token, its writer does. */
void bp_gguf_words_put(const bp_tokenizer *tokenizer, const bp_model_config *config,
                       bp_gguf_writer *writer);

#endif
