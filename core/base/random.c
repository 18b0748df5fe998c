/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers and what is drawn from them. */
#include "core/base/random.h"

#include <math.h>

#include "core/base/math.h"

/* Each use of the generator has its own key, so that no two uses share a counter. */
#define KEY_UNIFORM UINT64_C(0x756e69666f726d00)
#define KEY_PERMUTE UINT64_C(0x7065726d75746500)

#define PERMUTE_ROUNDS 8 /* rounds of the Feistel network; each is a full Philox */

void bp_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c0;
        uint64_t p1 = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void bp_dropout_words(uint64_t seed, uint64_t step, uint32_t sample, uint32_t site, uint64_t block,
                      uint32_t out[4])
{
    uint32_t counter[4] = {(uint32_t)block, site << 12 | ((uint32_t)(block >> 32) & 0xfff), sample,
                           (uint32_t)step};
    bp_philox(counter, seed, out);
}

uint32_t bp_rounding_bits(uint64_t key, uint64_t step, uint32_t stream, uint64_t element)
{
    uint64_t generator = element / 256 * 32 + element % 128 / 4;
    uint32_t counter[4] = {(uint32_t)generator, (uint32_t)(generator >> 32), stream,
                           (uint32_t)step};
    uint32_t words[4];
    bp_philox(counter, key, words);
    return words[element % 4] >> (element % 256 / 128 * 16) & 0xffffu;
}

uint32_t bp_dropout_threshold(double p)
{
    double scaled = p * 4294967296.0 + 0.5;
    return scaled < 4294967295.0 ? (uint32_t)scaled : UINT32_MAX;
}

/* Two uniforms in [0, 1) with 53 bits each. */
static void uniform_pair(uint64_t key, uint32_t stream, uint64_t element, double out[2])
{
    uint32_t counter[4] = {(uint32_t)element, (uint32_t)(element >> 32), stream, 0};
    uint32_t words[4];
    bp_philox(counter, key, words);
    for (int i = 0; i < 2; i++) {
        uint64_t bits = ((uint64_t)words[2 * i] << 32 | words[2 * i + 1]) >> 11;
        out[i] = (double)bits * 0x1p-53;
    }
}

double bp_random_uniform(uint64_t seed, uint32_t stream, uint64_t element)
{
    double pair[2];
    uniform_pair(seed ^ KEY_UNIFORM, stream, element, pair);
    return pair[0];
}

void bp_random_normal_pair(uint64_t seed, uint32_t stream, uint64_t pair, double out[2])
{
    double uniform[2];
    uniform_pair(seed ^ BP_NORMAL_KEY, stream, pair, uniform);
    /* 1 - u lies in (0, 1], so the logarithm is finite */
    double radius = sqrt(-2.0 * bp_log(1.0 - uniform[0]));
    double angle = 0x1.921fb54442d18p+2 * uniform[1];
    out[0] = radius * bp_cos(angle);
    out[1] = radius * bp_sin(angle);
}

void bp_random_normals(uint64_t seed, uint32_t stream, uint64_t first, uint64_t count,
                       double deviation, float *to)
{
    double pair[2];
    for (uint64_t i = 0; i < count; i++) {
        if (i == 0 || (first + i) % 2 == 0) {
            bp_random_normal_pair(seed, stream, (first + i) / 2, pair);
        }
        to[i] = (float)(deviation * pair[(first + i) % 2]);
    }
}

double bp_random_normal(uint64_t seed, uint32_t stream, uint64_t element)
{
    double pair[2];
    bp_random_normal_pair(seed, stream, element / 2, pair);
    return pair[element % 2];
}

/* One pass of the network over two halves of `half` bits. */
static uint64_t permute_once(uint64_t key, uint64_t epoch, unsigned half, uint64_t value)
{
    uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    uint32_t left = (uint32_t)(value >> half);
    uint32_t right = (uint32_t)value & mask;
    for (uint32_t round = 0; round < PERMUTE_ROUNDS; round++) {
        uint32_t counter[4] = {right, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)};
        uint32_t words[4];
        bp_philox(counter, key, words);
        uint32_t next = left ^ (words[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half | right;
}

uint64_t bp_random_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < count) {
        half++;
    }
    do {
        index = permute_once(seed ^ KEY_PERMUTE, epoch, half, index);
    } while (index >= count);
    return index;
}
