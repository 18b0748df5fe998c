/* SPDX-License-Identifier: MIT */
/* One word to ids: BPE and WordPiece. */
#ifndef BP_FORMATS_TOKEN_WORD_H
#define BP_FORMATS_TOKEN_WORD_H

#include "tools/formats/text/tokenizer_state.h"

/* Writes the ids of a word of well-formed UTF-8 (of any bytes at the byte level) to work->id and
 * returns how many; length > 0, at most the word_bytes of the work. Cost: n log n for n bytes. */
size_t bp_token_word(const bp_tokenizer *tokenizer, const unsigned char *word, size_t length,
                     const bp_word_work *work);

/* A tournament over the ranks of `count` > 1 pairs: work->tree[1] is the leftmost of the least. */
void bp_tournament_begin(const bp_word_work *work, size_t count);
void bp_tournament_set(const bp_word_work *work, uint32_t pair, uint32_t rank, size_t count);

#endif
