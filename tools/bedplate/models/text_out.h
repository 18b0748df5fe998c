/* SPDX-License-Identifier: MIT */
/* Token ids to text as they come, cut only between characters. */
#ifndef BP_BEDPLATE_TEXT_OUT_H
#define BP_BEDPLATE_TEXT_OUT_H

#include "tools/bedplate/models/run_tokenizer.h"

typedef struct text_out {
    const run_tokenizer *run_tokenizer;
    bp_decoder decoder;
    size_t held; /* bytes of a character that is not whole yet */
    char kept[4];
    char bytes[BP_TOKENIZER_DECODED_MAX + 4];
} text_out;

void text_out_begin(text_out *out, const run_tokenizer *c);

/* Goes past an id of the prompt: what follows may depend on it. */
void text_out_pass(text_out *out, int32_t id);

/* The text of an id, from what was held back to the last whole character; it lies in `out` until
 * the next call. Special tokens, and ids that the tokenizer does not have, give nothing. Bytes that
 * are no UTF-8 are passed as they are. */
const char *text_out_next(text_out *out, int32_t id, size_t *count);

/* What is still held back, at the end of the text. */
const char *text_out_end(text_out *out, size_t *count);

#endif
