/* SPDX-License-Identifier: MIT */
/* HMAC-SHA256. */
#include "core/base/hmac.h"

#include <string.h>

enum { HMAC_BLOCK = 64, HMAC_INNER = 0x36, HMAC_OUTER = 0x5c };

static void hmac_hash(const unsigned char key[HMAC_BLOCK], unsigned char pad, const void *bytes,
                      size_t length, unsigned char code[BP_SHA256_BYTES])
{
    unsigned char block[HMAC_BLOCK];
    bp_sha256 sha;
    for (size_t i = 0; i < HMAC_BLOCK; i++) {
        block[i] = (unsigned char)(key[i] ^ pad);
    }
    bp_sha256_begin(&sha);
    bp_sha256_add(&sha, block, sizeof block);
    bp_sha256_add(&sha, bytes, length);
    bp_sha256_end(&sha, code);
}

void bp_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t length,
                    unsigned char code[BP_SHA256_BYTES])
{
    unsigned char block[HMAC_BLOCK] = {0}, inner[BP_SHA256_BYTES];
    if (key_bytes > HMAC_BLOCK) {
        bp_sha256 sha;
        bp_sha256_begin(&sha);
        bp_sha256_add(&sha, key, key_bytes);
        bp_sha256_end(&sha, block);
    } else if (key_bytes > 0) {
        memcpy(block, key, key_bytes);
    }
    hmac_hash(block, HMAC_INNER, bytes, length, inner);
    hmac_hash(block, HMAC_OUTER, inner, sizeof inner, code);
}

bool bp_hmac_same(const unsigned char a[BP_SHA256_BYTES], const unsigned char b[BP_SHA256_BYTES])
{
    unsigned differ = 0;
    for (size_t i = 0; i < BP_SHA256_BYTES; i++) {
        differ |= (unsigned)(a[i] ^ b[i]);
    }
    return differ == 0;
}
