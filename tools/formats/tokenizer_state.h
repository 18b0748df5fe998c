/* SPDX-License-Identifier: MIT */
/* What an open tokenizer and an encoder hold: for tokenizer.h, which see, and its own files. */
#ifndef BP_FORMATS_TOKENIZER_STATE_H
#define BP_FORMATS_TOKENIZER_STATE_H

#include "tools/formats/tokenizer.h"

struct bp_tokenizer {
    bp_tokenizer_kind kind;
    uint32_t tokens;
    bp_tokenizer_special special;
    uint64_t digest;
};

struct bp_encoder {
    const bp_tokenizer *tokenizer;
    uint64_t cut; /* words that were longer than word_bytes and were cut, since init */
};

#endif
