/* SPDX-License-Identifier: MIT */
/* The normaliser: raw text of an encoder to its normalised text, character by character. */
#ifndef BP_FORMATS_TOKEN_NORMAL_H
#define BP_FORMATS_TOKEN_NORMAL_H

#include "tools/formats/text/tokenizer_state.h"

/* Moves raw text before `limit` on to the normalised text, as much as has room there; false when
 * nothing could be moved. */
bool bp_normal_move(bp_encoder *encoder, size_t limit);

/* The segment ends here: moves on what waited for characters that could have joined it. */
void bp_normal_end(bp_encoder *encoder);

#endif
