/* SPDX-License-Identifier: MIT */
/* Unigram: the pieces of a word whose scores sum to the most (Kudo, arXiv 1804.10959), found by
 * Viterbi's algorithm as the tokenizers library does it. */
#ifndef BP_FORMATS_TOKEN_UNIGRAM_H
#define BP_FORMATS_TOKEN_UNIGRAM_H

#include "tools/formats/text/tokenizer_state.h"

/* Writes the ids of a word of well-formed UTF-8 to work->id and returns how many; length > 0, at
 * most the word_bytes of the work. Of ways of the same score the one whose last piece began first
 * is taken. Cost: of each character as many look-ups as tokens begin with what follows it. */
size_t bp_token_unigram(const bp_tokenizer *tokenizer, const unsigned char *word, size_t length,
                        const bp_word_work *work);

/* Once the vocabulary is there: the score of unknown characters. BP_ERR_DATA: a score is no number,
 * or the token for the unknown is none. */
bp_status bp_token_unigram_finish(bp_tokenizer *tokenizer, bp_error *error) BP_MUST_CHECK;

#endif
