/* SPDX-License-Identifier: MIT */
/* Digests: XXH64 over bytes, and one number for a whole state.
 *
 * They find accidents (bad media, torn writes, a difference of one bit between two runs), not
 * forgery: who must detect that signs the files. */
#ifndef BP_CORE_DIGEST_H
#define BP_CORE_DIGEST_H

#include "arena/base.h"
#include "core/base/dtype.h"

#define BP_DIGEST_TEXT 17 /* 16 hexadecimal digits and a terminator */

/* A running XXH64; a plain record owned by the caller. */
typedef struct bp_digest {
    uint64_t words[11]; /* the bytes of the hash library's own state */
} bp_digest;

/* seed 0 gives the digests that are stored and printed. */
void bp_digest_begin(bp_digest *digest, uint64_t seed);
/* `bytes` may be NULL when length is 0. */
void bp_digest_add(bp_digest *digest, const void *bytes, size_t length);
/* The value so far; more may be added afterwards. */
uint64_t bp_digest_end(const bp_digest *digest);

/* All three in one. */
uint64_t bp_digest_of(const void *bytes, size_t length, uint64_t seed);

#define BP_WORD_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The sum over all 32-bit words w(i) of `length` bytes of w(i) m(i) mod 2^64, m(i) = (i + 1)
 * BP_WORD_STEP | 1, i from `from` on; a last word that is not whole is filled up with zeros.
 * As all m(i) are odd, one word that changes always changes it; and as integers are added it may be
 * formed in any order, in pieces that begin with whole words. For comparing what was computed
 * twice, not for files. */
uint64_t bp_word_sum(const void *bytes, size_t length, uint64_t from);

/* 16 lower-case hexadecimal digits, terminated. */
void bp_digest_text(uint64_t value, char text[BP_DIGEST_TEXT]);
/* The value of exactly 16 such digits; false for anything else, NULL included. */
bool bp_digest_parse(const char *text, uint64_t *value);

/* The state digest: XXH64 over, per tensor in the order of names (as strcmp), the length of the
 * name as u64, the name, the same for the safetensors word of the element type, the rank as u64,
 * rank extents as u64, and the XXH64 of the tensor's bytes as u64; all little-endian. The caller
 * calls this once per tensor between bp_digest_begin(digest, 0) and bp_digest_end. */
void bp_digest_add_tensor(bp_digest *digest, const char *name, bp_dtype dtype,
                          const uint64_t *shape, uint32_t rank, uint64_t bytes_digest);

#endif
