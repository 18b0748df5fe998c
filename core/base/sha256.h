/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4): for evidence, where somebody may have an interest in another answer. What
 * only has to find accidents uses core/base/digest.h, which is twenty times as fast. */
#ifndef BP_CORE_SHA256_H
#define BP_CORE_SHA256_H

#include "arena/base.h"

#define BP_SHA256_BYTES 32
#define BP_SHA256_TEXT  65 /* 64 hexadecimal digits and a terminator */

/* A running digest; a plain record owned by the caller. */
typedef struct bp_sha256 {
    uint32_t state[8];
    uint64_t bytes;          /* added so far */
    unsigned char block[64]; /* the last bytes % 64 of them */
} bp_sha256;

/* The constants of its 64 rounds, for other forms of it (device/host/sha256.h). */
extern const uint32_t bp_sha256_round[64];

void bp_sha256_begin(bp_sha256 *sha);
/* `bytes` may be NULL when length is 0. About 4 ns a byte. */
void bp_sha256_add(bp_sha256 *sha, const void *bytes, size_t length);
/* The digest of all that was added; nothing may be added afterwards. */
void bp_sha256_end(bp_sha256 *sha, unsigned char digest[BP_SHA256_BYTES]);

/* 64 lower-case hexadecimal digits, terminated. */
void bp_sha256_text(const unsigned char digest[BP_SHA256_BYTES], char text[BP_SHA256_TEXT]);
/* The digest that exactly 64 such digits at `text` stand for; false for anything else. What follows
 * them is not looked at. */
bool bp_sha256_parse(const char *text, unsigned char digest[BP_SHA256_BYTES]);

#endif
