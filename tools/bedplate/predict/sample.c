/* SPDX-License-Identifier: MIT */
/* Temperature, top-k, top-p, min-p and repetition penalty. */
#include "tools/bedplate/predict/sample.h"

#include <stdbool.h>

#include "core/base/math.h"
#include "core/base/random.h"

#define STREAM 0x67656e65u /* of a first sequence's random numbers: no parameter has it */

/* NaN ranks below everything. */
static bool above(const float *logits, uint32_t a, uint32_t b)
{
    if (logits[a] != logits[b]) {
        return logits[a] > logits[b] || logits[b] != logits[b];
    }
    return a < b;
}

/* `rises`: whether the root of the heap is the likeliest, not the least likely. */
static void sift(const float *logits, uint32_t *heap, uint32_t count, uint32_t at, bool rises)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && above(logits, heap[child], heap[child + 1]) != rises) {
            child++;
        }
        if (above(logits, heap[at], heap[child]) == rises) {
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
        sift(logits, heap, k, i, false);
    }
    for (uint32_t i = k; i < count; i++) {
        if (above(logits, i, heap[0])) {
            heap[0] = i;
            sift(logits, heap, k, 0, false);
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

/* How likely a token is, as a multiple of the best one's chance. */
static double chance(const sampling *how, const float *logits, uint32_t id, uint32_t best)
{
    double x = ((double)logits[id] - (double)logits[best]) / how->temperature;
    return x == x ? bp_exp(x) : 0.0;
}

static double mass(const sampling *how, const float *logits, uint32_t best, const uint32_t *order,
                   uint32_t count)
{
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        total += chance(how, logits, order[i], best);
    }
    return total;
}

/* Takes the likeliest off a heap until their mass reaches top_p; they come to the front, the
 * likeliest first. */
static uint32_t keep_mass(const sampling *how, const float *logits, uint32_t best, uint32_t *order,
                          uint32_t count)
{
    const double enough = how->top_p * mass(how, logits, best, order, count);
    double reached = 0.0;
    uint32_t kept = 0;
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(logits, order, count, i, true);
    }
    do {
        const uint32_t last = count - 1 - kept;
        const uint32_t id = order[0];
        order[0] = order[last];
        order[last] = id;
        sift(logits, order, last, 0, true);
        reached += chance(how, logits, id, best);
        kept++;
    } while (kept < count && reached < enough);
    for (uint32_t i = 0; i < count / 2; i++) {
        const uint32_t id = order[i];
        order[i] = order[count - 1 - i];
        order[count - 1 - i] = id;
    }
    return kept;
}

/* Leaves out what is less likely than a share of the best, and keeps the order of the rest. */
static uint32_t keep_likely(const sampling *how, const float *logits, uint32_t best,
                            uint32_t *order, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool likely = order[i] == best || chance(how, logits, order[i], best) >= how->min_p;
        if (likely) {
            order[kept++] = order[i];
        }
    }
    return kept;
}

void sample_penalise(const sampling *how, const float *logits, float *scores, const int32_t *ids,
                     uint32_t length)
{
    const float penalty = (float)how->repetition_penalty;
    for (uint32_t i = 0; i < length; i++) {
        const float logit = logits[ids[i]];
        scores[ids[i]] = logit < 0.0f ? logit * penalty : logit / penalty;
    }
}

uint32_t sample_narrow(const sampling *how, const float *scores, uint32_t count, uint32_t *order)
{
    const uint32_t best = likeliest(scores, count);
    if (how->temperature <= 0.0) {
        order[0] = best;
        return 1;
    }
    uint32_t k = how->top_k > 0 && how->top_k < count ? (uint32_t)how->top_k : count;
    select(scores, count, k, order);
    if (how->top_p < 1.0) {
        k = keep_mass(how, scores, best, order, k);
    }
    return how->min_p > 0.0 ? keep_likely(how, scores, best, order, k) : k;
}

uint32_t sample_token(const sampling *how, const float *scores, uint32_t count, uint32_t sequence,
                      uint64_t position, uint32_t *order)
{
    const uint32_t best = likeliest(scores, count);
    if (how->temperature <= 0.0) {
        return best;
    }
    const uint32_t k = sample_narrow(how, scores, count, order);
    double left = mass(how, scores, best, order, k) *
                  bp_random_uniform(how->seed, STREAM + sequence, position);
    for (uint32_t i = 0; i < k; i++) {
        left -= chance(how, scores, order[i], best);
        if (left < 0.0) {
            return order[i];
        }
    }
    return best;
}
