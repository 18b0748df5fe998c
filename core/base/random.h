/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011). No state: a
 * number is a function of its name, so recomputation, accumulation, resumption and any number of
 * threads see the same ones. */
#ifndef BP_CORE_RANDOM_H
#define BP_CORE_RANDOM_H

#include <stdint.h>

/* Four random words of a 128-bit counter under a 64-bit key. */
void bp_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]);

/* Dropout's four words for elements 4*block .. 4*block+3 of one sample:
 *   counter = { block low 32, site << 12 | block bits 32..43, sample in the group, step low 32 }.
 * site < 2^20 numbers a place in the model (stage and layer), never a position in a program. */
void bp_dropout_words(uint64_t seed, uint64_t step, uint32_t sample, uint32_t site, uint64_t block,
                      uint32_t out[4]);

/* Stochastic rounding's 16 random bits for an element of a parameter (`stream` is its number) in a
 * step, under key = bp_rounding_key(seed). Of element e = 256 b + 128 h + 4 j + k, with h < 2,
 * j < 32, k < 4: half h (0: the low one) of word k under
 *   counter = { (32 b + j) low 32, its high 32, stream, step low 32 }. */
static inline uint64_t bp_rounding_key(uint64_t seed)
{
    return seed ^ UINT64_C(0x726f756e64696e67);
}

/* The same for sums of gradients in 8 bits, of the micro-batch whose first sample is number
 * `sample` of its group. */
static inline uint64_t bp_sum_rounding_key(uint64_t seed, uint32_t sample)
{
    return seed ^ UINT64_C(0x677261646965) ^ (uint64_t)sample << 32;
}

uint32_t bp_rounding_bits(uint64_t key, uint64_t step, uint32_t stream, uint64_t element);

/* The seed of projections that are drawn anew from time to time. */
static inline uint64_t bp_interval_key(uint64_t seed, uint64_t interval)
{
    return seed ^ UINT64_C(0x70726f6a656374) ^ interval * UINT64_C(0x9e3779b97f4a7c15);
}

/* The seed of the noise on embeddings, whose words are named as dropout's are. */
static inline uint64_t bp_noise_key(uint64_t seed)
{
    return seed ^ UINT64_C(0x6e656674756e65);
}

/* The seed of what is done to images at random, whose words are named as dropout's are. */
static inline uint64_t bp_augment_key(uint64_t seed)
{
    return seed ^ UINT64_C(0x6175676d656e74);
}

/* The key of completions' tokens, whose numbers are named by position, prompt row and generation,
 * and step (tools/bedplate/rollout). */
static inline uint64_t bp_rollout_key(uint64_t seed)
{
    return seed ^ UINT64_C(0x726f6c6c6f7574);
}

/* An element is kept when its word is not below this threshold: round(p * 2^32), p in [0, 1). */
uint32_t bp_dropout_threshold(double p);

/* Normal variates number 2 * pair and 2 * pair + 1 of stream `stream` (weight initialisation):
 * Box-Muller on two 53-bit uniforms with the project's own log, cos, sin and sqrt in double, so the
 * bits are the same on every machine. Mean 0, deviation 1. */
void bp_random_normal_pair(uint64_t seed, uint32_t stream, uint64_t pair, double out[2]);

/* The generator's key under a seed; the counter is {pair low 32, high 32, stream, 0}. */
#define BP_NORMAL_KEY UINT64_C(0x6e6f726d616c0000)

/* to[i] = deviation times number first + i of the same sequence, rounded to fp32 once. */
void bp_random_normals(uint64_t seed, uint32_t stream, uint64_t first, uint64_t count,
                       double deviation, float *to);

/* Number `element` of the same sequence. */
double bp_random_normal(uint64_t seed, uint32_t stream, uint64_t element);

/* Uniform in [0, 1) with 53 bits. */
double bp_random_uniform(uint64_t seed, uint32_t stream, uint64_t element);

/* A permutation of 0..count-1 computed point by point in O(1) memory: a balanced Feistel network of
 * Philox rounds over the next even power of two, walked until it lands inside (expected < 4 walks,
 * bounded because the network is a permutation). Different (seed, epoch), different order.
 * index < count. */
uint64_t bp_random_permute(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t index);

#endif
