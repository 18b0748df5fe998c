/* SPDX-License-Identifier: MIT */
/* tiktoken's file of Llama 3, which has the name of SentencePiece's: tokenizer.model. */
#ifndef BP_FORMATS_TOKEN_RANKS_H
#define BP_FORMATS_TOKEN_RANKS_H

#include "tools/formats/text/token_load.h"

/* Whether the open file, of which nothing was read, is one: text, where SentencePiece's begin with
 * a byte below the space. Nothing counts as read. */
bp_status bp_load_is_ranks(bp_load *load, bool *ranks) BP_MUST_CHECK;

/* Reads the open file for load->pass: COUNT sets the rules. */
bp_status bp_load_ranks(bp_load *load) BP_MUST_CHECK;

#endif
