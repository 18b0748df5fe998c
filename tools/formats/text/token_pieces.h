/* SPDX-License-Identifier: MIT */
/* SentencePiece's own models (sentencepiece_model.proto): types unigram and BPE. */
#ifndef BP_FORMATS_TOKEN_PIECES_H
#define BP_FORMATS_TOKEN_PIECES_H

#include "tools/formats/text/token_load.h"

/* Reads the open file for load->pass: COUNT sets the rules. */
bp_status bp_load_pieces(bp_load *load) BP_MUST_CHECK;

/* Once the pieces are there: the score of what is unknown. */
void bp_token_pieces_finish(bp_load *load);

/* BPE by the scores of pieces: the pair whose joined text has the highest is joined, of equals the
 * leftmost; of rules.ranked bytes instead of characters, and the token of the least id. As
 * bp_token_word. */
size_t bp_token_pieces_join(const bp_tokenizer *tokenizer, const unsigned char *word, size_t length,
                            const bp_word_work *work);

#endif
