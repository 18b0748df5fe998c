/* SPDX-License-Identifier: MIT */
/* Dropout masks for a run of elements of one sample (core/base/random.h). */
#ifndef BP_DEVICE_HOST_MASK_H
#define BP_DEVICE_HOST_MASK_H

#include "core/base/random.h"
#include "core/ir/step.h"

typedef struct bp_mask {
    uint64_t seed;
    uint64_t step;
    uint32_t sample; /* within the group */
    uint32_t site;
    uint32_t threshold; /* 0: nothing is dropped */
    float factor;       /* what a kept element is multiplied with: 1 / (1 - p) */
} bp_mask;

/* The mask of sample number `sample` of this micro-batch. */
bp_mask bp_mask_make(const void *step_block, uint64_t sample, int64_t site, double dropout);

/* out[i] = the signed word of element first + i times unit: uniform from -2^31 unit to 2^31 unit.
 */
void bp_noise_fill(const bp_mask *mask, float unit, uint64_t first, uint64_t count, float *out);

/* out[i] = factor or 0 for elements first .. first + count - 1. */
void bp_mask_fill(const bp_mask *mask, uint64_t first, uint64_t count, float *out);

#endif
