/* SPDX-License-Identifier: MIT */
/* A tokenizer's tables: tokens by text and by id, merges by pair. */
#ifndef BP_FORMATS_TOKEN_TABLE_H
#define BP_FORMATS_TOKEN_TABLE_H

#include "tools/formats/text/tokenizer_state.h"

/* Bytes that the tables of so many tokens take; BP_SIZE_INVALID on overflow. */
uint64_t bp_token_table_bytes(const bp_tokenizer_need *need);

/* Lays the tables out in `memory`, empty. */
void bp_token_table_init(bp_tokenizer *tokenizer, const bp_tokenizer_need *need, void *memory);

/* The hash by which tokens are found, a byte at a time so that all beginnings of a word cost one
 * pass. */
static inline uint64_t bp_token_hash_begin(void)
{
    return 0xcbf29ce484222325u;
}

static inline uint64_t bp_token_hash_add(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * 0x100000001b3u;
}

/* The id of the token with this text and its hash; BP_TOKEN_NONE if there is none. */
uint32_t bp_token_lookup(const bp_tokenizer *tokenizer, uint64_t hash, const void *text,
                         size_t length);
uint32_t bp_token_find(const bp_tokenizer *tokenizer, const void *text, size_t length);

/* Adds a token. `listed`: it can be found by its text (a byte-level token's bytes; one that is not
 * made of byte characters cannot). BP_ERR_DATA: the id or the text is taken, or beyond what was
 * measured. */
bp_status bp_token_add(bp_tokenizer *tokenizer, const void *text, size_t length, uint32_t id,
                       bool listed, bp_error *error) BP_MUST_CHECK;

/* The score of a token of a Unigram vocabulary, and the bits of what it begins with. */
void bp_token_set_score(bp_tokenizer *tokenizer, uint32_t id, double score);

/* Whether some token may begin with a text of this hash. */
static inline bool bp_token_may_begin(const bp_tokenizer *tokenizer, uint64_t hash)
{
    const uint64_t bit = (hash ^ hash >> 29) & tokenizer->beginning_mask;
    return (tokenizer->beginnings[bit / 64] >> bit % 64 & 1) != 0;
}

/* Adds the merge of two tokens to a third. BP_ERR_DATA: the pair is there already. */
bp_status bp_token_add_merge(bp_tokenizer *tokenizer, const bp_token_merge *merge,
                             bp_error *error) BP_MUST_CHECK;

/* Puts an added token in its place of the order; its text is that of its id. */
bp_status bp_token_add_added(bp_tokenizer *tokenizer, uint32_t id, uint32_t flags,
                             bp_error *error) BP_MUST_CHECK;
/* The same for another spelling of it: `before` and then its text. */
bp_status bp_token_add_spelling(bp_tokenizer *tokenizer, const char *before, uint32_t id,
                                uint32_t flags, bp_error *error) BP_MUST_CHECK;

/* The longest added token that text begins with, NULL for none. *more: a longer text could give a
 * longer one. */
const bp_token_added *bp_token_match(const bp_tokenizer *tokenizer, const unsigned char *text,
                                     size_t length, bool *more);

/* What two neighbours merge to, or NULL. */
const bp_token_merge *bp_token_merge_of(const bp_tokenizer *tokenizer, uint32_t left,
                                        uint32_t right);

/* The text of a token that exists. */
static inline const unsigned char *bp_token_text(const bp_tokenizer *tokenizer, uint32_t id,
                                                 size_t *length)
{
    *length = tokenizer->lengths[id] & BP_TOKEN_LENGTH;
    return (const unsigned char *)tokenizer->text + tokenizer->starts[id];
}

static inline bool bp_token_exists(const bp_tokenizer *tokenizer, uint64_t id)
{
    return id < tokenizer->tokens && (tokenizer->lengths[id] & BP_TOKEN_ABSENT) == 0;
}

/* From the characters of a byte-level vocabulary to bytes; false when one stands for none.
 * to has room for `length` bytes. */
bool bp_token_bytes_of(const char *text, size_t length, unsigned char *to, size_t *bytes);

#endif
