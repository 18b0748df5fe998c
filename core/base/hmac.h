/* SPDX-License-Identifier: MIT */
/* HMAC-SHA256 (RFC 2104): shows that who sends a message knows a key. */
#ifndef BP_CORE_HMAC_H
#define BP_CORE_HMAC_H

#include "core/base/sha256.h"

/* The code of `length` bytes under a key of any length, which may be empty (NULL). */
void bp_hmac_sha256(const void *key, size_t key_bytes, const void *bytes, size_t length,
                    unsigned char code[BP_SHA256_BYTES]);

/* Whether two codes are the same, in a time that does not depend on where they differ. */
bool bp_hmac_same(const unsigned char a[BP_SHA256_BYTES], const unsigned char b[BP_SHA256_BYTES]);

#endif
