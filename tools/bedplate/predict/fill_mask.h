/* SPDX-License-Identifier: MIT */
/* Generating with a masked language model: what stands behind each [MASK] of a prompt. */
#ifndef BP_BEDPLATE_FILL_MASK_H
#define BP_BEDPLATE_FILL_MASK_H

#include "tools/bedplate/session/session.h"

/* Encodes --prompt as the tokenizer frames a text, evaluates it once and prints the --top-k (5)
 * likeliest tokens of each [MASK] with their probabilities: a line each, or with --json an object
 * per mask. The session is begun and not started. BP_ERR_USAGE: there is no prompt, no [MASK] in
 * it, or it is longer than the model's positions; BP_ERR_DATA: the model has no tokenizer with one.
 */
bp_status fill_mask(session *s) BP_MUST_CHECK;

#endif
