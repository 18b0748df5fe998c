/* SPDX-License-Identifier: MIT */
/* Splitting normalised text into words, resumable at any character. */
#ifndef BP_FORMATS_TOKEN_SPLIT_H
#define BP_FORMATS_TOKEN_SPLIT_H

#include "tools/formats/text/tokenizer_state.h"

/* Names of CLIP's special tokens, each a word of its own where it is text. */
#define BP_CLIP_NAMES 2
extern const char *const bp_clip_names[BP_CLIP_NAMES];

/* Looks for the end of the word that begins at text[0]; length > 0, whole characters only. False:
 * what follows decides, and `final` says that something may follow; call again with more of the
 * same text and the same *split, which is zero for a new word. Cost: each byte is looked at once,
 * however the text comes, save for runs of spaces, and words of
 * patterns that tell cases apart, each time from their beginning. */
bool bp_split_next(const bp_tokenizer *tokenizer, bp_split *split, const unsigned char *text,
                   size_t length, bool final, size_t *end);

#endif
