/* SPDX-License-Identifier: MIT */
/* A tokenizer over files in memory, with everything it needs. */
#ifndef BP_TESTS_SUPPORT_TOKENIZER_DESK_H
#define BP_TESTS_SUPPORT_TOKENIZER_DESK_H

#include "tests/support/store_memory.h"
#include "tools/formats/tokenizer.h"

enum { JSON_MAX = 1 << 17, IDS = 4096 };

typedef struct tokenizer_desk {
    memory_store memory;
    bp_tokenizer_need need;
    bp_tokenizer tokenizer;
    bp_encoder encoder;
    bp_error error;
    void *tables;
    void *work;
    uint32_t ids[IDS];
    size_t count;
} tokenizer_desk;

extern uint64_t desk_scratch[BP_TOKENIZER_SCRATCH / 8];

void desk_init(tokenizer_desk *d);
/* No file may be open. */
void desk_free(tokenizer_desk *d);

void desk_put(tokenizer_desk *d, const char *name, const char *text);

/* Measures and opens in memory of exactly the size that was measured. */
bp_status desk_open(tokenizer_desk *d);
bp_status desk_open_with(tokenizer_desk *d, bp_store *store);

/* Opening fails with BP_ERR_DATA, and name and text of the error hold `wanted`. */
void desk_refused(tokenizer_desk *d, const char *wanted);

void desk_encoder(tokenizer_desk *d, uint32_t word_bytes);
/* d->ids and d->count become those of a text. */
void desk_encode(tokenizer_desk *d, const char *text, unsigned flags);

/* A tokenizer.json in one place: byte-level tokens 0 .. 255 and `more` of them, settings, merges.
 */
const char *desk_bpe(const char *settings, const char *more, const char *merges);

#define LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
#define WHOLE                                                                                      \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"

#endif
