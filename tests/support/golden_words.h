/* SPDX-License-Identifier: MIT */
/* A tokenizer of tests/golden/tokenizers, open, with an encoder. */
#ifndef BP_TESTS_SUPPORT_GOLDEN_WORDS_H
#define BP_TESTS_SUPPORT_GOLDEN_WORDS_H

#include "device/host/store_posix.h"
#include "tools/formats/tokenizer.h"

typedef struct golden_words {
    bp_store_posix posix;
    bp_tokenizer_need need;
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    void *memory;
    void *room;
} golden_words;

/* Fails the test when it cannot be opened. */
void golden_words_open(golden_words *w, const char *directory);

/* Also of one that is all zero. */
void golden_words_close(golden_words *w);

#endif
