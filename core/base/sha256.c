/* SPDX-License-Identifier: MIT */
/* SHA-256, written from FIPS 180-4, sections 4.1.2, 5 and 6.2. */
#include "core/base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const uint32_t bp_sha256_round[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u,
    0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu,
    0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu,
    0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u,
    0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u,
    0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u,
    0xc67178f2u};

/* Of the square roots of the first 8 primes. */
static const uint32_t sha256_first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                         0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};

static inline uint32_t sha256_rotate(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static uint32_t sha256_word(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void sha256_store(unsigned char *at, uint32_t word)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (unsigned char)(word >> (24 - 8 * i));
    }
}

static void sha256_schedule(const unsigned char *block, uint32_t w[64])
{
    for (unsigned i = 0; i < 16; i++) {
        w[i] = sha256_word(block + (size_t)4 * i);
    }
    for (unsigned i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        const uint32_t low = sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3;
        const uint32_t high = sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
}

/* v is a .. h of the standard. */
static void sha256_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    uint32_t v[8];
    sha256_schedule(block, w);
    memcpy(v, state, sizeof v);
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t e = v[4], a = v[0];
        const uint32_t high = sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25);
        const uint32_t choice = (e & v[5]) ^ (~e & v[6]);
        const uint32_t one = v[7] + high + choice + bp_sha256_round[i] + w[i];
        const uint32_t low = sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22);
        const uint32_t majority = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
        v[7] = v[6];
        v[6] = v[5];
        v[5] = e;
        v[4] = v[3] + one;
        v[3] = v[2];
        v[2] = v[1];
        v[1] = a;
        v[0] = one + low + majority;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void bp_sha256_begin(bp_sha256 *sha)
{
    memset(sha, 0, sizeof *sha);
    memcpy(sha->state, sha256_first, sizeof sha->state);
}

void bp_sha256_add(bp_sha256 *sha, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    while (length > 0) {
        const size_t have = (size_t)(sha->bytes % sizeof sha->block);
        if (have == 0 && length >= sizeof sha->block) {
            sha256_block(sha->state, at);
            sha->bytes += sizeof sha->block;
            at += sizeof sha->block;
            length -= sizeof sha->block;
            continue;
        }
        const size_t room = sizeof sha->block - have;
        const size_t piece = length < room ? length : room;
        memcpy(sha->block + have, at, piece);
        sha->bytes += piece;
        at += piece;
        length -= piece;
        if (piece == room) {
            sha256_block(sha->state, sha->block);
        }
    }
}

void bp_sha256_end(bp_sha256 *sha, unsigned char digest[BP_SHA256_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    const uint64_t bits = sha->bytes * 8;
    const size_t have = (size_t)(sha->bytes % sizeof sha->block);
    unsigned char length[8];
    sha256_store(length, (uint32_t)(bits >> 32));
    sha256_store(length + 4, (uint32_t)bits);
    bp_sha256_add(sha, padding, (have < 56 ? 56 : 120) - have);
    bp_sha256_add(sha, length, sizeof length);
    for (unsigned i = 0; i < 8; i++) {
        sha256_store(digest + (size_t)4 * i, sha->state[i]);
    }
}

void bp_sha256_text(const unsigned char digest[BP_SHA256_BYTES], char text[BP_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < BP_SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[BP_SHA256_TEXT - 1] = '\0';
}

bool bp_sha256_parse(const char *text, unsigned char digest[BP_SHA256_BYTES])
{
    for (size_t i = 0; i < (size_t)2 * BP_SHA256_BYTES; i++) {
        const char c = text[i];
        const bool digit = c >= '0' && c <= '9';
        const bool letter = c >= 'a' && c <= 'f';
        if (!digit && !letter) {
            return false;
        }
        const unsigned value = (unsigned)(digit ? c - '0' : c - 'a' + 10);
        digest[i / 2] = (unsigned char)(i % 2 == 0 ? value << 4 : digest[i / 2] | value);
    }
    return true;
}
