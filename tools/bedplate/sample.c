/* SPDX-License-Identifier: MIT */
/* Temperature and top-k sampling. */
#include "tools/bedplate/sample.h"

#include "core/number/math.h"
#include "core/number/random.h"

#define STREAM 0x67656e65u /* of random numbers: no parameter has it */

/* NaN ranks below everything. */
static int above(const float *logits, uint32_t a, uint32_t b)
{
    if (logits[a] != logits[b]) {
        return logits[a] > logits[b] || logits[b] != logits[b];
    }
    return a < b;
}

static void sift(const float *logits, uint32_t *heap, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && above(logits, heap[child], heap[child + 1])) {
            child++;
        }
        if (!above(logits, heap[at], heap[child])) {
            return;
        }
        uint32_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* The k likeliest, in no particular order: a heap whose root is the least of them. */
static void select(const float *logits, uint32_t count, uint32_t k, uint32_t *heap)
{
    for (uint32_t i = 0; i < k; i++) {
        heap[i] = i;
    }
    for (uint32_t i = k / 2; i-- > 0;) {
        sift(logits, heap, k, i);
    }
    for (uint32_t i = k; i < count; i++) {
        if (above(logits, i, heap[0])) {
            heap[0] = i;
            sift(logits, heap, k, 0);
        }
    }
}

static uint32_t likeliest(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = above(logits, i, best) ? i : best;
    }
    return best;
}

uint32_t sample_token(const sampling *how, const float *logits, uint32_t count, uint64_t position,
                      uint32_t *order)
{
    uint32_t best = likeliest(logits, count);
    if (how->temperature <= 0.0) {
        return best;
    }
    uint32_t k = how->top_k > 0 && how->top_k < count ? (uint32_t)how->top_k : count;
    select(logits, count, k, order);
    double total = 0.0;
    for (uint32_t i = 0; i < k; i++) {
        double x = ((double)logits[order[i]] - (double)logits[best]) / how->temperature;
        total += x == x ? bp_exp(x) : 0.0;
    }
    double left = total * bp_random_uniform(how->seed, STREAM, position);
    for (uint32_t i = 0; i < k; i++) {
        double x = ((double)logits[order[i]] - (double)logits[best]) / how->temperature;
        left -= x == x ? bp_exp(x) : 0.0;
        if (left < 0.0) {
            return order[i];
        }
    }
    return best;
}
