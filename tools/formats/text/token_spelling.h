/* SPDX-License-Identifier: MIT */
/* Unigram's normaliser: the precompiled character map, white space, U+2581 before words. */
#ifndef BP_FORMATS_TOKEN_SPELLING_H
#define BP_FORMATS_TOKEN_SPELLING_H

#include "tools/formats/text/tokenizer_state.h"

#define BP_SPELLING_ROOM 2048 /* bytes that taking one character may write */

/* A segment begins. */
void bp_spelling_begin(bp_encoder *encoder);
/* Takes one character of the raw text. */
void bp_spelling_take(bp_encoder *encoder, uint32_t c);
/* The same of SentencePiece's models: what the text from raw_at to limit begins with; `final`: the
 * segment ends there. False: more text must come. */
bool bp_spelling_take_native(bp_encoder *encoder, size_t limit, bool final);
/* The segment ends. */
void bp_spelling_end(bp_encoder *encoder);

#endif
