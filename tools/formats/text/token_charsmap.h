/* SPDX-License-Identifier: MIT */
/* The precompiled character map of SentencePiece (normalizer_spec.precompiled_charsmap): which
 * texts become which.
 *
 * Four bytes say how many bytes of a double array follow (darts-clone, little-endian units of 32
 * bits); behind it are the replacements, UTF-8, each with a NUL. */
#ifndef BP_FORMATS_TOKEN_CHARSMAP_H
#define BP_FORMATS_TOKEN_CHARSMAP_H

#include "core/base/error.h"

#define BP_CHARSMAP_TEXT_MAX 128 /* bytes of a replacement, at most */

typedef struct bp_charsmap {
    const unsigned char *units; /* 4 bytes each; NULL: there is no map */
    uint32_t unit_count;
    uint32_t text_bytes;
    const char *text;
} bp_charsmap;

/* A map over `size` bytes, which stay with it. BP_ERR_DATA with `where` as its place: it is cut
 * off, or what text becomes is no UTF-8 or longer than BP_CHARSMAP_TEXT_MAX. */
bp_status bp_charsmap_open(bp_charsmap *map, const void *bytes, uint64_t size, const char *where,
                           bp_error *error) BP_MUST_CHECK;

/* What the beginning of text becomes: of the entries that it begins with the first that is found,
 * which is the shortest, or the longest. *used: the entry's bytes. NULL: there is none. A map that
 * is damaged gives NULL or some text of its own, and nothing outside it is read. */
const char *bp_charsmap_find(const bp_charsmap *map, const unsigned char *text, size_t length,
                             bool longest, size_t *used, size_t *replacement);

/* Base64 in pieces (RFC 4648); zero is its beginning. Returns the bytes written to `to`, which has
 * room for 3 / 4 of `length` and 3; to NULL: only counts. */
typedef struct bp_base64 {
    uint32_t bits;
    uint32_t count; /* characters in bits */
    bool ended;     /* by '=' */
    bool wrong;     /* a character that is none of base64 */
} bp_base64;

size_t bp_base64_decode(bp_base64 *state, const char *text, size_t length, unsigned char *to);

#endif
