/* SPDX-License-Identifier: MIT */
/* XXH64 through the header-only form of the xxHash library, which never allocates here. */
#include "core/base/digest.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The library's state must fill the opaque words exactly; a negative size stops the compiler. */
typedef char state_fits[sizeof(XXH64_state_t) == sizeof(bp_digest) ? 1 : -1];

void bp_digest_begin(bp_digest *digest, uint64_t seed)
{
    XXH64_state_t state;
    XXH64_reset(&state, seed);
    memcpy(digest->words, &state, sizeof state);
}

void bp_digest_add(bp_digest *digest, const void *bytes, size_t length)
{
    if (length == 0) {
        return;
    }
    /* Copied in and out, 88 bytes: a cast would break the aliasing rules. */
    XXH64_state_t state;
    memcpy(&state, digest->words, sizeof state);
    XXH64_update(&state, bytes, length);
    memcpy(digest->words, &state, sizeof state);
}

uint64_t bp_digest_end(const bp_digest *digest)
{
    XXH64_state_t state;
    memcpy(&state, digest->words, sizeof state);
    return XXH64_digest(&state);
}

uint64_t bp_word_sum(const void *bytes, size_t length, uint64_t from)
{
    const uint64_t step = BP_WORD_STEP;
    const unsigned char *at = bytes;
    uint64_t sum = 0, multiple = (from + 1) * step;
    uint32_t word;
    for (size_t i = length / sizeof word; i > 0; i--, at += sizeof word, multiple += step) {
        memcpy(&word, at, sizeof word);
        sum += word * (multiple | 1);
    }
    word = 0;                       /* of the last one as many bytes as there are */
    if (length % sizeof word > 0) { /* there may be no bytes at all, and no place of them */
        memcpy(&word, at, length % sizeof word);
    }
    sum += word * (multiple | 1);
    return sum;
}

uint64_t bp_digest_of(const void *bytes, size_t length, uint64_t seed)
{
    return XXH64(bytes, length, seed);
}

void bp_digest_text(uint64_t value, char text[BP_DIGEST_TEXT])
{
    for (int i = 15; i >= 0; i--) {
        text[i] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
    text[16] = '\0';
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool bp_digest_parse(const char *text, uint64_t *value)
{
    if (text == NULL || strlen(text) != 16) {
        return false;
    }
    *value = 0;
    for (int i = 0; i < 16; i++) {
        int digit = digit_value(text[i]);
        if (digit < 0) {
            return false;
        }
        *value = *value << 4 | (uint64_t)digit;
    }
    return true;
}

static void add_u64(bp_digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    bp_digest_add(digest, bytes, sizeof bytes);
}

static void add_word(bp_digest *digest, const char *word)
{
    size_t length = strlen(word);
    add_u64(digest, length);
    bp_digest_add(digest, word, length);
}

void bp_digest_add_tensor(bp_digest *digest, const char *name, bp_dtype dtype,
                          const uint64_t *shape, uint32_t rank, uint64_t bytes_digest)
{
    add_word(digest, name);
    add_word(digest, bp_dtype_name(dtype));
    add_u64(digest, rank);
    for (uint32_t i = 0; i < rank; i++) {
        add_u64(digest, shape[i]);
    }
    add_u64(digest, bytes_digest);
}
